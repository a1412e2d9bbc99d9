/**
 * Samples of what the bridge does, for charts over an hour, a day and a week: changes and lag of all feeds together;
 * deliveries, lag and dead letters of each flow. A row a minute each is kept in SQL, for a hundred flows at most that
 * deliver nothing; reading adds the minutes up to the steps of the chart.
 *
 * Example: at 10:05:02 the minute 10:04 has ended. Its row of all feeds says how many versions were stored since the row
 * of 10:03 was written, and how far the feed furthest behind is behind now; that of each flow, how many writes its ERP
 * accepted between 10:04:00 and 10:05:00.
 *
 * One process samples at a time, under a lease. A minute in which no process ran has no row: a gap in the chart. A kill
 * leaves a minute with all of its rows or none, and the next process counts the minutes that were missed, apart from
 * their lag.
 */
import { type AcquireLease, unlessLost } from '#bridge/ledger/leases/lease.ts';
import { furthestBehind } from '#bridge/mirror/feed-lag.ts';
import type { BridgeSettings } from '#bridge/settings/settings.ts';
import { msFromTimestamp, type Timestamp, timestampFromMs } from '#contract/timestamp.ts';
import { type Clock, timestampNow } from '#platform/clock.ts';
import type { Sql } from '#platform/database/sql.ts';
import { firstIdAt } from '#platform/time-ordered-id.ts';
import { type BridgeStatus, readProgress } from './status.ts';

const minuteMs = 60_000;
const hourMs = 60 * minuteMs;
const keptMs = 8 * 24 * hourMs;
/** Of further flows the deliveries are counted. */
const flowsMax = 100;

/** The ranges of the charts: how far back they go, and in which steps. */
export const sampleRanges = {
  hour: { seconds: 60, spanMs: hourMs },
  day: { seconds: 600, spanMs: 24 * hourMs },
  week: { seconds: 3_600, spanMs: 7 * 24 * hourMs },
} as const;
export type SampleRange = keyof typeof sampleRanges;

/** Attempts of a minute may be committed after its end: this many minutes before the last are counted again. */
const recountedMinutes = 2;
/** An attempt's id is made before its work begins: so long before its end. */
const attemptMsMax = 15 * minuteMs;
/** After a standstill no more than this is counted. */
const missedMsMax = 2 * hourMs;

/**
 * Returns a function for the sweep: it takes the sample of the minute that has ended, unless this or another process has
 * taken it. Rejects when the database is not available; the next sweep tries again.
 */
export function createSampling(deps: {
  database: Sql;
  acquireLease: AcquireLease;
  clock: Clock;
  settings: Pick<BridgeSettings, 'sources'> & Partial<Pick<BridgeSettings, 'flows'>>;
}): () => Promise<void> {
  const { database, acquireLease, clock, settings } = deps;
  let sampledMs = Number.NEGATIVE_INFINITY;
  return async () => {
    const lastMinuteMs = floorTo(clock.nowMs(), minuteMs) - minuteMs;
    if (lastMinuteMs === sampledMs) return;
    const lease = await acquireLease('samples');
    // Another process takes it; this one looks again with the next sweep.
    if (!lease) return;
    try {
      const seen = await readProgress(database, { settings, now: timestampNow(clock) });
      await unlessLost(lease.transaction((tx) => writeSample(tx, lastMinuteMs, seen)));
      sampledMs = lastMinuteMs;
    } finally {
      await lease.release();
    }
  };
}

/** What is seen of the feeds and flows at the end of a minute. */
export interface SeenProgress {
  readonly feeds: readonly Pick<BridgeStatus['feeds'][number], 'lag'>[];
  readonly flows: readonly Pick<BridgeStatus['flows'][number], 'flow' | 'lag' | 'deadLetters'>[];
}

/**
 * Writes the sample of the minute that begins at `minuteBeginMs`, and deletes what is old. Does nothing when the minute
 * has been sampled.
 */
export async function writeSample(tx: Sql, minuteBeginMs: number, seen: SeenProgress): Promise<void> {
  const at = timestampFromMs(minuteBeginMs);
  const [last] = await tx.query<{ at: Timestamp | null; sampled: boolean }>(
    `select (select max(at) from bridge.samples where at < $1) as at,
       exists (select from bridge.samples where at = $1) as sampled`,
    [at],
  );
  if (last?.sampled) return;
  const lastMs = last?.at ? msFromTimestamp(last.at) : minuteBeginMs;
  const fromMs = Math.max(lastMs - recountedMinutes * minuteMs, minuteBeginMs - missedMsMax);
  await insertMinute(tx, at, seen);
  await countDeliveries(tx, fromMs, minuteBeginMs + minuteMs);
  // A clock that was set back leaves rows in the future.
  await tx.query('delete from bridge.samples where at < $1 or at > $2', [timestampFromMs(minuteBeginMs - keptMs), at]);
}

