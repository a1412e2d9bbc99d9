/** How many records a page holds, whether pages hold as many as they could, and whether `next` is sent. */
import { createPageCap } from '../feed/page-cap.ts';
import { proveLastPage } from '../range/prove-last-page.ts';
import { isRefusal } from '../range/range-types.ts';
import { samplePageSize } from './probe-pages.ts';
import type { ProbedPage, ProbeReader, Report } from './probe-reader.ts';

/** Returns the most records that the service puts on a page; undefined where the feed is too short to tell. */
export function probePageSize(full: ProbedPage, report: Report): number | undefined {
  const { records, next, requested } = full;
  if (records.length > requested) {
    report('page size', 'ok', `it ignores page_size: a page has ${records.length} records`);
    return records.length;
  }
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
 * Asks for the longest page that the pull will ask for. A service that refuses it is asked for a short one instead, so that
 * the other questions have an answer.
 */
export async function readFullPage(reader: ProbeReader, pageSize: number, report: Report): Promise<ProbedPage> {
  try {
    return await reader.window({ pageSize });
  } catch (error) {
    if (!isRefusal(error)) throw error;
    report(
      'page size',
      'fail',
      `a page of ${pageSize} records is refused (${error.publicMessage}): set page_size lower`,
    );
    return reader.window({ pageSize: samplePageSize });
  }
}

/**
 * Reports whether a page without a next page is the last one: a service may put fewer records on a page than it was asked
 * for, and name the next page in no way that is known here. Asks for what follows the page, and for pages of other sizes.
 */
export async function probeLastPage(reader: ProbeReader, full: ProbedPage, report: Report): Promise<void> {
  const name = 'last page';
  const { records, times, ids, requested } = full;
  if (full.next !== undefined) return;
  const cap = createPageCap();
  for (const sample of reader.samples) cap.note(sample.records.length);
  if (!cap.mayBeCut(records.length, requested)) return report(name, 'ok', 'its pages can be longer than the last one');
  const what = `a page of ${records.length} records names no next page, neither by "next" nor by Link`;
  const newest = times.toSorted().at(-1);
  const rest = await reader.window({ ...(newest === undefined ? {} : { modifiedAfter: newest }), pageSize: requested });
  const known = new Set(ids);
  const isCut = rest.ids.some((id) => !known.has(id));
  const proof = await proveLastPage((pageSize) => reader.window({ pageSize }), records.length, requested);
  if (proof !== undefined && proof !== 'last')
    report(name, 'fail', `${what}, although more follow: set page_size to ${records.length}, for which it names one`);
  else if (isCut)
    report(
      name,
      'fail',
      `${what}, although more follow: where records of one time fill a page, the rest cannot be read`,
    );
  else if (proof === undefined)
    report(name, 'fail', `${what}, and whether more follow cannot be known: records beyond a page may be missing`);
  else report(name, 'ok', 'it names a next page where more follow');
}
