/**
 * Looks what needs a person, stores it, and sends it. One process at a time does so, under the lease `alerts`; a process
 * that dies leaves rows from which the next one goes on.
 *
 * Example: the ERP of flow `sap` refuses 300 orders within a minute; the channel `ops` gathers for 30 s.
 *
 *     12:00:10  look     "dead-letters / flow sap / supplier is blocked": an alert opens, with a notice for `ops`
 *     12:00:40  message  is made of all notices that wait, and stored with its id and text, then sent
 *     12:00:41  outcome  the receiver has taken it: committed as sent
 *
 * Killed before the message was sent, or after that and before the outcome: the next process sends the same message
 * again, with the same id. So each message arrives at least once, and a receiver may drop what it knows.
 */
import { readFile } from 'node:fs/promises';
import { msFromTimestamp, type Timestamp, timestampFromMs } from '#contract/timestamp.ts';
import { type Clock, timestampNow } from '#platform/clock.ts';
import type { Database } from '#platform/database/database.ts';
import { askedToWaitMs, errorText } from '#platform/errors.ts';
import type { Logger } from '#platform/log.ts';
import { type AcquireLease, type Lease, unlessLost } from '../leases/lease.ts';
import { readRefusalsInARow } from '../receive/refusals.ts';
import { retrySchedules, retryWaitMs } from '../retry-schedules.ts';
import type { BridgeSettings } from '../settings.ts';
import { readStatus } from '../status/status.ts';
import type { ChannelSettings } from './alert-settings.ts';
import {
  addNotices,
  type DueMessage,
  makeMessage,
  noteConditions,
  noteTry,
  pruneAlerts,
  readDueMessages,
} from './alert-store.ts';
import { readDeadLetterGroups, readRefusedRecordGroups } from './dead-letter-groups.ts';
import { findConditions } from './find-conditions.ts';
import { type SendDeps, sendMessage } from './send-message.ts';

export interface AlertWatchDeps extends SendDeps {
  readonly settings: BridgeSettings;
  readonly database: Database;
  readonly acquireLease: AcquireLease;
  readonly clock: Clock;
  readonly log: Logger;
  /** The certificate that this process shows; undefined: it is read from the settings' file, or none is to be checked. */
  readonly certificatePem: string | undefined;
}

const pruneEveryMs = 60 * 60 * 1000;

/**
 * Returns a function that looks once and sends what is due; it returns at once while another process does. Rejects when
 * the database is away.
 */
export function createAlertWatch(deps: AlertWatchDeps): (signal: AbortSignal) => Promise<void> {
  const { settings, database, clock, log } = deps;
  const { channels, reminder_hours: reminderHours } = settings.alerts;
  let prunedMs = Number.NEGATIVE_INFINITY;

  async function look(lease: Lease): Promise<void> {
    const now = timestampNow(clock);
    const found = {
      status: await readStatus(database, { settings, now }),
      deadLetters: await readDeadLetterGroups(database),
      refusedRecords: await readRefusedRecordGroups(database, settings.intakes),
      refusals: await readRefusalsInARow(database, now),
      certificatePem: await readCertificate(),
    };
    const { started, ended } = await lease.transaction(async (tx) => {
      const noted = await noteConditions(tx, findConditions(found, settings.alerts, now), now);
      for (const channel of channels) {
        await addNotices(tx, channel, { reminderHours, now });
        await makeMessage(tx, channel, { bridge: settings.public_host, now });
      }
      return noted;
    });
    for (const { id, kind, subject, summary } of started)
      log.warn({ alert: id, kind, subject, state: 'alert started' }, `alert: ${summary}`);
    for (const { id, kind, subject, started: since } of ended)
      log.info({ alert: id, kind, subject, since, state: 'alert ended' }, 'alert is over');
    if (Math.abs(clock.nowMs() - prunedMs) < pruneEveryMs) return;
    prunedMs = clock.nowMs();
    await lease.transaction((tx) => pruneAlerts(tx, settings.attempt_days, now));
  }

  /** The file counts, where there is one: it may have been renewed since this process began. */
  async function readCertificate(): Promise<string | undefined> {
    if (deps.certificatePem !== undefined || !settings.tls) return deps.certificatePem;
    return readFile(settings.tls.cert_file, 'utf8').catch(() => undefined);
  }

  async function send(lease: Lease, due: DueMessage, channel: ChannelSettings, signal: AbortSignal): Promise<void> {
    let failure: unknown;
    try {
      await lease.during((lost) => sendMessage(deps, channel, due.message, AbortSignal.any([signal, lost])));
    } catch (error) {
      if (signal.aborted) return;
      failure = error;
    }
    const now = timestampNow(clock);
    const result =
      failure === undefined
        ? undefined
        : {
            error: errorText(failure),
            waitMs: retryWaitMs(retrySchedules.alertMessage, due.attempts, { floorMs: askedToWaitMs(failure) }),
          };
    const isGivenUp = await lease.transaction((tx) => noteTry(tx, due.id, result, now));
    const facts = { channel: channel.name, message: due.id, alerts: due.message.alerts.length + due.message.more };
    if (result === undefined) log.info(facts, 'alerts sent');
    else if (isGivenUp) log.error(facts, `alerts could not be sent, and are given up: ${result.error}`);
    else log.warn({ ...facts, nextTry: nextTry(now, result.waitMs) }, `alerts could not be sent: ${result.error}`);
  }

  return async (signal) => {
    const lease = await deps.acquireLease('alerts');
    if (!lease) return;
    try {
      await unlessLost(
        (async () => {
          await look(lease);
          const names = channels.map(({ name }) => name);
          const messages = await readDueMessages(database, names, timestampNow(clock));
          // At once: a receiver that hangs must not delay the others. Each channel has one message at most.
          const sent = messages.map(async (due) => {
            const channel = channels.find(({ name }) => name === due.channel);
            if (channel) await send(lease, due, channel, signal);
          });
          const failed = (await Promise.allSettled(sent)).find(({ status }) => status === 'rejected');
          if (failed?.status === 'rejected') throw failed.reason;
        })(),
      );
    } finally {
      await lease.release();
    }
  };
}

function nextTry(now: Timestamp, waitMs: number): Timestamp {
  return timestampFromMs(msFromTimestamp(now) + waitMs);
}
