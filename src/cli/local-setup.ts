/**
 * The local set-up of `npm start`: an organisation with its keys, and a webhook from the service to the bridge, made
 * through the service's public API. The result is kept in the data directory. When a kill interrupts the set-up, the
 * next start makes it again; the remains of the first try are deleted or harmless.
 */

import { join } from 'node:path';
import { z } from 'zod';
import { registerWebhook } from '#bridge/operate/webhooks/register-webhook.ts';
import type { SourceSettings } from '#bridge/settings/settings.ts';
import { createSourceClient, type SourceClient } from '#client/source-client.ts';
import { readFileIfAny, replaceFile } from '#platform/durable-file.ts';
import { AppError } from '#platform/errors.ts';
import { startCommand } from '#platform/own-package.ts';
import { createLocalOrganisation } from './create-organisation.ts';
import type { Installation } from './installation.ts';

/** Members that an earlier version has kept are ignored. */
const kept = z.object({
  organisation: z.string(),
  /** The bridge's key, with the scopes feeds and webhooks; manage and jobs are for intakes. */
  bridgeKey: z.string(),
  /** The simulator's key, with the scopes manage, jobs, desk and feeds. */
  deskKey: z.string(),
  /** The service's URL at the latest `npm start` or `npm run demo`, for the commands beside it. */
  serviceUrl: z.string().optional(),
});

export type LocalSetup = z.infer<typeof kept>;

/**
 * The set-up that an earlier start has kept in the data folder, if any. Throws an AppError `invalid` for a bad file.
 */
export async function readLocalSetup(dataDir: string): Promise<LocalSetup | undefined> {
  const text = await readFileIfAny(fileOf(dataDir));
  if (text === undefined) return undefined;
  try {
    return kept.parse(JSON.parse(text));
  } catch (cause) {
    const message = `The file ${fileOf(dataDir)} cannot be read. Delete it: the next ${startCommand} sets up a new organisation.`;
    throw new AppError('invalid', message, { cause });
  }
}

/** Keeps the service's URL, so that commands over this data folder have its source. */
export async function keepServiceUrl(installation: Installation, setup: LocalSetup, serviceUrl: string): Promise<void> {
  if (setup.serviceUrl !== serviceUrl) await keep(installation, { ...setup, serviceUrl });
}

/** Returns the organisation and its keys: those of an earlier start while they still work, else new ones. */
export async function ensureLocalOrganisation(installation: Installation, serviceUrl: string): Promise<LocalSetup> {
  const known = await readLocalSetup(installation.dataDir);
  if (known && (await works(clientOf(installation, serviceUrl, known.bridgeKey)))) return known;
  const operator = clientOf(installation, serviceUrl, await installation.adminToken());
  const organisation = await createLocalOrganisation(operator, 'Local');
  await organisation.put('webhook-domains', { domains: [installation.configuration.bridge.public_host] });
  await organisation.put('allowed-networks', { cidrs: ['127.0.0.0/8', '::1/128'] });
  // The simulator plays a story faster than the limits allow.
  await organisation.put('limits', { enabled: false });
  const setup: LocalSetup = {
    organisation: organisation.id,
    bridgeKey: await organisation.issueKey('bridge', ['feeds', 'webhooks', 'manage', 'jobs']),
    deskKey: await organisation.issueKey('simulator', ['manage', 'jobs', 'desk', 'feeds']),
  };
  await keep(installation, setup);
  return setup;
}

/**
 * Has the service announce changes to this URL, with `jobs` also the ends of jobs, and no longer to that of an earlier start. Throws as `registerWebhook`.
 */
export async function ensureLocalWebhook(
  installation: Installation,
  source: SourceSettings,
  { url, jobs }: { url: string; jobs: boolean },
): Promise<void> {
  const { open, secrets, clock } = installation;
  const client = clientOf(installation, source.base_url, source.api_key);
  const deps = { client, source, jobs, database: open.database, secrets, clock };
  await registerWebhook(deps, { name: 'sourcing-bridge', url, alone: true });
}

export function clientOf(installation: Installation, serviceUrl: string, apiKey: string): SourceClient {
  return createSourceClient({
    settings: { baseUrl: serviceUrl, apiKey, timeoutMs: 30_000, retries: 3 },
    fetch: installation.outgoing.fetch,
    clock: installation.clock,
  });
}

/** False for the keys of another database, for example of one that was deleted. */
async function works(client: SourceClient): Promise<boolean> {
  try {
    await client.readFeed('awards', { modifiedAfter: undefined, pageSize: 10 });
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
