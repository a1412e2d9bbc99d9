/** The list of events. */
import type { EventsAnswer } from '#console/api/list-subjects-call.ts';
import { Empty, PageHead, Time } from '../parts/basics.tsx';
import { Counts } from '../parts/counts.tsx';
import { ChoiceFilter, TextFilter } from '../parts/filter-bar.tsx';
import { PagesOf } from '../parts/pages-of.tsx';
import { eventPath } from '../parts/paths.ts';
import { Table } from '../parts/table.tsx';
import { useFilters } from '../parts/use-filters.ts';
import { viewer } from '../state/viewer.ts';

type Row = EventsAnswer['events'][number];
const statuses = ['DRAFT', 'OPEN', 'PAUSED', 'CLOSED', 'DELETED'];

export function EventsPage() {
  const filters = useFilters();
  return (
    <>
      <PageHead title="Events" />
      <form class="filters" onSubmit={(event) => event.preventDefault()}>
        <TextFilter filters={filters} name="q" label="Name or number" />
        <ChoiceFilter
          filters={filters}
          name="status"
          label="Status"
          choices={statuses.map((status) => [status, status])}
        />
        <ChoiceFilter
          filters={filters}
          name="source"
          label="Source"
          choices={(viewer.value?.sourceNames ?? []).map((source) => [source, source])}
        />
        <button type="button" class="plain" disabled={Object.keys(filters.values).length === 0} onClick={filters.clear}>
          Clear
        </button>
      </form>
      <PagesOf<EventsAnswer, Row> path="/api/events" parameters={filters.values} rowsOf={({ events }) => events}>
        {(rows, { busy }) =>
          rows.length === 0 ? (
            <Empty>No event matches.</Empty>
          ) : (
            <Table
              label="Events"
              busy={busy}
              rows={rows}
              keyOf={({ source, id }) => `${source} ${id}`}
              columns={[
                {
                  name: 'Event',
                  kind: 'wide',
                  cell: ({ source, id, name, reference, isTest }) => (
                    <a class="row-link" href={eventPath(source, id)}>
                      <strong>{name}</strong>
                      <span class="under">{[reference, isTest ? 'test event' : ''].filter(Boolean).join(' · ')}</span>
                    </a>
                  ),
                },
                { name: 'Status', cell: ({ status }) => status ?? '' },
                { name: 'Type', cell: ({ type }) => type ?? '' },
                { name: 'Currency', cell: ({ currency }) => currency ?? '' },
                { name: 'Suppliers', kind: 'number', cell: ({ suppliers }) => suppliers },
                { name: 'Documents', cell: (row) => <Counts counts={row} filter={{ event: row.id }} /> },
                { name: 'Changed at the service', kind: 'time', cell: ({ modified }) => <Time at={modified} /> },
              ]}
            />
          )
        }
      </PagesOf>
    </>
  );
}
