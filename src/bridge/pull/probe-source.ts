/**
 * Learning a feed's profile by a handful of requests: what `check` shows, and what the pull uses where it makes it cheaper.
 * What cannot be read safely under the settings is a failed check, with what to do about it. Nothing is stored of the
 * records, and the checkpoint's position is not touched.
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
import { includesOf } from './feed/feed-reader.ts';
import type { SourceProfile } from './feed/source-profile.ts';

export interface ProbeDeps {
  client: Pick<SourceClient, 'readFeed'>;
  source: SourceSettings;
  feed: FeedName;
  clock: Clock;
  database: Database;
}

const secondMicros = 1_000_000;
/** A page that shows paging without being large. */
const samplePageSize = 3;
/** A source's `Date` counts whole seconds, and was written at any time between the request and the answer. */
const clockFuzzMs = 2_000;

const orderText = {
  ascending: 'the oldest change first',
  descending: 'the newest change first: a first reading takes more requests',
  none: 'not by time: a first reading takes more requests',
} as const;

interface Sample extends FeedPage {
  readonly times: readonly Timestamp[];
  readonly ids: readonly string[];
  readonly askedMs: number;
  readonly answeredMs: number;
}

/**
 * Asks, says what was found and keeps it in the checkpoint, if there is one. A service that does not answer is a failed
 * check, not an error; rejects only when `signal` is aborted or the database is away.
 */
export async function probeSource(deps: ProbeDeps, signal: AbortSignal): Promise<CheckResult[]> {
  const { source, feed, clock, database } = deps;
  const results: CheckResult[] = [];
  const say = (name: string, ok: boolean, message: string) => results.push({ name: `${feed}: ${name}`, ok, message });
  try {
    const profile = await ask(deps, signal, say);
    await saveSourceProfile(database, { source: source.name, feed }, { ...profile, learned: timestampNow(clock) });
  } catch (error) {
    if (signal.aborted || !(error instanceof AppError)) throw error;
    say('answers', false, `${error.publicMessage} ${adviceFor(error)}`);
  }
  return results;
}

function adviceFor({ code }: AppError): string {
  if (code === 'unauthorized') return 'The service does not know the API key: see api_key of the source.';
  if (code === 'forbidden') return 'The API key may not read this feed: it needs the scope feeds.';
  if (code === 'not-found') return 'There is no such feed there: see base_url (without /api) and feeds of the source.';
  return 'Nothing of the feed is known then; try again when it answers.';
}

type Say = (name: string, ok: boolean, message: string) => void;

async function ask(deps: ProbeDeps, signal: AbortSignal, say: Say): Promise<SourceProfile> {
  const { source, feed } = deps;
  const read = (at: FeedWindow | { next: string }) => readSample(deps, at, signal);
  const first = await read({ pageSize: samplePageSize });
  say('answers', true, first.commitOrdered ? 'it declares the order of its commits' : 'it does not declare its order');
  const includes = await probeIncludes(deps, read, say);
  const clockAheadMs = probeClock(first, source, say);
  const base = {
    includes,
    commitOrdered: first.commitOrdered,
    ...(clockAheadMs === undefined ? {} : { clockAheadMs }),
  };
  const stamped = first.times.filter((time) => time !== withoutTime);
  // The finest proof, of several the last.
  const stamp = stamped.toSorted((a, b) => provenBy(b) - provenBy(a)).at(-1);
  if (stamp === undefined) {
    say(
      'bounds',
      true,
      `the feed ${feed} shows no record with a time yet: there is nothing to learn of it; check again later`,
    );
    return base;
  }
  const order = orderOf(stamped);
  if (order !== undefined) say('order', true, orderText[order]);
  const paging = probePaging(first, say);
  const pageSize = await probePageSize(source, first, read, say);
  const bounds = await probeBounds(source, read, stamp, [...stamped], say);
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
  say: Say,
): Promise<readonly string[]> {
  const wanted = includesOf(feed);
  if (!source.includes || wanted.length === 0) return wanted;
  try {
    const { includes } = await read({ pageSize: 1, include: wanted });
    const shown = wanted.filter((name) => includes[name] !== undefined);
    const missing = wanted.filter((name) => includes[name] === undefined);
    say('includes', true, missing.length === 0 ? `shows ${shown.join(', ')}` : `does not show ${missing.join(', ')}`);
    return wanted;
  } catch (error) {
    if (!(error instanceof AppError) || error.code !== 'invalid') throw error;
    say('includes', true, 'refused: pages are asked for without include, and related objects are not read');
    return [];
  }
}

