/**
 * Backfills and audits of one feed: they walk closed ranges of time beside the live pull, whose watermark they do not
 * touch. Each window is one transaction with its position, so that a kill costs reading one window again. Those that are
 * open take turns, and all together they leave the live pull the better part of the service's quota.
 */

import { type Lease, LeaseLost } from '#bridge/leases/lease.ts';
import { retrySchedules, retryWaitMs } from '#bridge/retry-schedules.ts';
import type { SourceSettings } from '#bridge/settings.ts';
import type { FeedName } from '#contract/feed.ts';
import { limits } from '#contract/limits.ts';
import { addMicros, type Timestamp, timestampFromMicros, timestampFromMs } from '#contract/timestamp.ts';
import { type Clock, timestampNow } from '#platform/clock.ts';
import { AppError, askedToWaitMs, errorText } from '#platform/errors.ts';
import type { Counter } from '#platform/metrics.ts';
import {
  type FeedId,
  lockCheckpoint,
  readFeedTraits,
  readNewest,
  rememberNoIncludes,
} from '../feed/checkpoint-store.ts';
import { createFeedReader, type FeedReader, includesOf, PagesTooLarge } from '../feed/feed-reader.ts';
import { createPageStore, type StorePage } from '../feed/page-store.ts';
import type { ReadingDeps } from '../pull-feed.ts';
import { type ScanDeps, type ScannedPage, scanFeed } from '../windows/advance-watermark.ts';
import { defaultGranularityMicros } from '../windows/window-scan.ts';
import { endAudit, noteLateArrivals } from './audit-store.ts';
import { advanceBackfill, type Backfill, failBackfill, finishBackfill, readDueBackfills } from './backfill-store.ts';
import { judgeMissing, markMissing, type Vanished } from './vanished-records.ts';

export interface BackfillDeps extends ReadingDeps {
  lateArrivals: Counter<'source' | 'feed'>;
  refusals: Counter<'source' | 'feed'>;
}

/** The backfill has ended otherwise, or its feed is gone: what was read for it is not stored. */
class BackfillEnded extends AppError {
  constructor(id: number) {
    super('conflict', `The backfill ${id} was cancelled.`, { recovery: { do: 'skip' } });
    this.name = 'BackfillEnded';
  }
}

/** One that is being walked in this process, from where its row says. */
interface Walking {
  readonly steps: AsyncGenerator<ScannedPage>;
  readonly store: StorePage;
  readonly latenessMs: number;
  readonly cut: Timestamp;
  reached: Timestamp | undefined;
}

/**
 * Creates the worker that walks all open backfills of one of the source's feeds, in turns. A failure ends in the
 * backfill's row, and is tried again later; only a database that is away makes it reject.
 */
export function createBackfillWorker(deps: BackfillDeps) {
  const { source, database, clock } = deps;
  return async (name: FeedName, signal: AbortSignal): Promise<void> => {
    const feed = { source: source.name, feed: name };
    const lease = await deps.acquireLease(`backfill/${source.name}/${name}`);
    if (!lease) return;
    const walking = new Map<number, Walking>();
    const readers = new Map<number, FeedReader>();
    const pace = createPace(source, clock, signal);
    try {
      for (;;) {
        const due = await readDueBackfills(database, feed, timestampNow(clock));
        if (due.length === 0) return;
        for (const backfill of due) {
          signal.throwIfAborted();
          await takeTurn({ deps, lease, feed, walking, readers, pace, signal }, backfill);
        }
      }
    } catch (error) {
      if (!(error instanceof LeaseLost) && !signal.aborted) throw error;
    } finally {
      for (const { steps } of walking.values()) await steps.return(undefined);
      await lease.release();
    }
  };
}

interface Worker {
  readonly deps: BackfillDeps;
  readonly lease: Lease;
  readonly feed: FeedId & { readonly feed: FeedName };
  readonly walking: Map<number, Walking>;
  /** They remember how large a page may be. */
  readonly readers: Map<number, FeedReader>;
  readonly pace: (lease: Lease) => Promise<void>;
  readonly signal: AbortSignal;
}

/** One window of one backfill, or its end. */
async function takeTurn(worker: Worker, backfill: Backfill): Promise<void> {
  const { deps, lease, feed, walking, signal } = worker;
  try {
    const walk = walking.get(backfill.id) ?? (await openWalk(worker, backfill));
    walking.set(backfill.id, walk);
    const step = await walk.steps.next();
    if (step.done !== true) await storeStep(worker, backfill, walk, step.value);
    else await endWalk(worker, backfill, walk);
  } catch (error) {
    walking.delete(backfill.id);
    if (error instanceof LeaseLost || signal.aborted) throw error;
    // With smaller pages the next turn goes on from the position.
    if (error instanceof BackfillEnded || error instanceof PagesTooLarge) return;
    deps.log.warn({ err: error, ...feed, backfill: backfill.id }, 'backfill failed');
    const floorMs = askedToWaitMs(error);
    const waitMs = retryWaitMs(retrySchedules.backfill, backfill.failures, { floorMs });
    const next = timestampFromMs(deps.clock.nowMs() + waitMs);
    const text = error instanceof AppError ? error.publicMessage : errorText(error);
    await lease.transaction((tx) => failBackfill(tx, backfill.id, { error: text, next }));
  }
}

