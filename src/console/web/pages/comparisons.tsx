/** The comparisons of what was delivered with what the ERPs hold, the newest first. */
import type { ComparisonsAnswer } from '#console/api/comparisons.ts';
import { Empty, Failure, Loading, Mark, PageHead, Time } from '../parts/basics.tsx';
import { ChoiceFilter } from '../parts/filter-bar.tsx';
import { comparisonPath } from '../parts/paths.ts';
import { Table } from '../parts/table.tsx';
import { useFilters } from '../parts/use-filters.ts';
import { useAnswer } from '../state/use-answer.ts';
import { viewer } from '../state/viewer.ts';

type Run = ComparisonsAnswer['runs'][number];

export function ComparisonsPage() {
  const filters = useFilters();
  const { flow } = filters.values;
  const { answer, error, busy } = useAnswer<ComparisonsAnswer>('/api/comparisons', { flow });
  return (
    <>
      <PageHead title="Comparisons" />
      <p class="quiet lead">
        What was delivered, read back from the ERPs value by value. A new one:{' '}
        <code>bridge reconcile{flow ? ` ${flow}` : ''}</code>, or by schedule (<code>reconcile.every_hours</code> of a
        flow).
      </p>
      <form class="filters" onSubmit={(event) => event.preventDefault()}>
        <ChoiceFilter
          filters={filters}
          name="flow"
          label="Flow"
          choices={(viewer.value?.flowNames ?? []).map((name) => [name, name])}
        />
      </form>
      <Failure error={error} />
      {answer === undefined && error === undefined ? <Loading /> : null}
      {answer?.runs.length === 0 ? <Empty>Nothing was compared yet.</Empty> : null}
      {answer && answer.runs.length > 0 ? (
        <Table
          label="Comparisons"
          busy={busy}
          rows={answer.runs}
          keyOf={({ run }) => String(run)}
          columns={[
            {
              name: 'Comparison',
              kind: 'wide',
              cell: (run) => (
                <a class="row-link" href={comparisonPath(run.run)}>
                  <strong>{run.flow}</strong>
                  <span class="under">
                    {scopeOf(run)} · {run.askedBy}
                  </span>
                </a>
              ),
            },
            { name: 'Result', cell: (run) => <RunMark run={run} /> },
            { name: 'Compared', kind: 'number', cell: ({ documents }) => documents },
            { name: 'As delivered', kind: 'number', cell: ({ asDelivered }) => asDelivered },
            { name: 'Begun', kind: 'time', cell: ({ started }) => <Time at={started} /> },
          ]}
        />
      ) : null}
    </>
  );
}

export function scopeOf({ events }: Pick<Run, 'events'>): string {
  if (events === null) return 'everything';
  return events === 1 ? 'one event' : `${events} events`;
}

export function RunMark({ run }: { run: Run }) {
  const { ended, lastError, differing } = run;
  if (ended === null)
    return lastError === null ? <Mark tone="busy">under way</Mark> : <Mark tone="bad">cannot go on</Mark>;
  if ((differing ?? 0) === 0) return <Mark tone="good">as delivered</Mark>;
  return <Mark tone="bad">{differing} differ</Mark>;
}
