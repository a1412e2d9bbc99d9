/**
 * Settling a feed that does not declare its order: moves its watermark over ranges that are closed. See
 * `careful-walk.ts` for what makes that safe.
 */

import { readVersionKey } from '#bridge/mirror/read-version.ts';
import { addMicros, laterOf, msFromTimestamp, type Timestamp, timestampFromMs } from '#contract/timestamp.ts';
import { type Clock, timestampNow } from '#platform/clock.ts';
import type { Sql } from '#platform/database/database.ts';
import { type FeedId, markScanned, noteFirstSeen, readNewest } from '../feed/checkpoint-store.ts';
import type { FeedReader } from '../feed/feed-reader.ts';
import type { StorePage } from '../feed/page-store.ts';
import {
  dropSuspectsNotShown,
  endReread,
  readDueRereads,
  readKnownIds,
  rereadLater,
} from '../feed/suspect-versions.ts';
import {
  defaultGranularityMicros,
  type Range,
  type ScannedRecord,
  type ScannedWindow,
  scanWindows,
  upperBound,
} from './window-scan.ts';

/** What walking a feed in windows needs. */
export interface ScanDeps {
  readonly feed: FeedId;
  readonly reader: FeedReader;
  readonly store: StorePage;
  readonly database: Sql;
  readonly transaction: <T>(work: (tx: Sql) => Promise<T>) => Promise<T>;
  readonly latenessMs: number;
  readonly granularityMicros: number | undefined;
  /** Called before each request; may wait. */
  readonly pace?: () => Promise<void>;
}

/** A record as it was read, with what the walk has to know of it. */
export interface ReadRecord extends ScannedRecord {
  readonly record: Record<string, unknown>;
}

/** Records of a walk as they are stored: with the related objects of the answers that showed them. */
export interface ScannedPage extends ScannedWindow<ReadRecord> {
  readonly includes: Record<string, readonly Record<string, unknown>[]>;
  readonly observed: Timestamp;
}

/** More rows than this in a window do not fit any page: which ones they are is of no use then. */
const knownMax = 2_000;

/** Walks over (from, cut] of the feed; see `scanWindows`. */
export async function* scanFeed(
  reading: ScanDeps,
  range: { from: Timestamp | undefined; cut: Timestamp },
): AsyncGenerator<ScannedPage> {
  const { feed, reader } = reading;
  let includes: Record<string, readonly Record<string, unknown>[]> = {};
  let observed: Timestamp | undefined;
  const walk = scanWindows<ReadRecord>({
    ...range,
    granularityMicros: reading.granularityMicros,
    pageSize: () => reader.pageSize(),
    known: (window) => readKnownIds(reading.database, feed, window, knownMax),
    anchor: async (time) => (await readNewest(reading.database, feed, time, { expected: true })) ?? undefined,
    ask: async (at) => {
      await reading.pace?.();
      // A walk that ended here would begin with the same windows again, and spend the next quota on them.
      const page = await reader.read(at, { isPatient: true });
      for (const [name, objects] of Object.entries(page.includes))
        includes[name] = [...(includes[name] ?? []), ...objects];
      // Of several answers the first: what was asked for later may be newer, never older.
      observed ??= page.observed;
      const records = page.records.map((record, index) => ({
        ...readVersionKey(record, feed.feed, index),
        record,
      }));
      return { records, next: page.next };
    },
  });
  for await (const walked of walk) {
    yield { ...walked, includes, observed: observed ?? range.cut };
    includes = {};
    observed = undefined;
  }
}

export interface AdvanceRequest extends ScanDeps {
  readonly watermark: Timestamp | null;
  readonly nowMs: number;
  /** What the source's clock had passed, by the last page read; undefined when it gives none. */
  readonly sourceMs: number | undefined;
  /** The latest time that the news have shown; the mirror may hold a later version of that record. */
  readonly shown: Timestamp | undefined;
}

/**
 * Settles what is closed by now, at most every half lateness. Gives when to look again; undefined when nothing is open.
 * The walk ends at a version in suspectVersions.
 */
