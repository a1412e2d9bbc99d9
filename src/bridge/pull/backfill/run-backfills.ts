/**
 * Runs the backfills and audits of one feed: they read closed ranges of time, or the records without a time, beside the
 * pull, and do not touch its watermark. Each window is one transaction together with the backfill's position, so a kill
 * costs reading one window again; a pass over the records without a time begins again. The open backfills of a feed take
 * turns, and all of them together leave at least half of what the service allows in a minute to the pull.
 */

import { type Lease, LeaseLost } from '#bridge/ledger/leases/lease.ts';
import { withoutTime } from '#bridge/mirror/read-version.ts';
import { sourceLimit } from '#bridge/mirror/source/source-limit.ts';
import { retrySchedules, retryWaitMs } from '#bridge/settings/retry-schedules.ts';
import type { SourceSettings } from '#bridge/settings/settings.ts';
import type { FeedName } from '#contract/feed.ts';
import { addMicros, type Timestamp, timestampFromMicros, timestampFromMs } from '#contract/timestamp.ts';
import { type Clock, timestampNow } from '#platform/clock.ts';
import type { Sql } from '#platform/database/sql.ts';
import { AppError, askedToWaitMs, errorText } from '#platform/errors.ts';
import type { Counter } from '#platform/metrics.ts';
import { timeOrderedId } from '#platform/time-ordered-id.ts';
import { type FeedId, learnProfile, lockCheckpoint, readProfile, saveOrderBroken } from '../feed/checkpoint-store.ts';
import {
  createFeedReader,
  type FeedReader,
  includesToRequest,
  PagesTooLarge,
  type PulledPage,
} from '../feed/feed-reader.ts';
import { readNewestStamp } from '../feed/held-records.ts';
import { createPageStore, type StorePage } from '../feed/page-store.ts';
import { latenessMsOf, type ReadingDeps } from '../feed/reading-deps.ts';
import type { SourceProfile } from '../feed/source-profile.ts';
import { defaultGranularityMicros, ReadingStopped } from '../range/range-types.ts';
import { type FeedRangeDeps, type RangeStep, readFeedRange } from '../range/read-feed-range.ts';
import { finishAudit } from './audit-store.ts';
import { advanceBackfill, type Backfill, failBackfill, finishBackfill, readDueBackfills } from './backfill-store.ts';
import { readUntimed, type UntimedRead } from './untimed-read.ts';
import { markMissing, markVanished, type Vanished } from './vanished-records.ts';

interface BackfillDeps extends ReadingDeps {
  lateArrivals: Counter<'feed'>;
  refusals: Counter<'feed'>;
}

/** The backfill was cancelled, or its feed is gone: what was read for it is not stored. */
class BackfillEnded extends AppError {
  constructor(id: number) {
    super('conflict', `The backfill ${id} was cancelled.`, { recovery: { do: 'skip' } });
    this.name = 'BackfillEnded';
  }
}

/** A backfill that this process is reading, from the position in its row on. */
interface RunningRead {
  /** Windows of the range; or pages without a filter, for the records that have no time. */
  readonly steps: AsyncGenerator<RangeStep | PulledPage>;
  readonly untimed: UntimedRead | undefined;
  readonly store: StorePage;
  readonly latenessMs: number;
  /** Everything of the range up to here was read; undefined before the first window of a whole feed. */
  reached: Timestamp | undefined;
}

/**
 * Creates the worker that reads all open backfills of one of the source's feeds, in turns. A failure is stored in the
 * backfill's row, and the backfill is tried again later; the worker rejects only when the database is away.
 */
export function createBackfillWorker(deps: BackfillDeps) {
  const { source, database, clock } = deps;
  return async (name: FeedName, signal: AbortSignal): Promise<void> => {
    const feed = { source: source.name, feed: name };
    const lease = await deps.acquireLease(`backfill/${source.name}/${name}`);
    if (!lease) return;
    const running = new Map<number, RunningRead>();
    const readers = new Map<number, FeedReader>();
    const pace = createPace(source, clock, signal);
    try {
      for (;;) {
        const due = await readDueBackfills(database, feed, timestampNow(clock));
        if (due.length === 0) return;
        for (const backfill of due) {
          signal.throwIfAborted();
          await takeTurn({ deps, lease, feed, running, readers, pace, signal }, backfill);
        }
      }
    } catch (error) {
      if (!(error instanceof LeaseLost) && !signal.aborted) throw error;
    } finally {
      for (const { steps } of running.values()) await steps.return(undefined);
      await lease.release();
    }
  };
}

interface Worker {
  readonly deps: BackfillDeps;
  readonly lease: Lease;
  readonly feed: FeedId & { readonly feed: FeedName };
  /** By the number of the backfill. */
  readonly running: Map<number, RunningRead>;
  /** By the number of the backfill: a reader remembers how large a page may be. */
  readonly readers: Map<number, FeedReader>;
  readonly pace: (lease: Lease) => Promise<void>;
  readonly signal: AbortSignal;
}

