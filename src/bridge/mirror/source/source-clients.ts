/** The clients of the configured sources. All clients of a source in this process share what it allows. */
import type { BridgeDeps } from '#bridge/settings/bridge-deps.ts';
import type { SourceSettings } from '#bridge/settings/settings.ts';
import type { Dialect } from '#client/dialect.ts';
import { createMemoryQuotas, type MemoryQuotas } from '#client/memory-quotas.ts';
import { limitNameOf, type Quotas } from '#client/quotas.ts';
import { createSourceClient, type SourceClient } from '#client/source-client.ts';
import { AppError } from '#platform/errors.ts';
import { Counter } from '#platform/metrics.ts';
import { sourceLimit } from './source-limit.ts';

const retries = 3;

interface Deps extends Pick<BridgeDeps, 'settings' | 'fetch' | 'clock' | 'registry'> {
  /** For how long a call waits itself where the source asks for a wait; default: 5 s, as a schedule comes again. */
  readonly longestWaitMs?: number;
}

export interface ClientUse {
  /** For work that may take its time, as a backfill: it leaves a quarter of each quota to the others. */
  readonly background?: boolean;
}

export interface SourceClients {
  /** Returns a source's client; throws AppError `not-found` for an unknown name. */
  readonly clientOf: (source: string, use?: ClientUse) => SourceClient;
  /** What the clients of a source share; throws as `clientOf` does. */
  readonly quotasOf: (source: string) => MemoryQuotas;
}

/** Called once in a process: two of these would not know of each other's requests. */
export function createSourceClients({ settings, fetch, clock, registry, longestWaitMs }: Deps): SourceClients {
  const requests = new Counter({
    name: 'bridge_source_requests_total',
    help: 'Requests to sources: by the limit they count against, and the status of the answer or why none came',
    labelNames: ['bucket', 'status'] as const,
    registers: [registry],
  });
  const create = (source: SourceSettings, quotas: Quotas) =>
    createSourceClient({
      settings: {
        baseUrl: source.base_url,
        apiKey: source.api_key,
        timeoutMs: source.timeout_seconds * 1000,
        retries,
        longestWaitMs,
        fileNetworks: source.file_networks,
        dialect: dialectOf(source),
      },
      fetch,
      clock,
      quotas,
      onRequest: (request) => requests.inc({ ...request }),
    });
  const open = (source: SourceSettings) => {
    const quotas = createMemoryQuotas(clock, (bucket) => sourceLimit(source, limitNameOf(bucket)), longestWaitMs);
    return { quotas, live: create(source, quotas), background: create(source, quotas.background) };
  };
  const sources = new Map(settings.sources.map((source) => [source.name, source]));
  // Opened when they are used first: of hundreds of sources a part of a process may use few.
  const opened = new Map<string, ReturnType<typeof open>>();
  const openedOf = (name: string) => {
    const known = opened.get(name);
    if (known) return known;
    const source = sources.get(name);
    if (!source) throw new AppError('not-found', `No source is configured under the name "${name}".`);
    const clients = open(source);
    opened.set(name, clients);
    return clients;
  };
  return {
    clientOf: (name, { background = false } = {}) => openedOf(name)[background ? 'background' : 'live'],
    quotasOf: (name) => openedOf(name).quotas,
  };
}

/** The settings require the e-mail where something is made in its name. */
export function dialectOf({ dialect, user_email: user = '' }: SourceSettings): Dialect {
  return dialect === 'public' ? { name: dialect, user } : { name: dialect };
}
