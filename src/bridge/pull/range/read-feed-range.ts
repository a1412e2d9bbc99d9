/**
 * Connects the reading of a range to a feed: it requests pages from the source, asks the mirror for records that must be
 * shown, and adds the related objects of the answers to the records. Nothing is stored here.
 */

import { readVersionKey } from '#bridge/mirror/read-version.ts';
import type { Timestamp } from '#contract/timestamp.ts';
import type { Sql } from '#platform/database/sql.ts';
import { type FeedId, learnProfile } from '../feed/checkpoint-store.ts';
import type { FeedReader } from '../feed/feed-reader.ts';
import { readKnownIds, readNewestStamp, readOldestStamp } from '../feed/held-records.ts';
import type { Range } from '../feed/time-range.ts';
import type { ReadRow } from './range-types.ts';
import { readRange } from './read-range.ts';

export interface FeedRangeDeps {
  readonly feed: FeedId;
  readonly reader: FeedReader;
  readonly database: Sql;
  readonly transaction: <T>(work: (tx: Sql) => Promise<T>) => Promise<T>;
  readonly granularityMicros: number | undefined;
  /** Called before each request; may wait. */
  readonly pace?: () => Promise<void>;
  /** Called before each request, and now and then while one waits for the quota. */
  readonly meanwhile?: () => Promise<void>;
}

/** A record as it was read, with its id and its stamp. */
export interface FeedRow extends ReadRow {
  readonly record: Record<string, unknown>;
}

/** What a step has read, as a page that can be stored. */
export interface RangeStep {
  readonly rows: readonly FeedRow[];
  readonly records: readonly Record<string, unknown>[];
  /** The range that is complete once the step is stored, and its end. */
  readonly complete: Range | undefined;
  readonly completeTo: () => Timestamp | undefined;
  /** The ids of all records that a complete range has shown. */
  readonly shown: ReadonlySet<string>;
  /** The related objects of the answers that showed the records. */
  readonly includes: Record<string, readonly Record<string, unknown>[]>;
  /** When the first of these answers was requested. */
  readonly observed: Timestamp;
}

/** A window with more rows than this fits no page, so it is not needed which rows they are. */
const knownIdsMax = 2_000;

/** Microseconds are exact up to the year 2255. */
const farthest: Timestamp = '2250-01-01T00:00:00.000000Z';

/** Reads (from, to] of the feed; see `readRange`. `isOpen`: records may still appear in it, so that nothing is proved. */
export async function* readFeedRange(
  deps: FeedRangeDeps,
  { isOpen = false, ...range }: { from: Timestamp | undefined; to: Timestamp; isOpen?: boolean },
): AsyncGenerator<RangeStep> {
  const { feed, reader } = deps;
  let includes: Record<string, readonly Record<string, unknown>[]> = {};
  let observed: Timestamp | undefined;
  let finerGranularity: number | undefined;
  const steps = readRange<FeedRow>({
    ...range,
    oldest: range.from === undefined ? await readOldestStamp(deps.database, feed) : undefined,
    newest: isOpen
      ? undefined
      : ((await readNewestStamp(deps.database, feed, farthest, { expected: true })) ?? undefined),
    granularityMicros: deps.granularityMicros,
    pageSize: () => reader.pageSize(),
    cap: reader.cap,
    onFinerGranularity: (micros) => {
      finerGranularity = micros;
    },
    anchor: async (time) =>
      isOpen ? undefined : ((await readNewestStamp(deps.database, feed, time, { expected: true })) ?? undefined),
    knownIds: (window) => readKnownIds(deps.database, feed, window, knownIdsMax),
    ask: async (at) => {
      const finer = finerGranularity;
      finerGranularity = undefined;
      if (finer !== undefined) await deps.transaction((tx) => learnProfile(tx, feed, { granularityMicros: finer }));
      await deps.pace?.();
      await deps.meanwhile?.();
      // A reading that ended for lack of quota would begin with the same windows again, and spend the next quota on them.
      const page = await reader.read(at, { waitsForQuota: true, meanwhile: deps.meanwhile });
      for (const [name, objects] of Object.entries(page.includes))
        includes[name] = [...(includes[name] ?? []), ...objects];
      // The earliest of several answers counts: an object requested later may be newer than it says, never older.
      observed ??= page.observed;
      const records = page.records.map((record, index) => ({ ...readVersionKey(record, feed.feed, index), record }));
      return { records, next: page.next, tookMs: page.tookMs };
    },
  });
  for await (const step of steps) {
    yield {
      rows: step.records,
      records: step.records.map(({ record }) => record),
      complete: step.complete,
      completeTo: () => step.complete?.to,
      shown: step.shown ?? new Set(step.records.map(({ id }) => id)),
      includes,
      observed: observed ?? range.to,
    };
    includes = {};
    observed = undefined;
  }
}
