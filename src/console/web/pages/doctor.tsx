/** The doctor: everything that a support engineer would ask for. */
import type { DoctorAnswer } from '#console/api/read-doctor.ts';
import { Failure, Loading, Mark, PageHead, Time, type Tone } from '../parts/basics.tsx';
import { useAnswer } from '../state/use-answer.ts';

const tones: Readonly<Record<string, Tone>> = { ok: 'good', warn: 'busy', fail: 'bad' };
const order = ['fail', 'warn', 'ok'];

export function DoctorPage() {
  const { answer, error, busy, reload } = useAnswer<DoctorAnswer>('/api/doctor', {}, { live: false });
  const findings = (answer?.findings ?? []).toSorted((a, b) => order.indexOf(a.level) - order.indexOf(b.level));
  return (
    <>
      <PageHead title="Doctor">
        <button type="button" class="secondary" disabled={busy} onClick={reload}>
          {busy ? 'Examining …' : 'Examine again'}
        </button>
      </PageHead>
      {answer ? (
        <p class="quiet">
          Examined <Time at={answer.examined} ago />. All who look share one examination, at most twice a minute.
        </p>
      ) : null}
      <Failure error={error} />
      {answer === undefined && error === undefined ? (
        <Loading what="The doctor examines database, queue, sources and ERPs" />
      ) : null}
      <ul class="findings">
        {findings.map(({ name, level, message, todo }) => (
          <li key={`${name} ${message}`}>
            <Mark tone={tones[level] ?? 'still'}>{level}</Mark>
            <strong>{name}</strong>
            <span>{message}</span>
            {todo === undefined ? null : <span class="todo quiet">→ {todo}</span>}
          </li>
        ))}
      </ul>
    </>
  );
}
