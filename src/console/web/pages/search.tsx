/** Everything that fits the words. */
import { useLocation } from 'preact-iso';
import type { SearchAnswer } from '#console/api/search-documents.ts';
import { Empty, Failure, Loading, PageHead } from '../parts/basics.tsx';
import { documentColumns, keyOfRow } from '../parts/document-row.tsx';
import { documentsPath, eventPath, supplierPath } from '../parts/paths.ts';
import { Table } from '../parts/table.tsx';
import { useAnswer } from '../state/use-answer.ts';

export function SearchPage() {
  const q = useLocation().query['q'] ?? '';
  const { answer, error, busy } = useAnswer<SearchAnswer>(q === '' ? undefined : '/api/search', { q, limit: 100 });
  return (
    <>
      <PageHead title={q === '' ? 'Search' : `Search: ${q}`} />
      <Failure error={error} />
      {q === '' ? <Empty>Type a name, a number or an id into the field above. The key / leads there.</Empty> : null}
      {answer === undefined && q !== '' && error === undefined ? <Loading what="Searching" /> : null}
      {answer ? <Found answer={answer} busy={busy} q={q} /> : null}
    </>
  );
}

function Found({
  answer: { subjects, documents, hasMore },
  busy,
  q,
}: {
  answer: SearchAnswer;
  busy: boolean;
  q: string;
}) {
  if (subjects.length === 0 && documents.length === 0)
    return <Empty>Nothing fits “{q}”: no event, supplier, reference or id that the bridge has read.</Empty>;
  return (
    <>
      {subjects.length === 0 ? null : (
        <ul class="chips" aria-label="Events and suppliers">
          {subjects.map(({ kind, id, name, reference, source }) => (
            <li key={`${kind} ${id}`}>
              <a class="chip" href={kind === 'event' ? eventPath(source, id) : supplierPath(source, id)}>
                <span class="under">{kind}</span>
                {name || reference}
                {name && reference ? <span class="quiet"> {reference}</span> : null}
              </a>
            </li>
          ))}
        </ul>
      )}
      {documents.length === 0 ? (
        <Empty>No document is about all of these words. A supplier who has won nothing in an event has no award.</Empty>
      ) : (
        <Table
          label="Documents"
          columns={documentColumns({ amounts: false })}
          rows={documents}
          keyOf={keyOfRow}
          busy={busy}
        />
      )}
      {hasMore ? (
        <p class="quiet">
          There are more: add a word, or <a href={documentsPath({ q })}>see them as a list with filters</a>.
        </p>
      ) : null}
    </>
  );
}
