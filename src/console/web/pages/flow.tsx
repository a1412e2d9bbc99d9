/** One flow: pause and resume, what it would write now, and its mapping, tried before it is put in force. */
import { useState } from 'preact/hooks';
import type { FlowsAnswer, MappingTrial } from '#console/api/flows.ts';
import type { PlanAnswer } from '#console/api/plan-documents.ts';
import { durationOf } from '#console/duration.ts';
import { ActionButton, Dialog, Empty, Failure, Loading, Mark, PageHead, Time } from '../parts/basics.tsx';
import { DifferenceLines } from '../parts/differences.tsx';
import { kindNames } from '../parts/document-row.tsx';
import { documentPath, documentsPath } from '../parts/paths.ts';
import { PauseDialog } from '../parts/pause-dialog.tsx';
import { PlanResult } from '../parts/plan-result.tsx';
import { postCall } from '../state/api.ts';
import { stringify } from '../state/plain-yaml.ts';
import { useAnswer } from '../state/use-answer.ts';
import { mayOperate } from '../state/viewer.ts';
import { DocumentList } from './documents.tsx';
import { FlowMark } from './flows.tsx';

type Flow = FlowsAnswer['flows'][number];
type Settings = FlowsAnswer['settings'][number];

export function FlowPage({ flow: name }: { flow: string }) {
  const { answer, error, reload } = useAnswer<FlowsAnswer>('/api/flows');
  const flow = answer?.flows.find((each) => each.flow === name);
  const settings = answer?.settings.find((each) => each.name === name);
  if (!flow)
    return (
      <>
        <PageHead title={name} />
        {answer === undefined && error === undefined ? (
          <Loading />
        ) : (
          <Failure error={error ?? 'There is no such flow.'} />
        )}
      </>
    );
  return (
    <>
      <PageHead title={flow.flow}>
        <FlowMark flow={flow} />
      </PageHead>
      <Failure error={error} />
      <dl class="facts">
        {[
          ['Source', flow.source],
          ['Connector', settings?.connector ?? 'not configured here'],
          ['Documents', settings?.documents.map((kind) => kindNames[kind] ?? kind).join(', ')],
          ['Behind by', flow.lag.seconds === null ? 'not known' : durationOf(flow.lag.seconds)],
        ].map(([label, value]) => (
          <div key={label}>
            <dt>{label}</dt>
            <dd>{value}</dd>
          </div>
        ))}
        <div>
          <dt>Waiting</dt>
          <dd>
            <a href={documentsPath({ flow: flow.flow, state: 'waiting' })}>{flow.due}</a>
          </dd>
        </div>
        <div>
          <dt>Refused</dt>
          <dd>
            <a href={`/dead-letters?flow=${encodeURIComponent(flow.flow)}`}>{flow.deadLetters}</a>
          </dd>
        </div>
      </dl>
      <p class={flow.pausedReason === null ? 'quiet' : 'failure'}>
        {flow.pausedReason === null ? (
          flow.lag.why
        ) : (
          <>
            Paused since <Time at={flow.pausedAt} />: {flow.pausedReason}
          </>
        )}
      </p>
      {mayOperate() ? <Steering flow={flow} reload={reload} /> : null}
      {mayOperate() && settings ? <Mapping settings={settings} /> : null}
      <h2>Documents, those that changed last</h2>
      <DocumentList parameters={{ flow: flow.flow }} flows={false} />
    </>
  );
}

