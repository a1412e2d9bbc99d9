/**
 * Samples of what the bridge does, for charts over an hour, a day and a week: changes and lag of each feed; deliveries,
 * lag and dead letters of each flow. They are kept in SQL, a row a minute, and rolled up in the same transaction to ten
 * minutes and to an hour.
 *
 * Example: at 10:05:02 the minute 10:04 has ended. Its rows say how many versions of `main/awards` were stored since the
 * row of 10:03 was written, how far the feed is behind now, and how many writes the ERP of each flow accepted between
 * 10:04:00 and 10:05:00. The rows of 10:00 (ten minutes) and 10:00 (an hour) are made anew of the minutes.
 *
 * One process samples at a time, under a lease. A minute in which no process ran has no row: a gap in the chart. A kill
 * leaves a minute with all of its rows or none, and the next process counts the minutes that were missed, apart from
 * their lag.
 */
import { msFromTimestamp, type Timestamp, timestampFromMs } from '#contract/timestamp.ts';
import { type Clock, timestampNow } from '#platform/clock.ts';
import type { Sql } from '#platform/database/sql.ts';
import { firstIdAt } from '#platform/time-ordered-id.ts';
import { type AcquireLease, unlessLost } from '../leases/lease.ts';
import type { BridgeSettings } from '../settings.ts';
import { readProgress } from './status.ts';

const minuteMs = 60_000;
const hourMs = 60 * minuteMs;

/** How long a row is about, and how long it is kept. Each but the first is made of the rows of the one before it. */
const steps = [
  { seconds: 60, keptMs: 3 * hourMs },
  { seconds: 600, keptMs: 3 * 24 * hourMs },
  { seconds: 3_600, keptMs: 35 * 24 * hourMs },
] as const;

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
/** After a standstill no more than this is counted: the older minutes would be pruned soon anyway. */
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
      const now = timestampNow(clock);
      const status = await readProgress(database, { settings, now });
      const seen: SeenSubject[] = [
        ...status.feeds.map(({ source, feed, lag }) => ({
          subject: 'feed' as const,
          name: `${source}/${feed}`,
          lagSeconds: lag.seconds,
          deadLetters: null,
        })),
        ...status.flows.map(({ flow, lag, deadLetters }) => ({
          subject: 'flow' as const,
          name: flow,
          lagSeconds: lag.seconds,
          deadLetters,
        })),
      ];
      await unlessLost(lease.transaction((tx) => writeSample(tx, lastMinuteMs, seen)));
      sampledMs = lastMinuteMs;
    } finally {
      await lease.release();
    }
  };
}

/** What is seen of a feed or a flow at the end of a minute. */
export interface SeenSubject {
  readonly subject: 'feed' | 'flow';
  /** `<source>/<feed>`, or the name of the flow. */
  readonly name: string;
  /** Null: not known. */
  readonly lagSeconds: number | null;
  /** Null for a feed. */
  readonly deadLetters: number | null;
}

/**
 * Writes the sample of the minute that begins at `minuteBeginMs`, rolls it up, and deletes what is old. Does nothing when
 * the minute has been sampled.
 */
export async function writeSample(tx: Sql, minuteBeginMs: number, seen: readonly SeenSubject[]): Promise<void> {
  const at = timestampFromMs(minuteBeginMs);
  const [last] = await tx.query<{ at: Timestamp | null; sampled: boolean }>(
    `select max(at) filter (where at < $1) as at, coalesce(bool_or(at = $1), false) as sampled
     from bridge.samples where seconds = 60`,
    [at],
  );
  if (last?.sampled) return;
  const lastMs = last?.at ? msFromTimestamp(last.at) : minuteBeginMs;
  const fromMs = Math.max(lastMs - recountedMinutes * minuteMs, minuteBeginMs - missedMsMax);
  await insertMinute(tx, at, seen);
  await countDeliveries(tx, fromMs, minuteBeginMs + minuteMs);
  for (const [index, { seconds }] of steps.entries()) {
    const finer = steps[index - 1];
    if (finer) await rollUp(tx, { from: finer.seconds, to: seconds }, fromMs);
  }
  // A clock that was set back leaves rows in the future.
  for (const { seconds, keptMs } of steps)
    await tx.query('delete from bridge.samples where seconds = $1 and (at < $2 or at > $3)', [
      seconds,
      timestampFromMs(minuteBeginMs - keptMs),
      at,
    ]);
}

