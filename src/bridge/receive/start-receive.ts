/** The receiving part of a process: the webhook endpoint, on HTTPS. */
import { pruneJobs } from '#bridge/mirror/jobs-to-read.ts';
import { type BridgeDeps, lanes, type WorkingPart } from '#bridge/settings/bridge-deps.ts';
import type { SourceSettings } from '#bridge/settings/settings.ts';
import { timestampNow } from '#platform/clock.ts';
import { AppError } from '#platform/errors.ts';
import { createApplication } from '#platform/http/application.ts';
import { connectionLimitsDefault } from '#platform/http/connections.ts';
import { listen } from '#platform/http/server.ts';
import { createUnverifiedBytes, unverifiedBytesMax } from '#platform/http/unverified-bytes.ts';
import type { Logger } from '#platform/log.ts';
import { createBearerCheck } from './bearer/bearer-check.ts';
import { createRefusals } from './refusals.ts';
import { createSigningKeys } from './signing-keys.ts';
import { pruneInbox } from './store-notifications.ts';
import { createWebhookEndpoint, type ReceivedSource } from './webhook-endpoint.ts';
import { pruneWebhooks } from './webhook-store.ts';

const pruneEveryMs = 60 * 60 * 1000;
/** A notification whose time differs from now by more does nothing. A service repeats one for three days at most. */
const freshnessMs = 4 * 24 * 60 * 60 * 1000;
/** So many notifications may wait for a commit. */
const backlogMax = 10_000;
/** As for the other secrets in the settings. It is a warning only: the service may have chosen the key. */
const signingKeyLeast = 16;

export interface Receive extends WorkingPart {
  /** Where the endpoint listens: `https://localhost:8443`. */
  readonly url: string;
}

/**
 * Starts listening; `opened` closes what this opens. Throws AppError when the address is not available, or the signing
 * keys cannot be read.
 */
export async function startReceive(
  deps: BridgeDeps & { readiness: Record<string, () => Promise<unknown>> },
  opened: AsyncDisposableStack,
  graceMs: () => number,
): Promise<Receive> {
  const { settings, database, signals, clock, log, registry, secrets, connections } = deps;
  const endpoint = createApplication({
    log,
    registry,
    readiness: deps.readiness,
    probes: 'health',
    trustsProxy: connections?.isTrustedProxy,
  });
  const signingKeys = createSigningKeys({
    configured: new Map(settings.sources.map((source) => [source.name, configuredKeys(source, log)])),
    database,
    secrets,
    clock,
    log,
  });
  await signingKeys.refresh();
  const sources = new Map<string, ReceivedSource>();
  for (const { name, feeds, bearer } of settings.sources)
    sources.set(name, {
      feeds: new Set(feeds),
      bearer: bearer && createBearerCheck(bearer, deps),
    });
  const bodies = {
    withinMs: (deps.connections ?? connectionLimitsDefault).clientMs,
    unverified: createUnverifiedBytes(unverifiedBytesMax),
  };
  const refusals = createRefusals({ log, clock, sources });
  // The last seconds' counts are not worth a failed stop.
  opened.defer(() => refusals.save(database).catch(() => undefined));
  const { route, drain } = createWebhookEndpoint({
    database,
    clock,
    log,
    registry,
    bodyBytesMax: settings.body_bytes_max,
    bodies,
    backlogMax,
    freshnessMs,
    signingKeys,
    refusals,
    sources,
    wakePull: (key) => void signals.signal(lanes.pull, [key]),
    wakeJobs: (source) => void signals.signal(lanes.jobs, [source]),
  });
  endpoint.addDirect(route);
  endpoint.finish();
  opened.defer(drain);
  const { host, port, public_host: publicHost } = settings;
  if (!deps.tls) throw new AppError('internal', 'A process that receives has no certificate.');
  const server = await listen(endpoint.listener, {
    host,
    port,
    tls: deps.tls,
    publicHost,
    connections,
    metrics: { registry, port: 'webhook' },
  });
  opened.defer(async () => {
    endpoint.beginShutdown();
    signingKeys.close();
    await server.close(graceMs());
  });
  let nextPruningMs = Number.NEGATIVE_INFINITY;
  return {
    url: server.url,
    lanes: [],
    housekeeping: async () => {
      await signingKeys.refresh();
      await refusals.save(database);
      if (clock.nowMs() < nextPruningMs) return;
      if (!(await pruneInbox(database, timestampNow(clock), settings.inbox_days))) return;
      nextPruningMs = clock.nowMs() + pruneEveryMs;
      await pruneJobs(database, timestampNow(clock), settings.inbox_days);
      await pruneWebhooks(database, timestampNow(clock));
    },
  };
}

/** With the line break that it was pasted with, a key would refuse every genuine notification. */
function configuredKeys({ name, signing_keys: given }: SourceSettings, log: Logger): string[] {
  const keys = given.map((key) => key.trim());
  if (keys.some((key, index) => key !== given[index]))
    log.warn(
      { source: name },
      'a signing key of the source (signing_keys) has white space around it, which does not count. Remove it',
    );
  if (keys.some((key) => key.length < signingKeyLeast))
    log.warn(
      { source: name },
      `a signing key of the source (signing_keys) has fewer than ${signingKeyLeast} characters: who guesses it can send notifications. Use a random one of 32`,
    );
  return keys;
}
