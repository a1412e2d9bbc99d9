/** What a page shows of a call: the answer, kept while a newer one is loaded, or why there is none. */
import { useEffect, useRef, useState } from 'preact/hooks';
import { failureText, get, type Parameters, queryText } from './api.ts';
import { noteLoad, tick } from './live.ts';

export interface LoadedAnswer<Answer> {
  readonly answer: Answer | undefined;
  /** Why the newest call failed; the answer before it may still be there. */
  readonly error: string | undefined;
  readonly busy: boolean;
  readonly reload: () => void;
}

/** Calls when the path or a parameter changes, and, with `live`, every few seconds while the page is in front. */
export function useAnswer<Answer>(
  path: string | undefined,
  parameters: Parameters = {},
  { live = true }: { live?: boolean } = {},
): LoadedAnswer<Answer> {
  const key = path === undefined ? undefined : `${path}${queryText(parameters)}`;
  const [shown, show] = useState<{
    key: string | undefined;
    answer?: Answer;
    error?: string | undefined;
    busy: boolean;
  }>({
    key,
    busy: true,
  });
  const [again, setAgain] = useState(0);
  const latest = useRef(0);
  const change = live ? tick.value : 0;
  useEffect(() => {
    if (key === undefined) return;
    const number = ++latest.current;
    const stop = new AbortController();
    const ended = noteLoad();
    show((before) => (before.key === key ? { ...before, busy: true } : { key, busy: true, ...keptOf(before, key) }));
    get<Answer>(key, {}, stop.signal)
      .then(
        (answer) => {
          if (number === latest.current) show({ key, answer, busy: false });
        },
        (error: unknown) => {
          if (number === latest.current && !stop.signal.aborted)
            show((before) => ({ ...before, key, error: failureText(error), busy: false }));
        },
      )
      .finally(ended);
    return () => stop.abort();
  }, [key, change, again]);
  return { answer: shown.answer, error: shown.error, busy: shown.busy, reload: () => setAgain((count) => count + 1) };
}

/** Another filter of the same list keeps the rows until the new ones are there; another path does not. */
function keptOf<Answer>(before: { key: string | undefined; answer?: Answer }, key: string): { answer?: Answer } {
  const isSameList = before.key?.split('?', 1)[0] === key.split('?', 1)[0];
  return isSameList && before.answer !== undefined ? { answer: before.answer } : {};
}
