/**
 * Awarded prices and quantities stand in Odoo, although it replaces prices by those of the vendor's price list, and a
 * lot that leaves a confirmed order reduces its receipt.
 */
import { beforeEach, describe, expect, test } from 'vitest';
import { awardOf, idOf, never, openSession, referenceOf, startErp, withLots, write } from './odoo-session.ts';
import type { Row } from './stand-in/rows.ts';
import type { OdooStandIn } from './stand-in/server.ts';

const bolts = { lot: 'Bolts', quantity: '100', unit_price: '0.6', fields: { product: 'BOLT-M8' } };
const sheets = { lot: 'Sheets', quantity: '50', unit_price: '0.7', fields: { product: 'SHEET-1' } };

let erp: OdooStandIn;

/** A vendor whose price list has 0.50 and a discount of 10 % for both products. */
beforeEach(async () => {
  erp = await startErp();
  const [vendor] = erp.rows.all('res.partner').filter(({ ref }) => ref === 'V-1001');
  for (const product_id of [1, 2])
    erp.installed.create('product.supplierinfo', { partner_id: vendor?.id, product_id, price: 0.5, discount: 10 });
});

const linesOf = (id: number) => erp.rows.all('purchase.order.line').filter(({ order_id }) => order_id === id);
const texts = (id: number) =>
  linesOf(id).map(({ name, product_qty, price_unit }) => [name, product_qty, price_unit].join(' '));
const totalOf = (id: number) =>
  erp.rows.valueOf('purchase.order', erp.rows.find('purchase.order', id) as Row, 'amount_total');
/** As a user who changes only the quantity. */
const setQuantity = (line: Row | undefined, product_qty: number) =>
  erp.orm.write('purchase.order.line', line as Row, { product_qty }, erp.installed.system);
const movesOf = (id: number) => {
  const lines = new Set(linesOf(id).map((line) => line.id));
  return erp.rows
    .all('stock.move')
    .filter(({ purchase_line_id, state }) => lines.has(Number(purchase_line_id)) && state !== 'cancel')
    .map(({ picking_code, product_uom_qty }) => `${String(picking_code)} ${String(product_uom_qty)}`);
};

describe('the awarded price stands', () => {
  test('on the lot that has not changed, when the other one and the source do', async () => {
    const session = await openSession(erp);
    const award = awardOf([bolts, sheets]);
    const id = idOf(await write(session, 'create', award));
    expect([texts(id), totalOf(id)]).toEqual([['Bolts 100 0.6', 'Sheets 50 0.7'], 95]);
    const next = { ...withLots(award, [bolts, { ...sheets, quantity: '40' }]), fields: { source: 'Another title' } };
    await expect(write(session, 'amend', next)).resolves.toMatchObject({ status: 'updated' });
    expect([texts(id), totalOf(id)]).toEqual([['Bolts 100 0.6', 'Sheets 40 0.7'], 88]);
  });

  test('on an order that comes back after its award was withdrawn', async () => {
    const session = await openSession(erp, { order_state: 'confirmed' });
    const award = awardOf([bolts, sheets]);
    const id = idOf(await write(session, 'create', award));
    await write(session, 'cancel', withLots(award, []));
    await expect(write(session, 'create', award)).resolves.toMatchObject({ status: 'created' });
    expect(erp.rows.find('purchase.order', id)?.['state']).toBe('purchase');
    expect([texts(id), totalOf(id)]).toEqual([['Bolts 100 0.6', 'Sheets 50 0.7'], 95]);
  });

  test('when a person changes a quantity', async () => {
    const session = await openSession(erp, { order_state: 'confirmed' });
    const id = idOf(await write(session, 'create', awardOf([bolts])));
    setQuantity(linesOf(id)[0], 120);
    expect([texts(id), totalOf(id)]).toEqual([['Bolts 120 0.6'], 72]);
    expect(movesOf(id)).toEqual(['incoming 120']);
  });

  test('also where it is zero', async () => {
    const session = await openSession(erp);
    const award = awardOf([{ ...bolts, unit_price: '0' }]);
    const id = idOf(await write(session, 'create', award));
    setQuantity(linesOf(id)[0], 7);
    expect(texts(id)).toEqual(['Bolts 7 0']);
  });

  test('and so does that of a line that a person has added, who is named as the last to change the order', async () => {
    const session = await openSession(erp);
    const award = awardOf([bolts]);
    const made = await write(session, 'create', award);
    const added = [[0, 0, { name: 'Freight', product_id: 2, product_qty: 1, price_unit: 30 }]];
    const order = erp.rows.find('purchase.order', idOf(made)) as Row;
    erp.orm.write('purchase.order', order, { order_line: added }, erp.installed.system);
    const next = withLots(award, [{ ...bolts, quantity: '110' }]);
    await write(session, 'amend', next);
    expect(texts(idOf(made))).toEqual(['Bolts 110 0.6', 'Freight 1 30']);
    const [answer] = (await session.readBack?.([{ document: next, reference: referenceOf(made) }], never)) ?? [];
    expect(answer).toMatchObject({ status: 'held', changed: { by: 'Administrator' } });
  });

  test('and a discount that somebody sets is a difference, which the next write takes back', async () => {
    const session = await openSession(erp);
    const award = awardOf([bolts]);
    const id = idOf(await write(session, 'create', award));
    erp.orm.write('purchase.order.line', linesOf(id)[0] as Row, { discount: 10 }, erp.installed.system);
    await expect(write(session, 'amend', award)).resolves.toMatchObject({ status: 'updated' });
    expect(totalOf(id)).toBe(60);
  });
});

test('an Odoo that changes the price of what it takes: a dead letter that names both, and no confirmed order', async () => {
  const odd = await startErp({
    constraints: [
      (model, row) => {
        if (model === 'purchase.order.line' && row['price_unit'] === 0.6) row['price_unit'] = 0.55;
        return undefined;
      },
    ],
  });
  const session = await openSession(odd, { order_state: 'confirmed' });
  await expect(write(session, 'create', awardOf([bolts]))).resolves.toMatchObject({
    status: 'rejected',
    error: {
      type: 'data',
      message: expect.stringMatching(/P00001 \(draft\).*"Bolts".*price from 0.55 to 0.6/) as string,
    },
  });
  expect(odd.rows.all('purchase.order').map(({ state }) => state)).toEqual(['draft']);
});

describe('a lot of a Dutch auction, with a quantity and a cost and no price of a piece,', () => {
  const lotAt = (cost: string) => ({ lot: 'Bolts', quantity: '100', cost, fields: { product: 'BOLT-M8' } });

  test('is ordered at its cost, divided by the quantity', async () => {
    const session = await openSession(erp);
    const id = idOf(await write(session, 'create', awardOf([lotAt('1250')])));
    expect([texts(id), totalOf(id)]).toEqual([['Bolts 100 12.5'], 1250]);
  });
});

describe('a lot that leaves a confirmed order', () => {
  test('reduces the receipt, and nothing goes back to the vendor', async () => {
    const session = await openSession(erp, { order_state: 'confirmed' });
    const award = awardOf([bolts, sheets]);
    const id = idOf(await write(session, 'create', award));
    expect(movesOf(id)).toEqual(['incoming 100', 'incoming 50']);
    await expect(write(session, 'amend', withLots(award, [sheets]))).resolves.toMatchObject({ status: 'updated' });
    expect(movesOf(id)).toEqual(['incoming 50']);
    expect([texts(id), totalOf(id)]).toEqual([['Bolts 0 0.6', 'Sheets 50 0.7'], 35]);
  });
});
