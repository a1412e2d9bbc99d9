/** The bridge's own pull of one feed over pages that are served, with what a process of the bridge gives it. */

import { registerFlows } from '#bridge/ledger/flows/register-flows.ts';
import { createLeases } from '#bridge/ledger/leases/lease.ts';
import { startLiveness } from '#bridge/ledger/leases/liveness.ts';
import { migrateBridge } from '#bridge/migrate-bridge.ts';
import { openCheckpoints } from '#bridge/pull/feed/checkpoint-store.ts';
import { createFeedPull } from '#bridge/pull/pull-feed.ts';
import { bridgeSettings } from '#bridge/settings/settings.ts';
import type { Installation } from '#cli/installation.ts';
import { createSourceClient } from '#client/source-client.ts';
import type { FeedName } from '#contract/feed.ts';
import { systemClock, timestampNow } from '#platform/clock.ts';
import { silentLogger } from '#platform/log.ts';
import { Counter, Registry } from '#platform/metrics.ts';

export interface MirrorPull {
  /** Forgets how far the feed was read, so that the next pull begins at the beginning; the mirror stays. */
  forget(): Promise<void>;
  /** Empties the mirror, and everything that storing records has written beside it. */
  clear(): Promise<void>;
  /** Reads the feed to its end; gives the milliseconds. Rejects unless the mirror then holds so many records. */
  pull(expected: number): Promise<number>;
  close(): Promise<void>;
}

const source = 'main';

/** One flow that takes every kind of document is marked for. */
export async function openMirrorPull(
  { open: { database }, outgoing }: Installation,
  baseUrl: string,
  feed: FeedName,
): Promise<MirrorPull> {
  await migrateBridge(database);
  const settings = bridgeSettings.parse({
    sources: [{ name: source, base_url: baseUrl, api_key: 'bench', quotas: { enabled: false } }],
    flows: [{ name: 'erp', source, connector: 'none' }],
  });
  const [only] = settings.sources;
  if (!only) throw new Error('There is no source.');
  await registerFlows(database, settings.flows, timestampNow(systemClock));
  const liveness = await startLiveness({ database, log: silentLogger });
  const client = createSourceClient({
    settings: { baseUrl, apiKey: 'bench', timeoutMs: 60_000, retries: 0 },
    fetch: outgoing.fetch,
    clock: systemClock,
  });
  const pullFeed = createFeedPull({
    throttleMs: () => 0,
    source: only,
    client,
    background: client,
    database,
    acquireLease: createLeases({ database, liveness }),
    clock: systemClock,
    log: silentLogger,
    records: new Counter({
      name: 'bench_records_total',
      help: 'Records',
      labelNames: ['feed', 'result'] as const,
      registers: [new Registry()],
    }),
    wakeFlows: () => undefined,
  });
  const forget = async () => {
    await database.query('delete from bridge.checkpoints');
    await openCheckpoints(database, [{ source, feed }], timestampNow(systemClock));
  };
  /** Resolves when the statistics are made that a pull does not wait for: what is measured next must not, either. */
  const analysed = async () => {
    const isRunning = `select from pg_stat_activity where state = 'active' and query like 'analyze%'`;
    while ((await database.query(isRunning)).length > 0) await systemClock.sleep(10);
  };
  return {
    forget,
    clear: async () => {
      await database.query(
        `truncate bridge.mirror, bridge.mirror_history, bridge.flow_documents,
           bridge.record_references, bridge.subjects`,
      );
      await forget();
    },
    pull: async (expected) => {
      const began = performance.now();
      await pullFeed(feed, new AbortController().signal);
      const elapsedMs = performance.now() - began;
      await analysed();
      const [held] = await database.query<{ count: number; error: string | null }>(
        `select count(*)::int as count, (select max(last_error) from bridge.checkpoints) as error
         from bridge.mirror where feed = $1`,
        [feed],
      );
      if (held?.count !== expected) throw new Error(`${held?.count} of ${expected} records: ${held?.error}`);
      return elapsedMs;
    },
    close: () => liveness.close(),
  };
}
