/**
 * `bridge restored` with a real Tryton, which gives the ledger back by `lookup` alone: the bridge's database is an old
 * backup, or gone. A purchase that is made again would be a second order.
 */
import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { startFeedSource } from '../bridge/feed-source.ts';
import { eventRecord, idOf, lotAwardRecord } from '../bridge/parts.ts';
import { runHere } from '../cli/command-line.ts';
import { until } from '../faults/program-process.ts';
import { scratchFolder } from '../harness/scratch-folder.ts';
import { copyTestDatabase, createEmptyDatabase } from '../harness/test-database.ts';
import { describeTryton, startTestTryton } from './tryton-in-tests.ts';
import { trytonUsers } from './tryton-server.ts';

/** Of each event; the suppliers are V-1 and V-2 in Tryton. */
const suppliers = ['Acme Steel', 'Borealis Metals'];
const lots = ['Flange DN50', 'Bolt M16'];

describeTryton('a rebuild with Tryton', () => {
  test('from a backup, then from nothing: equal, and nothing twice', { timeout: 300_000 }, async () => {
    const tryton = await startTestTryton();
    const erp = await tryton.newDatabase();
    const admin = await erp.logIn('admin');
    const source = await startFeedSource();
    const folder = await scratchFolder();
    const config = join(folder, 'bridge.yaml');
    const { login, password } = trytonUsers.connector;
    // Calls of the lost bridge can take effect for so long: a rebuild waits for it.
    const limits = { timeout_seconds: 5, settle_seconds: 1 };
    const settings = { url: tryton.url, database: erp.name, user: login, password, product: 'LOT', ...limits };
    const flow = { name: 'tryton', source: 'main', connector: 'tryton', settings };
    const feeds = ['sourcing-events', 'awards'];
    const main = { name: 'main', base_url: source.url, api_key: 'k', feeds, includes: false, audit_hours: 0 };
    await writeFile(config, JSON.stringify({ bridge: { port: 0, console_port: 0, sources: [main], flows: [flow] } }));

    /** An event whose lots both suppliers win in halves; `hour` is of the stamps. */
    function appendEvent(number: number, hour: number): void {
      source.append('sourcing-events', {
        ...eventRecord(idOf(number), []),
        name: `Flanges and bolts ${number}`,
        modified: `2026-01-01T0${hour}:00:00.000000Z`,
        suppliers: suppliers.map((name, n) => ({ id: idOf(100 + n), external_id: `V-${n + 1}`, name })),
      });
      for (const lot of lots.keys()) appendAward(number, lot, { hour, cost: 1_000 * (lot + 1) });
    }

    function appendAward(number: number, lot: number, { hour, cost }: { hour: number; cost: number }): void {
      const winners = suppliers.map((_, n) => ({ supplier: idOf(100 + n), share: '0.5', cost: `${cost + n}.25` }));
      const record = { lot_name: lots[lot] ?? '', modified: `2026-01-01T0${hour}:00:0${lot + 1}.000000Z` };
      source.append('awards', lotAwardRecord(idOf(200 + 10 * number + lot), idOf(number), winners, record));
    }

    let databaseUrl = await emptyDatabase();
    const bridge = (...args: readonly string[]) =>
      runHere(['bridge', ...args, '--config', config, '--data', folder], { DATABASE_URL: databaseUrl });
    const restoredAndRun = async () => {
      expect(await bridge('restored')).toMatchObject({ code: 0 });
      await until('the loss is caught up with', async () => (await bridge('run')).code === 0);
    };
    /** The id, the state and the amount of each purchase. */
    const purchases = async () => {
      const found = await admin.search('purchase.purchase', [], ['id', 'state', 'untaxed_amount']);
      return found
        .map(({ id, state, untaxed_amount }): [number, string, number] => [id, state, Number(untaxed_amount)])
        .toSorted(([a], [b]) => a - b);
    };
    /** Tryton has one purchase for each award, of these amounts, and the ledger knows each as it was delivered. */
    const expectEqual = async (amounts: readonly number[]) => {
      const held = (await purchases()).map(([, , amount]) => amount);
      expect(held.toSorted((a, b) => a - b)).toEqual(amounts.toSorted((a, b) => a - b));
      const compared = await bridge('reconcile', 'tryton');
      const all = `${amounts.length} documents compared, ${amounts.length} as they were delivered`;
      expect(compared).toMatchObject({ code: 0, stdout: expect.stringContaining(all) });
    };
    // 1,000.25 + 2,000.25, and 1 more for each lot of the second supplier.
    const asAwarded = [3_000.5, 3_002.5];

    appendEvent(1, 1);
    appendEvent(2, 2);
    expect(await bridge('run')).toMatchObject({ code: 0 });
    await expectEqual([...asAwarded, ...asAwarded]);
    const backup = await copyTestDatabase(databaseUrl);
    await backup.database.close();

    // Delivered after the backup: a new event, and other costs of a lot.
    appendEvent(3, 3);
    appendAward(1, 0, { hour: 4, cost: 1_500 });
    expect(await bridge('run')).toMatchObject({ code: 0 });
    const delivered = [3_500.5, 3_502.5, ...asAwarded, ...asAwarded];
    await expectEqual(delivered);
    const before = await purchases();

    // The bridge is lost, the source goes on.
    appendEvent(4, 5);
    databaseUrl = backup.url;
    await restoredAndRun();
    await expectEqual([...delivered, ...asAwarded]);
    const restored = await purchases();
    expect(restored).toEqual(expect.arrayContaining(before));

    databaseUrl = await emptyDatabase();
    await restoredAndRun();
    await expectEqual([...delivered, ...asAwarded]);
    expect(await purchases()).toEqual(restored);
    expect(await bridge('run')).toMatchObject({ code: 0 });
    expect(await purchases()).toEqual(restored);
  });
});

/** A database to which this test holds no connection, so that it can be copied. */
async function emptyDatabase(): Promise<string> {
  const { url, database } = await createEmptyDatabase();
  await database.close();
  return url;
}
