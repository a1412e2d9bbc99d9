/** Follows the pages of a feed by `next` to the last one, and reads the next page while the caller stores this one. */
import { AppError } from '#platform/errors.ts';

/** So many pages may follow each other that show the same records as the page before. */
const repeatedPagesMax = 20;
/** An empty last page is asked for this often in all. */
const attemptsForEmptyEnd = 3;

/** So many pages in a row may show no record and yet name a next page. */
const emptyPagesMax = 50;
/** How long they may take together, without waits for the quota. */
const emptyPagesMsMax = 60_000;

/** What is followed: feed pages, or the answers of a window. */
interface Page {
  readonly records: readonly { readonly id?: unknown; readonly modified?: unknown }[];
  readonly next: string | undefined;
  /** How long the source took to answer, without waits for the quota. */
  readonly tookMs: number;
}

/**
 * The pages cannot be followed further: `next` returns to a page that was read, shows only empty pages, or is refused.
 * The pages before it stay valid. Windows need no `next`: they read the rest.
 */
export class PagesBroken extends AppError {
  constructor(why: string, cause?: AppError) {
    super('unavailable', `Its pages cannot be followed: ${why}`, {
      recovery: { do: 'halt' },
      ...(cause === undefined ? {} : { cause, issues: cause.issues }),
    });
    this.name = 'PagesBroken';
  }
}

interface FollowOptions {
  /** Passing errors have ended earlier attempts: where another one meets `next`, the pages count as broken. */
  readonly hasFailedBefore?: boolean;
}

/**
 * Yields the first page and those that follow it; no page is asked for twice. Rejects as `ask` does for the first page,
 * for a spent quota, a refused API key or a page that is too large; with PagesBroken where the pages cannot be followed.
 * A caller that leaves the loop early waits for the request that is under way.
 */
export async function* followPages<At, Answer extends Page>(
  ask: (at: At | { readonly next: string }) => Promise<Answer>,
  from: At | { readonly next: string },
  options: FollowOptions = {},
): AsyncGenerator<Answer> {
  const isEndless = createEndCheck();
  let ahead: Promise<Answer> | undefined;
  try {
    let page = await ask(from);
    for (;;) {
      const { next } = page;
      const endless = isEndless(page);
      if (next !== undefined && endless === undefined) {
        ahead = askForNext(ask, next);
        // An error is thrown when the page is awaited, not before.
        ahead.catch(() => undefined);
      }
      yield page;
      if (next === undefined) return;
      if (endless !== undefined) throw new PagesBroken(endless);
      page = await (ahead ?? askForNext(ask, next)).catch((error: unknown) => {
        throw whenFollowed(error, options);
      });
      ahead = undefined;
    }
  } finally {
    await ahead?.catch(() => undefined);
  }
}

/** An error that will come again for this page, as far as can be known, is one of the pages. */
function whenFollowed(error: unknown, { hasFailedBefore = false }: FollowOptions): unknown {
  if (!(error instanceof AppError)) return error;
  const { code, recovery } = error;
  if (code === 'too-many' || code === 'unauthorized' || code === 'forbidden' || code === 'too-large') return error;
  return recovery.do === 'halt' || hasFailedBefore ? new PagesBroken(error.publicMessage, error) : error;
}

/** Returns a function that is called with each page, and says why the page's `next` returns nothing new, if it does. */
function createEndCheck(): (page: Page) => string | undefined {
  const links = new Set<string>();
  let recordsBefore = '';
  let repeated = 0;
  let empty = 0;
  let emptyMs = 0;
  return ({ records, next, tookMs }) => {
    if (next === undefined) return undefined;
    const shown = records.map(({ id, modified }) => `${String(id)} ${String(modified)}`).join();
    repeated = records.length > 0 && shown === recordsBefore ? repeated + 1 : 0;
    recordsBefore = shown;
    empty = records.length > 0 ? 0 : empty + 1;
    emptyMs = records.length > 0 ? 0 : emptyMs + tookMs;
    if (links.has(next) || repeated > repeatedPagesMax) return '"next" returns to what was shown already.';
    links.add(next);
    return empty >= emptyPagesMax || emptyMs > emptyPagesMsMax
      ? `${empty} pages in a row show no record and name a next page.`
      : undefined;
  };
}

/** "200, no rows" proves nothing: the page before has announced more records, so an empty end is asked for again. */
async function askForNext<Answer extends Page>(
  ask: (at: { readonly next: string }) => Promise<Answer>,
  next: string,
): Promise<Answer> {
  let page = await ask({ next });
  for (let attempt = 1; attempt < attemptsForEmptyEnd && isEmptyEnd(page); attempt += 1) page = await ask({ next });
  return page;
}

function isEmptyEnd({ records, next }: Page): boolean {
  return records.length === 0 && next === undefined;
}
