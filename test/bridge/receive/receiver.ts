/** A receiver as `startReceive` sets it up, without the rest of a bridge: on HTTPS, with a clock of choice. */
import { createRefusals, type Refusals } from '#bridge/receive/refusals.ts';
import { createSigningKeys, type SigningKeys } from '#bridge/receive/signing-keys.ts';
import { createWebhookEndpoint, type ReceivedSource } from '#bridge/receive/webhook-endpoint.ts';
import { feedNames } from '#contract/feed.ts';
import { type Clock, systemClock } from '#platform/clock.ts';
import type { Database } from '#platform/database/database.ts';
import { type Application, createApplication } from '#platform/http/application.ts';
import { listen } from '#platform/http/server.ts';
import { createUnverifiedBytes, type UnverifiedBounds } from '#platform/http/unverified-bytes.ts';
import { createLogger } from '#platform/log.ts';
import { Registry } from '#platform/metrics.ts';
import { createSecretBox, type SecretBox } from '#platform/secrets.ts';
import { closeAtEnd } from '../../harness/close-at-end.ts';
import { testCertificates } from '../../harness/test-certificates.ts';

export const testSecrets: SecretBox = createSecretBox(Buffer.alloc(32, 7));

/** Bounds that no test reaches by chance. */
export const roomyBounds = (): UnverifiedBounds => ({
  withinMs: 60_000,
  unverified: createUnverifiedBytes(1_000_000_000),
});

export interface Receiver {
  /** `https://localhost:port/webhooks/main`. */
  readonly url: string;
  readonly application: Application;
  readonly registry: Registry;
  readonly signingKeys: SigningKeys;
  readonly refusals: Refusals;
  readonly woken: string[];
  logged(): string;
  /** How many notifications had this result. */
  count(result: string): Promise<number>;
  stop(): Promise<void>;
}

export async function startReceiver(options: {
  database: Database;
  /** The database from which the keys are read; `database` by default. */
  keyDatabase?: Database;
  keys?: readonly string[];
  clock?: Clock;
  source?: Partial<ReceivedSource>;
  freshnessMs?: number;
  plain?: boolean;
  stalledMs?: number;
}): Promise<Receiver> {
  const { database, clock = systemClock } = options;
  const lines: string[] = [];
  const log = createLogger({ level: 'trace', name: 'test', destination: { write: (line) => lines.push(line) } });
  const registry = new Registry();
  const application = createApplication({ log, registry, readiness: {} });
  const signingKeys = createSigningKeys({
    configured: new Map([['main', options.keys ?? []]]),
    database: options.keyDatabase ?? database,
    secrets: testSecrets,
    clock,
    log,
  });
  const woken: string[] = [];
  const sources = new Map<string, ReceivedSource>([
    ['main', { feeds: new Set(feedNames), bearer: undefined, ...options.source }],
  ]);
  const refusals = createRefusals({ log, clock, sources });
  const { route, drain } = createWebhookEndpoint({
    database,
    clock,
    log,
    registry,
    bodyBytesMax: 10_000,
    bodies: roomyBounds(),
    backlogMax: 1_000,
    freshnessMs: options.freshnessMs ?? Number.POSITIVE_INFINITY,
    signingKeys,
    refusals,
    sources,
    wakePull: (key) => void woken.push(key),
    wakeJobs: (source) => void woken.push(`jobs of ${source}`),
  });
  application.addDirect(route);
  application.finish();
  const tls = options.plain ? {} : { tls: testCertificates(), publicHost: 'localhost' };
  const stalled = options.stalledMs === undefined ? {} : { stalledMs: options.stalledMs };
  const server = await listen(application.listener, { host: '127.0.0.1', port: 0, ...tls, ...stalled });
  let stopped: Promise<void> | undefined;
  const stop = () => {
    stopped ??= (async () => {
      application.beginShutdown();
      signingKeys.close();
      await server.close(0);
      await drain();
    })();
    return stopped;
  };
  closeAtEnd(stop);
  return {
    url: `${server.url}/webhooks/main`,
    application,
    registry,
    signingKeys,
    refusals,
    woken,
    logged: () => lines.join(''),
    count: async (result) => {
      const metric = await registry.getSingleMetric('bridge_notifications_total')?.get();
      return metric?.values.find(({ labels }) => labels['result'] === result)?.value ?? 0;
    },
    stop,
  };
}
