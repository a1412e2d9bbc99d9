/** A requisition of a real ERP (the one of the memory connector) at the real service: its event, and the award of it. */
import { expect, test } from 'vitest';
import { documentHash, makeDocuments } from '#bridge/assemble/make-documents.ts';
import { registerFlows } from '#bridge/flows/register-flows.ts';
import { resumeIntake } from '#bridge/intake/control-intakes.ts';
import { findIntakeRecords, readIntakeHistory } from '#bridge/intake/intake-history.ts';
import { readIntakeStatuses } from '#bridge/intake/intake-status.ts';
import { createErpReader } from '#bridge/intake/read-erp.ts';
import { registerIntakes } from '#bridge/intake/register-intakes.ts';
import { planRequisitions } from '#bridge/intake/requisitions/plan-requisitions.ts';
import { createWishOf } from '#bridge/intake/requisitions/requisition-need.ts';
import { createIntakeRun } from '#bridge/intake/run-intake.ts';
import { createWanted } from '#bridge/intake/wanted-supplier.ts';
import { createLeases } from '#bridge/leases/lease.ts';
import { storeRecords } from '#bridge/mirror/store-records.ts';
import { bridgeSettings } from '#bridge/settings.ts';
import { createSourceClient } from '#client/source-client.ts';
import { testContext } from '#connector/testing/test-context.ts';
import { systemClock, timestampNow } from '#platform/clock.ts';
import { silentLogger } from '#platform/log.ts';
import memory from '../../../connectors/memory/index.ts';
import { startMemoryErp } from '../../../connectors/memory/memory-erp.ts';
import { eventually } from '../../harness/eventually.ts';
import { createSuppliers, desk, readWholeFeed } from '../../harness/sourcing.ts';
import { testOutgoing } from '../../harness/test-certificates.ts';
import { createTestDatabase } from '../../harness/test-database.ts';
import { startTestService } from '../../harness/test-service.ts';
import { flowOf } from '../parts.ts';

const credentials = { clientId: 'bridge', clientSecret: 'secret' };

