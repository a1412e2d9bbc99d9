/** The workers that read jobs, of the sources whose jobs a flow takes. */

import type { AcquireLease } from '#bridge/ledger/leases/lease.ts';
import { makeWaitingJobsDue, readSourcesWithJobs } from '#bridge/mirror/jobs-to-read.ts';
import type { SourceClients } from '#bridge/mirror/source/source-clients.ts';
import { type BridgeDeps, lanes } from '#bridge/settings/bridge-deps.ts';
import { takesJobs } from '#bridge/settings/settings.ts';
import { timestampNow } from '#platform/clock.ts';
import { createClockWatch } from '#platform/clock-watch.ts';
import type { SweptLane } from '#platform/sweep.ts';
import { createFlowWakers } from '../flow-wakers.ts';
import { createJobPull } from './pull-jobs.ts';

/** Starts the workers; they end with `deps.signals`. Returns the lane in which the sweep finds what is due. */
export function startJobPulls(
  deps: BridgeDeps,
  acquireLease: AcquireLease,
  clientOf: SourceClients['clientOf'],
): SweptLane {
  const { settings, database, signals, clock, log } = deps;
  const flowsOf = Map.groupBy(settings.flows, ({ source }) => source);
  const sources = settings.sources.filter(({ name }) => takesJobs({ flows: flowsOf.get(name) ?? [] }, name));
  const wakerOf = createFlowWakers(deps);
  const pulls = new Map(
    sources.map((source) => {
      const wakeFlows = wakerOf(source.name);
      const client = clientOf(source.name);
      return [source.name, createJobPull({ source, client, database, acquireLease, clock, log, wakeFlows })];
    }),
  );
  // With a worker for each source none waits for the quota of another one.
  signals.work(lanes.jobs, { concurrency: Math.max(1, sources.length) }, async (source, signal) => {
    await pulls.get(source)?.(signal);
  });
  const whenClockWasSetBack = createClockWatch(clock);
  return {
    lane: lanes.jobs,
    due: async () => {
      if (pulls.size === 0) return [];
      const now = timestampNow(clock);
      await whenClockWasSetBack(() => makeWaitingJobsDue(database, now));
      return readSourcesWithJobs(database, [...pulls.keys()], now);
    },
  };
}
