/** One flow: pause and resume, what it would write now, its comparisons, and its mapping, tried on real documents. */
import { useState } from 'preact/hooks';
import type { FlowsAnswer, MappingTrial } from '#console/api/flows.ts';
import type { PlanAnswer } from '#console/api/plan-documents.ts';
import { durationOf } from '#console/duration.ts';
import { ActionButton, CopyButton, Empty, Facts, Failure, Mark, PageHead, Time, Waiting } from '../parts/basics.tsx';
import { DifferenceLines } from '../parts/differences.tsx';
import { kindNames } from '../parts/document-row.tsx';
import { PartMark } from '../parts/part-mark.tsx';
import { documentPath, documentsPath, refusedPath } from '../parts/paths.ts';
import { PlanResult } from '../parts/plan-result.tsx';
import { Steering } from '../parts/steering.tsx';
import { postCall } from '../state/api.ts';
import { useAnswer } from '../state/use-answer.ts';
import { mayOperate } from '../state/viewer.ts';
import { DocumentList } from './documents.tsx';
import { Comparisons } from './flows.tsx';

type Flow = FlowsAnswer['flows'][number];
type Settings = FlowsAnswer['settings'][number];

export function FlowPage({ flow: name }: { flow: string }) {
  const { answer, error, reload } = useAnswer<FlowsAnswer>('/api/flows');
  const flow = answer?.flows.find((each) => each.flow === name);
  const settings = answer?.settings.find((each) => each.name === name);
  if (!answer || !flow) return <Waiting title={name} error={error ?? (answer && 'There is no such flow.')} />;
  const { lag } = flow;
  return (
    <>
      <PageHead title={flow.flow}>
        <PartMark subject={`flow ${name}`} part={flow} conditions={answer.conditions} />
      </PageHead>
      <Failure error={error} />
      <Facts
        facts={{
          Source: flow.source,
          Connector: settings?.connector ?? 'not configured here',
          Documents: settings?.documents.map((kind) => kindNames[kind] ?? kind).join(', '),
          'Behind by': lag.inStep ? '' : lag.seconds === null ? 'not known' : durationOf(lag.seconds),
          Waiting: <a href={documentsPath({ flow: flow.flow, state: 'waiting' })}>{flow.due}</a>,
          Refused: <a href={refusedPath(flow.flow)}>{flow.deadLetters}</a>,
        }}
      />
      <p class={flow.pausedReason === null ? 'quiet' : 'failure'}>
        {flow.pausedReason === null ? (
          !lag.inStep && lag.why
        ) : (
          <>
            Paused since <Time at={flow.pausedAt} />: {flow.pausedReason}
          </>
        )}
      </p>
      {mayOperate() ? <FlowSteering flow={flow} reload={reload} /> : null}
      {mayOperate() && settings ? <Mapping settings={settings} /> : null}
      <h2>Comparisons with the ERP</h2>
      <Comparisons flow={flow.flow} />
      <h2>Documents, those that changed last</h2>
      <DocumentList parameters={{ flow: flow.flow }} flows={false} />
    </>
  );
}

function FlowSteering({ flow: { flow, pausedReason, pausedKind }, reload }: { flow: Flow; reload: () => void }) {
  const plan = (asked: object) => postCall<PlanAnswer>('/api/plan', { flow, ...asked });
  const withdrawals = async () => {
    const planned = await plan({ limit: 200 });
    const changes = planned.changes.filter(({ action }) => action === 'cancel');
    return <PlanResult plan={{ ...planned, changes }} flow={flow} />;
  };
  return (
    <Steering
      name={flow}
      pausedReason={pausedReason}
      pauseMeans="Calls in flight are finished. Nothing more is sent until somebody resumes the flow; nothing is lost."
      agreement={
        pausedKind === 'withdrawals'
          ? {
              button: 'Look at the withdrawals',
              title: 'Withdrawals to agree to',
              ask: 'Show what would be cancelled',
              show: withdrawals,
            }
          : undefined
      }
      question="What would be written now?"
      plan={async () => <PlanResult plan={await plan({})} flow={flow} />}
      pause={(reason) => postCall('/api/flows/pause', { flow, reason })}
      resume={(agreeToWithdrawals) => postCall('/api/flows/resume', { flow, agreeToWithdrawals })}
      reload={reload}
    />
  );
}

function Mapping({ settings }: { settings: Settings }) {
  const [text, setText] = useState(settings.mapping);
  const [trial, setTrial] = useState<MappingTrial>();
  return (
    <details class="mapping" open={settings.mapping !== ''}>
      <summary>
        <h2>Mapping</h2>
      </summary>
      <p class="quiet lead">
        Change it here and try it on real documents: nothing is stored and nothing is sent. To put it in force, copy it
        into the configuration (bridge.flows, {settings.name}, mapping) and start the bridge again.
      </p>
      <div class="columns">
        <div>
          <label class="field">
            <span>Mapping, as YAML</span>
            <textarea
              rows={Math.min(24, Math.max(8, text.split('\n').length))}
              spellcheck={false}
              value={text}
              onInput={({ currentTarget }) => setText(currentTarget.value)}
            />
          </label>
          <div class="actions">
            <ActionButton
              action={async () =>
                setTrial(await postCall<MappingTrial>('/api/flows/try-mapping', { flow: settings.name, mapping: text }))
              }
            >
              Try it on the newest documents
            </ActionButton>
            <span>
              YAML <CopyButton text={text} what="the YAML" />
            </span>
          </div>
        </div>
        {trial ? (
          <Trial trial={trial} flow={settings.name} />
        ) : (
          <Empty>What it makes of each document stands here.</Empty>
        )}
      </div>
    </details>
  );
}

/** What the mapping makes of each document, and what would change by it. */
function Trial({ trial: { documents }, flow }: { trial: MappingTrial; flow: string }) {
  if (documents.length === 0) return <Empty>The bridge has read no record for this flow yet.</Empty>;
  const isChanged = ({ differences, result, wasResult }: MappingTrial['documents'][number]) =>
    differences.length > 0 || result !== wasResult;
  const changed = documents.filter(isChanged).length;
  return (
    <div class="plan" role="status">
      <p>
        {changed === 0
          ? `None of the ${documents.length} documents would change.`
          : `${changed} of ${documents.length} documents would change.`}
      </p>
      <ul>
        {documents.map((document) => (
          <li key={`${document.kind} ${document.key}`}>
            <a href={documentPath({ flow, kind: document.kind, key: document.key })}>
              {[document.event, document.supplier].filter(Boolean).join(' / ') ||
                (kindNames[document.kind] ?? document.kind)}
            </a>
            {document.result === 'rejected' ? (
              <Mark tone="bad">could not be made</Mark>
            ) : (
              isChanged(document) && <Mark tone="busy">would change</Mark>
            )}
            {document.reason === null ? null : <p class="bad-text">{document.reason}</p>}
            <Facts facts={Object.fromEntries(document.mapped.map(({ name, value }) => [name, value]))} />
            {/* What is added stands above. */}
            <DifferenceLines lines={document.differences.filter((line) => !line.startsWith('+'))} />
          </li>
        ))}
      </ul>
    </div>
  );
}
