/** The clients of the configured sources: they share the sources' quotas in SQL, and count their requests. */

import type { BridgeDeps } from '#bridge/settings/bridge-deps.ts';
import type { SourceSettings } from '#bridge/settings/settings.ts';
import type { Dialect } from '#client/dialect.ts';
import { createSourceClient, type SourceClient } from '#client/source-client.ts';
import { timestampNow } from '#platform/clock.ts';
import { AppError } from '#platform/errors.ts';
import { Counter, Gauge } from '#platform/metrics.ts';
import { readQuotasLeft } from './quotas-left.ts';
import { createSqlQuotas } from './sql-quotas.ts';

const retries = 3;
/** So many limits have a line in the metrics. */
const quotasMax = 100;

type Deps = Pick<BridgeDeps, 'settings' | 'fetch' | 'clock' | 'database' | 'registry'>;

export interface ClientUse {
  /** For work that may take its time, as a backfill: it leaves a quarter of each quota to the others. */
  readonly background?: boolean;
}

/** Returns a function that returns a source's client by name; it throws AppError `not-found` for an unknown name. */
export function createSourceClients(deps: Deps): (source: string, use?: ClientUse) => SourceClient {
  const { settings, fetch, clock, database } = deps;
  const requests = registerMetrics(deps);
  const create = (source: SourceSettings, background: boolean) =>
    createSourceClient({
      settings: {
        baseUrl: source.base_url,
        apiKey: source.api_key,
        timeoutMs: source.timeout_seconds * 1000,
        retries,
        retryAfterMaxMs: source.retry_after_max_seconds * 1000,
        fileNetworks: source.file_networks,
        dialect: dialectOf(source),
      },
      fetch,
      clock,
      quotas: createSqlQuotas({ source, database, clock, background }),
      onRequest: (request) => requests.inc({ ...request }),
    });
  const sources = new Map(settings.sources.map((source) => [source.name, source]));
  // Made when they are used first: of hundreds of sources a part of a process may use few.
  const clients = { live: new Map<string, SourceClient>(), background: new Map<string, SourceClient>() };
  return (name, { background = false } = {}) => {
    const known = clients[background ? 'background' : 'live'];
    const source = sources.get(name);
    if (!source) throw new AppError('not-found', `No source is configured under the name "${name}".`);
    const client = known.get(name) ?? create(source, background);
    known.set(name, client);
    return client;
  };
}

/** The settings require the e-mail where something is made in its name. */
export function dialectOf({ dialect, user_email: user = '' }: SourceSettings): Dialect {
  return dialect === 'public' ? { name: dialect, user } : { name: dialect };
}

/** Several parts of a process create clients: they share one set of metrics. */
function registerMetrics({ settings, database, clock, registry }: Deps): Counter<'bucket' | 'status'> {
  const name = 'bridge_source_requests_total';
  const known = registry.getSingleMetric(name);
  if (known instanceof Counter) return known;
  const left = new Gauge({
    name: 'bridge_quota_left',
    help: `Requests that the source still allows to all processes together, for the ${quotasMax} limits of which least is left`,
    labelNames: ['source', 'bucket', 'window'] as const,
    registers: [registry],
    async collect() {
      left.reset();
      const quotas = await readQuotasLeft(database, settings.sources, timestampNow(clock));
      for (const quota of quotas.toSorted((a, b) => a.left - b.left).slice(0, quotasMax))
        left.set({ source: quota.source, bucket: quota.bucket, window: quota.window }, quota.left);
    },
  });
  return new Counter({
    name,
    help: 'Requests to sources: by the limit they count against, and the status of the answer or why none came',
    labelNames: ['bucket', 'status'] as const,
    registers: [registry],
  });
}