/** The changes are counted from the row before; without one they are counted from here. */
async function insertMinute(tx: Sql, at: Timestamp, { feeds, flows }: SeenProgress): Promise<void> {
  const known = feeds.flatMap(({ lag }) => (lag.seconds === null ? [] : [lag.seconds]));
  const longest = known.reduce((most, seconds) => Math.max(most, seconds), 0);
  await tx.query(
    `insert into bridge.samples (at, subject, name, lag_seconds, total, count)
     select $1, 'feeds', 'all', $2, now.total, greatest(0, now.total - coalesce(before.total, now.total))
     from (select coalesce(sum(changes), 0) as total from bridge.checkpoints) now
     left join lateral (select total from bridge.samples
       where subject = 'feeds' and at < $1 order by at desc limit 1) before on true`,
    [at, known.length === 0 ? null : longest],
  );
  const shown = furthestBehind(flows, flowsMax);
  await tx.query(
    `insert into bridge.samples (at, subject, name, lag_seconds, dead_letters)
     select $1, 'flow', * from unnest($2::text[], $3::float8[], $4::int[])`,
    [
      at,
      shown.map(({ flow }) => flow),
      shown.map(({ lag }) => lag.seconds),
      shown.map(({ deadLetters }) => deadLetters),
    ],
  );
}

/** Sets the counts of all minutes in the range: counting them twice changes nothing. */
async function countDeliveries(tx: Sql, fromMs: number, toMs: number): Promise<void> {
  await tx.query(
    `insert into bridge.samples as s (at, subject, name, count)
     select date_bin('1 minute', ended, 'epoch'), 'flow', flow, count(*)
     from bridge.attempts
     where id >= $1 and ended >= $2 and ended < $3 and outcome in ('created', 'updated', 'cancelled')
     group by 1, 3
     on conflict (at, subject, name) do update set count = excluded.count`,
    [firstIdAt(fromMs - attemptMsMax), timestampFromMs(fromMs), timestampFromMs(toMs)],
  );
}

export interface Samples {
  readonly range: SampleRange;
  readonly stepSeconds: number;
  /** The first and the last step of the range; the last may still grow. Steps without a sample are left out below. */
  readonly from: Timestamp;
  readonly to: Timestamp;
  /** Of all feeds together. */
  readonly feeds: readonly FeedPoint[];
  readonly flows: readonly { flow: string; points: readonly FlowPoint[] }[];
}

export interface FeedPoint {
  /** The beginning of the step. */
  readonly at: Timestamp;
  /** Changed versions that were stored in this step. */
  readonly changes: number;
  /** The longest lag of a feed in this step; null: not known. */
  readonly lagSeconds: number | null;
}

export interface FlowPoint {
  readonly at: Timestamp;
  /** Writes that the ERP accepted in this step: created, amended or cancelled. */
  readonly deliveries: number;
  readonly lagSeconds: number | null;
  /** The most in this step; null: not known. */
  readonly deadLetters: number | null;
}

/** Returns the samples of the last hour, day or week, oldest first. Rejects when the database is not available. */
export async function readSamples(sql: Sql, range: SampleRange, now: Timestamp): Promise<Samples> {
  const { seconds, spanMs } = sampleRanges[range];
  const toMs = floorTo(msFromTimestamp(now), seconds * 1000);
  const fromMs = toMs - spanMs + seconds * 1000;
  const rows = await sql.query<{
    subject: 'feeds' | 'flow';
    name: string;
    at: Timestamp;
    count: number;
    lagSeconds: number | null;
    deadLetters: number | null;
  }>(
    `select subject, name, date_bin($1::int * interval '1 second', at, 'epoch') as at, sum(count)::float8 as count,
       max(lag_seconds) as "lagSeconds", max(dead_letters) as "deadLetters"
     from bridge.samples where at >= $2 and at < $3
     group by 1, 2, 3 order by 1, 2, 3`,
    [seconds, timestampFromMs(fromMs), timestampFromMs(toMs + seconds * 1000)],
  );
  const flows = Map.groupBy(
    rows.filter(({ subject }) => subject === 'flow'),
    ({ name }) => name,
  );
  return {
    range,
    stepSeconds: seconds,
    from: timestampFromMs(fromMs),
    to: timestampFromMs(toMs),
    feeds: rows
      .filter(({ subject }) => subject === 'feeds')
      .map(({ at, count, lagSeconds }) => ({ at, changes: count, lagSeconds })),
    flows: [...flows].map(([flow, points]) => ({
      flow,
      points: points.map(({ at, count, lagSeconds, deadLetters }) => ({
        at,
        deliveries: count,
        lagSeconds,
        deadLetters,
      })),
    })),
  };
}

function floorTo(ms: number, stepMs: number): number {
  return Math.floor(ms / stepMs) * stepMs;
}
