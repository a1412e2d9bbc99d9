/** How many records a page holds, whether pages hold as many as they could, and whether `next` is sent. */
import type { FollowedPages } from './probe-pages.ts';
import { samplePageSize } from './probe-pages.ts';
import type { ProbedPage, Report } from './probe-reader.ts';

/** Returns the most records that the service puts on a page; undefined where the feed is too short to tell. */
export function probePageSize(full: ProbedPage, { pages: [first] }: FollowedPages, report: Report): number | undefined {
  const { records, next, requested } = full;
  if (records.length > requested) {
    report('page size', 'ok', `it ignores page_size: a page has ${records.length} records`);
    return records.length;
  }
  if (first.next === undefined && first.records.length === samplePageSize && records.length > samplePageSize)
    report(
      'page size',
      'fail',
      `a page of ${samplePageSize} had no "next" although there are more records: records beyond a page cannot be read`,
    );
  if (next === undefined || records.length === 0) return undefined;
  const fewer = records.length < requested;
  report(
    'page size',
    'ok',
    fewer
      ? `a page has ${records.length} records, not the ${requested} that were requested: set page_size to ${records.length}`
      : `a page has the ${requested} records that were requested`,
  );
  return records.length;
}

/**
 * Reports whether a page may hold fewer records than others although more follow: a service that leaves out rows after
 * it has cut the page. `samples` are all answers so far.
 */
export function probeShrinkingPages(samples: readonly ProbedPage[], report: Report): void {
  const followed = samples.filter(({ next, records }) => next !== undefined && records.length > 0);
  const largest = Math.max(0, ...followed.map(({ records }) => records.length));
  const shrunk = followed.filter(({ records, requested }) => records.length < Math.min(requested, largest));
  if (followed.length === 0) return;
  if (shrunk.length === 0)
    report(
      'shrinking pages',
      'ok',
      `none of ${countOf(followed.length, 'page')} with a "next" held fewer records than others`,
    );
  else
    report(
      'shrinking pages',
      'note',
      `${shrunk.length} of ${countOf(followed.length, 'page')} with a "next" held fewer records than could be: ` +
        'windows become shorter by themselves, which takes more requests and no more time',
    );
}

/** Reports whether pages come out empty although more follow: rows are hidden after the page was cut. */
export function probeEmptyPages(samples: readonly ProbedPage[], report: Report): void {
  const followed = samples.filter(({ next }) => next !== undefined);
  const empty = followed.filter(({ records }) => records.length === 0);
  if (followed.length === 0) return;
  if (empty.length === 0)
    report('empty pages', 'ok', `none of ${countOf(followed.length, 'page')} with a "next" was empty`);
  else
    report(
      'empty pages',
      'note',
      `${empty.length} of ${countOf(followed.length, 'page')} with a "next" were empty: they are followed, not taken for ` +
        'the end. Each costs a request; records come later by the time that these requests take',
    );
}

function countOf(count: number, what: string): string {
  return `${count} ${what}${count === 1 ? '' : 's'}`;
}
