/** The list of suppliers. */
import type { SuppliersAnswer } from '#console/api/list-subjects-call.ts';
import { Empty, PageHead } from '../parts/basics.tsx';
import { Counts } from '../parts/counts.tsx';
import { TextFilter } from '../parts/filter-bar.tsx';
import { PagesOf } from '../parts/pages-of.tsx';
import { supplierPath } from '../parts/paths.ts';
import { Table } from '../parts/table.tsx';
import { useFilters } from '../parts/use-filters.ts';

type Row = SuppliersAnswer['suppliers'][number];

export function SuppliersPage() {
  const filters = useFilters();
  return (
    <>
      <PageHead title="Suppliers" />
      <form class="filters" onSubmit={(event) => event.preventDefault()}>
        <TextFilter filters={filters} name="q" label="Name or number" />
      </form>
      <PagesOf<SuppliersAnswer, Row>
        path="/api/suppliers"
        parameters={filters.values}
        rowsOf={({ suppliers }) => suppliers}
      >
        {(rows, { busy }) =>
          rows.length === 0 ? (
            <Empty>No supplier matches.</Empty>
          ) : (
            <Table
              label="Suppliers"
              busy={busy}
              rows={rows}
              keyOf={({ source, id }) => `${source} ${id}`}
              columns={[
                {
                  name: 'Supplier',
                  kind: 'wide',
                  cell: ({ source, id, name, reference }) => (
                    <a class="row-link" href={supplierPath(source, id)}>
                      <strong>{name || reference}</strong>
                    </a>
                  ),
                },
                { name: 'Number', cell: ({ reference }) => reference },
                { name: 'Source', cell: ({ source }) => source },
                { name: 'Documents', cell: (row) => <Counts counts={row} filter={{ supplier: row.id }} /> },
              ]}
            />
          )
        }
      </PagesOf>
    </>
  );
}
