/**
 * Finds out by a handful of requests how a source answers: its paging, its order, its bounds, its clock. `bridge check`
 * shows the results, and the pull reads with fewer requests by them. A feed that cannot be read safely under the
 * present settings fails the check, with a text that says what to do. No record is stored, and the watermark is not
 * touched.
 */
import type { FeedPage, FeedWindow, SourceClient } from '#client/source-client.ts';
import type { CheckResult } from '#connector/connector.ts';
import type { FeedName } from '#contract/feed.ts';
import { addMicros, microsFromTimestamp, type Timestamp, timestampFromMicros } from '#contract/timestamp.ts';
import { type Clock, timestampNow } from '#platform/clock.ts';
import type { Database } from '#platform/database/database.ts';
import { AppError } from '#platform/errors.ts';
import { readVersionKey, withoutTime } from '../mirror/read-version.ts';
import type { SourceSettings } from '../settings.ts';
import { saveSourceProfile } from './feed/checkpoint-store.ts';
import { keptIncludes } from './feed/feed-reader.ts';
import type { SourceProfile } from './feed/source-profile.ts';

export interface ProbeDeps {
  client: Pick<SourceClient, 'readFeed'>;
  source: SourceSettings;
  feed: FeedName;
  clock: Clock;
  database: Database;
}

const secondMicros = 1_000_000;
/** Small, so that even a short feed has a second page. */
const samplePageSize = 3;
/** A source's `Date` counts whole seconds, and was written at any time between the request and the answer. */
const clockPrecisionMs = 2_000;

const orderText = {
  ascending: 'the oldest change first',
  descending: 'the newest change first: the first read takes more requests',
  none: 'not by time: the first read takes more requests',
} as const;

/** A page, with the stamps and ids of its records, and when it was requested and received. */
interface Sample extends FeedPage {
  readonly times: readonly Timestamp[];
  readonly ids: readonly string[];
  readonly askedMs: number;
  readonly answeredMs: number;
}

/**
 * Probes the feed, returns what was found as checks, and stores it as the profile in the feed's checkpoint, if there is
 * one. A service that does not answer is a failed check, not an error; rejects only when `signal` is aborted or the
 * database is away.
 */
export async function probeSource(deps: ProbeDeps, signal: AbortSignal): Promise<CheckResult[]> {
  const { source, feed, clock, database } = deps;
  const results: CheckResult[] = [];
  const report = (name: string, ok: boolean, message: string) =>
    results.push({ name: `${feed}: ${name}`, ok, message });
  try {
    const profile = await probe(deps, signal, report);
    await saveSourceProfile(database, { source: source.name, feed }, { ...profile, learned: timestampNow(clock) });
  } catch (error) {
    if (signal.aborted || !(error instanceof AppError)) throw error;
    report('answers', false, `${error.publicMessage} ${adviceFor(error)}`);
  }
  return results;
}

function adviceFor({ code }: AppError): string {
  if (code === 'unauthorized') return 'The service does not know the API key: see api_key of the source.';
  if (code === 'forbidden') return 'The API key may not read this feed: it needs the scope feeds.';
  if (code === 'not-found') return 'The service has no such feed: see base_url (without /api) and feeds of the source.';
  return 'Nothing was found out about the feed; try again when the service answers.';
}

type Report = (name: string, ok: boolean, message: string) => void;

