/**
 * Connects the window scan to a feed: it requests pages from the source, compares them with the mirror, and adds the
 * related objects of the answers to the records. Nothing is stored here.
 */

import { readVersionKey } from '#bridge/mirror/read-version.ts';
import type { SourceSettings } from '#bridge/settings/settings.ts';
import { msFromTimestamp, type Timestamp } from '#contract/timestamp.ts';
import type { Clock } from '#platform/clock.ts';
import type { Sql } from '#platform/database/sql.ts';
import { type FeedId, rememberGranularity } from '../feed/checkpoint-store.ts';
import type { FeedReader } from '../feed/feed-reader.ts';
import { readKnownIds, readNewestStamp } from '../feed/held-records.ts';
import type { StorePage } from '../feed/page-store.ts';
import type { EmptyPages, ScannedRow, ScannedWindow } from './scan-types.ts';
import { scanWindows } from './window-scan.ts';

/** What scanning a feed in windows needs. */
export interface ScanDeps {
  readonly feed: FeedId;
  readonly reader: FeedReader;
  readonly store: StorePage;
  readonly database: Sql;
  readonly transaction: <T>(work: (tx: Sql) => Promise<T>) => Promise<T>;
  readonly latenessMs: number;
  readonly granularityMicros: number | undefined;
  readonly emptyPages: EmptyPages;
  readonly clock: Clock;
  /** Called before each request; may wait. */
  readonly pace?: () => Promise<void>;
  /** Called before each request, and now and then while one waits for the quota. */
  readonly meanwhile?: () => Promise<void>;
}

/** A record as it was read, with its id and its stamp. */
export interface ScannedRecord extends ScannedRow {
  readonly record: Record<string, unknown>;
}

/** What one step of a scan has read, with the related objects of the answers that showed it. */
export interface ScanStep extends ScannedWindow<ScannedRecord> {
  readonly includes: Record<string, readonly Record<string, unknown>[]>;
  /** When the first of these answers was requested. */
  readonly observed: Timestamp;
}

/** How many pages without a record are followed, by the source's settings. */
export function emptyPagesOf(source: SourceSettings): EmptyPages {
  return { count: source.empty_pages, ms: source.empty_pages_seconds * 1_000 };
}

/** A window with more rows than this fits no page, so it is not needed which rows they are. */
const knownIdsMax = 2_000;

/** Scans (from, to] of the feed; see `scanWindows`. */
export async function* scanFeed(
  deps: Omit<ScanDeps, 'store' | 'latenessMs'>,
  range: { from: Timestamp | undefined; to: Timestamp },
): AsyncGenerator<ScanStep> {
  const { feed, reader } = deps;
  let includes: Record<string, readonly Record<string, unknown>[]> = {};
  let observed: Timestamp | undefined;
  let finerGranularity: number | undefined;
  const scan = scanWindows<ScannedRecord>({
    ...range,
    granularityMicros: deps.granularityMicros,
    emptyPages: deps.emptyPages,
    pageSize: () => reader.pageSize(),
    cap: reader.cap,
    onFinerGranularity: (micros) => {
      finerGranularity = micros;
    },
    knownIds: (window) => readKnownIds(deps.database, feed, window, knownIdsMax),
    anchor: async (time) => (await readNewestStamp(deps.database, feed, time, { expected: true })) ?? undefined,
    ask: async (at) => {
      const finer = finerGranularity;
      finerGranularity = undefined;
      if (finer !== undefined) await deps.transaction((tx) => rememberGranularity(tx, feed, finer));
      await deps.pace?.();
      await deps.meanwhile?.();
      // A scan that ended for lack of quota would begin with the same windows again, and spend the next quota on them.
      const page = await reader.read(at, { waitsForQuota: true, meanwhile: deps.meanwhile });
      for (const [name, objects] of Object.entries(page.includes))
        includes[name] = [...(includes[name] ?? []), ...objects];
      // The earliest of several answers counts: an object requested later may be newer than it says, never older.
      observed ??= page.observed;
      const records = page.records.map((record, index) => ({
        ...readVersionKey(record, feed.feed, index),
        record,
      }));
      return { records, next: page.next, tookMs: deps.clock.nowMs() - msFromTimestamp(page.observed) };
    },
  });
  for await (const window of scan) {
    yield { ...window, includes, observed: observed ?? range.to };
    includes = {};
    observed = undefined;
  }
}
