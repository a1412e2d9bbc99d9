/** Alerts and their channels, in words for people. */
import type { Alert } from '#bridge/alerts/alert.ts';
import type { ChannelState } from '#bridge/alerts/alert-store.ts';
import { isChannelFailing } from '#bridge/status/status.ts';
import { shortTime, tableOf } from './output.ts';

/** The alerts, and the channels that fail. */
export function alertsText({
  alerts,
  alertChannels,
}: {
  alerts: readonly Alert[];
  alertChannels: readonly ChannelState[];
}): string {
  const failing = alertChannels
    .filter(isChannelFailing)
    .map((state) => `channel ${state.channel}: ${channelWhy(state)}`);
  const table = tableOf(
    ['kind', 'about', 'since', 'what', 'what to do'],
    alerts.map(({ kind, subject, started, summary, action }) => [kind, subject, shortTime(started), summary, action]),
    'No alert is open.',
  );
  return [table, ...failing].join('\n');
}

/** What a channel is doing. */
export function channelWhy({ attempts, lastError, nextTry, givenUp, waiting, sent }: ChannelState): string {
  const parts: string[] = [];
  if (lastError !== null)
    parts.push(
      `failed ${attempts === 1 ? 'once' : `${attempts} times`}, next try at ${shortTime(nextTry)}: ${lastError}`,
    );
  if (givenUp > 0) parts.push(`${givenUp} given up within the last day`);
  if (waiting > 0) parts.push(`${waiting} to be told of`);
  if (parts.length === 0) parts.push(sent === null ? 'nothing has been sent yet' : `last sent at ${shortTime(sent)}`);
  return parts.join('; ');
}