async function probe(deps: ProbeDeps, signal: AbortSignal, report: Report): Promise<SourceProfile> {
  const { source, feed } = deps;
  const read = (at: FeedWindow | { next: string }) => readSample(deps, at, signal);
  const first = await read({ pageSize: samplePageSize });
  report(
    'answers',
    true,
    first.commitOrdered ? 'it declares the order of its commits' : 'it does not declare its order',
  );
  const includes = await probeIncludes(deps, read, report);
  const clockAheadMs = probeClock(first, source, report);
  const base = {
    includes,
    commitOrdered: first.commitOrdered,
    ...(clockAheadMs === undefined ? {} : { clockAheadMs }),
  };
  const stamped = first.times.filter((time) => time !== withoutTime);
  // The stamp that can prove the finest granularity; of several the last one.
  const stamp = stamped.toSorted((a, b) => provenBy(b) - provenBy(a)).at(-1);
  if (stamp === undefined) {
    report(
      'bounds',
      true,
      `the feed ${feed} shows no record with a time yet, so its bounds cannot be probed; check again later`,
    );
    return base;
  }
  const order = orderOf(stamped);
  if (order !== undefined) report('order', true, orderText[order]);
  const paging = probePaging(first, report);
  const pageSize = await probePageSize(source, first, read, report);
  const bounds = await probeBounds(source, read, stamp, [...stamped], report);
  return {
    ...base,
    ...(order === undefined ? {} : { order }),
    paging,
    ...(pageSize === undefined ? {} : { pageSize }),
    ...bounds,
  };
}

async function readSample(deps: ProbeDeps, at: FeedWindow | { next: string }, signal: AbortSignal): Promise<Sample> {
  const { client, feed, clock } = deps;
  const askedMs = clock.nowMs();
  const page = await client.readFeed(feed, at, signal);
  const keys = page.records.map((record, index) => readVersionKey(record, feed, index));
  return {
    ...page,
    times: keys.map(({ modified }) => modified),
    ids: keys.map(({ id }) => id),
    askedMs,
    answeredMs: clock.nowMs(),
  };
}

async function probeIncludes(
  { source, feed }: ProbeDeps,
  read: (at: FeedWindow) => Promise<Sample>,
  report: Report,
): Promise<readonly string[]> {
  const wanted = keptIncludes(feed);
  if (!source.includes || wanted.length === 0) return wanted;
  try {
    const { includes } = await read({ pageSize: 1, include: wanted });
    const shown = wanted.filter((name) => includes[name] !== undefined);
    const missing = wanted.filter((name) => includes[name] === undefined);
    report(
      'includes',
      true,
      missing.length === 0 ? `shows ${shown.join(', ')}` : `does not show ${missing.join(', ')}`,
    );
    return wanted;
  } catch (error) {
    if (!(error instanceof AppError) || error.code !== 'invalid') throw error;
    report('includes', true, 'refused: pages are requested without include, and related objects are not read');
    return [];
  }
}

/** Returns how far the source's clock is ahead of ours, in milliseconds; undefined when its answers have no `Date`. */
function probeClock(first: Sample, source: SourceSettings, report: Report): number | undefined {
  if (first.sourceMs === undefined) {
    report('clock', true, 'the answers have no Date: the clock of the source is taken to agree with ours');
    return undefined;
  }
  // `sourceMs` is a time that the source's clock had passed: the `Date` less the round trip and a second.
  const dateMs = first.sourceMs + (first.answeredMs - first.askedMs) + 1_000;
  const aheadMs = dateMs - (first.askedMs + first.answeredMs) / 2;
  const differsMs = Math.max(0, Math.abs(aheadMs) - clockPrecisionMs);
  const latenessMs = source.lateness_seconds * 1000;
  const ok = first.commitOrdered || differsMs <= latenessMs;
  const words = `${Math.round(Math.abs(aheadMs) / 1000)} s ${aheadMs >= 0 ? 'ahead of' : 'behind'} ours`;
  report(
    'clock',
    ok,
    ok
      ? differsMs === 0
        ? "the source's clock and ours agree"
        : `the source's clock is ${words}`
      : `the source's clock is ${words}, which is more than lateness_seconds (${source.lateness_seconds}): set the ` +
          `clocks right, or lateness_seconds to ${Math.ceil(differsMs / 1000) + source.lateness_seconds}`,
  );
  return Math.round(aheadMs);
}

function orderOf(times: readonly Timestamp[]): SourceProfile['order'] | undefined {
  const steps = times.slice(1).map((time, index) => (time === times[index] ? 0 : time > (times[index] ?? '') ? 1 : -1));
  if (steps.every((step) => step === 0)) return undefined;
  if (steps.every((step) => step >= 0)) return 'ascending';
  return steps.every((step) => step <= 0) ? 'descending' : 'none';
}

