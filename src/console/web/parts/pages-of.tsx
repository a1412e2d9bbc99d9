/** A list that is loaded page by page. While only the first page is shown, it is kept live. */
import type { ComponentChildren } from 'preact';
import { useEffect, useState } from 'preact/hooks';
import { failureText, get, type Parameters, queryText } from '../state/api.ts';
import { useAnswer } from '../state/use-answer.ts';
import { Failure, Loading } from './basics.tsx';

// oxlint-disable-next-line typescript/no-unnecessary-type-parameters -- the caller names the answer that the path has
export function PagesOf<Answer extends { next: string | number | null }, Row>({
  path,
  parameters,
  rowsOf,
  place = 'after',
  children,
}: {
  path: string;
  parameters: Parameters;
  rowsOf: (answer: Answer) => readonly Row[];
  /** The parameter that names where a page begins. */
  place?: string;
  children: (rows: readonly Row[], state: { busy: boolean; hasMore: boolean }) => ComponentChildren;
}) {
  const [more, setMore] = useState<readonly Answer[]>([]);
  const [loading, setLoading] = useState(false);
  const [failed, setFailed] = useState<string>();
  const first = useAnswer<Answer>(path, parameters, { live: more.length === 0 });
  const key = queryText(parameters);
  useEffect(() => {
    setMore([]);
    setFailed(undefined);
  }, [key, path]);
  if (first.answer === undefined) return first.error === undefined ? <Loading /> : <Failure error={first.error} />;
  const next = (more.at(-1) ?? first.answer).next;
  const rows = [first.answer, ...more].flatMap(rowsOf);
  const load = async () => {
    setLoading(true);
    setFailed(undefined);
    try {
      const page = await get<Answer>(path, { ...parameters, [place]: next });
      setMore((pages) => [...pages, page]);
    } catch (error) {
      setFailed(failureText(error));
    } finally {
      setLoading(false);
    }
  };
  return (
    <>
      <Failure error={first.error ?? failed} />
      {children(rows, { busy: first.busy, hasMore: next !== null })}
      {next === null ? null : (
        <p class="more">
          <button type="button" class="secondary" disabled={loading} onClick={() => void load()}>
            {loading ? 'Loading …' : 'Show more'}
          </button>
          <span class="quiet">{rows.length} shown</span>
        </p>
      )}
    </>
  );
}
