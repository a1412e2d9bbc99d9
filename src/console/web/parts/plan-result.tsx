/** What the pusher would do now. */
import type { PlanAnswer } from '#console/api/plan-documents.ts';
import { Empty, Mark, type Tone } from './basics.tsx';
import { DifferenceLines } from './differences.tsx';
import { kindNames } from './document-row.tsx';
import { documentPath } from './paths.ts';

type Change = PlanAnswer['changes'][number];

const words: Readonly<Record<Change['action'], readonly [tone: Tone, text: string]>> = {
  create: ['busy', 'would be created'],
  amend: ['busy', 'would be changed'],
  cancel: ['busy', 'would be cancelled'],
  none: ['good', 'the ERP holds it as it should be'],
  wait: ['still', 'cannot be sent yet'],
  reject: ['bad', 'would be refused'],
  hold: ['still', 'is held: the ERP keeps what it has'],
};

export function PlanResult({ plan, flow }: { plan: PlanAnswer; flow?: string }) {
  const { changes, documents } = plan;
  if (changes.length === 0) return <Empty>Nothing would be written.</Empty>;
  return (
    <div class="plan" role="status">
      <ul>
        {changes.map((change) => {
          const [tone, text] = words[change.action];
          const name =
            [change.eventName, change.supplierName].filter(Boolean).join(' / ') ||
            change.reference ||
            (kindNames[change.kind] ?? change.kind);
          return (
            <li key={`${change.kind} ${change.key}`}>
              <Mark tone={tone}>{text}</Mark>
              {flow === undefined ? null : (
                <a href={documentPath({ flow, kind: change.kind, key: change.key })}>{name}</a>
              )}
              {flow === undefined ? null : <span class="under">{kindNames[change.kind]}</span>}
              <DifferenceLines lines={change.steps} />
            </li>
          );
        })}
      </ul>
      {documents > changes.length ? (
        <p class="quiet">
          The first {changes.length} of {documents}.
        </p>
      ) : null}
    </div>
  );
}
