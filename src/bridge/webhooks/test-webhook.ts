import type { Database } from '#platform/database/database.ts';
import { AppError, errorText } from '#platform/errors.ts';
import { FetchError, type GuardedFetch } from '#platform/guarded-fetch.ts';
import { anyNetwork } from '#platform/network-guard.ts';
import { findServiceWebhook } from './webhook-api.ts';
import type { WebhookDeps } from './webhook-deps.ts';
import { readOwnWebhooks } from './webhook-store.ts';

export interface TestedWebhook {
  readonly uuid: string;
  readonly url: string;
  readonly arrived: boolean;
  /** How long it took to be in the inbox, in milliseconds; null when it did not arrive. */
  readonly tookMs: number | null;
  /** What was found where it did not arrive: a sentence each. */
  readonly findings: readonly string[];
}

const lookEveryMs = 200;
const probeTimeoutMs = 5_000;

/**
 * Asks the service for a TEST notification to each of the source's webhooks, or to the one of this UUID, and waits until
 * the inbox has it. Throws `not-found` when there is none, and AppError with the service's words when it refuses.
 */
export async function testWebhooks(
  deps: WebhookDeps & { fetch: GuardedFetch },
  { uuid, timeoutMs, signal }: { uuid?: string | undefined; timeoutMs: number; signal: AbortSignal },
): Promise<TestedWebhook[]> {
  const own = await readOwnWebhooks(deps.database, deps.source.name);
  const chosen = own.filter(
    (one) => one.secret !== null && (uuid === undefined ? one.retired === null : one.uuid === uuid),
  );
  const targets = chosen.flatMap((one) => (one.uuid === null ? [] : [{ uuid: one.uuid, url: one.url }]));
  if (uuid !== undefined && targets.length === 0) {
    const found = await findServiceWebhook(deps.client, uuid, undefined);
    if (found) targets.push({ uuid, url: found.url });
  }
  if (targets.length === 0)
    throw new AppError(
      'not-found',
      `There is no such webhook of the source "${deps.source.name}". Register one with: bridge webhooks register --source ${deps.source.name}`,
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
    await clock.sleep(Math.min(lookEveryMs, timeoutMs - tookMs), signal);
  }
}

/** The id of the newest TEST in the inbox; 0 before the first. */
async function newestTest(database: Database, source: string): Promise<number> {
  const [row] = await database.query<{ id: number | null }>(
    "select max(id) as id from bridge.inbox where source = $1 and trigger = 'TEST'",
    [source],
  );
  return row?.id ?? 0;
}

/** Where a person has to look: at the service, on the way, at the receiver. */
async function findReasons(
  { client, source, fetch }: WebhookDeps & { fetch: GuardedFetch },
  uuid: string,
  url: string,
): Promise<string[]> {
  const findings: string[] = [];
  const found = await findServiceWebhook(client, uuid, undefined).catch(() => undefined);
  if (!found) findings.push('The service does not know the webhook any more: register it again.');
  else if (found.is_active === false)
    findings.push('The service has switched the webhook off after failures: register it again.');
  else if (found.url !== url) findings.push(`The service sends to ${found.url}, not to ${url}.`);
  findings.push(await probe(fetch, url));
  findings.push(
    `Look at the metric bridge_notifications_total of the receiver: "unauthorized" means that the signature${source.bearer ? ' or the bearer token' : ''} was refused, ${source.freshness_seconds === undefined ? '' : '"stale" that the clocks are too far apart, '}nothing at all that the service does not reach it.`,
  );
  findings.push("Look at the service's own log of deliveries: it says what the receiver answered.");
  return findings;
}

/** Whether a receiver answers under the webhook's URL, seen from here; the service may see another network. */
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
      ? 'From this machine, the receiver answers under the URL: so the service does not reach it, does not trust its certificate, or was refused.'
      : `From this machine, something else than a receiver answers under the URL, with the status ${status}.`;
  } catch (error) {
    const text = error instanceof FetchError ? error.publicMessage : errorText(error);
    return `From this machine, the URL cannot be reached: ${text} Is a bridge with the role receive running?`;
  }
}
