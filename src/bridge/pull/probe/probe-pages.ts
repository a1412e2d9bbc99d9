/** How a feed pages: what its `next` holds, and what its first few pages show when they are followed. */
import { AppError } from '#platform/errors.ts';
import { pagingOf } from '../feed/paging.ts';
import { shortestPage } from '../feed/pass-size.ts';
import type { ProbedPage, ProbeReader, Report } from './probe-reader.ts';

/** Small, so that even a short feed has a second page. */
export const samplePageSize = shortestPage;
const followedPagesMax = 5;

/** The first pages of the feed without a filter, in small pages. */
export interface FollowedPages {
  readonly pages: readonly [ProbedPage, ...ProbedPage[]];
  /** `next` leads back to a page that was read already. */
  readonly loops: boolean;
}

/** Follows `next` from the first page for a few pages. Rejects as the client does when the first page is not answered. */
export async function probePages(reader: ProbeReader, first: ProbedPage): Promise<FollowedPages> {
  const pages: [ProbedPage, ...ProbedPage[]] = [first];
  const links = new Set<string>();
  for (let last = first; last.next !== undefined && pages.length < followedPagesMax; ) {
    if (links.has(last.next)) return { pages, loops: true };
    links.add(last.next);
    try {
      last = await reader.nextOf(last);
      pages.push(last);
    } catch (error) {
      if (!(error instanceof AppError) || error.recovery.do !== 'halt') throw error;
      return { pages, loops: false };
    }
  }
  return { pages, loops: false };
}

/** Reports how the service pages. */
export function probePaging({ pages, loops }: FollowedPages, report: Report): void {
  const [first] = pages;
  if (first.next === undefined) {
    const ignoresSize = first.records.length > samplePageSize;
    report(
      'paging',
      'ok',
      ignoresSize ? 'it ignores page_size, and all records fit into one page' : 'all records fit into one page so far',
    );
    return;
  }
  const paging = pagingOf(first.next);
  if (loops)
    report('paging', 'note', 'its pages loop: "next" returns nothing new, so the feed is read in windows only');
  else if ((paging === 'page number' || paging === 'offset') && !first.commitOrdered)
    report(
      'paging',
      'ok',
      `by ${paging}: pages may skip records that move while they are read, so the feed is read in windows of time`,
    );
  else report('paging', 'ok', paging === 'unknown' ? 'by a "next" of its own kind' : `by ${paging}`);
}
