/** The workers that pull the supplier lists, of the sources whose settings ask for it and of those with an intake. */

import type { AcquireLease } from '#bridge/ledger/leases/lease.ts';
import type { SourceClients } from '#bridge/mirror/source/source-clients.ts';
import { openSupplierList, readDueSupplierLists } from '#bridge/mirror/supplier-list-store.ts';
import { type BridgeDeps, lanes } from '#bridge/settings/bridge-deps.ts';
import { timestampFromMs } from '#contract/timestamp.ts';
import { timestampNow } from '#platform/clock.ts';
import { createClockWatch } from '#platform/clock-watch.ts';
import type { SweptLane } from '#platform/sweep.ts';
import { createFlowWakers } from '../flow-wakers.ts';
import { createSupplierListPull } from './pull-supplier-list.ts';

/** How often the list of a source with an intake is read, where its settings do not ask for it. */
const intakeListSeconds = 24 * 60 * 60;

/** The sources whose list is read, with how often. An intake compares with the list what it is going to send. */
function listedSources({ sources, intakes }: BridgeDeps['settings']) {
  const hasIntake = (source: string) =>
    intakes.some((intake) => intake.source === source && intake.stream === 'supplier');
  return sources.flatMap((source) => {
    if (source.suppliers) return [source];
    return hasIntake(source.name) ? [{ ...source, suppliers_poll_seconds: intakeListSeconds }] : [];
  });
}

/** Starts the workers; they end with `deps.signals`. Returns the lane in which the sweep finds what is due. */
export function startSupplierLists(
  deps: BridgeDeps,
  acquireLease: AcquireLease,
  clientOf: SourceClients['clientOf'],
): SweptLane {
  const { settings, database, signals, clock, log } = deps;
  const sources = listedSources(settings);
  const wakerOf = createFlowWakers(deps);
  const pulls = new Map(
    sources.map((source) => {
      const wakeFlows = wakerOf(source.name);
      const client = clientOf(source.name);
      return [source.name, createSupplierListPull({ source, client, database, acquireLease, clock, log, wakeFlows })];
    }),
  );
  // A pull waits for its source's quota, page by page: with a worker for each source none waits for another source.
  signals.work(lanes.suppliers, { concurrency: Math.max(1, sources.length) }, async (source, signal) => {
    await pulls.get(source)?.(signal);
  });
  const whenClockWasSetBack = createClockWatch(clock);
  return {
    lane: lanes.suppliers,
    due: async () => {
      await whenClockWasSetBack(async () => {
        for (const { name, suppliers_poll_seconds: seconds } of sources) {
          const latest = timestampFromMs(clock.nowMs() + seconds * 1000);
          await openSupplierList(database, name, { now: timestampNow(clock), latest });
        }
      });
      const due = await readDueSupplierLists(database, timestampNow(clock));
      return due.filter((source) => pulls.has(source));
    },
  };
}