/** A feed that has no earlier row counts from here: its first sync would dwarf everything after it. */
async function insertMinute(tx: Sql, at: Timestamp, seen: readonly SeenSubject[]): Promise<void> {
  await tx.query(
    `insert into bridge.samples (seconds, at, subject, name, lag_seconds, dead_letters, total, count)
     select 60, $1, s.subject, s.name, s.lag_seconds, s.dead_letters, c.changes,
       greatest(0, coalesce(c.changes - (select b.total from bridge.samples b
         where b.seconds = 60 and b.subject = 'feed' and b.name = s.name and b.at < $1 and b.total is not null
         order by b.at desc limit 1), 0))
     from unnest($2::text[], $3::text[], $4::float8[], $5::int[]) as s (subject, name, lag_seconds, dead_letters)
     left join bridge.checkpoints c on s.subject = 'feed' and c.source || '/' || c.feed = s.name
     on conflict do nothing`,
    [
      at,
      seen.map(({ subject }) => subject),
      seen.map(({ name }) => name),
      seen.map(({ lagSeconds }) => lagSeconds),
      seen.map(({ deadLetters }) => deadLetters),
    ],
  );
}

/** Sets the counts of all minutes in the range: counting them twice changes nothing. */
async function countDeliveries(tx: Sql, fromMs: number, toMs: number): Promise<void> {
  await tx.query(
    `insert into bridge.samples as s (seconds, at, subject, name, count)
     select 60, date_bin('1 minute', ended, 'epoch'), 'flow', flow, count(*)
     from bridge.attempts
     where id >= $1 and ended >= $2 and ended < $3 and outcome in ('created', 'updated', 'cancelled')
     group by 2, 4
     on conflict (seconds, at, subject, name) do update set count = excluded.count`,
    [firstIdAt(fromMs - attemptMsMax), timestampFromMs(fromMs), timestampFromMs(toMs)],
  );
}

/** Makes the longer rows from `fromMs` on anew of the shorter ones, all of which are still there. */
async function rollUp(tx: Sql, { from, to }: { from: number; to: number }, fromMs: number): Promise<void> {
  await tx.query(
    `insert into bridge.samples as s (seconds, at, subject, name, count, lag_seconds, dead_letters)
     select $2::int, date_bin($2::int * interval '1 second', at, 'epoch'), subject, name, sum(count), max(lag_seconds),
       max(dead_letters)
     from bridge.samples where seconds = $1 and at >= $3
     group by 2, 3, 4
     on conflict (seconds, at, subject, name) do update
       set count = excluded.count, lag_seconds = excluded.lag_seconds, dead_letters = excluded.dead_letters`,
    [from, to, timestampFromMs(floorTo(fromMs, to * 1000))],
  );
}

export interface Samples {
  readonly range: SampleRange;
  readonly stepSeconds: number;
  /** The first and the last step of the range; the last may still grow. Steps without a sample are left out below. */
  readonly from: Timestamp;
  readonly to: Timestamp;
  readonly feeds: readonly { source: string; feed: string; points: readonly FeedPoint[] }[];
  readonly flows: readonly { flow: string; points: readonly FlowPoint[] }[];
}

export interface FeedPoint {
  /** The beginning of the step. */
  readonly at: Timestamp;
  /** Changed versions that were stored in this step. */
  readonly changes: number;
  /** The longest lag in this step; null: not known. */
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
    subject: 'feed' | 'flow';
    name: string;
    at: Timestamp;
    count: number;
    lagSeconds: number | null;
    deadLetters: number | null;
  }>(
    `select subject, name, at, count::float8 as count, lag_seconds as "lagSeconds", dead_letters as "deadLetters"
     from bridge.samples where seconds = $1 and at >= $2 and at <= $3 order by subject, name, at`,
    [seconds, timestampFromMs(fromMs), timestampFromMs(toMs)],
  );
  const grouped = Map.groupBy(rows, ({ subject, name }) => `${subject} ${name}`);
  const feeds: { source: string; feed: string; points: FeedPoint[] }[] = [];
  const flows: { flow: string; points: FlowPoint[] }[] = [];
  for (const of of grouped.values()) {
    const { subject = 'flow', name = '' } = of[0] ?? {};
    if (subject === 'feed') {
      const [source = '', feed = ''] = name.split('/');
      feeds.push({
        source,
        feed,
        points: of.map(({ at, count, lagSeconds }) => ({ at, changes: count, lagSeconds })),
      });
    } else
      flows.push({
        flow: name,
        points: of.map(({ at, count, lagSeconds, deadLetters }) => ({
          at,
          deliveries: count,
          lagSeconds,
          deadLetters,
        })),
      });
  }
  return { range, stepSeconds: seconds, from: timestampFromMs(fromMs), to: timestampFromMs(toMs), feeds, flows };
}

function floorTo(ms: number, stepMs: number): number {
  return Math.floor(ms / stepMs) * stepMs;
}
