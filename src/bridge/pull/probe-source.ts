/**
 * Finds settings of a source under which a feed cannot be read, for `bridge doctor`: a refused key or page size, a path
 * that does not exist, bounds that are ignored, and pages that name no next one although more records follow. It stores
 * nothing, and the pull needs nothing of it.
 */
import { readVersionKey, withoutTime } from '#bridge/mirror/read-version.ts';
import type { SourceSettings } from '#bridge/settings/settings.ts';
import type { FeedPage, FeedWindow, SourceClient } from '#client/source-client.ts';
import type { CheckResult } from '#connector/connector.ts';
import type { FeedName } from '#contract/feed.ts';
import { addMicros, microsFromTimestamp, type Timestamp, timestampFromMicros } from '#contract/timestamp.ts';
import { AppError } from '#platform/errors.ts';
import { createPageCap } from './feed/page-cap.ts';
import { shortestPage } from './feed/pass-size.ts';
import { proveLastPage } from './range/prove-last-page.ts';
import { defaultGranularityMicros, isRefusal } from './range/range-types.ts';

interface ProbeDeps {
  readonly client: Pick<SourceClient, 'readFeed'>;
  readonly source: Pick<SourceSettings, 'page_size'>;
  readonly feed: FeedName;
}

interface ProbedPage extends FeedPage {
  /** The stamps of its records, without those that have no time. */
  readonly times: readonly Timestamp[];
  readonly ids: readonly string[];
}

type Ask = (at: FeedWindow | { readonly next: string }) => Promise<ProbedPage>;

/** A source may show pages without a record first, although more follow. */
const emptyPagesMax = 5;

/**
 * Returns one result for each check that could be made. A service that does not answer is a failed check, not an error;
 * rejects only when `signal` is aborted.
 */
export async function probeSource(deps: ProbeDeps, signal: AbortSignal): Promise<CheckResult[]> {
  const { client, feed } = deps;
  const ask: Ask = async (at) => {
    const page = await client.readFeed(feed, at, signal);
    const keys = page.records.map((record, index) => readVersionKey(record, feed, index));
    const times = keys.map(({ modified }) => modified).filter((time) => time !== withoutTime);
    return { ...page, times, ids: keys.map(({ id }) => id) };
  };
  const results: CheckResult[] = [];
  const report = (name: string, fault: string | undefined, ok: string) =>
    results.push({ name: `${feed}: ${name}`, ok: fault === undefined, message: fault ?? ok });
  try {
    const { page: first, pageSize, refusal } = await readFirstPage(ask, deps.source.page_size);
    report('page size', refusal, `a page of ${pageSize} records may be requested`);
    report('last page', await lastPageFault(ask, first, pageSize), 'it names a next page where more follow');
    // The oldest one changes least while the others are asked for.
    const [stamp] = (await firstWithRecords(ask, first)).times.toSorted();
    if (stamp === undefined) report('bounds', undefined, 'it shows no record with a time yet; check again later');
    else report('bounds', await boundsFault(ask, stamp, pageSize), 'it keeps the bounds of a request');
  } catch (error) {
    if (signal.aborted || !(error instanceof AppError)) throw error;
    report('answers', `${error.publicMessage} ${adviceFor(error)}`, '');
  }
  return results;
}

function adviceFor({ code }: AppError): string {
  if (code === 'unauthorized')
    return 'The service does not take the API key (unknown, expired or revoked): see api_key of the source.';
  if (code === 'forbidden') return 'The API key may not read this feed: it needs the scope feeds.';
  if (code === 'not-found') return 'The service has no such feed: see base_url (without /api) and feeds of the source.';
  return 'Nothing was found out about the feed; try again when the service answers.';
}

/** Asks for a page of the size in the settings, and for a short one where the service refuses it. */
async function readFirstPage(
  ask: Ask,
  pageSize: number,
): Promise<{ page: ProbedPage; pageSize: number; refusal?: string }> {
  try {
    return { page: await ask({ pageSize }), pageSize };
  } catch (error) {
    if (!isRefusal(error) || error.code === 'not-found' || pageSize <= shortestPage) throw error;
    const refusal = `a page of ${pageSize} records is refused (${error.publicMessage}): set page_size lower`;
    return { page: await ask({ pageSize: shortestPage }), pageSize: shortestPage, refusal };
  }
}

/**
 * A service may put fewer records on a page than it was asked for, and name the next page in no way that is known here. So
 * what follows the page is asked for, and the page in other sizes.
 */
async function lastPageFault(ask: Ask, page: ProbedPage, pageSize: number): Promise<string | undefined> {
  const { records, ids, next } = page;
  if (next !== undefined || !createPageCap().mayBeCut(records.length, pageSize)) return undefined;
  const what = `a page of ${records.length} records names no next page, neither by "next" nor by Link`;
  const newest = page.times.toSorted().at(-1);
  const rest = await ask({ ...(newest === undefined ? {} : { modifiedAfter: newest }), pageSize });
  const known = new Set(ids);
  const isCut = rest.ids.some((id) => !known.has(id));
  const proof = await proveLastPage((size) => ask({ pageSize: size }), records.length, pageSize);
  if (proof !== undefined && proof !== 'last')
    return `${what}, although more follow: set page_size to ${records.length}, for which it names one`;
  if (isCut) return `${what}, although more follow: where records of one time fill a page, the rest cannot be read`;
  if (proof === undefined)
    return `${what}, and whether more follow cannot be known: records beyond a page may be missing`;
  return undefined;
}

async function firstWithRecords(ask: Ask, first: ProbedPage): Promise<ProbedPage> {
  let page = first;
  for (let empty = 0; page.times.length === 0 && page.next !== undefined && empty < emptyPagesMax; empty += 1)
    page = await ask({ next: page.next });
  return page;
}

/** The pull takes bounds as kept to a second, whether they are inclusive or not. */
async function boundsFault(ask: Ask, stamp: Timestamp, pageSize: number): Promise<string | undefined> {
  /** Undefined where the answer is not clear: the record may be on a later page. */
  const shows = async (at: Omit<FeedWindow, 'pageSize'>): Promise<boolean | undefined> => {
    const page = await firstWithRecords(ask, await ask({ ...at, pageSize }));
    if (page.times.includes(stamp)) return true;
    return page.next === undefined ? false : undefined;
  };
  const second = defaultGranularityMicros;
  const day = 86_400 * second;
  const ignored = [
    ...((await shows({ modifiedAfter: addMicros(stamp, 2 * day) })) === true ? ['modified_after'] : []),
    ...((await shows({ modifiedBefore: addMicros(stamp, -2 * day) })) === true ? ['modified_before'] : []),
  ];
  if (ignored.length > 0)
    return `it ignores ${ignored.join(' and ')}: new records cannot be distinguished from those that were read`;
  const end = timestampFromMicros(Math.floor(microsFromTimestamp(stamp) / second) * second + second);
  const isCoarse =
    (await shows({ modifiedAfter: end, modifiedBefore: addMicros(end, 2 * day) })) === true ||
    (await shows({ modifiedAfter: addMicros(end, -3 * second), modifiedBefore: end })) === false;
  return isCoarse ? 'it does not keep its bounds to a second: records may be missed' : undefined;
}
