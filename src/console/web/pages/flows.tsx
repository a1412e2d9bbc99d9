/** All flows: what is delivered where, and whether it may send. */
import type { FlowsAnswer } from '#console/api/flows.ts';
import { durationOf } from '#console/duration.ts';
import { Empty, Failure, Loading, Mark, PageHead } from '../parts/basics.tsx';
import { documentsPath, flowPath, shadowPath } from '../parts/paths.ts';
import { Table } from '../parts/table.tsx';
import { useAnswer } from '../state/use-answer.ts';

export function FlowsPage() {
  const { answer, error, busy } = useAnswer<FlowsAnswer>('/api/flows');
  return (
    <>
      <PageHead title="Flows" />
      <Failure error={error} />
      {answer === undefined && error === undefined ? <Loading /> : null}
      {answer?.flows.length === 0 ? <Empty>No flow is configured (bridge.flows).</Empty> : null}
      {answer && answer.flows.length > 0 ? (
        <Table
          label="Flows"
          busy={busy}
          rows={answer.flows}
          keyOf={({ flow }) => flow}
          columns={[
            {
              name: 'Flow',
              kind: 'wide',
              cell: ({ flow, source }) => (
                <a class="row-link" href={flowPath(flow)}>
                  <strong>{flow}</strong>
                  <span class="under">
                    {source} → {answer.settings.find(({ name }) => name === flow)?.connector ?? 'not configured here'}
                  </span>
                </a>
              ),
            },
            {
              name: 'State',
              cell: (flow) => (
                <span class="state-cell">
                  <FlowMark flow={flow} />
                  <span class="under">{flow.lag.why}</span>
                </span>
              ),
            },
            {
              name: 'Behind by',
              kind: 'number',
              cell: ({ lag }) => (lag.seconds === null ? 'not known' : durationOf(lag.seconds)),
            },
            {
              name: 'Waiting',
              kind: 'number',
              cell: ({ flow, due }) => <a href={documentsPath({ flow, state: 'waiting' })}>{due}</a>,
            },
            {
              name: 'Refused',
              kind: 'number',
              cell: ({ flow, deadLetters }) => (
                <a href={`/dead-letters?flow=${encodeURIComponent(flow)}`}>{deadLetters}</a>
              ),
            },
            { name: 'Failures in a row', kind: 'number', cell: ({ failuresInRow }) => failuresInRow },
          ]}
        />
      ) : null}
      {answer && answer.shadows.length > 0 ? <Shadows shadows={answer.shadows} /> : null}
    </>
  );
}

/** The flows that run beside these and write nothing. */
function Shadows({ shadows }: { shadows: FlowsAnswer['shadows'] }) {
  return (
    <section>
      <h2>Shadow flows</h2>
      <p class="quiet lead">They run beside a live flow and write nothing: what they would do, and what differs.</p>
      <Table
        label="Shadow flows"
        rows={shadows}
        keyOf={({ flow }) => flow}
        columns={[
          {
            name: 'Shadow',
            kind: 'wide',
            cell: ({ flow, beside, connector }) => (
              <a class="row-link" href={shadowPath(flow)}>
                <strong>{flow}</strong>
                <span class="under">
                  {beside === null ? 'beside no live flow' : `beside ${beside}`} → {connector}
                </span>
              </a>
            ),
          },
          { name: 'State', cell: (shadow) => <ShadowMark shadow={shadow} /> },
          { name: 'Differ', kind: 'number', cell: ({ differing }) => differing },
          { name: 'Would be refused', kind: 'number', cell: ({ counts }) => counts.reject },
          { name: 'Examined', kind: 'number', cell: ({ examined }) => examined },
        ]}
      />
    </section>
  );
}

export function ShadowMark({ shadow }: { shadow: FlowsAnswer['shadows'][number] }) {
  if (shadow.unexamined > 0) return <Mark tone="busy">{shadow.unexamined} to examine</Mark>;
  if (shadow.counts.reject > 0) return <Mark tone="bad">would be refused: {shadow.counts.reject}</Mark>;
  return shadow.differing > 0 ? (
    <Mark tone="still">differs in {shadow.differing}</Mark>
  ) : (
    <Mark tone="good">nothing differs</Mark>
  );
}

export function FlowMark({ flow }: { flow: FlowsAnswer['flows'][number] }) {
  if (flow.pausedReason !== null) return <Mark tone="bad">paused</Mark>;
  if (flow.circuitUntil !== null) return <Mark tone="bad">the ERP refuses everything</Mark>;
  if (flow.deadLetters > 0 || flow.stuck > 0) return <Mark tone="bad">needs a look</Mark>;
  return flow.lag.inStep ? <Mark tone="good">in step</Mark> : <Mark tone="busy">working</Mark>;
}
