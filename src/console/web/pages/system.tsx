/** This bridge: what the doctor finds, and the settings as this process has them; secrets are hidden by the server. */
import type { DoctorAnswer } from '#console/api/read-doctor.ts';
import type { SettingsAnswer } from '#console/api/read-settings.ts';
import { Failure, Loading, Mark, PageHead, Time, type Tone } from '../parts/basics.tsx';
import { Table } from '../parts/table.tsx';
import { useAnswer } from '../state/use-answer.ts';

export function SystemPage() {
  return (
    <>
      <PageHead title="Doctor and settings" />
      <Doctor />
      <Settings />
    </>
  );
}

const tones: Readonly<Record<string, Tone>> = { ok: 'good', warn: 'busy', fail: 'bad' };
const order = ['fail', 'warn', 'ok'];

function Doctor() {
  const { answer, error, busy, reload } = useAnswer<DoctorAnswer>('/api/doctor', {}, { live: false });
  const findings = (answer?.findings ?? []).toSorted((a, b) => order.indexOf(a.level) - order.indexOf(b.level));
  return (
    <section>
      <div class="section-head">
        <h2>Doctor</h2>
        <button type="button" class="secondary" disabled={busy} onClick={reload}>
          {busy ? 'Examining …' : 'Examine again'}
        </button>
      </div>
      {answer ? (
        <p class="quiet">
          Examined <Time at={answer.examined} ago />. All who look share one examination, at most twice a minute.
        </p>
      ) : null}
      <Failure error={error} />
      {answer === undefined && error === undefined ? (
        <Loading what="The doctor examines database, queue, sources and ERPs" />
      ) : null}
      {answer ? (
        <Table
          label="Findings"
          rows={findings}
          keyOf={({ name, message }) => `${name} ${message}`}
          columns={[
            { name: 'State', cell: ({ level }) => <Mark tone={tones[level] ?? 'still'}>{level}</Mark> },
            { name: 'What', cell: ({ name }) => <strong>{name}</strong> },
            {
              name: 'Finding',
              kind: 'wide',
              cell: ({ message, todo }) => (
                <span>
                  {message}
                  {todo === undefined ? null : <span class="under">→ {todo}</span>}
                </span>
              ),
            },
          ]}
        />
      ) : null}
    </section>
  );
}

const processTitle = 'This process';

type Members = Readonly<Record<string, unknown>>;

/** A group for the process, and one for each source, flow and intake: what a person looks for first is its name. */
function Settings() {
  const { answer, error } = useAnswer<SettingsAnswer>('/api/settings', {}, { live: false });
  const {
    sources = [],
    flows = [],
    intakes = [],
    ...process
  } = (answer?.settings ?? {}) as Members & {
    sources?: readonly Members[];
    flows?: readonly Members[];
    intakes?: readonly Members[];
  };
  const groups: (readonly [title: string, members: Members])[] = [
    ...sources.map((source) => [`Source ${String(source['name'])}`, source] as const),
    ...flows.map((flow) => [`Flow ${String(flow['name'])}`, flow] as const),
    ...intakes.map((intake) => [`Intake ${String(intake['name'])}`, intake] as const),
    [processTitle, { role: answer?.role, ...process }],
  ];
  return (
    <section>
      <h2>Settings</h2>
      <p class="quiet lead">As this process has read them; the configuration file is where they are changed.</p>
      <Failure error={error} />
      {answer === undefined && error === undefined ? <Loading /> : null}
      {answer ? groups.map(([title, members]) => <Group key={title} title={title} members={members} />) : null}
    </section>
  );
}

function Group({ title, members }: { title: string; members: Members }) {
  const { name: _name, ...shown } = members;
  return (
    <details class="card group" open={title !== processTitle}>
      <summary>
        <strong>{title}</strong>{' '}
        <span class="under">{[shown['base_url'], shown['connector']].filter(Boolean).join(' ')}</span>
      </summary>
      <Table
        label={title}
        rows={linesOf(shown)}
        keyOf={([name]) => name}
        columns={[
          { name: 'Setting', cell: ([name]) => <code>{name}</code> },
          { name: 'Value', kind: 'wide', cell: ([, value]) => value },
        ]}
      />
    </details>
  );
}

/** `{a: {b: 1}, c: [2, 3]}` as `a.b` 1 and `c` 2, 3; what is not set is left out. */
function linesOf(value: unknown, path = ''): (readonly [name: string, value: string])[] {
  if (value === undefined || value === null || value === '') return [];
  if (typeof value !== 'object') return [[path, wordsOf(value)]];
  if (Array.isArray(value) && value.every((item) => typeof item !== 'object'))
    return value.length === 0 ? [] : [[path, value.join(', ')]];
  return Object.entries(value).flatMap(([name, member]) => linesOf(member, path === '' ? name : `${path}.${name}`));
}

function wordsOf(value: unknown): string {
  return typeof value === 'boolean' ? (value ? 'yes' : 'no') : String(value);
}
