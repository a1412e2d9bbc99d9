/**
 * The comparison of docs/prove-it.md: awards become purchases in a real Tryton, a buyer changes some of them there, and
 * `bridge reconcile` finds exactly that, with who did it.
 */
import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import type { LedgerFinding } from '#bridge/operate/reconcile/reconciliation-store.ts';
import { startFeedSource } from '../bridge/feed-source.ts';
import { eventRecord, idOf, lotAwardRecord } from '../bridge/parts.ts';
import { runHere } from '../cli/command-line.ts';
import { scratchFolder } from '../harness/scratch-folder.ts';
import { createTestDatabase } from '../harness/test-database.ts';
import { describeTryton, startTestTryton } from './tryton-in-tests.ts';
import { decimal } from './tryton-rpc.ts';
import { trytonUsers } from './tryton-server.ts';

const suppliers = ['Acme Steel', 'Borealis Metals', 'Cobalt Works', 'Delta Forge'];
const lots = ['Flange DN50', 'Flange DN80', 'Bolt M16'];

describeTryton('a comparison with Tryton', () => {
  test('names what a buyer has changed, who it was, and nothing else', { timeout: 240_000 }, async () => {
    const tryton = await startTestTryton();
    const database = await tryton.newDatabase();
    const admin = await database.logIn('admin');
    const db = await createTestDatabase();
    const source = await startFeedSource();
    const folder = await scratchFolder();
    const config = join(folder, 'bridge.yaml');
    const { login, password } = trytonUsers.connector;
    const settings = { url: tryton.url, database: database.name, user: login, password, product: 'LOT' };
    const flow = { name: 'tryton', source: 'main', connector: 'tryton', settings };
    const feeds = ['sourcing-events', 'awards'];
    const main = { name: 'main', base_url: source.url, api_key: 'k', feeds, includes: false, audit_hours: 0 };
    await writeFile(config, JSON.stringify({ bridge: { port: 0, console_port: 0, sources: [main], flows: [flow] } }));
    source.append('sourcing-events', {
      ...eventRecord(idOf(1), []),
      name: 'Flanges and bolts 2026',
      modified: '2026-01-01T00:00:00.000000Z',
      suppliers: suppliers.map((name, n) => ({ id: idOf(100 + n), external_id: `V-${n + 1}`, name })),
    });
    // An event that nobody has won yet.
    source.append('sourcing-events', {
      ...eventRecord(idOf(2), []),
      name: 'Pipes 2026',
      status: 'OPEN',
      modified: '2026-01-01T00:01:00.000000Z',
    });
    for (const [lot, name] of lots.entries()) {
      const winners = suppliers.map((_, n) => ({
        supplier: idOf(100 + n),
        share: '0.25',
        cost: `${(lot + 1) * 1_000 + n}.25`,
      }));
      const modified = `2026-01-01T00:00:0${lot + 1}.000000Z`;
      source.append('awards', lotAwardRecord(idOf(200 + lot), idOf(1), winners, { lot_name: name, modified }));
    }
    const bridge = (...args: readonly string[]) =>
      runHere(['bridge', ...args, '--config', config, '--data', folder], { DATABASE_URL: db.url });
    expect(await bridge('run')).toMatchObject({ code: 0 });
    expect(await bridge('reconcile', 'tryton')).toMatchObject({ code: 0 });

    // A buyer raises a price, another order is cancelled, and a third gets a line for freight.
    const found = await admin.search('purchase.purchase', [], ['party.code', 'lines.description']);
    const purchaseOf = (code: string) => found.find((purchase) => purchase['party.'].code === code);
    const line = purchaseOf('V-1')['lines.'].find(
      ({ description }: { description: string }) => description === lots[0],
    );
    await admin.call('purchase.line', 'write', [[line.id], { unit_price: decimal('1150.25') }]);
    await admin.call('purchase.purchase', 'cancel', [[purchaseOf('V-2').id]]);
    const freight = { type: 'line', description: 'Freight', quantity: 1, unit_price: decimal('85') };
    await admin.call('purchase.purchase', 'write', [[purchaseOf('V-3').id], { lines: [['create', [freight]]] }]);

    const compared = await bridge('reconcile', 'tryton', '--json');
    expect(compared.code).toBe(1);
    const [report] = JSON.parse(compared.stdout).reports as {
      run: { documents: number; asDelivered: number };
      findings: LedgerFinding[];
    }[];
    if (!report) throw new Error('nothing was compared');
    const who = await admin.search('res.user', [['login', '=', 'admin']], ['name']);
    expect(report.findings.filter(({ finding }) => finding !== 'changed')).toMatchObject([
      { finding: 'cancelled', key: `${idOf(1)}/${idOf(101)}` },
    ]);
    expect(report.findings.filter(({ finding }) => finding === 'changed')).toMatchObject([
      {
        key: `${idOf(1)}/${idOf(100)}`,
        field: `lines[${lots[0]}].unit_price`,
        expected: '1000.25',
        held: '1150.25',
        changedBy: who[0].name,
        changedAt: expect.stringMatching(/^\d{4}-/),
      },
      ...['lot', 'quantity', 'unit_price', 'description'].map((field) => ({
        key: `${idOf(1)}/${idOf(102)}`,
        field: `lines[Freight].${field}`,
        expected: null,
      })),
    ]);
    expect(report.run).toMatchObject({ documents: 4, asDelivered: 1 });
  });
});
