/**
 * The local set-up of `npm start`: an organisation with its keys, and a webhook from the service to the bridge, made
 * through the same API that anybody would use. What was made is kept in the data directory; whatever a kill cuts off is
 * made again at the next start, and what that leaves behind is deleted or harmless.
 */
import { join } from 'node:path';
import { z } from 'zod';
import type { SourceSettings } from '#bridge/settings.ts';
import { registerWebhook } from '#bridge/webhooks/register-webhook.ts';
import { createSourceClient, type SourceClient } from '#client/source-client.ts';
import { systemClock } from '#platform/clock.ts';
import { readFileIfAny, replaceFile } from '#platform/durable-file.ts';
import { AppError } from '#platform/errors.ts';
import { createLocalOrganisation } from './create-organisation.ts';
import type { Installation } from './installation.ts';

/** What an earlier version kept beside it is passed over. */
const kept = z.object({
  organisation: z.string(),
  /** Scopes feeds and webhooks: the bridge's. */
  bridgeKey: z.string(),
  /** Scopes manage, jobs and desk: the simulator's. */
  deskKey: z.string(),
  /** Where the service of the latest `npm start` listens, for the commands beside it; the demo's is nobody else's. */
  serviceUrl: z.string().optional(),
});

export type LocalSetup = z.infer<typeof kept>;

/** What an earlier start has kept in the data folder. Throws AppError `invalid` when it cannot be read. */
export async function readLocalSetup(dataDir: string): Promise<LocalSetup | undefined> {
  const text = await readFileIfAny(fileOf(dataDir));
  if (text === undefined) return undefined;
  try {
    return kept.parse(JSON.parse(text));
  } catch (cause) {
    const message = `The file ${fileOf(dataDir)} cannot be read. Delete it: the next npm start sets up a new organisation.`;
    throw new AppError('invalid', message, { cause });
  }
}

/** The commands beside `npm start` find its service. */
export async function keepServiceUrl(installation: Installation, setup: LocalSetup, serviceUrl: string): Promise<void> {
  if (setup.serviceUrl !== serviceUrl) await keep(installation, { ...setup, serviceUrl });
}

/** The organisation and its keys: those of an earlier start, or new ones. */
export async function ensureLocalOrganisation(installation: Installation, serviceUrl: string): Promise<LocalSetup> {
  const known = await readLocalSetup(installation.dataDir);
  if (known && (await works(clientOf(installation, serviceUrl, known.bridgeKey)))) return known;
  const operator = clientOf(installation, serviceUrl, installation.adminToken);
  const organisation = await createLocalOrganisation(operator, 'Local');
  await organisation.put('webhook-domains', { domains: [installation.configuration.bridge.public_host] });
  await organisation.put('allowed-networks', { cidrs: ['127.0.0.0/8', '::1/128'] });
  // What runs here is ours, and the simulator tells a story faster than the limits allow.
  await organisation.put('limits', { enabled: false });
  const setup: LocalSetup = {
    organisation: organisation.id,
    bridgeKey: await organisation.issueKey('bridge', ['feeds', 'webhooks']),
    deskKey: await organisation.issueKey('simulator', ['manage', 'jobs', 'desk', 'feeds']),
  };
  await keep(installation, setup);
  return setup;
}

/** The service announces changes to this URL, and to none of an earlier start. Throws as `registerWebhook` does. */
export async function ensureLocalWebhook(
  installation: Installation,
  source: SourceSettings,
  url: string,
): Promise<void> {
  const { open, secrets } = installation;
  const client = clientOf(installation, source.base_url, source.api_key);
  const deps = { client, source, database: open.database, secrets, clock: systemClock };
  await registerWebhook(deps, { name: 'sourcing-bridge', url, alone: true });
}

export function clientOf(installation: Installation, serviceUrl: string, apiKey: string): SourceClient {
  return createSourceClient({
    settings: { baseUrl: serviceUrl, apiKey, timeoutMs: 30_000, retries: 3 },
    fetch: installation.outgoing.fetch,
    clock: systemClock,
  });
}

/** Keys of a database that is no longer there are of no use. */
async function works(client: SourceClient): Promise<boolean> {
  try {
    await client.readFeed('awards', { modifiedAfter: undefined, pageSize: 1 });
    return true;
  } catch {
    return false;
  }
}

function fileOf(dataDir: string): string {
  return join(dataDir, 'local-setup.json');
}

function keep(installation: Installation, setup: LocalSetup): Promise<void> {
  return replaceFile(fileOf(installation.dataDir), `${JSON.stringify(setup, null, 2)}\n`, 0o600);
}