function Steering({ flow, reload }: { flow: Flow; reload: () => void }) {
  const [asks, setAsks] = useState<'pause' | 'withdrawals'>();
  const [plan, setPlan] = useState<PlanAnswer>();
  const close = () => setAsks(undefined);
  const resume = async (agreeToWithdrawals: boolean) => {
    await postCall('/api/flows/resume', { flow: flow.flow, agreeToWithdrawals });
    close();
    reload();
  };
  return (
    <div class="actions">
      {flow.pausedReason === null ? (
        <button type="button" class="secondary" onClick={() => setAsks('pause')}>
          Pause
        </button>
      ) : flow.pausedKind === 'withdrawals' ? (
        <button type="button" class="primary" onClick={() => setAsks('withdrawals')}>
          Look at the withdrawals
        </button>
      ) : (
        <ActionButton kind="primary" action={() => resume(false)}>
          Resume
        </ActionButton>
      )}
      <ActionButton action={async () => setPlan(await postCall<PlanAnswer>('/api/plan', { flow: flow.flow }))}>
        What would be written now?
      </ActionButton>
      {plan ? <PlanResult plan={plan} flow={flow.flow} /> : null}
      {asks === 'pause' ? (
        <PauseDialog
          name={flow.flow}
          what="Calls in flight are finished. Nothing more is sent until somebody resumes the flow; nothing is lost."
          close={close}
          pause={async (reason) => {
            await postCall('/api/flows/pause', { flow: flow.flow, reason });
            close();
            reload();
          }}
        />
      ) : null}
      {asks === 'withdrawals' ? <Withdrawals flow={flow} close={close} resume={resume} /> : null}
    </div>
  );
}

/** What would be withdrawn, before somebody agrees to it. */
function Withdrawals({
  flow,
  close,
  resume,
}: {
  flow: Flow;
  close: () => void;
  resume: (agree: boolean) => Promise<void>;
}) {
  const [plan, setPlan] = useState<PlanAnswer>();
  const cancellations = plan?.changes.filter(({ action }) => action === 'cancel') ?? [];
  return (
    <Dialog title="Withdrawals to agree to" close={close}>
      <p>{flow.pausedReason}</p>
      {plan ? (
        <PlanResult plan={{ ...plan, changes: cancellations }} flow={flow.flow} />
      ) : (
        <ActionButton
          action={async () => setPlan(await postCall<PlanAnswer>('/api/plan', { flow: flow.flow, limit: 200 }))}
        >
          Show what would be cancelled
        </ActionButton>
      )}
      <div class="actions end">
        <button type="button" class="plain" onClick={close}>
          Cancel
        </button>
        <ActionButton action={() => resume(false)}>Resume without agreeing</ActionButton>
        <ActionButton kind="danger" disabled={plan === undefined} action={() => resume(true)}>
          Agree and resume
        </ActionButton>
      </div>
    </Dialog>
  );
}

function Mapping({ settings }: { settings: Settings }) {
  const [text, setText] = useState(stringify(settings.mapping));
  const [trial, setTrial] = useState<MappingTrial>();
  return (
    <section>
      <h2>Mapping</h2>
      <p class="quiet lead">
        Change it here and try it on real documents: nothing is stored and nothing is sent. To put it in force, write it
        into the configuration (bridge.flows, {settings.name}, mapping) and start the bridge again.
      </p>
      <label class="field">
        <span>Mapping, as YAML</span>
        <textarea
          rows={Math.min(20, Math.max(5, text.split('\n').length))}
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
      </div>
      {trial ? <Trial trial={trial} flow={settings.name} /> : null}
    </section>
  );
}

function Trial({ trial: { documents }, flow }: { trial: MappingTrial; flow: string }) {
  const changed = documents.filter(
    ({ differences, result, wasResult }) => differences.length > 0 || result !== wasResult,
  );
  if (documents.length === 0) return <Empty>The mirror holds no record for this flow yet.</Empty>;
  return (
    <div class="plan" role="status">
      <p>
        {changed.length === 0
          ? `None of the ${documents.length} documents would change.`
          : `${changed.length} of ${documents.length} documents would change.`}
      </p>
      <ul>
        {changed.map(({ kind, key, event, supplier, result, reason, differences }) => (
          <li key={`${kind} ${key}`}>
            <Mark tone={result === 'rejected' ? 'bad' : 'busy'}>
              {result === 'rejected' ? 'could not be made' : 'would change'}
            </Mark>
            <a href={documentPath({ flow, kind, key })}>
              {[event, supplier].filter(Boolean).join(' / ') || (kindNames[kind] ?? kind)}
            </a>
            {reason === null ? null : <span class="bad-text"> {reason}</span>}
            <DifferenceLines lines={differences} />
          </li>
        ))}
      </ul>
    </div>
  );
}
