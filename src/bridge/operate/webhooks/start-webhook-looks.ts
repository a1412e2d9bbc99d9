/** The worker that asks each service every five minutes how its webhooks to this bridge do. */
import type { SourceClients } from '#bridge/mirror/source/source-clients.ts';
import { type BridgeDeps, lanes, type WorkingPart } from '#bridge/settings/bridge-deps.ts';
import type { SourceSettings } from '#bridge/settings/settings.ts';
import { timestampNow } from '#platform/clock.ts';
import { AppError, errorText } from '#platform/errors.ts';
import { findWebhookFault } from './find-fault.ts';
import { webhookUrlOf } from './webhook-deps.ts';
import { claimLook, readDueLooks, storeFault } from './webhook-looks.ts';

/** Starts the worker, which ends with `deps.signals`. */
export function startWebhookLooks(deps: BridgeDeps, clientOf: SourceClients['clientOf']): WorkingPart {
  const { settings, database, signals, clock } = deps;
  const sources = new Map(settings.sources.map((source) => [source.name, source]));
  const byHand = settings.sources.filter(({ signing_keys: keys }) => keys.length > 0).map(({ name }) => name);
  signals.work(lanes.webhooks, { concurrency: Math.max(1, sources.size) }, async (name) => {
    const source = sources.get(name);
    if (source) await lookAt(deps, clientOf, source);
  });
  return {
    lanes: [
      {
        lane: lanes.webhooks,
        due: () => readDueLooks(database, { names: [...sources.keys()], byHand, now: timestampNow(clock) }),
      },
    ],
  };
}

/** A service that does not answer leaves what was found before; one that shows no webhooks to this key shows no fault. */
async function lookAt(
  { settings, database, secrets, clock, log }: BridgeDeps,
  clientOf: SourceClients['clientOf'],
  source: SourceSettings,
): Promise<void> {
  const looked = timestampNow(clock);
  if (!(await claimLook(database, source.name, looked))) return;
  const client = clientOf(source.name, { background: true });
  const url = webhookUrlOf(settings, source.name);
  try {
    const fault = await findWebhookFault({ client, source, database, secrets, clock }, url);
    await storeFault(database, source.name, { looked, fault });
  } catch (error) {
    if (!(error instanceof AppError)) throw error;
    log.debug({ source: source.name, error: errorText(error) }, 'the service does not say how its webhooks do');
    if (error.recovery.do !== 'retry') await storeFault(database, source.name, { looked, fault: null });
  }
}
