/** The audit log: who did what when. */
import type { ActionsAnswer } from '#console/api/read-actions.ts';
import { Empty, Mark, PageHead, Time } from '../parts/basics.tsx';
import { ChoiceFilter, Filters, TextFilter } from '../parts/filter-bar.tsx';
import { PagesOf } from '../parts/pages-of.tsx';
import { Table } from '../parts/table.tsx';
import { useFilters } from '../parts/use-filters.ts';

type Row = ActionsAnswer['actions'][number];

export function ActionsPage() {
  const filters = useFilters();
  return (
    <>
      <PageHead title="Audit log" />
      <Filters>
        <TextFilter filters={filters} name="name" label="Who" />
        <TextFilter filters={filters} name="what" label="What, like flow or flow.pause" />
        <ChoiceFilter filters={filters} name="program" label="In" choices={['service', 'bridge']} />
        <ChoiceFilter filters={filters} name="outcome" label="Outcome" choices={['allowed', 'failed', 'refused']} />
      </Filters>
      <PagesOf<ActionsAnswer, Row>
        path="/api/actions"
        parameters={filters.values}
        place="before"
        rowsOf={({ actions }) => actions}
      >
        {(rows, { busy }) =>
          rows.length === 0 ? (
            <Empty>Nothing was done yet, here, by the command line or at the service.</Empty>
          ) : (
            <Table
              label="Actions"
              busy={busy}
              rows={rows}
              keyOf={({ id }) => id}
              columns={[
                { name: 'When', kind: 'time', cell: ({ when }) => <Time at={when} /> },
                { name: 'Who', cell: ({ who }) => (who.kind === 'user' ? who.name : `${who.name} (${who.kind})`) },
                { name: 'In', cell: ({ program }) => program },
                { name: 'What', cell: ({ what }) => what },
                { name: 'On', kind: 'wide', cell: ({ object }) => object ?? '' },
                { name: 'Details', kind: 'wide', cell: ({ details }) => detailsText(details) },
                {
                  name: 'Outcome',
                  cell: ({ outcome }) => <Mark tone={outcome === 'allowed' ? 'good' : 'bad'}>{outcome}</Mark>,
                },
                { name: 'From', cell: ({ from }) => from ?? '' },
              ]}
            />
          )
        }
      </PagesOf>
    </>
  );
}

function detailsText(details: Readonly<Record<string, unknown>>): string {
  return Object.entries(details)
    .map(([name, value]) => `${name}: ${plainText(value)}`)
    .join(' · ');
}

/** `{"a": 1, "b": ["c", "d"]}` is `a 1, b c, d`. */
function plainText(value: unknown): string {
  if (Array.isArray(value)) return value.map(plainText).join(', ');
  if (typeof value !== 'object' || value === null) return String(value);
  return Object.entries(value)
    .map(([name, member]) => `${name} ${plainText(member)}`)
    .join(', ');
}
