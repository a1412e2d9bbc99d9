/**
 * Advances the watermark of a feed that does not declare its order, by scanning the range up to the upper bound; and
 * reads ranges again that are due for it. `window-scan.ts` says why a scan proves that a range is complete,
 * `upper-bound.ts` why the range is closed. Example with a lateness of 30 s, where both clocks are right:
 *
 * | pull at  | newest stamp | first-seen bound | what happens                                   | watermark |
 * |----------|--------------|------------------|------------------------------------------------|-----------|
 * | 10:00:00 | 09:59:58     | -                | nothing was seen long enough: no scan          | -         |
 * | 10:00:20 | 10:00:15     | -                | no scan                                        | -         |
 * | 10:00:40 | 10:00:33     | 09:59:58         | the beginning up to 09:59:58 is scanned        | 09:59:58  |
 * | 10:00:50 | 10:00:33     | 09:59:58         | the last scan is 10 s old: wait until 10:00:55 | 09:59:58  |
 * | 10:01:10 | 10:01:02     | 10:00:33         | (09:59:58, 10:00:33] is scanned                | 10:00:33  |
 *
 * The live read has stored the newer records long before; the scan finds those that it missed.
 */

import { withoutTime } from '#bridge/mirror/read-version.ts';
import { retrySchedules, retryWaitMostMs, retryWaitMs } from '#bridge/settings/retry-schedules.ts';
import type { ClockDifference } from '#client/read-feed.ts';
import { addMicros, laterOf, msFromTimestamp, type Timestamp, timestampFromMs } from '#contract/timestamp.ts';
import { timestampNow } from '#platform/clock.ts';
import { markScanned, noteFirstSeen } from '../feed/checkpoint-store.ts';
import { readNewestStamp } from '../feed/held-records.ts';
import { readOffsetSamples, saveOffsetSamples } from '../feed/offset-samples.ts';
import {
  dropSuspectsNotShown,
  finishReread,
  postponeReread,
  type Reread,
  readDueRereads,
  scheduleReread,
} from '../feed/suspect-versions.ts';
import type { Range } from '../feed/time-range.ts';
import { keepSamples, offsetMsOf } from './clock-offset.ts';
import { type ScanDeps, scanFeed } from './scan-feed.ts';
import { defaultGranularityMicros, ScanStopped } from './scan-types.ts';
import { latestCredibleMs, upperBound } from './upper-bound.ts';

export interface AdvanceRequest extends ScanDeps {
  readonly watermark: Timestamp | null;
  readonly nowMs: number;
  /** A time that the source's clock had passed, by the last page read; undefined when its answers have no `Date`. */
  readonly sourceMs: number | undefined;
  /** By how much our clock was ahead of that answer's `Date`. */
  readonly clockDifference: ClockDifference | undefined;
  /** The newest stamp that the live read has shown; the mirror may hold a later version of that record by now. */
  readonly newestShown: Timestamp | undefined;
}

/** What an attempt to advance the watermark has come to. */
export interface Advance {
  /** When to scan next; undefined when the schedule is soon enough: nothing is left to scan, or the scan has stopped. */
  readonly nextScanMs: number | undefined;
  /**
   * Why the watermark stands still although newer records are known. Null when it has moved, or when nothing newer is
   * known; undefined when nothing was tried.
   */
  readonly stalledBy: string | null | undefined;
}

/** Scans up to the upper bound and advances the watermark, at most once in half the lateness. */
export async function advanceWatermark(request: AdvanceRequest): Promise<Advance> {
  const { feed, nowMs, latenessMs } = request;
  const latest = timestampFromMs(latestCredibleMs(request));
  const newestHeld = await readNewestStamp(request.database, feed, latest);
  const newest = laterOf(newestHeld ?? undefined, request.newestShown);
  // A record without a time lies in no window.
  const isTimed = newest !== undefined && newest > withoutTime;
  if (!isTimed || (request.watermark !== null && newest <= request.watermark))
    return { nextScanMs: undefined, stalledBy: null };
  const now = timestampFromMs(nowMs);
  const firstSeenBefore = timestampFromMs(nowMs - latenessMs);
  const { scanned, watermark, firstSeenBound } = await request.transaction((tx) =>
    noteFirstSeen(tx, feed, { newest, now, firstSeenBefore }),
  );
  // A last scan whose time is still to come was made before the clock was set back: it does not count.
  if (scanned !== null && scanned <= now && scanned > timestampFromMs(nowMs - latenessMs / 2))
    return { nextScanMs: msFromTimestamp(scanned) + latenessMs / 2, stalledBy: undefined };
  const offsetMs = await learnOffset(request, { since: scanned, latest });
  const to = upperBound({
    sentMicros: nowMs * 1_000,
    sourceMicros: request.sourceMs === undefined ? undefined : (request.sourceMs + offsetMs) * 1_000,
    latenessMicros: latenessMs * 1_000,
    granularityMicros: request.granularityMicros,
    firstSeenBound: firstSeenBound ?? undefined,
  });
  const { reached, stoppedBy } = await scanUpTo(request, watermark, to);
  await request.transaction((tx) => markScanned(tx, feed, now));
  const isBehind = reached === null || reached < newest;
  const hasMoved = reached !== null && (watermark === null || reached > watermark);
  return {
    nextScanMs: isBehind && stoppedBy === undefined ? nowMs + latenessMs / 2 : undefined,
    stalledBy: !isBehind || hasMoved ? null : (stoppedBy ?? waitsFor(to, latenessMs)),
  };
}