export async function advanceWatermark(request: AdvanceRequest): Promise<{ againMs: number } | undefined> {
  const { feed, nowMs, latenessMs } = request;
  const until = timestampFromMs(newestMs(request));
  const held = await readNewest(request.database, feed, until);
  const newest = laterOf(held ?? undefined, request.shown);
  if (newest === undefined || (request.watermark !== null && newest <= request.watermark)) return undefined;
  const { scanned, watermark, firstSeenBound } = await request.transaction((tx) =>
    noteFirstSeen(tx, feed, { newest, now: timestampFromMs(nowMs), longAgo: timestampFromMs(nowMs - latenessMs) }),
  );
  // One of a time that is yet to come was made by a clock that has been set back.
  if (scanned !== null && scanned <= timestampFromMs(nowMs) && scanned > timestampFromMs(nowMs - latenessMs / 2))
    return { againMs: msFromTimestamp(scanned) + latenessMs / 2 };
  const cut = upperBound({
    sentMicros: nowMs * 1_000,
    sourceMicros: request.sourceMs === undefined ? undefined : request.sourceMs * 1_000,
    latenessMicros: latenessMs * 1_000,
    granularityMicros: request.granularityMicros,
    firstSeenBound: firstSeenBound ?? undefined,
  });
  const reached = cut === undefined ? watermark : await scanTo(request, watermark, cut);
  await request.transaction((tx) => markScanned(tx, feed, timestampFromMs(nowMs)));
  const isStuck = cut !== undefined && (reached === null || reached < cut);
  const isOpen = reached === null || reached < newest;
  return isOpen && !isStuck ? { againMs: nowMs + latenessMs / 2 } : undefined;
}

/**
 * Gives where the watermark stands then: before the cut where a version is in suspectVersions, which is read again by itself, or
 * where the feed has answered with nothing at all, which is asked again on schedule.
 */
async function scanTo(request: AdvanceRequest, watermark: Timestamp | null, cut: Timestamp): Promise<Timestamp | null> {
  let reached = watermark;
  if (reached !== null && cut <= reached) return reached;
  for await (const walked of scanFeed(request, { from: watermark ?? undefined, cut })) {
    const { complete } = walked;
    const kept = await request.store({
      records: walked.records.map(({ record }) => record),
      includes: walked.includes,
      observed: walked.observed,
      suspects: true,
      completeTo: () => complete?.to,
      also: async (tx) => {
        if (complete && walked.drained) await rereadLater(tx, request.feed, againOf(request, complete));
      },
    });
    if (kept.watermark === undefined) continue;
    reached = kept.watermark;
    if (complete && (reached === null || reached < complete.to)) break;
  }
  return reached;
}

/** Our machines' clocks agree to within this, or one of them is wrong. */
const clocksDifferMs = 60_000;

/** Stamps further in the future than the lateness bound are no news of the source's clock. */
export function newestMs({ nowMs, latenessMs }: { nowMs: number; latenessMs: number }): number {
  return nowMs + latenessMs;
}

/** What was paged through is read once more when nothing can be on its way into it any more. */
function againOf(reading: ScanDeps & { readonly nowMs: number }, { after, to }: Range) {
  const { latenessMs, nowMs, granularityMicros = defaultGranularityMicros } = reading;
  return { after: after ?? addMicros(to, -granularityMicros), to, due: timestampFromMs(nowMs + latenessMs) };
}

/** Reads again what is due for it: crowded stamps, and versions in suspectVersions, which are told apart by it. */
export async function rereadRanges(reading: ScanDeps & { nowMs: number; clock: Clock }): Promise<void> {
  const { feed, nowMs } = reading;
  const now = timestampFromMs(nowMs);
  const latest = timestampFromMs(nowMs + reading.latenessMs + clocksDifferMs);
  for (const range of await readDueRereads(reading.database, feed, { now, latest })) {
    let changed = 0;
    let drained = false;
    let reached: Timestamp = range.after;
    for await (const walked of scanFeed(reading, { from: range.after, cut: range.to })) {
      const kept = await reading.store({
        records: walked.records.map(({ record }) => record),
        includes: walked.includes,
        observed: walked.observed,
        suspects: true,
      });
      // A part of a crowded stamp is given before all of it.
      changed += kept.changed;
      drained ||= walked.drained;
      if (walked.complete) reached = walked.complete.to;
    }
    await reading.transaction(async (tx) => {
      await endReread(tx, feed, range, { now, latest });
      // Where the feed has answered with nothing at all, nothing is known.
      if (reached >= range.to)
        await dropSuspectsNotShown(tx, feed, { ...range, since: now, now: timestampNow(reading.clock) });
      if (reached < range.to || (drained && changed > 0)) await rereadLater(tx, feed, againOf(reading, range));
    });
  }
}
