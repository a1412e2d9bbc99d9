/** The part of a process that watches for alerts: in processes that pull or push, if channels are configured. */
import { type BridgeDeps, lanes, type WorkingPart } from '../bridge-deps.ts';
import type { AcquireLease } from '../leases/lease.ts';
import { createAlertWatch } from './watch-alerts.ts';

const lookEveryMs = 15_000;
const key = 'all';

/** Starts the worker; it ends with `deps.signals`. */
export function startAlerts(
  deps: BridgeDeps,
  acquireLease: AcquireLease,
  { receives }: { receives: boolean },
): WorkingPart {
  const { clock, signals } = deps;
  // The certificate of the local authority is that of each process; one of your own is shown by those that receive.
  const certificatePem = receives || !deps.settings.tls ? deps.tls?.certPem : undefined;
  const watch = createAlertWatch({ ...deps, acquireLease, certificatePem });
  signals.work(lanes.alerts, { concurrency: 1 }, (_key, signal) => watch(signal));
  let lookedMs = Number.NEGATIVE_INFINITY;
  return {
    lanes: [
      {
        lane: lanes.alerts,
        due: async () => {
          if (Math.abs(clock.nowMs() - lookedMs) < lookEveryMs) return [];
          lookedMs = clock.nowMs();
          return [key];
        },
      },
    ],
  };
}
