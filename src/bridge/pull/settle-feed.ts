/**
 * Settling a feed that does not declare its order: moves its watermark over ranges that are closed. See
 * `careful-walk.ts` for what makes that safe.
 */
import type { FeedPage, FeedWindow } from '#client/source-client.ts';
import { microsFromTimestamp, type Timestamp, timestampFromMs } from '#contract/timestamp.ts';
import type { Sql } from '#platform/database/database.ts';
import { readVersionKey } from '../mirror/store-records.ts';
import { cutOf, settle } from './careful-walk.ts';
import { type FeedId, markSettled, readUnsettled } from './checkpoint-store.ts';

export interface SettleRequest {
  feed: FeedId;
  watermark: Timestamp | null;
  latenessMs: number;
  pageSize: number;
  nowMs: number;
  /** What the source's clock had passed, by the last page read; undefined when it gives none. */
  sourceMs: number | undefined;
  transaction: <T>(work: (tx: Sql) => Promise<T>) => Promise<T>;
  readPage: (at: FeedWindow | { next: string }) => Promise<FeedPage>;
  /** Stores the records; everything up to `completeTo`, when given, is in the mirror then. */
  store: (records: readonly Record<string, unknown>[], completeTo: Timestamp | undefined) => Promise<void>;
}

const beginning: Timestamp = '1970-01-01T00:00:00.000000Z';

/** Settles what is closed by now, at most every half lateness. Gives when to look again; undefined when nothing is open. */
export async function settleFeed(request: SettleRequest): Promise<{ againMs: number } | undefined> {
  const { feed, nowMs, latenessMs, pageSize } = request;
  const known = await request.transaction((tx) => readUnsettled(tx, feed, timestampFromMs(nowMs - latenessMs)));
  const from = request.watermark ?? beginning;
  if (known.newest === null || known.newest <= from) return undefined;
  const againMs = nowMs + latenessMs / 2;
  if (known.settled !== null && known.settled > timestampFromMs(nowMs - latenessMs / 2)) return { againMs };
  const cut = cutOf({
    sentMicros: nowMs * 1_000,
    sourceMicros: request.sourceMs === undefined ? undefined : request.sourceMs * 1_000,
    latenessMicros: latenessMs * 1_000,
    seenLongAgo: known.seenLongAgo ?? undefined,
  });
  if (cut !== undefined && microsFromTimestamp(cut) > microsFromTimestamp(from)) {
    const walk = settle({
      from,
      cut,
      ask: async (at) => {
        const page = await request.readPage(
          'next' in at ? at : { modifiedAfter: at.after, modifiedBefore: at.before, pageSize },
        );
        const records = page.records.map((record, index) => ({ ...readVersionKey(record, feed.feed, index), record }));
        return { records, next: page.next };
      },
    });
    for await (const { records, completeTo } of walk)
      await request.store(
        records.map(({ record }) => record),
        completeTo,
      );
  }
  await request.transaction((tx) => markSettled(tx, feed, timestampFromMs(nowMs)));
  return cut === known.newest ? undefined : { againMs };
}