/** Reads one step of one backfill, or ends it. */
async function takeTurn(worker: Worker, backfill: Backfill): Promise<void> {
  const { deps, lease, feed, running, signal } = worker;
  let reading: RunningRead | undefined;
  try {
    reading = running.get(backfill.id) ?? (await startReading(worker, backfill));
    running.set(backfill.id, reading);
    const step = await reading.steps.next();
    if (step.done !== true) await storeStep(worker, backfill, reading, step.value);
    else await finishReading(worker, backfill, reading);
  } catch (error) {
    running.delete(backfill.id);
    // A request may be under way.
    await reading?.steps.return(undefined);
    if (error instanceof LeaseLost || signal.aborted) throw error;
    // After PagesTooLarge the next turn goes on from the position, with smaller pages.
    if (error instanceof BackfillEnded || error instanceof PagesTooLarge) return;
    if (reading !== undefined && (await isNothingThere(worker, backfill, error))) {
      reading.reached = backfill.to;
      await finishReading(worker, backfill, reading);
      return;
    }
    // A stack helps only with what nobody expected: a database or a source that is away has its sentence.
    const told = error instanceof AppError ? { error: errorText(error) } : { err: error };
    deps.log.warn({ ...told, ...feed, backfill: backfill.id }, 'backfill failed');
    const floorMs = askedToWaitMs(error);
    const waitMs = retryWaitMs(retrySchedules.backfill, backfill.failures, { floorMs });
    const next = timestampFromMs(deps.clock.nowMs() + waitMs);
    const text = error instanceof AppError ? error.publicMessage : errorText(error);
    await lease.transaction((tx) => failBackfill(tx, backfill.id, { error: text, next }));
  }
}

async function startReading(worker: Worker, backfill: Backfill): Promise<RunningRead> {
  const { deps, lease, feed, pace } = worker;
  const { source, clock, database } = deps;
  const profile = await readProfile(database, feed);
  const latenessMs = latenessMsOf(source, profile);
  const { granularityMicros } = profile;
  const transaction: FeedRangeDeps['transaction'] = (work) =>
    lease.transaction(async (tx) => {
      await lockCheckpoint(tx, feed);
      return work(tx);
    });
  const reader = worker.readers.get(backfill.id) ?? openReader(worker, profile);
  worker.readers.set(backfill.id, reader);
  const store = createPageStore({ ...deps, feed, pull: timeOrderedId(clock.nowMs()), latenessMs, transaction });
  if (backfill.kind === 'untimed') {
    const wasReadOnce = backfill.position !== null;
    const untimed = readUntimed(reader, { wasReadOnce, pace: () => pace(lease) });
    return { steps: untimed.pages, untimed, store, latenessMs, reached: undefined };
  }
  const rangeDeps: FeedRangeDeps = {
    feed,
    reader,
    database,
    transaction,
    granularityMicros,
    pace: () => pace(lease),
  };
  // The range must be closed. Records can still appear within the lateness bound of now, which is left to the pull; in a
  // feed whose order of commits is proved, no record appears before those that were shown.
  const openMicros =
    profile.orderProved !== undefined ? 0 : latenessMs * 1_000 + (granularityMicros ?? defaultGranularityMicros);
  const closed = timestampFromMicros(clock.nowMs() * 1_000 - openMicros);
  const to = backfill.to < closed ? backfill.to : closed;
  const from = backfill.position ?? (backfill.kind === 'full' ? undefined : addMicros(backfill.from, -1));
  return { steps: readFeedRange(rangeDeps, { from, to }), untimed: undefined, store, latenessMs, reached: from };
}

function openReader({ deps, lease, feed, signal }: Worker, profile: SourceProfile): FeedReader {
  const { source, client, clock, database } = deps;
  return createFeedReader({
    client,
    background: client,
    feed: feed.feed,
    pageSize: source.page_size,
    includes: includesToRequest(feed.feed, { isWanted: source.includes, profile }),
    pageCap: profile.pageSize,
    onRefused: () => learnProfile(database, feed, { includes: [] }),
    clock,
    during: (work) => lease.during((lost) => work(AbortSignal.any([signal, lost]))),
  });
}

async function storeStep(
  worker: Worker,
  backfill: Backfill,
  reading: RunningRead,
  step: RangeStep | PulledPage,
): Promise<void> {
  if ('rows' in step) await storeWindow(worker, backfill, reading, step);
  else
    await reading.store({
      ...step,
      afterRecords: async (tx, { changed, changedWithoutTime }) => {
        reading.untimed?.found(changedWithoutTime);
        await advance(tx, backfill, { position: undefined, records: step.records.length, changed, lateArrivals: 0 });
      },
    });
}

