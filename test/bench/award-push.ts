/** Awards of five lines in the mirror, and a pusher that writes them into the tables of the postgres connector. */
import { type OpenFlow, openFlows } from '#bridge/connectors/open-flows.ts';
import { registerFlows } from '#bridge/ledger/flows/register-flows.ts';
import { createLeases } from '#bridge/ledger/leases/lease.ts';
import { startLiveness } from '#bridge/ledger/leases/liveness.ts';
import { migrateBridge } from '#bridge/migrate-bridge.ts';
import { storeRecords } from '#bridge/mirror/store-records.ts';
import { createFlowPush } from '#bridge/push/push-flow.ts';
import { createProcessIdentity } from '#bridge/settings/process-identity.ts';
import { type BridgeSettings, bridgeSettings } from '#bridge/settings/settings.ts';
import type { Installation } from '#cli/installation.ts';
import { systemClock, timestampNow } from '#platform/clock.ts';
import type { Database } from '#platform/database/database.ts';
import { silentLogger } from '#platform/log.ts';
import { Counter, Registry } from '#platform/metrics.ts';

export const suppliersEach = 5;
export const lotsEach = 5;

/** Registers the flow, and returns its settings and its pusher on a database. What it opens is closed with `opened`. */
export async function openAwardPush(
  { open, dataDir }: Installation,
  opened: AsyncDisposableStack,
): Promise<{ settings: BridgeSettings; pushOn: (database: Database) => (signal: AbortSignal) => Promise<unknown> }> {
  const { database, url } = open;
  await migrateBridge(database);
  const settings = bridgeSettings.parse({
    sources: [{ name: 'main', base_url: 'http://127.0.0.1:1', api_key: 'key' }],
    flows: [{ name: 'erp', source: 'main', connector: 'postgres', settings: { url, schema: 'erp' } }],
  });
  const [openFlow] = await openFlows({ settings, dataDir, log: silentLogger, clock: systemClock }, opened);
  if (!openFlow) throw new Error('no flow');
  await registerFlows(database, settings.flows, timestampNow(systemClock));
  const liveness = await startLiveness({ database, log: silentLogger });
  opened.defer(() => liveness.close());
  return { settings, pushOn: (pushed) => pushOf(openFlow, pushed, liveness) };
}

function pushOf(
  openFlow: OpenFlow,
  database: Database,
  liveness: Awaited<ReturnType<typeof startLiveness>>,
): (signal: AbortSignal) => Promise<unknown> {
  return createFlowPush({
    ...openFlow,
    database,
    acquireLease: createLeases({ database, liveness }),
    clock: systemClock,
    processIdentity: createProcessIdentity(),
    log: silentLogger,
    outcomes: new Counter({ name: 'o', help: 'o', labelNames: ['flow', 'status'], registers: [new Registry()] }),
  });
}

/** Pushes a new version of every award; returns how long that took. */
export async function pushAll(
  database: Database,
  push: (signal: AbortSignal) => Promise<unknown>,
  awards: { version: number; documents: number },
): Promise<number> {
  await storeAwards(database, awards);
  await database.query('analyze bridge.mirror, bridge.flow_documents');
  const began = performance.now();
  await push(new AbortController().signal);
  const elapsed = performance.now() - began;
  await expectAllPushed(database);
  return elapsed;
}

/** Throws an error when a document is still due. */
export async function expectAllPushed(database: Database): Promise<void> {
  const [left] = await database.query<{ count: number }>(
    `select count(*)::int as count from bridge.flow_documents where flow = 'erp' and due is not null`,
  );
  if (left?.count !== 0) throw new Error(`${left?.count} documents are still due`);
}

const uuid = (space: number, n: number) =>
  `00000000-0000-4000-8${space.toString().padStart(3, '0')}-${n.toString(16).padStart(12, '0')}`;

/** New versions of all awards: every event has five suppliers, and each wins a share of each lot. */
export async function storeAwards(
  database: Database,
  { version, documents }: { version: number; documents: number },
): Promise<void> {
  const events = documents / suppliersEach;
  const modified = `2030-01-01T00:00:00.${String(version).padStart(6, '0')}Z`;
  const suppliers = Array.from({ length: suppliersEach }, (_, n) => ({
    id: uuid(1, n),
    name: `Supplier "${n}" of forged parts`,
    external_id: `SUP-${n}`,
  }));
  for (let from = 0; from < events; from += 50) {
    const some = Array.from({ length: Math.min(50, events - from) }, (_, index) => from + index);
    const now = timestampNow(systemClock);
    const store = (feed: 'sourcing-events' | 'awards', records: Record<string, unknown>[]) =>
      database.transaction((tx) => storeRecords(tx, { source: 'main', feed, records, now }));
    if (version === 1)
      await store(
        'sourcing-events',
        some.map((n) => ({
          id: uuid(2, n),
          name: `RFQ ${n}: forged steel flanges`,
          reference_id: `RFQ-${n}`,
          type: 'RFQ',
          status: 'CLOSED',
          primary_currency: 'EUR',
          modified,
          suppliers,
        })),
      );
    await store(
      'awards',
      some.flatMap((n) => Array.from({ length: lotsEach }, (_, lot) => awardOf(n, lot, { version, modified }))),
    );
  }
}

function awardOf(event: number, lot: number, { version, modified }: { version: number; modified: string }) {
  return {
    id: uuid(3, event * lotsEach + lot),
    sourcing_event: uuid(2, event),
    lot_name: `Lot ${lot}: forged steel flange, DN ${50 + lot * 25}, "EN 1092-1"`,
    scenario_name: 'Best price',
    modified,
    awards: Array.from({ length: suppliersEach }, (_, supplier) => ({
      supplier: uuid(1, supplier),
      share_awarded: '0.2',
      cost: `${event + version}.67`,
      bid_sheet_values: Array.from({ length: 6 }, (_cell, cell) => ({
        column_name: `Column ${cell}`,
        value: cell === 5 ? 'Packed in crates of 20, certificate 3.1' : `${(event * 7919 + cell) % 10_000}`,
      })),
    })),
  };
}
