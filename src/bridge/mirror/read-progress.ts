/** How far the reading of a range has come, by the times of its records, and about how long it goes on. */
import { laterOf, msFromTimestamp, type Timestamp } from '#contract/timestamp.ts';

interface RangeProgress {
  readonly from: Timestamp;
  readonly to: Timestamp;
  /** Everything of the range up to here was read. */
  readonly position: Timestamp;
  /** When the reading began. */
  readonly began: Timestamp;
}

/** `37 %, about 4 min left`; empty while nothing can be said. */
export function progressText({ from, to, position, began }: RangeProgress, now: Timestamp): string {
  const [fromMs, toMs, positionMs, beganMs, nowMs] = [from, to, position, began, now].map(msFromTimestamp);
  if (fromMs === undefined || toMs === undefined || positionMs === undefined) return '';
  if (beganMs === undefined || nowMs === undefined || toMs <= fromMs) return '';
  const share = (positionMs - fromMs) / (toMs - fromMs);
  if (share <= 0) return '';
  if (share >= 1) return '100 %';
  // A clock that was set back may say that it has not begun.
  const leftSeconds = (Math.max(0, nowMs - beganMs) * (1 - share)) / share / 1_000;
  return `${Math.floor(share * 100)} %, about ${durationText(leftSeconds)} left`;
}

/** A backfill or an audit. */
export interface RangeReading {
  readonly from: Timestamp;
  readonly to: Timestamp;
  /** Null before the first window. */
  readonly position: Timestamp | null;
  readonly asked: Timestamp;
  readonly finished: Timestamp | null;
  readonly cancelled: Timestamp | null;
  /** The oldest stamp that the mirror holds of the feed: what lies before it is read at once. */
  readonly oldest: Timestamp | null;
}

/** Selects `oldest` for a row `b` of `bridge.backfills`. */
export const oldestOfBackfill = `(select m.modified from bridge.mirror m where m.source = b.source and m.feed = b.feed
  and m.modified > 'epoch' order by m.modified limit 1) as oldest`;

/** The progress of a backfill or an audit; empty where it has ended. */
export function readingProgress(reading: RangeReading, now: Timestamp): string {
  const { from, to, position, asked, finished, cancelled, oldest } = reading;
  if (position === null || finished !== null || cancelled !== null) return '';
  return progressText({ from: laterOf(from, oldest ?? undefined) ?? from, to, position, began: asked }, now);
}

function durationText(seconds: number): string {
  if (seconds < 60) return `${Math.ceil(seconds)} s`;
  if (seconds < 3_600) return `${Math.ceil(seconds / 60)} min`;
  return `${(seconds / 3_600).toFixed(1)} h`;
}
