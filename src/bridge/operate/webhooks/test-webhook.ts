import { readOwnWebhooks } from '#bridge/receive/webhook-store.ts';
import type { WebhookDelivery } from '#client/webhook-calls.ts';
import type { Database } from '#platform/database/database.ts';
import { AppError, errorText } from '#platform/errors.ts';
import type { GuardedFetch } from '#platform/guarded-fetch.ts';
import { anyNetwork } from '#platform/network-guard.ts';
import { findServiceWebhook, readDeliveries } from './webhook-api.ts';
import type { WebhookDeps } from './webhook-deps.ts';

export interface TestedWebhook {
  readonly uuid: string;
  readonly url: string;
  readonly arrived: boolean;
  /** Milliseconds until the notification was in the inbox; null when it did not arrive. */
  readonly tookMs: number | null;
  /** Why it did not arrive: what the service's log of deliveries says, or else where to look. A sentence or two each. */
  readonly findings: readonly string[];
}

const checkEveryMs = 200;
const probeTimeoutMs = 5_000;

/**
 * Asks the service for a TEST notification to each webhook of the source, or to the one with this UUID, and waits until
 * it is in the inbox. Throws AppError: `not-found` when there is no such webhook; with the service's text when the
 * service refuses.
 */
export async function testWebhooks(
  deps: WebhookDeps & { fetch: GuardedFetch },
  { uuid, timeoutMs, signal }: { uuid?: string | undefined; timeoutMs: number; signal: AbortSignal },
): Promise<TestedWebhook[]> {
  const own = await readOwnWebhooks(deps.database, deps.source.name);
  const chosen = own.filter(
    (webhook) => webhook.secret !== null && (uuid === undefined ? webhook.retired === null : webhook.uuid === uuid),
  );
  const targets = chosen.flatMap((webhook) =>
    webhook.uuid === null ? [] : [{ uuid: webhook.uuid, url: webhook.url }],
  );
  if (uuid !== undefined && targets.length === 0) {
    const found = await findServiceWebhook(deps.client, uuid, undefined);
    if (found) targets.push({ uuid, url: found.url });
  }
  if (targets.length === 0)
    throw new AppError(
      'not-found',
      `There is no such webhook of the source "${deps.source.name}". ` +
        `Register one with: bridge webhooks register --source ${deps.source.name}`,
    );
  const tested: TestedWebhook[] = [];
  for (const target of targets) tested.push(await testOne(deps, target, { timeoutMs, signal }));
  return tested;
}

async function testOne(
  deps: WebhookDeps & { fetch: GuardedFetch },
  { uuid, url }: { uuid: string; url: string },
  { timeoutMs, signal }: { timeoutMs: number; signal: AbortSignal },
): Promise<TestedWebhook> {
  const { client, database, clock, source } = deps;
  const before = await newestTest(database, source.name);
  const startedMs = clock.nowMs();
  await client.testWebhook(uuid);
  for (;;) {
    const arrived = (await newestTest(database, source.name)) > before;
    const tookMs = clock.nowMs() - startedMs;
    if (arrived) return { uuid, url, arrived, tookMs, findings: [] };
    if (tookMs >= timeoutMs) return { uuid, url, arrived, tookMs: null, findings: await findReasons(deps, uuid, url) };
    await clock.sleep(Math.min(checkEveryMs, timeoutMs - tookMs), signal);
  }
}

/** Returns the id of the newest TEST notification in the inbox; 0 when there is none. */
async function newestTest(database: Database, source: string): Promise<number> {
  const [row] = await database.query<{ id: number | null }>(
    "select max(id) as id from bridge.inbox where source = $1 and feed is null and trigger = 'TEST'",
    [source],
  );
  return row?.id ?? 0;
}

/** Returns the reason, by the service's word; from a service that keeps no log of deliveries, where to look. */
async function findReasons(deps: WebhookDeps & { fetch: GuardedFetch }, uuid: string, url: string): Promise<string[]> {
  const { client, source, fetch } = deps;
  const found = await findServiceWebhook(client, uuid, undefined).catch(() => undefined);
  if (!found) return ['The service does not know the webhook any more: register it again.'];
  const findings: string[] = [];
  if (found.is_active === false)
    findings.push('The service has switched the webhook off after failures: register it again.');
  if (found.url !== url) findings.push(`The service sends to ${found.url}, not to ${url}.`);
  const deliveries = await readDeliveries(client, uuid).catch(() => undefined);
  const delivery = deliveries?.find(({ trigger }) => trigger === 'TEST');
  if (delivery) return [...findings, saidBy(delivery, source)];
  const proofs = source.bearer ? 'the signature or the bearer token' : 'the signature';
  return [
    ...findings,
    await probe(fetch, url),
    'The service shows no log of deliveries. Look at the metric bridge_notifications_total of the receiver: ' +
      `"unauthorized" means that ${proofs} was refused, and no count at all that the service does not reach it.`,
  ];
}

/** What became of the test, by the service's log of deliveries. */
function saidBy(delivery: WebhookDelivery, { name, bearer }: WebhookDeps['source']): string {
  const { due, error = null, status = null, response_excerpt: excerpt } = delivery;
  if (error === null && status === null) {
    const when = due ? `until ${due}, because earlier ones have failed` : 'in a queue';
    return `The service has not sent it yet: it waits ${when}.`;
  }
  if (error === null)
    return excerpt?.includes('"stale"')
      ? 'The receiver has taken it for stale: its clock and the clock of the service are too far apart.'
      : `The service says that it was answered ${status}: another receiver answers under the URL, or one with another database.`;
  if (status !== 401) return `The service says why: ${error}`;
  const proof = bearer ? 'signing key or the bearer token' : 'signing key';
  return `The service says that it was answered 401: the ${proof} differs on the two sides. Run: bridge webhooks rotate --source ${name}`;
}

/** Says whether a receiver answers under the webhook's URL from this machine; the service may be in another network. */
async function probe(fetch: GuardedFetch, url: string): Promise<string> {
  try {
    // A GET is answered with 405 by the endpoint, whatever the keys are.
    const { status } = await fetch({
      url,
      method: 'GET',
      allowedNetworks: anyNetwork,
      timeoutMs: probeTimeoutMs,
      responseBytesMax: 10_000,
    });
    return status === 405
      ? 'From this machine, the receiver answers under the URL. So the service does not reach it, does not trust its ' +
          'certificate, or was refused.'
      : `From this machine, something else than a receiver answers under the URL, with the status ${status}.`;
  } catch (error) {
    return `From this machine, the URL cannot be reached: ${errorText(error)} Is a bridge with the role receive running?`;
  }
}
