/** All flows: what is delivered where, and whether it may send. */
import type { FlowsAnswer } from '#console/api/flows.ts';
import { durationOf } from '#console/duration.ts';
import { Empty, Failure, Loading, Mark, PageHead } from '../parts/basics.tsx';
import { documentsPath, flowPath } from '../parts/paths.ts';
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
    </>
  );
}

export function FlowMark({ flow }: { flow: FlowsAnswer['flows'][number] }) {
  if (flow.pausedReason !== null) return <Mark tone="bad">paused</Mark>;
  if (flow.circuitUntil !== null) return <Mark tone="bad">the ERP refuses everything</Mark>;
  if (flow.deadLetters > 0 || flow.stuck > 0) return <Mark tone="bad">needs a look</Mark>;
  return flow.lag.inStep ? <Mark tone="good">in step</Mark> : <Mark tone="busy">working</Mark>;
}
