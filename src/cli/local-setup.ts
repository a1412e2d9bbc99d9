/**
 * The local set-up of `npm start`: an organisation with its keys, and a webhook from the service to the bridge, made
 * through the same API that anybody would use. What was made is kept in the data directory; whatever a kill cuts off is
 * made again at the next start, and what that leaves behind is deleted or harmless.
 */
import { join } from 'node:path';
import { z } from 'zod';
import { createSourceClient, type SourceClient } from '#client/source-client.ts';
import { listEnvelope } from '#contract/list.ts';
import { feedTriggers, webhook } from '#contract/webhook.ts';
import { systemClock } from '#platform/clock.ts';
import { readFileIfAny, replaceFile } from '#platform/durable-file.ts';
import { createOrganisation } from './create-organisation.ts';
import type { Installation } from './installation.ts';

const kept = z.strictObject({
  organisation: z.string(),
  /** Scopes feeds and webhooks: the bridge's. */
  bridgeKey: z.string(),
  /** Scopes manage, jobs and desk: the simulator's. */
  deskKey: z.string(),
  webhook: z.strictObject({ uuid: z.string(), url: z.string(), signingKey: z.string() }).optional(),
});

export type LocalSetup = z.infer<typeof kept>;

/** The organisation and its keys: those of an earlier start, or new ones. */
export async function ensureLocalOrganisation(installation: Installation, serviceUrl: string): Promise<LocalSetup> {
  const text = await readFileIfAny(fileOf(installation));
  const known = text === undefined ? undefined : kept.parse(JSON.parse(text));
  if (known && (await works(clientOf(installation, serviceUrl, known.bridgeKey)))) return known;
  const operator = clientOf(installation, serviceUrl, installation.adminToken);
  const organisation = await createOrganisation(operator, 'Local');
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

/**
 * The webhook to this URL, with its signing key, which the service shows once. A webhook of an earlier start that has
 * another URL, or whose key was lost, is deleted after the new one stands, so no change goes unannounced.
 */
export async function ensureLocalWebhook(
  installation: Installation,
  serviceUrl: string,
  setup: LocalSetup,
  url: string,
): Promise<string> {
  const client = clientOf(installation, serviceUrl, setup.bridgeKey);
  const { result } = await client.call(
    { method: 'GET', path: '/api/webhooks?page_size=1000' },
    listEnvelope.extend({ result: z.array(webhook) }),
  );
  const known = setup.webhook;
  if (known?.url === url && result.some(({ uuid, is_active: active }) => uuid === known.uuid && active === true))
    return known.signingKey;
  const made = await client.call(
    {
      method: 'POST',
      path: '/api/webhooks',
      body: { name: 'bridge', url, triggers: Object.values(feedTriggers) },
    },
    webhook.extend({ signing_key: z.string() }),
  );
  await keep(installation, { ...setup, webhook: { uuid: made.uuid, url, signingKey: made.signing_key } });
  for (const { uuid } of result) await client.call({ method: 'DELETE', path: `/api/webhooks/${uuid}` }, z.unknown());
  return made.signing_key;
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

function fileOf({ dataDir }: Installation): string {
  return join(dataDir, 'local-setup.json');
}

function keep(installation: Installation, setup: LocalSetup): Promise<void> {
  return replaceFile(fileOf(installation), `${JSON.stringify(setup, null, 2)}\n`, 0o600);
}