test('a requisition becomes an event, and the award of each lot names it and its line', async () => {
  const service = await startTestService();
  const organisation = await service.organisation();
  await createSuppliers(organisation, ['S1']);
  const erp = await startMemoryErp(credentials);
  const { database } = await createTestDatabase();
  const flow = flowOf({
    source: 'main',
    documents: ['award'],
    quantity_column: 'Quantity',
    unit_price_column: 'Price',
  });
  const settings = bridgeSettings.parse({
    sources: [{ name: 'main', base_url: service.url, api_key: organisation.key }],
    intakes: [
      {
        name: 'requisitions',
        source: 'main',
        connector: 'memory',
        stream: 'requisition',
        make: 'event',
        poll_seconds: 1,
        mapping: { event: { suppliers: [{ value: 'S1' }] } },
      },
    ],
  });
  const [intake, source] = [settings.intakes[0], settings.sources[0]];
  if (!intake || !source) throw new Error('no settings');
  const session = await memory.open(
    memory.settings.parse({ base_url: erp.address, client_id: 'bridge', client_secret: 'secret' }),
    testContext().context,
  );
  const now = () => timestampNow(systemClock);
  const secrets = { mac: () => Buffer.from('mac'), verifiesMac: () => true } as never;
  await registerIntakes(database, settings.intakes, secrets, now());
  await registerFlows(database, [flow], now());
  const deps = {
    intake,
    source,
    reader: createErpReader(session, 'requisition', { pageMs: 60_000, redact: (text) => text }),
    client: createSourceClient({
      settings: { baseUrl: service.url, apiKey: organisation.key, timeoutMs: 30_000, retries: 0 },
      fetch: testOutgoing().fetch,
      clock: systemClock,
    }),
    teller: undefined,
    wantedOf: createWanted(intake),
    wishOf: createWishOf(intake),
    database,
    clock: systemClock,
    log: silentLogger,
    count: () => undefined,
    acquireLease: createLeases({
      database,
      liveness: { id: 1, isAlive: async () => true, close: async () => undefined },
    }),
  };
  const run = createIntakeRun(deps);
  const status = async () => (await readIntakeStatuses(database, settings, [], now()))[0];
  erp.saveRecord('requisitions', {
    number: 'PR-7',
    name: 'Fasteners',
    closed: false,
    category: 'Steel',
    plant: 'Rome',
    needed_by: '2030-03-31T00:00:00.000000Z',
    items: [
      { line: '10', name: 'Bolt', quantity: '4.5', unit: 'kg' },
      { line: '20', name: 'Nut', quantity: '8', unit: 'pc' },
    ],
    files: [{ file_name: 'drawing.pdf', content: 'JVBERi0=' }],
  });
  await run(new AbortController().signal);
  expect(await status()).toMatchObject({ pausedKind: 'first-run', creates: 1, events: 1 });
  expect(await planRequisitions(database, deps, 10)).toMatchObject([
    { action: 'create', name: 'Fasteners', lots: 2, requisitions: ['PR-7'] },
  ]);
  await resumeIntake(database, 'requisitions', { agreeToArchive: false }, now());
  await eventually('the event is made, and has its file', async () => {
    await run(new AbortController().signal);
    return (await status())?.lag.why === 'in step';
  });
  const [record] = await readWholeFeed(organisation, 'sourcing-events');
  expect(record).toMatchObject({
    name: 'Fasteners',
    reference_id: 'PR-7',
    category: 'Steel',
    tags: [{ name: 'Plant', value: 'Rome' }],
    lot_count: 2,
    status: 'DRAFT',
  });
  const { body } = await organisation.call('GET', `/desk/events/${record.id}`);
  expect(JSON.stringify(body)).toContain('drawing.pdf');

  // A buyer lets suppliers bid, and awards.
  await desk(organisation, 'POST', `${record.id}/publish`);
  const price = (lot: string, value: string) => ({ lot, values: { Price: value } });
  await desk(organisation, 'POST', `${record.id}/bids`, {
    supplier: 'S1',
    lots: [price('Bolt', '2'), price('Nut', '3')],
  });
  await desk(organisation, 'PUT', `${record.id}/scenarios/best`, {
    awards: ['Bolt', 'Nut'].map((lot) => ({ lot, supplier: 'S1', share_awarded: '1' })),
  });
  await desk(organisation, 'POST', `${record.id}/award`, { scenario: 'best' });
  await desk(organisation, 'POST', `${record.id}/close`);
  await database.transaction(async (tx) => {
    for (const feed of ['sourcing-events', 'awards'] as const)
      await storeRecords(tx, { source: 'main', feed, records: await readWholeFeed(organisation, feed), now: now() });
  });
  const keys = await database.query<{ kind: string; key: string }>(
    `select kind, key from bridge.flow_documents where kind = 'award'`,
  );
  const [made] = [...(await makeDocuments(database, flow, keys)).values()];
  if (made?.made !== 'document' || made.document.kind !== 'award') throw new Error(JSON.stringify(made));
  expect(made.document.lines.map(({ lot, quantity, requisition }) => [lot, quantity, requisition])).toEqual([
    ['Bolt', '4.5', { intake: 'requisitions', reference_id: 'PR-7', line: '10' }],
    ['Nut', '8', { intake: 'requisitions', reference_id: 'PR-7', line: '20' }],
  ]);

  // The flow has delivered it: its order stands in the requisition's history.
  await database.query(
    `update bridge.flow_documents set delivered = now(), reference = 'PO-1', delivered_hash = $1 where kind = 'award'`,
    [documentHash(made.document)],
  );
  const history = await readIntakeHistory(database, { intake: 'requisitions', erpKey: 'PR-7', limit: 10 });
  expect(history.map(({ step }) => step)).toEqual(['read', 'sent', 'taken', 'made', 'sent', 'taken', 'delivered']);
  expect(history.at(-1)?.text).toContain('PO-1');
  const found = await findIntakeRecords(database, { text: record.id, limit: 10 });
  expect(found).toMatchObject([{ erpKey: 'PR-7', stream: 'requisition', key: record.id, state: 'in step' }]);
  await session.close();
});