function waitsFor(to: Timestamp | undefined, latenessMs: number): string {
  return (
    `records may still appear after ${to ?? 'any time so far'}, which is the upper bound: the lateness bound of ` +
    `${latenessMs / 1_000} s before the clocks of the source and of this machine`
  );
}

/**
 * Takes samples of the records that were new since the last scan, and returns by how much the clock of the stamps is
 * ahead of `Date` (`clock-offset.ts`).
 */
async function learnOffset(
  { transaction, feed, clockDifference: difference, nowMs, latenessMs, granularityMicros }: AdvanceRequest,
  { since, latest }: { since: Timestamp | null; latest: Timestamp },
): Promise<number> {
  if (difference === undefined || since === null) return 0;
  // Older records are read for the first time, or again: they say nothing of the clock.
  const earliest = timestampFromMs(nowMs - difference.mostMs - 2 * latenessMs - newRecordsMs);
  return transaction(async (tx) => {
    const { samples, agesMs } = await readOffsetSamples(tx, feed, { since, earliest, latest });
    const kept = keepSamples([...samples, { agesMs, difference }], difference);
    await saveOffsetSamples(tx, feed, kept);
    return offsetMsOf(kept, difference, { roundingMs: (granularityMicros ?? defaultGranularityMicros) / 1_000 });
  });
}

/** How long before the closed range a record may be stamped to be a sample; longer than scans are apart. */
const newRecordsMs = 60_000;

/**
 * Scans (watermark, to] and returns where the watermark stands afterwards. Where that is before `to`, `stoppedBy` says
 * why: a version is suspect, and is read again at its own time; or the source does not let the scan go on, and the next
 * pull on schedule asks again.
 */
async function scanUpTo(
  request: AdvanceRequest,
  watermark: Timestamp | null,
  to: Timestamp | undefined,
): Promise<{ reached: Timestamp | null; stoppedBy?: string }> {
  let reached = watermark;
  if (to === undefined || (reached !== null && to <= reached)) return { reached };
  try {
    for await (const step of scanFeed(request, { from: watermark ?? undefined, to })) {
      const { complete } = step;
      const result = await request.store({
        records: step.records.map(({ record }) => record),
        includes: step.includes,
        observed: step.observed,
        watchSuspects: true,
        completeTo: () => complete?.to,
        afterRecords: async (tx) => {
          if (complete && step.crowded) await scheduleReread(tx, request.feed, rereadOf(request, complete));
        },
      });
      if (result.watermark === undefined) continue;
      reached = result.watermark;
      if (complete && (reached === null || reached < complete.to))
        return {
          reached,
          stoppedBy: `an older version of a record is shown after ${reached ?? 'the beginning'}: it is believed once the source has shown it for the lateness bound`,
        };
    }
  } catch (error) {
    if (!(error instanceof ScanStopped)) throw error;
    return { reached, stoppedBy: error.publicMessage };
  }
  return { reached };
}

/** The clocks of our machines agree to within this, or one of them is wrong. */
const clockDifferenceMaxMs = 60_000;

/** A crowded stamp is read once more after the lateness bound, when no record can still appear at that stamp. */
function rereadOf(deps: ScanDeps & { readonly nowMs: number }, { after, to }: Range) {
  const { latenessMs, nowMs, granularityMicros = defaultGranularityMicros } = deps;
  return { after: after ?? addMicros(to, -granularityMicros), to, due: timestampFromMs(nowMs + latenessMs) };
}

/**
 * Reads the ranges again that are due for it: crowded stamps, and suspect versions, of which this read decides whether
 * they are believed or dropped. A range that cannot be read to its end, as the feed shows nothing that proves it, is tried
 * again, each time later. Rejects as the scan does; then it stays due.
 */
export async function rereadRanges(deps: ScanDeps & { nowMs: number }): Promise<void> {
  const { feed, nowMs } = deps;
  const now = timestampFromMs(nowMs);
  const longestMs = Math.max(deps.latenessMs, retryWaitMostMs(retrySchedules.reread));
  const latest = timestampFromMs(nowMs + longestMs + clockDifferenceMaxMs);
  for (const range of await readDueRereads(deps.database, feed, { now, latest })) {
    const { changed, crowded, reached } = await readAgain(deps, range);
    await deps.transaction(async (tx) => {
      // Where the feed has answered with nothing at all, nothing is known about the suspect versions.
      if (reached < range.to) {
        const waitMs = retryWaitMs(retrySchedules.reread, range.tries, { floorMs: deps.latenessMs });
        await postponeReread(tx, feed, range, { now, latest, due: timestampFromMs(nowMs + waitMs) });
        return;
      }
      await finishReread(tx, feed, range, { now, latest });
      await dropSuspectsNotShown(tx, feed, { ...range, since: now, now: timestampNow(deps.clock) });
      if (crowded && changed > 0) await scheduleReread(tx, feed, rereadOf(deps, range));
    });
  }
}

/** Scans and stores one range; `reached` is the stamp up to which it was read completely. */
async function readAgain(deps: ScanDeps, { after, to }: Reread) {
  let changed = 0;
  let crowded = false;
  let reached = after;
  try {
    for await (const step of scanFeed(deps, { from: after, to })) {
      const result = await deps.store({
        records: step.records.map(({ record }) => record),
        includes: step.includes,
        observed: step.observed,
        watchSuspects: true,
      });
      // A crowded stamp comes in several steps.
      changed += result.changed;
      crowded ||= step.crowded;
      if (step.complete) reached = step.complete.to;
    }
  } catch (error) {
    if (!(error instanceof ScanStopped)) throw error;
  }
  return { changed, crowded, reached };
}
