/**
 * Stores what was read of a feed: in one transaction the versions, the related objects, the documents that they mark, the
 * versions in suspectVersions and the watermark. A kill leaves all of a page, or nothing.
 */

import { createFreshStatistics } from '#bridge/mirror/fresh-statistics.ts';
import { readVersionKey, type Version, withoutTime } from '#bridge/mirror/read-version.ts';
import { type StoredPage, storeRecords } from '#bridge/mirror/store-records.ts';
import { includedKinds, storeResources } from '#bridge/mirror/store-resources.ts';
import type { FeedName } from '#contract/feed.ts';
import type { Timestamp } from '#contract/timestamp.ts';
import { type Clock, timestampNow } from '#platform/clock.ts';
import type { Sql } from '#platform/database/database.ts';
import { AppError } from '#platform/errors.ts';
import type { Logger } from '#platform/log.ts';
import type { Counter } from '#platform/metrics.ts';
import { type FeedId, moveWatermark } from './checkpoint-store.ts';
import type { PulledPage } from './feed-reader.ts';
import { suspectVersions } from './suspect-versions.ts';

export interface PageToStore {
  readonly records: readonly Record<string, unknown>[];
  /** The records as the mirror takes them, where that has been worked out already. */
  readonly versions?: readonly Version[] | undefined;
  /** Called once while the database is at work. */
  readonly whileWriting?: () => void;
  readonly includes?: PulledPage['includes'];
  /** When it was asked for; needed with `includes`. */
  readonly observed?: Timestamp;
  /** Everything up to what it gives, of the records' times, is in the mirror then; undefined: it says nothing of that. */
  readonly completeTo?: (times: readonly Timestamp[]) => Timestamp | undefined;
  /** Whether versions older than those held are looked at again; the quick news leave that to the walk that settles. */
  readonly suspects: boolean | ((modified: Timestamp) => boolean);
  /** In the same transaction, after the records. */
  readonly also?: (tx: Sql, stored: { readonly changed: number }) => Promise<void>;
}

export interface KeptPage {
  readonly times: readonly Timestamp[];
  readonly changed: number;
  /** Where the watermark stands then; undefined when it was not to be moved. */
  readonly watermark: Timestamp | null | undefined;
}

export type StorePage = (page: PageToStore) => Promise<KeptPage>;

export function createPageStore(deps: {
  feed: FeedId & { feed: FeedName };
  latenessMs: number;
  /** A transaction that writes only while the work is still ours. */
  transaction: <T>(work: (tx: Sql) => Promise<T>) => Promise<T>;
  database: Sql;
  clock: Clock;
  log: Logger;
  records: Counter<'feed' | 'result'>;
  wakeFlows: () => void;
}): StorePage {
  const { feed, clock, log } = deps;
  const keepStatistics = createFreshStatistics(deps.database);
  return async (page) => {
    const { stored, believed, resources, watermark } = await deps.transaction(async (tx) => {
      const now = timestampNow(clock);
      const stored = await storeReadable(tx, feed, page, now);
      // One without a time has no place where it could be looked for again.
      const { suspects } = page;
      const isSuspect = typeof suspects === 'boolean' ? () => suspects : suspects;
      const older = stored.older.filter(({ modified }) => modified > withoutTime && isSuspect(modified));
      const shown = await suspectVersions(tx, feed, older, { now, latenessMs: deps.latenessMs });
      const records = shown.map(({ body }) => JSON.parse(body) as Record<string, unknown>);
      const believed = await storeRecords(tx, { ...feed, records, now }, { believeOlder: true });
      const resources = await storeIncludes(tx, feed.source, page, now);
      const completeTo = page.completeTo?.(stored.times);
      const watermark = completeTo === undefined ? undefined : await moveWatermark(tx, feed, completeTo);
      await page.also?.(tx, { changed: stored.changed + believed.changed });
      return { stored, believed, resources, watermark };
    });
    const changed = stored.changed + believed.changed;
    deps.records.inc({ feed: feed.feed, result: 'changed' }, changed);
    deps.records.inc({ feed: feed.feed, result: 'known' }, Math.max(0, page.records.length - changed));
    if (stored.unreadable.length > 0) {
      deps.records.inc({ feed: feed.feed, result: 'unreadable' }, stored.unreadable.length);
      log.warn({ ...feed, count: stored.unreadable.length }, `records are not as documented: ${stored.unreadable[0]}`);
    }
    if (changed + resources > 0) deps.wakeFlows();
    await keepStatistics(changed);
    return { times: stored.times, changed, watermark };
  };
}

/** Gives how many have changed. */
async function storeIncludes(tx: Sql, source: string, page: PageToStore, now: Timestamp): Promise<number> {
  const { includes, observed } = page;
  if (includes === undefined || observed === undefined) return 0;
  let changed = 0;
  for (const [name, kind] of Object.entries(includedKinds)) {
    const objects = includes[name];
    if (objects === undefined || objects.length === 0) continue;
    changed += (await storeResources(tx, { source, kind, objects, observed, now })).changed;
  }
  return changed;
}

/** Stores the records; throws an error that says what a person can do about one that cannot be stored at all. */
async function storeReadable(
  tx: Sql,
  feed: FeedId & { feed: FeedName },
  { records, versions, whileWriting }: PageToStore,
  now: Timestamp,
): Promise<StoredPage> {
  try {
    const read = versions === undefined ? { records } : { versions };
    return await storeRecords(tx, { ...feed, ...read, now }, whileWriting === undefined ? {} : { whileWriting });
  } catch (error) {
    if (!(error instanceof AppError) || error.code !== 'invalid') throw error;
    const times = records.flatMap((record, index) => timeOf(record, feed.feed, index));
    const around = times.length > 0 ? ` It stands on a page with times from ${times[0]} to ${times.at(-1)}.` : '';
    throw new AppError(
      'invalid',
      `${error.publicMessage}${around} The feed waits for it: have it mended at the source, or step over it with ` +
        `"bridge checkpoint set ${feed.source}/${feed.feed} <a time after it>".`,
      { cause: error, issues: error.issues, recovery: { do: 'halt' } },
    );
  }
}

function timeOf(record: Record<string, unknown>, feed: FeedName, index: number): Timestamp[] {
  try {
    return [readVersionKey(record, feed, index).modified];
  } catch {
    return [];
  }
}
