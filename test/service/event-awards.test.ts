import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { eventually } from '../harness/eventually.ts';
import { registerTestWebhook } from '../harness/register-webhook.ts';
import { createEvent, createSuppliers, desk, eventPayload } from '../harness/sourcing.ts';
import { startTestBridge } from '../harness/test-bridge.ts';
import { startTestService } from '../harness/test-service.ts';

test('all awards of an event are one document: after its closing, after another one, and until none is left', async () => {
  const service = await startTestService();
  const organisation = await service.organisation();
  const { bridge, db, dataDir } = await startTestBridge(
    {
      sources: [{ name: 'main', base_url: service.url, api_key: organisation.key, poll_seconds: 1 }],
      flows: [
        {
          name: 'inbox',
          source: 'main',
          connector: 'file',
          documents: ['event-awards'],
          quantity_column: 'Volume',
          unit_price_column: 'Price',
          settings: { directory: 'inbox' },
        },
      ],
    },
    { sweepMs: 200 },
  );
  await registerTestWebhook({ bridge, db }, { baseUrl: service.url, apiKey: organisation.key });
  const outcomesUntil = (last: string) =>
    eventually(`the document is ${last}`, async () => {
      const all = await outcomes();
      return all.at(-1) === last && all;
    });
  const outcomes = async () =>
    (
      await db.database.query<{ outcome: string }>(
        `select outcome from bridge.attempts where step = 'write' order by id`,
      )
    ).map(({ outcome }) => outcome);

  await createSuppliers(organisation, ['S1', 'S2']);
  const event = await createEvent(organisation, eventPayload({ lots: ['A', 'B', 'C'], suppliers: ['S1', 'S2'] }));
  const held = async () => JSON.parse(await readFile(join(dataDir, 'inbox', `event-awards_${event}.json`), 'utf8'));
  const award = async (name: string, awards: readonly (readonly [lot: string, supplier: string, share: string])[]) => {
    await desk(organisation, 'PUT', `${event}/scenarios/${name}`, {
      awards: awards.map(([lot, supplier, share]) => ({ lot, supplier, share_awarded: share })),
    });
    await desk(organisation, 'POST', `${event}/award`, { scenario: name });
    await desk(organisation, 'POST', `${event}/close`);
  };
  await desk(organisation, 'POST', `${event}/publish`);
  for (const [supplier, price] of [
    ['S1', '2.50'],
    ['S2', '3'],
  ] as const)
    await desk(organisation, 'POST', `${event}/bids`, {
      supplier,
      lots: ['A', 'B'].map((lot) => ({ lot, values: { Price: price } })),
    });
  await award('first', [
    ['A', 'S1', '0.6'],
    ['A', 'S2', '0.4'],
    ['B', 'S1', '1'],
  ]);
  // Of lot A, 10 pieces: 6 at 2.50 and 4 at 3; of lot B 10 at 2.50. Nobody won lot C.
  const first = await eventually('the document is in the folder', () => held().catch(() => undefined));
  expect(first).toMatchObject({ state: 'current', total_cost: '52', currency: 'EUR', event: { id: event } });
  expect(
    first.suppliers.map((won: Record<string, string>) => [won['external_id'], won['total_cost']]).toSorted(),
  ).toEqual([
    ['S1', '40'],
    ['S2', '12'],
  ]);
  expect(first.bid_sheet_csv.split('\r\n')[0]).toMatch(/^lot,supplier,supplier_external_id,share,Volume,Price/);
  expect(first.bid_sheet_csv).toMatch(/\r\nB,Supplier S1,S1,1,10,2\.5/);

  await desk(organisation, 'POST', `${event}/reopen`);
  await award('second', [
    ['A', 'S2', '1'],
    ['B', 'S2', '1'],
  ]);
  await eventually('the document has the other winners', async () => (await held()).total_cost === '60');
  expect(await outcomesUntil('updated')).toEqual(['created', 'updated']);

  await desk(organisation, 'POST', `${event}/reopen`);
  await award('nobody', []);
  await eventually('the document is withdrawn', async () => (await held()).state === 'withdrawn');
  expect(await outcomesUntil('cancelled')).toEqual(['created', 'updated', 'cancelled']);
});
