/** The pulling part of a process: the workers that read the sources' feeds, backfills, supplier lists and jobs. */

import type { AcquireLease } from '#bridge/ledger/leases/lease.ts';
import { createHistoryPruning } from '#bridge/mirror/prune-history.ts';
import type { SourceClients } from '#bridge/mirror/source/source-clients.ts';
import { type BridgeDeps, lanes, type WorkingPart } from '#bridge/settings/bridge-deps.ts';
import type { FeedName } from '#contract/feed.ts';
import { timestampNow } from '#platform/clock.ts';
import { createClockWatch } from '#platform/clock-watch.ts';
import { Counter } from '#platform/metrics.ts';
import { openDueAudits } from './backfill/audit-store.ts';
import { readFeedsToBackfill } from './backfill/backfill-store.ts';
import { createBackfillWorker } from './backfill/run-backfills.ts';
import { type FeedId, makeWaitingFeedsDue, readDueFeeds } from './feed/checkpoint-store.ts';
import { createFlowWakers } from './flow-wakers.ts';
import { startJobPulls } from './jobs/start-job-pulls.ts';
import { createFeedPull } from './pull-feed.ts';
import { startSupplierLists } from './suppliers/start-supplier-lists.ts';
import { createNotificationThrottle } from './throttle-notifications.ts';

/** So many feeds are read at once by a process, and so many backfills. */
const workersMax = 500;

/** Starts the workers; they end with `deps.signals`. */
export function startPull(
  deps: BridgeDeps,
  acquireLease: AcquireLease,
  { clientOf, quotasOf }: SourceClients,
): WorkingPart {
  const { settings, database, signals, clock, log } = deps;
  const records = new Counter({
    name: 'bridge_records_total',
    help: 'Records read from feeds: changed ones, known ones, and changed ones that are not as documented',
    labelNames: ['feed', 'result'] as const,
    registers: [deps.registry],
  });
  const lateArrivals = new Counter({
    name: 'bridge_late_arrivals_total',
    help: 'Records that an audit found missing or different in the mirror, although the watermark had passed them',
    labelNames: ['feed'] as const,
    registers: [deps.registry],
  });
  const refusals = new Counter({
    name: 'bridge_mass_deletions_refused_total',
    help: 'Audits in which so many records of a feed were missing that none of them was taken as deleted',
    labelNames: ['feed'] as const,
    registers: [deps.registry],
  });
  const wakerOf = createFlowWakers(deps);
  const workers = new Map(
    settings.sources.map((source) => {
      const base = {
        source,
        client: clientOf(source.name),
        database,
        acquireLease,
        clock,
        log,
        records,
        wakeFlows: wakerOf(source.name),
      };
      const throttleMs = createNotificationThrottle(source, quotasOf(source.name));
      const backfill = (feed: FeedName, signal: AbortSignal) => {
        const client = clientOf(source.name, { background: true });
        return createBackfillWorker({ ...base, client, lateArrivals, refusals })(feed, signal);
      };
      const background = clientOf(source.name, { background: true });
      return [source.name, { pull: createFeedPull({ ...base, background, throttleMs }), backfill }];
    }),
  );
  const ownKeys = new Set(settings.sources.flatMap((source) => source.feeds.map((feed) => `${source.name}/${feed}`)));
  /** The feeds that are being read here. A pull looks again at its end, so the sweep need not have one follow it. */
  const pulling = new Set<string>();
  const workOn = async (lane: 'pull' | 'backfill', key: string, signal: AbortSignal) => {
    const [source = '', feed = ''] = key.split('/');
    await workers.get(source)?.[lane](feed as FeedName, signal);
  };
  // A pull waits for its source's quota while it holds its place among the workers. With so many workers few feeds wait
  // for the quota of another source, and a stop ends few transactions.
  signals.work(lanes.pull, { concurrency: Math.min(Math.max(1, ownKeys.size), workersMax) }, async (key, signal) => {
    pulling.add(key);
    await workOn('pull', key, signal).finally(() => pulling.delete(key));
  });
  signals.work(
    lanes.backfill,
    { concurrency: Math.min(Math.max(1, 2 * settings.sources.length), workersMax) },
    (key, signal) => workOn('backfill', key, signal),
  );
  const keysOf = (feeds: readonly FeedId[]) =>
    feeds.map(({ source, feed }) => `${source}/${feed}`).filter((key) => ownKeys.has(key));
  const prune = createHistoryPruning({ database, clock, days: settings.history_days });
  const whenClockWasSetBack = createClockWatch(clock);
  return {
    lanes: [
      {
        lane: lanes.pull,
        due: async () => {
          const now = timestampNow(clock);
          await whenClockWasSetBack(() => database.transaction((tx) => makeWaitingFeedsDue(tx, now)));
          return keysOf(await readDueFeeds(database, now)).filter((key) => !pulling.has(key));
        },
      },
      {
        lane: lanes.backfill,
        due: async () => {
          const now = timestampNow(clock);
          await openDueAudits(database, settings.sources, now);
          return keysOf(await readFeedsToBackfill(database, now));
        },
      },
      startSupplierLists(deps, acquireLease, clientOf),
      startJobPulls(deps, acquireLease, clientOf),
    ],
    housekeeping: prune,
  };
}
