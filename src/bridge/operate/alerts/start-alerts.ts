/**
 * The part of a process that tells people of conditions: what began, what lasts, what ended. It runs in processes that
 * pull or push, if a channel is configured. One process at a time does it, under the lease `alerts`; a process that dies
 * leaves rows from which the next one goes on.
 *
 * Example: a person pauses the flow `sap`.
 *
 *     12:00:10  look     `flow-paused / flow sap` is new: it is noted, and a message is made, with an id
 *     12:00:11  send     the receiver has taken it: committed as told
 *
 * Killed before the message was sent, or after that and before the commit: the next process sends the same message again,
 * with the same id. So each message arrives at least once, and a receiver may drop what it knows.
 */
import { readFile } from 'node:fs/promises';
import { type AcquireLease, type Lease, unlessLost } from '#bridge/ledger/leases/lease.ts';
import { type AlertChannel, channelsOf } from '#bridge/settings/alert-settings.ts';
import { type BridgeDeps, lanes, type WorkingPart } from '#bridge/settings/bridge-deps.ts';
import { retrySchedules, retryWaitMs } from '#bridge/settings/retry-schedules.ts';
import { timestampNow } from '#platform/clock.ts';
import { askedToWaitMs, errorText } from '#platform/errors.ts';
import type { ServerCertificate } from '#platform/http/server-certificate.ts';
import { shownCertificates } from '../status/conditions.ts';
import { readStatus } from '../status/status.ts';
import { forgetOtherChannels, noteConditions, noteFailure, noteMessageSent, readDueMessage } from './alert-store.ts';
import { type SendDeps, sendMessage } from './send-message.ts';

const lookEveryMs = 15_000;
const key = 'all';

/** Starts the worker; it ends with `deps.signals`. */
export function startAlerts(
  deps: BridgeDeps,
  acquireLease: AcquireLease,
  { receives }: { receives: boolean },
): WorkingPart {
  const { clock, signals, settings } = deps;
  // The certificate of the local authority is that of each process; one of your own is shown by those that receive.
  const certificate = receives || !settings.tls ? deps.tls : undefined;
  signals.work(lanes.alerts, { concurrency: 1 }, (_key, signal) =>
    tellOfConditions({ ...deps, acquireLease, certificate }, signal),
  );
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

export interface AlertDeps extends SendDeps, Pick<BridgeDeps, 'settings' | 'database' | 'log' | 'consoleTls'> {
  readonly acquireLease: AcquireLease;
  /** The certificate that this process shows; undefined: it is read from the settings' file, if there is one. */
  readonly certificate: ServerCertificate | undefined;
}

/** Looks once, and sends what is due; returns at once while another process does. Rejects when the database is away. */
export async function tellOfConditions(deps: AlertDeps, signal: AbortSignal): Promise<void> {
  const { settings, database, clock } = deps;
  const lease = await deps.acquireLease('alerts');
  if (!lease) return;
  try {
    const now = timestampNow(clock);
    const certificates = {
      ...shownCertificates(deps.certificate, deps.consoleTls),
      certificatePem: await readCertificate(deps),
    };
    const { conditions } = await readStatus(database, { settings, now, ...certificates });
    const channels = channelsOf(settings.alerts);
    const noted = lease.transaction(async (tx) => {
      await forgetOtherChannels(tx, channels);
      for (const channel of channels)
        await noteConditions(tx, channel, conditions, { now, behindMinutes: settings.alerts.behind_minutes });
    });
    await unlessLost(
      // At once: a receiver that hangs must not delay the other.
      noted.then(() => Promise.all(channels.map((channel) => sendDue(deps, lease, channel, signal)))),
    );
  } finally {
    await lease.release();
  }
}

async function sendDue(deps: AlertDeps, lease: Lease, channel: AlertChannel, signal: AbortSignal): Promise<void> {
  const { settings, database, clock, log } = deps;
  const due = await readDueMessage(database, channel, { bridge: settings.public_host, now: timestampNow(clock) });
  if (!due) return;
  const { message, tries } = due;
  const facts = { channel, message: message.id, alerts: message.alerts.length + message.more };
  try {
    await lease.during((lost) => sendMessage(deps, settings.alerts, channel, message, AbortSignal.any([signal, lost])));
  } catch (failure) {
    if (signal.aborted) return;
    const error = errorText(failure);
    const waitMs = retryWaitMs(retrySchedules.alertMessage, tries, { floorMs: askedToWaitMs(failure) });
    const now = timestampNow(clock);
    const isGivenUp = await lease.transaction((tx) => noteFailure(tx, message.id, { error, waitMs, now }));
    if (isGivenUp) log.error(facts, `alerts could not be sent for a day, and are given up: ${error}`);
    else log.warn(facts, `alerts could not be sent, and are tried again: ${error}`);
    return;
  }
  await lease.transaction((tx) => noteMessageSent(tx, message.id, timestampNow(clock)));
  log.info(facts, 'alerts sent');
}

/** The file counts, where there is one: it may have been renewed since this process began. */
async function readCertificate({ certificate, settings }: AlertDeps): Promise<string | undefined> {
  if (certificate || !settings.tls) return certificate?.certPem;
  // A file that cannot be read is no certificate, and a condition.
  return readFile(settings.tls.cert_file, 'utf8').catch(() => '');
}