async function storeWindow(
  { deps, feed }: Worker,
  backfill: Backfill,
  reading: RunningRead,
  step: RangeStep,
): Promise<void> {
  const { complete, observed, shown, includes } = step;
  // Records beyond the range are left to the pull: here they would count as late arrivals.
  const rows = step.rows.filter(({ modified }) => modified <= backfill.to);
  const isCrowd = complete !== undefined && rows.length === 0;
  const within = isCrowd
    ? shown.size
    : complete
      ? rows.filter(({ modified }) => modified > (complete.after ?? '')).length
      : 0;
  let lateArrivals = 0;
  await reading.store({
    records: rows.map(({ record }) => record),
    includes,
    observed,
    afterRecords: async (tx, { changed }) => {
      lateArrivals = backfill.kind === 'range' ? 0 : changed;
      await advance(tx, backfill, { position: complete?.to, records: within, changed, lateArrivals });
      if (!complete || backfill.kind !== 'full') return;
      await markMissing(tx, feed, complete, { ids: [...shown], observed, now: timestampNow(deps.clock) });
    },
  });
  if (lateArrivals > 0) deps.lateArrivals.inc({ feed: feed.feed }, lateArrivals);
  if (complete) reading.reached = complete.to;
}

/** Throws BackfillEnded when it was cancelled meanwhile: the transaction is rolled back. */
async function advance(tx: Sql, { id }: Backfill, step: Parameters<typeof advanceBackfill>[2]): Promise<void> {
  if (!(await advanceBackfill(tx, id, step))) throw new BackfillEnded(id);
}

/**
 * Whether the reading has ended because neither the feed nor the mirror has any record with a time: then there is nothing
 * to read, and nothing to compare. Where the mirror holds some, an answer without records proves nothing.
 */
async function isNothingThere({ deps, feed }: Worker, { position }: Backfill, error: unknown): Promise<boolean> {
  if (!(error instanceof ReadingStopped) || position !== null) return false;
  const newest = await readNewestStamp(deps.database, feed, '9999-12-31T00:00:00.000000Z');
  return newest === null || newest <= withoutTime;
}

/**
 * Ends the backfill after its last step. Rejects with AppError `unavailable` when an audit was not read to its end: it
 * is tried again, and does not count as made.
 */
async function finishReading({ deps, lease, feed }: Worker, backfill: Backfill, reading: RunningRead): Promise<void> {
  const { clock, log } = deps;
  const { latenessMs, reached } = reading;
  const isAudit = backfill.kind === 'audit' || backfill.kind === 'full';
  if (isAudit && (reached === undefined || reached < backfill.to))
    throw new AppError(
      'unavailable',
      `The audit was read up to ${reached ?? 'no time'} only: records may still appear before ${backfill.to}, its end.`,
    );
  const ended = await lease.transaction(async (tx) => {
    await lockCheckpoint(tx, feed);
    const now = timestampNow(clock);
    const finished = await finishBackfill(tx, backfill.id, now);
    if (!finished || !isAudit) return undefined;
    const none: Vanished = { gone: 0, refused: undefined };
    const vanished = finished.kind === 'full' ? await markVanished(tx, feed, finished, { latenessMs, now }) : none;
    await refuteOrder(tx, feed, finished, now);
    await finishAudit(tx, feed, finished, { latenessMs, warning: vanished.refused, now });
    return { ...vanished, lateArrivals: finished.lateArrivals };
  });
  if (!ended) return;
  if (ended.lateArrivals > 0)
    log.warn({ ...feed, lateArrivals: ended.lateArrivals }, 'an audit has found late arrivals');
  if (ended.gone > 0) {
    log.info({ ...feed, gone: ended.gone }, 'records have vanished from the feed');
    deps.wakeFlows();
  }
  if (ended.refused !== undefined) {
    deps.refusals.inc({ feed: feed.feed });
    log.warn(feed, ended.refused);
  }
}

/** A feed that was followed in the order of commits has shown everything up to the watermark, or it broke that order. */
async function refuteOrder(tx: Sql, feed: FeedId, { lateArrivals }: Backfill, now: Timestamp): Promise<void> {
  const { orderProved } = await readProfile(tx, feed);
  if (orderProved === undefined || lateArrivals === 0) return;
  const why = `an audit has found ${lateArrivals} records or changes that it had not shown in their order`;
  await saveOrderBroken(tx, feed, { why, now });
}

/**
 * Creates the wait between two requests of backfills: together they use at most half of what the service allows in a
 * minute, and three quarters of what it allows in a day. No wait where the service has no limits.
 */
function createPace(source: SourceSettings, clock: Clock, signal: AbortSignal): (lease: Lease) => Promise<void> {
  const limit = sourceLimit(source, 'feeds');
  if (!limit) return async () => undefined;
  const { burst, sustained } = limit;
  const everyMs = Math.ceil(
    Math.max((2_000 * burst.seconds) / burst.requests, (1_333 * sustained.seconds) / sustained.requests),
  );
  let nextMs = 0;
  return async (lease) => {
    // Where the clock was set back, `nextMs` lies too far in the future: the wait is never longer than `everyMs`.
    const waitMs = Math.min(everyMs, nextMs - clock.nowMs());
    if (waitMs > 0) await lease.during((lost) => clock.sleep(waitMs, AbortSignal.any([signal, lost])));
    nextMs = clock.nowMs() + everyMs;
  };
}