async function openWalk(worker: Worker, backfill: Backfill): Promise<Walking> {
  const { deps, lease, feed, pace } = worker;
  const { source, clock, database } = deps;
  const { profile, commitOrdered, latenessMs: raisedMs } = await readFeedTraits(database, feed);
  const latenessMs = Math.max(source.lateness_seconds * 1000, raisedMs ?? 0);
  const granularityMicros = profile?.granularityMicros;
  const transaction: ScanDeps['transaction'] = (work) =>
    lease.transaction(async (tx) => {
      await lockCheckpoint(tx, feed);
      return work(tx);
    });
  const reader = worker.readers.get(backfill.id) ?? openReader(worker, profile?.includes);
  worker.readers.set(backfill.id, reader);
  const store = createPageStore({ ...deps, feed, latenessMs, transaction });
  const reading = {
    feed,
    reader,
    store,
    database,
    transaction,
    latenessMs,
    granularityMicros,
    pace: () => pace(lease),
  };
  // What may still change under the walk is the live pull's, unless the order says that nothing appears in it.
  const openMicros = commitOrdered === true ? 0 : latenessMs * 1_000 + (granularityMicros ?? defaultGranularityMicros);
  const closed = timestampFromMicros(clock.nowMs() * 1_000 - openMicros);
  const cut = backfill.to < closed ? backfill.to : closed;
  const from = backfill.position ?? (backfill.kind === 'full' ? undefined : addMicros(backfill.from, -1));
  return { steps: scanFeed(reading, { from, cut }), store, latenessMs, cut, reached: from };
}

function openReader({ deps, lease, feed, signal }: Worker, known: readonly string[] | undefined): FeedReader {
  const { source, client, clock, database } = deps;
  return createFeedReader({
    client,
    feed: feed.feed,
    pageSize: source.page_size,
    includes: source.includes ? includesOf(feed.feed).filter((name) => known?.includes(name) ?? true) : [],
    onRefused: () => rememberNoIncludes(database, feed),
    clock,
    during: (work) => lease.during((lost) => work(AbortSignal.any([signal, lost]))),
  });
}

async function storeStep({ deps, feed }: Worker, backfill: Backfill, walk: Walking, step: ScannedPage): Promise<void> {
  const { complete, observed } = step;
  // What is beyond the range is the live pull's, and would count as missed.
  const records = step.records.filter(({ modified }) => modified <= backfill.to);
  const within = complete ? records.filter(({ modified }) => modified > (complete.after ?? '')).length : 0;
  let lateArrivals = 0;
  await walk.store({
    records: records.map(({ record }) => record),
    includes: step.includes,
    observed,
    suspects: true,
    also: async (tx, { changed }) => {
      lateArrivals = backfill.kind === 'range' ? 0 : changed;
      const taken = { position: complete?.to, records: within, changed, lateArrivals };
      if (!(await advanceBackfill(tx, backfill.id, taken))) throw new BackfillEnded(backfill.id);
      if (lateArrivals > 0) await noteLateArrivals(tx, feed, lateArrivals);
      if (!complete || backfill.kind !== 'full') return;
      const ids = step.records.map(({ id }) => id);
      await markMissing(tx, feed, complete, { ids, observed, now: timestampNow(deps.clock) });
    },
  });
  if (lateArrivals > 0) deps.lateArrivals.inc(feed, lateArrivals);
  if (complete) walk.reached = complete.to;
}

/** Everything is read; or the feed answers with nothing at all, which proves nothing where something is known of it. */
async function endWalk({ deps, lease, feed }: Worker, backfill: Backfill, walk: Walking): Promise<void> {
  const { clock, database, log } = deps;
  const isEmpty = async () => (await readNewest(database, feed, '9999-12-31T00:00:00.000000Z')) === null;
  if ((walk.reached === undefined || walk.reached < walk.cut) && !(await isEmpty()))
    throw new AppError('unavailable', 'The feed answers with no records at all, although it has had some.');
  const { latenessMs } = walk;
  const ended = await lease.transaction(async (tx) => {
    await lockCheckpoint(tx, feed);
    const now = timestampNow(clock);
    const finished = await finishBackfill(tx, backfill.id, now);
    if (!finished || finished.kind === 'range') return undefined;
    const none: Vanished = { gone: 0, refused: undefined };
    const vanished = finished.kind === 'full' ? await judgeMissing(tx, feed, finished, { latenessMs, now }) : none;
    await endAudit(tx, feed, finished, { latenessMs, warning: vanished.refused, now });
    return { ...vanished, lateArrivals: finished.lateArrivals };
  });
  if (!ended) return;
  if (ended.lateArrivals > 0)
    log.warn({ ...feed, lateArrivals: ended.lateArrivals }, 'an audit has found records that were missed');
  if (ended.gone > 0) {
    log.info({ ...feed, gone: ended.gone }, 'records have vanished from the feed');
    deps.wakeFlows();
  }
  if (ended.refused !== undefined) {
    deps.refusals.inc(feed);
    log.warn(feed, ended.refused);
  }
}

/** Half of what the service allows in a minute, and three quarters of what it allows for long, if it has limits. */
function createPace({ quotas }: SourceSettings, clock: Clock, signal: AbortSignal): (lease: Lease) => Promise<void> {
  if (quotas.enabled === false) return async () => undefined;
  const { burst, sustained } = limits.feeds;
  const everyMs = Math.ceil(
    Math.max(
      (2_000 * burst.seconds) / (quotas.feeds?.burst ?? burst.requests),
      (1_333 * sustained.seconds) / (quotas.feeds?.sustained ?? sustained.requests),
    ),
  );
  let nextMs = 0;
  return async (lease) => {
    // Never for longer than that, also where the clock has been set back.
    const waitMs = Math.min(everyMs, nextMs - clock.nowMs());
    // With few requests a day the wait is longer than the lease.
    if (waitMs > 0) await lease.during((lost) => clock.sleep(waitMs, AbortSignal.any([signal, lost])));
    nextMs = clock.nowMs() + everyMs;
  };
}
