/** The list of documents, by name, amount, state, flow and time; of one supplier, where a link names it. */
import type { DocumentsAnswer } from '#console/api/list-documents-call.ts';
import { Empty, PageHead } from '../parts/basics.tsx';
import { documentColumns, keyOfRow, kindNames } from '../parts/document-row.tsx';
import { ChoiceFilter, ClearFilters, DayFilter, Filters, TextFilter } from '../parts/filter-bar.tsx';
import { PagesOf } from '../parts/pages-of.tsx';
import { Table } from '../parts/table.tsx';
import { useFilters } from '../parts/use-filters.ts';
import { stateWords } from '../parts/words.ts';
import { viewer } from '../state/viewer.ts';

const states = ['delivered', 'waiting', 'dead letter', 'held', 'cancelled', 'nothing'];

export function DocumentsPage() {
  const filters = useFilters();
  const seesPrices = viewer.value?.seesPrices !== false;
  const { supplier, reason } = filters.values;
  return (
    <>
      <PageHead title="Documents" />
      {supplier === undefined ? null : <p class="note">Only those of one supplier.</p>}
      {reason === undefined ? null : <p class="note">Only those of which the ERP said the same: {reason}</p>}
      <Filters>
        <TextFilter filters={filters} name="q" label="Name or ERP number" />
        <ChoiceFilter
          filters={filters}
          name="state"
          label="State"
          choices={states.map((state) => [state, stateWords[state] ?? state])}
        />
        <ChoiceFilter filters={filters} name="kind" label="Kind" choices={Object.entries(kindNames)} />
        <ChoiceFilter filters={filters} name="flow" label="Flow" choices={viewer.value?.flowNames ?? []} />
        <span class="pair">
          <DayFilter filters={filters} name="from" label="Changed from" />
          <DayFilter filters={filters} name="to" label="before" />
        </span>
        {seesPrices ? (
          <span class="pair">
            <TextFilter filters={filters} name="min" label="Amount from" kind="text" />
            <TextFilter filters={filters} name="max" label="to" kind="text" />
          </span>
        ) : null}
        <ClearFilters filters={filters} />
      </Filters>
      <DocumentList parameters={filters.values} />
    </>
  );
}

/** The documents that match, also on the pages of an event and of a flow. */
export function DocumentList({
  parameters,
  flows = true,
}: {
  parameters: Readonly<Record<string, string>>;
  /** Whether the documents are of several flows. */
  flows?: boolean;
}) {
  return (
    <PagesOf<DocumentsAnswer, DocumentsAnswer['documents'][number]>
      path="/api/documents"
      parameters={parameters}
      rowsOf={({ documents }) => documents}
    >
      {(rows, { busy }) =>
        rows.length === 0 ? (
          <Empty>No document matches.</Empty>
        ) : (
          <Table
            label="Documents"
            columns={documentColumns({ flows, amounts: viewer.value?.seesPrices !== false })}
            rows={rows}
            keyOf={keyOfRow}
            busy={busy}
          />
        )
      }
    </PagesOf>
  );
}
