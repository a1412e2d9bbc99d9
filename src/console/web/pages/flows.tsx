/** Flows, what goes to the ERPs; intakes, what comes back from them; and the comparisons of both sides. */
import type { ComparisonsAnswer } from '#console/api/comparisons.ts';
import type { FlowsAnswer } from '#console/api/flows.ts';
import type { IntakesAnswer } from '#console/api/intakes.ts';
import { durationOf } from '#console/duration.ts';
import { Empty, Failure, Mark, PageHead, Time, Waiting } from '../parts/basics.tsx';
import { PartMark } from '../parts/part-mark.tsx';
import { comparisonPath, documentsPath, flowPath, intakePath, refusedPath } from '../parts/paths.ts';
import { RowLink, Table } from '../parts/table.tsx';
import { numberText } from '../state/numbers.ts';
import { useAnswer } from '../state/use-answer.ts';
import { viewer } from '../state/viewer.ts';

export function FlowsPage() {
  const { answer, error, busy } = useAnswer<FlowsAnswer>('/api/flows');
  if (!answer) return <Waiting title="Flows" error={error} />;
  const { flows, conditions, settings } = answer;
  return (
    <>
      <PageHead title="Flows" />
      <Failure error={error} />
      {flows.length === 0 ? (
        <Empty>No flow is configured (bridge.flows).</Empty>
      ) : (
        <Table
          label="Flows"
          busy={busy}
          rows={flows}
          keyOf={({ flow }) => flow}
          columns={[
            {
              name: 'Flow',
              kind: 'wide',
              cell: ({ flow, source }) => (
                <RowLink
                  path={flowPath(flow)}
                  title={flow}
                  under={`${source} → ${settings.find(({ name }) => name === flow)?.connector ?? 'not configured here'}`}
                />
              ),
            },
            {
              name: 'State',
              cell: (flow) => (
                <span class="state-cell">
                  <PartMark subject={`flow ${flow.flow}`} part={flow} conditions={conditions} />
                  <span class="under">{flow.lag.inStep ? '' : flow.lag.why}</span>
                </span>
              ),
            },
            {
              name: 'Behind by',
              kind: 'number',
              cell: ({ lag }) => (lag.inStep ? '' : lag.seconds === null ? 'not known' : durationOf(lag.seconds)),
            },
            {
              name: 'Waiting',
              kind: 'number',
              cell: ({ flow, due }) => <a href={documentsPath({ flow, state: 'waiting' })}>{due}</a>,
            },
            {
              name: 'Refused',
              kind: 'number',
              cell: ({ flow, deadLetters }) => <a href={refusedPath(flow)}>{deadLetters}</a>,
            },
          ]}
        />
      )}
      {viewer.value?.hasIntakes === true ? <Intakes /> : null}
      <h2>Comparisons with the ERPs</h2>
      <Comparisons />
    </>
  );
}

function Intakes() {
  const { answer, error, busy } = useAnswer<IntakesAnswer>('/api/intakes');
  return (
    <>
      <h2>Intakes, from the ERPs to the service</h2>
      <Failure error={error} />
      <Table
        label="Intakes"
        busy={busy}
        rows={answer?.intakes ?? []}
        keyOf={({ intake }) => intake}
        columns={[
          {
            name: 'Intake',
            kind: 'wide',
            cell: ({ intake, connector, source }) => (
              <RowLink path={intakePath(intake)} title={intake} under={`${connector} → ${source}`} />
            ),
          },
          {
            name: 'State',
            cell: (intake) => (
              <span class="state-cell">
                <PartMark subject={`intake ${intake.intake}`} part={intake} conditions={answer?.conditions ?? []} />
                <span class="under">{intake.pausedReason ?? (intake.lag.inStep ? '' : intake.lag.why)}</span>
              </span>
            ),
          },
          { name: 'Last read', kind: 'time', cell: ({ lastRead }) => <Time at={lastRead} /> },
          { name: 'To send', kind: 'number', cell: ({ backlog }) => numberText(backlog.suppliers) },
          { name: 'Being processed', kind: 'number', cell: ({ inSubmissions }) => numberText(inSubmissions) },
          { name: 'Refused', kind: 'number', cell: ({ deadLetters }) => numberText(deadLetters) },
        ]}
      />
    </>
  );
}

/** What was delivered, read back from the ERPs value by value, the newest first. */
export function Comparisons({ flow }: { flow?: string }) {
  const { answer, error, busy } = useAnswer<ComparisonsAnswer>('/api/comparisons', { flow });
  return (
    <>
      <Failure error={error} />
      {answer?.runs.length === 0 ? (
        <Empty>
          None yet. A command begins one: <code>bridge reconcile{flow ? ` ${flow}` : ''}</code>; or a schedule does, by
          the setting <code>reconcile.every_hours</code> of a flow.
        </Empty>
      ) : (
        <Table
          label="Comparisons"
          busy={busy}
          rows={answer?.runs ?? []}
          keyOf={({ run }) => String(run)}
          columns={[
            {
              name: 'Comparison',
              kind: 'wide',
              cell: (run) => (
                <RowLink path={comparisonPath(run.run)} title={run.flow} under={`${scopeOf(run)} · ${run.askedBy}`} />
              ),
            },
            { name: 'Result', cell: (run) => <RunMark run={run} /> },
            { name: 'Compared', kind: 'number', cell: ({ documents }) => documents },
            { name: 'As delivered', kind: 'number', cell: ({ asDelivered }) => asDelivered },
            { name: 'Begun', kind: 'time', cell: ({ started }) => <Time at={started} /> },
          ]}
        />
      )}
    </>
  );
}

type Run = ComparisonsAnswer['runs'][number];

export function scopeOf({ events }: Pick<Run, 'events'>): string {
  if (events === null) return 'everything';
  return events === 1 ? 'one event' : `${events} events`;
}

export function RunMark({ run: { ended, differing } }: { run: Run }) {
  if (ended === null) return <Mark tone="busy">under way</Mark>;
  if ((differing ?? 0) === 0) return <Mark tone="good">as delivered</Mark>;
  return <Mark tone="bad">{differing} differ</Mark>;
}
