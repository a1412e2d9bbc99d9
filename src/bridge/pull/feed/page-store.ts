/**
 * Stores what was read of a feed. One transaction holds the versions, the related objects, the documents that they mark
 * as due, and the watermark: a kill leaves all of a page, or nothing of it.
 */

import { readVersionKey } from '#bridge/mirror/read-version.ts';
import { type RecordsToStore, type StoredPage, storeRecords } from '#bridge/mirror/store-records.ts';
import { storeIncludes } from '#bridge/mirror/store-resources.ts';
import type { FeedName } from '#contract/feed.ts';
import { addMicros, type Timestamp } from '#contract/timestamp.ts';
import { type Clock, timestampNow } from '#platform/clock.ts';
import type { Sql } from '#platform/database/sql.ts';
import { AppError } from '#platform/errors.ts';
import type { Logger } from '#platform/log.ts';
import type { Counter } from '#platform/metrics.ts';
import { type FeedId, moveWatermark } from './checkpoint-store.ts';
import type { PulledPage } from './feed-reader.ts';

export interface PageToStore {
  readonly records: readonly Record<string, unknown>[];
  /** The next page is read at once: flows are woken after it, so that an award of many lots is usually sent whole. */
  readonly next?: string | undefined;
  readonly includes: PulledPage['includes'];
  /** When the page was requested. */
  readonly observed: Timestamp;
  /**
   * Is called with the stamps of the records, and returns the stamp up to which the mirror is complete once they are
   * stored; undefined when the page proves nothing of that kind.
   */
  readonly completeTo?: (stamps: readonly Timestamp[]) => Timestamp | undefined;
  /** Runs in the same transaction, after the records were stored. */
  readonly afterRecords?: (
    tx: Sql,
    stored: { readonly changed: number; readonly changedWithoutTime: number },
  ) => Promise<void>;
}

/** What storing a page has changed. */
export interface PageResult {
  /** The stamp of each record, in the page's order. */
  readonly stamps: readonly Timestamp[];
  readonly changed: number;
}

/** Rejects with AppError `invalid` when a record cannot be stored at all; its text says what an operator can do. */
export type StorePage = (page: PageToStore) => Promise<PageResult>;

export function createPageStore(deps: {
  feed: FeedId & { feed: FeedName };
  /** The id of the pull that reads the pages. */
  pull: string;
  latenessMs: number;
  /** A transaction that rejects when the work no longer belongs to this process. */
  transaction: <T>(work: (tx: Sql) => Promise<T>) => Promise<T>;
  database: Sql;
  clock: Clock;
  log: Logger;
  records: Counter<'feed' | 'result'>;
  wakeFlows: () => void;
}): StorePage {
  const { feed, pull, clock, log } = deps;
  const refreshStatistics = createStatisticsRefresh(deps.database, log);
  /** Something was stored for which no flow was woken yet. */
  let hasNews = false;

  async function storeIn(tx: Sql, page: PageToStore) {
    const now = timestampNow(clock);
    const { records, includes, observed } = page;
    const shownSince = addMicros(observed, -deps.latenessMs * 1_000);
    const stored = await storeReadable(tx, { ...feed, records, now, shownSince, pull });
    const related = await storeIncludes(tx, { source: feed.source, pull, now, includes, observed });
    const { stamps, changed, changedWithoutTime } = stored;
    const completeTo = page.completeTo?.(stamps);
    if (completeTo !== undefined) await moveWatermark(tx, feed, completeTo);
    await page.afterRecords?.(tx, { changed, changedWithoutTime });
    return { ...stored, related };
  }

  return async (page) => {
    const { stamps, changed, related, unreadable } = await deps.transaction((tx) => storeIn(tx, page));
    deps.records.inc({ feed: feed.feed, result: 'changed' }, changed);
    deps.records.inc({ feed: feed.feed, result: 'known' }, Math.max(0, page.records.length - changed));
    if (unreadable.length > 0) {
      deps.records.inc({ feed: feed.feed, result: 'unreadable' }, unreadable.length);
      log.warn({ ...feed, count: unreadable.length }, `records are not as documented: ${unreadable[0]}`);
    }
    hasNews ||= changed + related > 0;
    if (hasNews && page.next === undefined) {
      hasNews = false;
      deps.wakeFlows();
    }
    refreshStatistics(changed);
    return { stamps, changed };
  };
}

/**
 * Stores the records; rejects with an error that says what an operator can do about one that cannot be stored at all.
 */
async function storeReadable(tx: Sql, page: RecordsToStore): Promise<StoredPage> {
  try {
    return await storeRecords(tx, page);
  } catch (error) {
    if (!(error instanceof AppError) || error.code !== 'invalid') throw error;
    const { source, feed, records } = page;
    const stamps = records.flatMap((record, index) => stampOf(record, feed, index));
    const around = stamps.length > 0 ? ` It is on a page with times from ${stamps[0]} to ${stamps.at(-1)}.` : '';
    throw new AppError(
      'invalid',
      `${error.publicMessage}${around} The feed waits for it: have it fixed at the source, or step over it with ` +
        `"bridge checkpoint set ${source}/${feed} <a time after it>".`,
      { cause: error, issues: error.issues, recovery: { do: 'halt' } },
    );
  }
}

/** The record's stamp as a list of one; empty when it cannot be read. */
function stampOf(record: Record<string, unknown>, feed: FeedName, index: number): Timestamp[] {
  try {
    return [readVersionKey(record, feed, index).modified];
  } catch {
    return [];
  }
}

/** The statistics are checked after so many records, and again each time there are ten times as many. */
const firstCheckAfter = 1_000;
const checkAgainFactor = 10;

/**
 * Returns a function that is called after each commit with the number of changed records, and keeps the query planner's
 * statistics of the mirror fresh. PostgreSQL analyses its tables once a minute; a first read stores a million records
 * in that time. As long as the planner takes the table for empty, it scans the whole table for each page. The next pages
 * do not wait for it: at 100,000 records it takes as long as five of them.
 */
function createStatisticsRefresh(sql: Sql, log: Logger): (changed: number) => void {
  let stored = 0;
  let nextCheck = firstCheckAfter;

  async function refresh(): Promise<void> {
    const [known] = await sql.query<{ rows: number }>(
      `select reltuples::float8 as rows from pg_class where oid = 'bridge.mirror'::regclass`,
    );
    // With `skip_locked` a process does not wait while another one analyses the same table.
    if (known && known.rows < stored) await sql.query('analyze (skip_locked) bridge.mirror, bridge.flow_documents');
  }

  return (changed) => {
    stored += changed;
    if (stored < nextCheck) return;
    nextCheck = stored * checkAgainFactor;
    // PostgreSQL does it later by itself.
    refresh().catch((err: unknown) => log.warn({ err }, 'the statistics of the mirror could not be refreshed'));
  };
}