/** Gives by how much the source's clock is ahead. */
function probeClock(first: Sample, source: SourceSettings, say: Say): number | undefined {
  if (first.sourceMs === undefined) {
    say('clock', true, 'the answers have no Date: the source is taken to be as late as our own clock');
    return undefined;
  }
  // `sourceMs` is a time that it had passed: the date less the round trip and a second.
  const dateMs = first.sourceMs + (first.answeredMs - first.askedMs) + 1_000;
  const aheadMs = dateMs - (first.askedMs + first.answeredMs) / 2;
  const differsMs = Math.max(0, Math.abs(aheadMs) - clockFuzzMs);
  const latenessMs = source.lateness_seconds * 1000;
  const ok = first.commitOrdered || differsMs <= latenessMs;
  const words = `${Math.round(Math.abs(aheadMs) / 1000)} s ${aheadMs >= 0 ? 'ahead of' : 'behind'} ours`;
  say(
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

/** What the query of `next` holds tells how it pages. */
function probePaging(first: Sample, say: Say): NonNullable<SourceProfile['paging']> {
  if (first.next === undefined) {
    const ignoresSize = first.records.length > samplePageSize;
    say(
      'paging',
      true,
      ignoresSize
        ? 'takes no notice of page_size, and all records fit into one page'
        : 'everything fits into one page so far',
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
  say(
    'paging',
    true,
    loses && !first.commitOrdered
      ? `by ${paging}: pages may skip records that others push aside, so the feed is read in windows of time`
      : `by ${paging}`,
  );
  return paging;
}

/** Gives the most records that it puts on a page, where it can be told. */
async function probePageSize(
  source: SourceSettings,
  first: Sample,
  read: (at: FeedWindow) => Promise<Sample>,
  say: Say,
): Promise<number | undefined> {
  const { records, next } = await read({ pageSize: source.page_size });
  if (records.length > source.page_size) {
    say('page size', true, `takes no notice of page_size: a page has ${records.length}`);
    return records.length;
  }
  if (first.next === undefined && first.records.length === samplePageSize && records.length > samplePageSize)
    say(
      'page size',
      false,
      `a page of ${samplePageSize} had no "next" although there are more records: what does not fit into a page cannot be read`,
    );
  if (next === undefined) return undefined;
  const fewer = records.length < source.page_size;
  say(
    'page size',
    true,
    fewer
      ? `a page has ${records.length} records, not the ${source.page_size} that are asked for: page_size ${records.length} says so`
      : `a page has the ${source.page_size} records that are asked for`,
  );
  return records.length;
}

/** How the bounds are kept around the time of a record that is there, and how fine stamps and bounds are. */
async function probeBounds(
  source: SourceSettings,
  read: (at: FeedWindow | { next: string }) => Promise<Sample>,
  stamp: Timestamp,
  stamps: readonly Timestamp[],
  say: Say,
): Promise<Pick<SourceProfile, 'bounds' | 'granularityMicros'>> {
  const { page_size: pageSize, lateness_seconds: latenessSeconds } = source;
  const has = (sample: Sample) => sample.times.includes(stamp);
  const later = addMicros(stamp, 2 * 86_400 * secondMicros);
  const earlier = addMicros(stamp, -2 * 86_400 * secondMicros);
  const afterIsKept = !has(await read({ modifiedAfter: later, pageSize }));
  const beforeIsKept = !has(await read({ modifiedBefore: earlier, pageSize }));
  if (!afterIsKept || !beforeIsKept) {
    const ignored = [...(afterIsKept ? [] : ['modified_after']), ...(beforeIsKept ? [] : ['modified_before'])];
    say(
      'bounds',
      false,
      `it takes no notice of ${ignored.join(' and ')}: what is new cannot be told from what was read`,
    );
    return {};
  }
  const at = await read({ modifiedAfter: stamp, modifiedBefore: stamp, pageSize });
  const around = await read({ modifiedAfter: addMicros(stamp, -1), modifiedBefore: addMicros(stamp, 1), pageSize });
  const beyond = await read({ modifiedAfter: addMicros(stamp, 1), modifiedBefore: addMicros(stamp, 2), pageSize });
  const provenMicros = provenBy(stamp);
  // Kept to the microsecond only if one more of it makes the difference.
  const isExact = has(around) && !has(beyond) && !beyond.times.some((time) => time <= stamp);
  const granularityMicros =
    isExact && provenMicros < secondMicros ? provenMicros : await coarsestOf(read, new Set(stamps), pageSize);
  if (granularityMicros === undefined) {
    say('bounds', true, 'how fine they are cannot be told from what it shows: a second is taken for it');
    return {};
  }
  const bounds = has(at) ? 'inclusive' : 'exclusive';
  const fine = granularityMicros < 1_000 ? 'to the microsecond' : `to ${granularityMicros / secondMicros} s`;
  const isSafe = granularityMicros <= latenessSeconds * secondMicros;
  say(
    'bounds',
    isSafe,
    isSafe
      ? `${bounds}, kept ${fine}`
      : `kept ${fine} only, which is more than lateness_seconds (${latenessSeconds}): set it to ${granularityMicros / secondMicros} or more`,
  );
  const crowd = await read({
    modifiedAfter: addMicros(stamp, -granularityMicros),
    modifiedBefore: addMicros(stamp, granularityMicros),
    pageSize,
  });
  if (crowd.next !== undefined) learnCrowd(crowd, await read({ next: crowd.next }), stamp, say);
  return { bounds, granularityMicros };
}

/** More records than a page at one time have to be paged through. */
function learnCrowd(first: Sample, second: Sample, stamp: Timestamp, say: Say): void {
  const known = new Set(first.ids);
  const ok = second.ids.some((id) => !known.has(id));
  const what = `more than ${first.records.length} records have the time ${stamp} or one close to it`;
  say(
    'crowded times',
    ok,
    ok
      ? `${what}: they are paged through until two readings agree, and once more later`
      : `${what}, and the page after the first one shows nothing else: set page_size so high that they fit into one page`,
  );
}

/**
 * How finely bounds are kept at least if they tell a microsecond at this stamp: a microsecond, a millisecond or a second.
 * Next to the end of a step, or to its middle, bounds that are cut or rounded to that step tell one, too.
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

/** The coarsest of several: the end of one step may be that of a coarser one, too. Undefined where none can be told. */
async function coarsestOf(
  read: (at: FeedWindow) => Promise<Sample>,
  stamps: ReadonlySet<Timestamp>,
  pageSize: number,
): Promise<number | undefined> {
  let found: number | undefined;
  for (const stamp of stamps) {
    const step = await coarsest(read, stamp, pageSize);
    if (step === undefined) return undefined;
    found = Math.max(found ?? 0, step);
  }
  return found;
}

/**
 * The step that bounds are cut to: a second, a minute, an hour or a day. The end of the step that the stamp lies in shows
 * it as an upper bound, and hides it as a lower one. Undefined where no bound does.
 */
async function coarsest(
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
