import { beforeAll, expect, test } from 'vitest';
import { describeTryton, startTestTryton } from './tryton-in-tests.ts';
import { date, decimal, TrytonError } from './tryton-rpc.ts';
import type { TrytonServer } from './tryton-server.ts';

describeTryton('the Tryton server of the tests', () => {
  let tryton: TrytonServer;
  beforeAll(async () => {
    tryton = await startTestTryton();
  });

  test('a connector may create, quote and confirm purchases; another database does not show them', async () => {
    const [first, second] = [await tryton.newDatabase(), await tryton.newDatabase()];
    const connector = await first.logIn('connector');
    const [party] = await connector.search('party.party', [['code', '=', 'V-1001']], ['addresses']);
    const [currency] = await connector.search('currency.currency', [['code', '=', 'USD']], ['id']);
    const [company] = await connector.search('company.company', [], ['id']);
    const [warehouse] = await connector.search('stock.location', [['code', '=', 'WH']], ['id']);
    const [product] = await connector.search('product.product', [['code', '=', 'LOT']], ['id', 'default_uom']);
    const [purchase] = await connector.create('purchase.purchase', [
      {
        party: party.id,
        invoice_address: party.addresses[0],
        company: company.id,
        currency: currency.id,
        warehouse: warehouse.id,
        purchase_date: date('2026-03-31'),
        reference: 'EV-1',
        lines: [
          [
            'create',
            [
              {
                type: 'line',
                product: product.id,
                unit: product.default_uom,
                quantity: 12,
                unit_price: decimal('1.8750'),
              },
            ],
          ],
        ],
      },
    ]);
    await connector.call('purchase.purchase', 'quote', [[purchase]]);
    await connector.call('purchase.purchase', 'confirm', [[purchase]]);
    const domain = [['reference', '=', 'EV-1']];
    const fields = ['state', 'purchase_date', 'untaxed_amount', 'lines.quantity', 'lines.unit_price'];
    const [held] = await connector.search('purchase.purchase', domain, fields);
    expect(held).toMatchObject({ state: 'processing', purchase_date: '2026-03-31', untaxed_amount: '22.50' });
    expect(await (await second.logIn('reader')).search('purchase.purchase', [], ['id'])).toEqual([]);
  });

  test('a reader can read parties, but not create or change them', async () => {
    const database = await tryton.newDatabase();
    const reader = await database.logIn('reader');
    await expect(reader.create('party.party', [{ name: 'Nobody' }])).rejects.toThrow(/not allowed to access/);
    const [supplier] = await reader.search('party.party', [['code', '=', 'V-1002']], ['name']);
    await expect(reader.call('party.party', 'write', [[supplier.id], { name: 'Other' }])).rejects.toThrow(
      /not allowed to access/,
    );
    expect(supplier.name).toBe('Ets. Lefèvre');
  });

  test('an employee’s approved requisition becomes a request that a connector can read', async () => {
    const database = await tryton.newDatabase();
    const requester = await database.logIn('requester');
    const [product] = await requester.search('product.product', [['code', '=', 'STEEL']], ['id', 'default_uom']);
    const [warehouse] = await requester.search('stock.location', [['code', '=', 'WH']], ['id']);
    const [company] = await requester.search('company.company', [], ['id', 'currency']);
    const [employee] = await requester.search('company.employee', [], ['id']);
    const [requisition] = await requester.create('purchase.requisition', [
      {
        employee: employee.id,
        company: company.id,
        currency: company.currency,
        warehouse: warehouse.id,
        supply_date: date('2026-05-04'),
        description: 'For the new hall',
        lines: [['create', [{ product: product.id, unit: product.default_uom, quantity: 12.5 }]]],
      },
    ]);
    for (const step of ['wait', 'approve']) await requester.call('purchase.requisition', step, [[requisition]]);
    const connector = await database.logIn('connector');
    const fields = ['product.code', 'quantity', 'supply_date', 'state'];
    expect(await connector.search('purchase.request', [], fields)).toEqual([
      expect.objectContaining({ quantity: 12.5, supply_date: '2026-05-04', state: 'draft' }),
    ]);
  });

  test('an expired session is refused with 401, and the password stays valid', async () => {
    const database = await tryton.newDatabase();
    const before = await database.logIn('connector');
    await before.search('party.party', [], ['id']);
    await database.expireSessions('connector');
    await expect(before.search('party.party', [], ['id'])).rejects.toThrow(TrytonError);
    await expect(before.search('party.party', [], ['id'])).rejects.toThrow(/HTTP 401/);
    const again = await database.logIn('connector');
    expect(await again.search('party.party', [['code', '=', 'V-1001']], ['code'])).toHaveLength(1);
  });

  test('a killed server starts again at the same address, with everything that it had acknowledged', async () => {
    const database = await tryton.newDatabase();
    const [party] = await (await database.logIn('connector')).create('party.party', [{ name: 'Kept', code: 'KEPT' }]);
    await tryton.kill();
    await expect(database.logIn('connector')).rejects.toThrow('fetch failed');
    await tryton.start();
    const connector = await database.logIn('connector');
    expect(await connector.search('party.party', [['code', '=', 'KEPT']], ['id'])).toMatchObject([{ id: party }]);
  });
});