/** The names in the query of `next` show how the service pages. */
function probePaging(first: Sample, report: Report): NonNullable<SourceProfile['paging']> {
  if (first.next === undefined) {
    const ignoresSize = first.records.length > samplePageSize;
    report(
      'paging',
      true,
      ignoresSize ? 'it ignores page_size, and all records fit into one page' : 'all records fit into one page so far',
    );
    return 'unknown';
  }
  const names = [...new URLSearchParams(first.next).keys()].map((name) => name.toLowerCase());
  const has = (pattern: RegExp) => names.some((name) => pattern.test(name));
  const paging = has(/cursor|token|continu|scroll|after_id|starting_after/)
    ? 'cursor'
    : has(/offset|skip|^start$/)
      ? 'offset'
      : has(/^page$|page_?(number|no|index)|^p$/)
        ? 'page number'
        : 'unknown';
  const loses = paging === 'page number' || paging === 'offset';
  report(
    'paging',
    true,
    loses && !first.commitOrdered
      ? `by ${paging}: pages may skip records that move while they are read, so the feed is read in windows of time`
      : `by ${paging}`,
  );
  return paging;
}

/** Returns the most records that the service puts on a page; undefined where the feed is too short to tell. */
async function probePageSize(
  source: SourceSettings,
  first: Sample,
  read: (at: FeedWindow) => Promise<Sample>,
  report: Report,
): Promise<number | undefined> {
  const { records, next } = await read({ pageSize: source.page_size });
  if (records.length > source.page_size) {
    report('page size', true, `it ignores page_size: a page has ${records.length} records`);
    return records.length;
  }
  if (first.next === undefined && first.records.length === samplePageSize && records.length > samplePageSize)
    report(
      'page size',
      false,
      `a page of ${samplePageSize} had no "next" although there are more records: records beyond a page cannot be read`,
    );
  if (next === undefined) return undefined;
  const fewer = records.length < source.page_size;
  report(
    'page size',
    true,
    fewer
      ? `a page has ${records.length} records, not the ${source.page_size} that were requested: ` +
          `set page_size to ${records.length}`
      : `a page has the ${source.page_size} records that were requested`,
  );
  return records.length;
}

/**
 * Finds out whether bounds are kept, whether they are inclusive, and how fine they are, around the stamp of a record.
 */
async function probeBounds(
  source: SourceSettings,
  read: (at: FeedWindow | { next: string }) => Promise<Sample>,
  stamp: Timestamp,
  stamps: readonly Timestamp[],
  report: Report,
): Promise<Pick<SourceProfile, 'bounds' | 'granularityMicros'>> {
  const { page_size: pageSize, lateness_seconds: latenessSeconds } = source;
  const has = (sample: Sample) => sample.times.includes(stamp);
  const later = addMicros(stamp, 2 * 86_400 * secondMicros);
  const earlier = addMicros(stamp, -2 * 86_400 * secondMicros);
  const afterIsKept = !has(await read({ modifiedAfter: later, pageSize }));
  const beforeIsKept = !has(await read({ modifiedBefore: earlier, pageSize }));
  if (!afterIsKept || !beforeIsKept) {
    const ignored = [...(afterIsKept ? [] : ['modified_after']), ...(beforeIsKept ? [] : ['modified_before'])];
    report(
      'bounds',
      false,
      `it ignores ${ignored.join(' and ')}: new records cannot be distinguished from those that were read`,
    );
    return {};
  }
  const at = await read({ modifiedAfter: stamp, modifiedBefore: stamp, pageSize });
  const around = await read({ modifiedAfter: addMicros(stamp, -1), modifiedBefore: addMicros(stamp, 1), pageSize });
  const beyond = await read({ modifiedAfter: addMicros(stamp, 1), modifiedBefore: addMicros(stamp, 2), pageSize });
  const provenMicros = provenBy(stamp);
  // Bounds are kept to the microsecond only if moving them by one microsecond makes the difference.
  const isExact = has(around) && !has(beyond) && !beyond.times.some((time) => time <= stamp);
  const granularityMicros =
    isExact && provenMicros < secondMicros ? provenMicros : await coarsestOf(read, new Set(stamps), pageSize);
  if (granularityMicros === undefined) {
    report('bounds', true, 'the answers do not show how fine they are: a second is assumed');
    return {};
  }
  const bounds = has(at) ? 'inclusive' : 'exclusive';
  const fine = granularityMicros < 1_000 ? 'to the microsecond' : `to ${granularityMicros / secondMicros} s`;
  const isSafe = granularityMicros <= latenessSeconds * secondMicros;
  report(
    'bounds',
    isSafe,
    isSafe
      ? `${bounds}, kept ${fine}`
      : `kept ${fine} only, which is more than lateness_seconds (${latenessSeconds}): ` +
          `set it to ${granularityMicros / secondMicros} or more`,
  );
  const crowd = await read({
    modifiedAfter: addMicros(stamp, -granularityMicros),
    modifiedBefore: addMicros(stamp, granularityMicros),
    pageSize,
  });
  if (crowd.next !== undefined) probeCrowdedStamp(crowd, await read({ next: crowd.next }), stamp, report);
  return { bounds, granularityMicros };
}

