/**
 * `bridge alerts test`: whether the messages about conditions arrive. Exit codes: 0 taken by every receiver, 1 not taken,
 * 2 wrong usage or settings.
 */
import { sendMessage } from '#bridge/operate/alerts/send-message.ts';
import { type AlertChannel, type AlertSettings, channelsOf } from '#bridge/settings/alert-settings.ts';
import { isLackingText } from '#platform/configuration.ts';
import { AppError, errorText } from '#platform/errors.ts';
import { timeOrderedId } from '#platform/time-ordered-id.ts';
import { type BridgeCommand, type BridgeCommandOptions, withBridge } from '../bridge-command.ts';
import { print, tableOf } from '../output.ts';

export function runAlertTest(options: BridgeCommandOptions): Promise<number> {
  const send = async ({ settings: { alerts, public_host: bridge }, installation, clock, signal }: BridgeCommand) => {
    const channels = channelsOf(alerts);
    if (channels.length === 0)
      throw new AppError(
        'invalid',
        'Alerts are sent nowhere: set bridge.alerts.webhook or bridge.alerts.email. docs/operations.md, "Alerts", says how.',
      );
    for (const channel of channels) requireSecrets(alerts, channel);
    const message = { id: timeOrderedId(clock.nowMs()), bridge, alerts: [], more: 0 };
    const deps = { fetch: installation.outgoing.fetch, clock };
    const results = await Promise.all(
      channels.map((channel) =>
        sendMessage(deps, alerts, channel, message, signal).then(
          () => ({ channel, goesTo: placeOf(alerts, channel), sent: true, why: null }),
          (error: unknown) => ({ channel, goesTo: placeOf(alerts, channel), sent: false, why: errorText(error) }),
        ),
      ),
    );
    print(options, { message: message.id, results }, () =>
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
function requireSecrets(alerts: AlertSettings, channel: AlertChannel): void {
  const values = [...Object.values({ ...alerts[channel] }), ...Object.values(alerts.webhook?.headers ?? {})];
  const lacking = values.find(isLackingText);
  if (lacking === undefined) return;
  throw new AppError('invalid', `bridge.alerts.${channel} needs a variable of the environment: ${String(lacking)}.`);
}

/** Where a channel goes, without the path of its URL, which is a secret. */
function placeOf({ webhook, email }: AlertSettings, channel: AlertChannel): string {
  return channel === 'email' ? (email?.to ?? []).join(', ') : new URL(webhook?.url ?? '').host;
}
