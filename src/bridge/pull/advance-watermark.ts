/**
 * Advances the watermark of a feed that does not declare its order, by reading the range between it and the closed bound
 * in windows. `range/read-range.ts` says why that proves the range to be complete, `range/closed-bound.ts` why it is
 * closed. Example with a lateness of 30 s, where both clocks are right:
 *
 * | pull at  | newest stamp | first-seen bound | what happens                                | watermark |
 * |----------|--------------|------------------|---------------------------------------------|-----------|
 * | 10:00:00 | 09:59:58     | -                | nothing was seen long enough                | -         |
 * | 10:00:15 | 10:00:15     | -                | nothing was seen long enough                | -         |
 * | 10:00:30 | 10:00:28     | 09:59:58         | the beginning up to 09:59:58 is read        | 09:59:58  |
 * | 10:00:45 | 10:00:28     | 09:59:58         | nothing is left to read                     | 09:59:58  |
 * | 10:01:00 | 10:00:58     | 10:00:28         | (09:59:58, 10:00:28] is read                | 10:00:28  |
 */

import { withoutTime } from '#bridge/mirror/read-version.ts';
import type { Timestamp } from '#contract/timestamp.ts';
import { moveWatermark } from './feed/checkpoint-store.ts';
import { readNewestStamp } from './feed/held-records.ts';
import type { Pull } from './pull.ts';
import { closedBound, type FirstSeen, latestCredible, noteFirstSeen } from './range/closed-bound.ts';
import { ReadingStopped } from './range/range-types.ts';
import { readFeedRange } from './range/read-feed-range.ts';
import type { News } from './read-news.ts';

/** What an attempt to advance the watermark has come to. */
interface Advance {
  /** Records newer than the watermark are known, and more of them become closed by themselves. */
  readonly isOpen: boolean;
  readonly firstSeen: FirstSeen;
  /** Why the watermark stands still although newer records are known; null: it does not; undefined: nothing was tried. */
  readonly stalledBy: string | null | undefined;
}

/** After a read of the news. A pull that only a notification asked for leaves the rest to the next one on schedule. */
export async function advanceWatermark(
  pull: Pull & { readonly meanwhile: () => Promise<void> },
  news: News,
): Promise<Advance> {
  const { feed, due, database, transaction, latenessMs, startedMs, clock } = pull;
  const { watermark } = due;
  const newest = await readNewestStamp(database, feed, latestCredible(clock.nowMs(), latenessMs));
  // A record without a time lies in no window.
  if (newest === null || newest === withoutTime || (watermark !== null && newest <= watermark))
    return { isOpen: false, firstSeen: due.firstSeen, stalledBy: null };
  const seenBeforeMs = startedMs - latenessMs;
  const firstSeen = noteFirstSeen(due.firstSeen, { newest, nowMs: clock.nowMs(), seenBeforeMs });
  if (!due.scheduled) return { isOpen: true, firstSeen, stalledBy: undefined };
  const { sourceMs } = news;
  const to = closedBound({ ...pull, nowMs: startedMs, sourceMs, firstSeen });
  if (to === undefined || (watermark !== null && to <= watermark))
    return { isOpen: true, firstSeen, stalledBy: waitsFor(to, latenessMs) };
  if (news.isComplete) {
    await transaction((tx) => moveWatermark(tx, feed, to));
    return { isOpen: to < newest, firstSeen, stalledBy: null };
  }
  const stalledBy = await readUpTo(pull, to);
  return { isOpen: stalledBy === null && to < newest, firstSeen, stalledBy };
}

function waitsFor(to: Timestamp | undefined, latenessMs: number): string {
  return (
    `records may still appear after ${to ?? 'any time so far'}: the feed is closed up to there, the lateness bound of ` +
    `${latenessMs / 1_000} s before the clocks of the source and of this machine`
  );
}

/** Returns why the watermark does not come to `to`; null where it does. */
async function readUpTo(pull: Pull, to: Timestamp): Promise<string | null> {
  try {
    for await (const step of readFeedRange(pull, { from: pull.due.watermark ?? undefined, to })) await pull.store(step);
    return null;
  } catch (error) {
    if (error instanceof ReadingStopped) return error.publicMessage;
    throw error;
  }
}
