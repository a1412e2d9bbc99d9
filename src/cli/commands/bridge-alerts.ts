/**
 * `bridge alerts`: what needs a person, and whether the messages about it arrive. Exit codes: 0 done, 1 an alert is open
 * or a channel fails, 2 wrong usage or settings.
 */
import type { AlertMessage } from '#bridge/alerts/alert.ts';
import type { ChannelSettings } from '#bridge/alerts/alert-settings.ts';
import { readAlerts, readChannels } from '#bridge/alerts/alert-store.ts';
import { sendMessage } from '#bridge/alerts/send-message.ts';
import type { BridgeSettings } from '#bridge/settings.ts';
import { isChannelFailing } from '#bridge/status/status.ts';
import { timestampFromMs } from '#contract/timestamp.ts';
import { type Clock, timestampNow } from '#platform/clock.ts';
import { isLackingText } from '#platform/configuration.ts';
import { AppError, errorText } from '#platform/errors.ts';
import { timeOrderedId } from '#platform/time-ordered-id.ts';
import { alertsText, channelWhy } from '../alert-words.ts';
import { type BridgeCommand, type BridgeCommandOptions, withBridge } from '../bridge-command.ts';
import { print, shortTime, tableOf } from '../output.ts';

export interface AlertListOptions extends BridgeCommandOptions {
  ended?: number;
}

export function runAlertList(options: AlertListOptions): Promise<number> {
  return withBridge(
    options,
    async ({ settings, database, clock }) => {
      requireChannels(settings);
      const now = timestampNow(clock);
      const endedSince = timestampFromMs(clock.nowMs() - (options.ended ?? 24) * 3_600_000);
      const all = await readAlerts(database, { endedSince });
      const alerts = all.filter(({ ended }) => ended === null);
      const ended = all.filter((alert) => alert.ended !== null);
      const names = settings.alerts.channels.map(({ name }) => name);
      const channels = await readChannels(database, names, now);
      print(options, { alerts, ended, channels }, () =>
        [
          alertsText({ alerts, alertChannels: [] }),
          ...(ended.length > 0
            ? [
                '\nEnded',
                tableOf(
                  ['kind', 'about', 'from', 'to', 'what'],
                  ended.map((alert) => [
                    alert.kind,
                    alert.subject,
                    shortTime(alert.started),
                    shortTime(alert.ended),
                    alert.summary,
                  ]),
                ),
              ]
            : []),
          '\nChannels',
          tableOf(
            ['channel', 'type', 'goes to', 'state'],
            channels.map((state, index) => {
              const channel = settings.alerts.channels[index];
              return [state.channel, channel?.type, channel && placeOf(channel), channelWhy(state)];
            }),
          ),
        ].join('\n'),
      );
      return alerts.length > 0 || channels.some(isChannelFailing) ? 1 : 0;
    },
    { withoutSecrets: true },
  );
}

export function runAlertTest(options: BridgeCommandOptions, name?: string): Promise<number> {
  const send = async ({ settings, installation, clock, signal }: BridgeCommand) => {
    requireChannels(settings);
    const channels = channelsNamed(settings, name);
    for (const channel of channels) requireSecrets(channel);
    const results = await Promise.all(
      channels.map(async (channel) => {
        const message = testMessage(settings, clock);
        const base = { channel: channel.name, goesTo: placeOf(channel), message: message.id };
        try {
          await sendMessage({ fetch: installation.outgoing.fetch, clock }, channel, message, signal);
          return { ...base, sent: true, why: null };
        } catch (error) {
          return { ...base, sent: false, why: errorText(error) };
        }
      }),
    );
    print(options, { results }, () =>
      tableOf(
        ['channel', 'goes to', 'result'],
        results.map(({ channel, goesTo, why }) => [channel, goesTo, why ?? 'taken by the receiver']),
      ),
    );
    return results.every(({ sent }) => sent) ? 0 : 1;
  };
  // It calls neither an ERP nor a source; the secrets of its own channels are asked for here.
  return withBridge(options, send, { withoutSecrets: true });
}

/** Throws an AppError `invalid` that names the variable that is missing. */
function requireSecrets(channel: ChannelSettings): void {
  const header = channel.type === 'webhook' ? channel.header?.value : undefined;
  const lacking = [...Object.values(channel), header].find(
    (value) => typeof value === 'string' && isLackingText(value),
  );
  if (lacking === undefined) return;
  throw new AppError('invalid', `The channel ${channel.name} needs a variable of the environment: ${String(lacking)}.`);
}

function testMessage({ public_host: bridge }: BridgeSettings, clock: Clock): AlertMessage {
  return { id: timeOrderedId(clock.nowMs()), bridge, made: timestampNow(clock), test: true, alerts: [], more: 0 };
}

/** Throws an AppError `invalid` that names the channels. */
function channelsNamed({ alerts: { channels } }: BridgeSettings, name: string | undefined): ChannelSettings[] {
  const found = channels.filter((channel) => name === undefined || channel.name === name);
  if (found.length > 0) return found;
  const names = channels.map((channel) => channel.name).join(', ');
  throw new AppError(
    'invalid',
    `No channel "${name}" is configured (bridge.alerts.channels); the channels are: ${names}.`,
  );
}

function requireChannels({ alerts }: Pick<BridgeSettings, 'alerts'>): void {
  if (alerts.channels.length > 0) return;
  throw new AppError(
    'invalid',
    'No channel for alerts is configured (bridge.alerts.channels): none are made. docs/operations.md, "Alerts", says how.',
  );
}

/** Where a channel goes, without the path of its URL, which is a secret. */
function placeOf(channel: ChannelSettings): string {
  if (channel.type === 'email') return channel.to.join(', ');
  return URL.canParse(channel.url) ? new URL(channel.url).host : channel.url;
}
