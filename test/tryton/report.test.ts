/**
 * The report of docs/prove-it.md: awards become purchases in a real Tryton, a buyer changes some of them there, and
 * `bridge reconcile` finds exactly that, with who did it. REPORT=1 writes the report into docs/examples.
 */
import { readFile, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import type { ReportContent } from '#bridge/operate/reconcile/read-report.ts';
import { startFeedSource } from '../bridge/feed-source.ts';
import { eventRecord, idOf, lotAwardRecord } from '../bridge/parts.ts';
import { runHere } from '../cli/command-line.ts';
import { scratchFolder } from '../harness/scratch-folder.ts';
import { createTestDatabase } from '../harness/test-database.ts';
import { describeTryton, startTestTryton } from './tryton-in-tests.ts';
import { decimal } from './tryton-rpc.ts';
import { trytonUsers } from './tryton-server.ts';

const examples = join(import.meta.dirname, '../../docs/examples');
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

    const out = join(folder, 'out');
    expect(await bridge('reconcile', 'tryton', '--out', out)).toMatchObject({ code: 1 });
    const file = join(out, 'report-2.json');
    const report = JSON.parse(await readFile(file, 'utf8')) as ReportContent;
    const who = await admin.search('res.user', [['login', '=', 'admin']], ['name']);
    expect(report.differences.filter(({ finding }) => finding !== 'changed')).toMatchObject([
      { finding: 'cancelled', key: `${idOf(1)}/${idOf(101)}` },
    ]);
    expect(report.differences.filter(({ finding }) => finding === 'changed')).toMatchObject([
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
    // 4 suppliers with 1000.25 + 2000.25 + 3000.25 and n more for each lot: 6000.75, 6003.75, 6006.75, 6009.75.
    expect(report.totals).toMatchObject([
      { currency: 'EUR', state: 'as delivered', documents: 1, amount: '6009.75' },
      { currency: 'EUR', state: 'cancelled', documents: 1, amount: '6003.75' },
      { currency: 'EUR', state: 'changed', documents: 2, amount: '12007.5' },
    ]);
    const verified = await runHere(['verify-report', file, '--key', join(out, 'report-key.pem')], {});
    expect(verified).toMatchObject({ code: 0, stdout: expect.stringContaining('valid, report 2') });
    if (process.env['REPORT'] === undefined) return;
    for (const ending of ['.json', '.json.sig', '.html'])
      await writeFile(join(examples, `tryton-report${ending}`), await readFile(join(out, `report-2${ending}`)));
    await writeFile(join(examples, 'tryton-report-key.pem'), await readFile(join(out, 'report-key.pem')));
  });
});