/** Where one stamp holds more records than a page, its pages must be followed: finds out whether they can be. */
function probeCrowdedStamp(first: Sample, second: Sample, stamp: Timestamp, report: Report): void {
  const known = new Set(first.ids);
  const ok = second.ids.some((id) => !known.has(id));
  const what = `more than ${first.records.length} records have the time ${stamp} or one close to it`;
  report(
    'crowded times',
    ok,
    ok
      ? `${what}: the pages are followed until two passes agree, and once more later`
      : `${what}, and the page after the first one shows no others: ` +
          'set page_size so high that they fit into one page',
  );
}

/**
 * Returns the granularity that is proven when bounds tell a difference of one microsecond at this stamp: a microsecond,
 * a millisecond or a second. Near the end or the middle of a step, bounds that are truncated or rounded to that step
 * tell such a difference, too: there only a coarser granularity is proven.
 */
function provenBy(stamp: Timestamp): number {
  const micros = microsFromTimestamp(stamp);
  const isApart = (step: number) => {
    const rest = micros % (step / 2);
    return rest > 1 && rest < step / 2 - 1;
  };
  if (!isApart(secondMicros)) return secondMicros;
  return isApart(1_000) ? 1 : 1_000;
}

/**
 * Returns the coarsest granularity that one of the stamps shows: the end of a step may be the end of a coarser step,
 * too. Undefined where a stamp shows none.
 */
async function coarsestOf(
  read: (at: FeedWindow) => Promise<Sample>,
  stamps: ReadonlySet<Timestamp>,
  pageSize: number,
): Promise<number | undefined> {
  let found: number | undefined;
  for (const stamp of stamps) {
    const step = await stepAround(read, stamp, pageSize);
    if (step === undefined) return undefined;
    found = Math.max(found ?? 0, step);
  }
  return found;
}

/**
 * Returns the step that bounds are truncated to, in microseconds: a second, a minute, an hour or a day. The end of the
 * step in which the stamp lies shows the record when it is the upper bound, and hides it when it is the lower one.
 * Undefined where no step does.
 */
async function stepAround(
  read: (at: FeedWindow) => Promise<Sample>,
  stamp: Timestamp,
  pageSize: number,
): Promise<number | undefined> {
  for (const seconds of [1, 60, 3_600, 86_400]) {
    const step = seconds * secondMicros;
    const end = timestampFromMicros(Math.floor(microsFromTimestamp(stamp) / step) * step + step);
    const day = 86_400 * secondMicros;
    const below = await read({ modifiedAfter: addMicros(stamp, -2 * day), modifiedBefore: end, pageSize });
    const above = await read({ modifiedAfter: end, modifiedBefore: addMicros(end, 2 * day), pageSize });
    if (below.times.includes(stamp) && !above.times.includes(stamp)) return step;
  }
  return undefined;
}
