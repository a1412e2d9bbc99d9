/** Awards of what Odoo's own purchase agreements need: their products and units, and the agreement at the order. */
import { beforeAll, describe, expect, test } from 'vitest';
import type { Session } from '#connector/connector.ts';
import type { AwardLine } from '#connector/documents.ts';
import { awardOf, idOf, never, openSession, referenceOf, startErp, withLots, write } from './odoo-session.ts';
import type { Row } from './stand-in/rows.ts';
import type { OdooStandIn } from './stand-in/server.ts';

let erp: OdooStandIn;
let drafts: Session;

beforeAll(async () => {
  erp = await startErp();
  drafts = await openSession(erp);
  // A product that has no internal reference.
  erp.installed.product(30, 'Special part', '', 1);
});

/** An agreement that needs these products, with the ids of its lines. */
function needOf(...lines: readonly object[]) {
  const line_ids = lines.map((line) => [0, 0, { product_qty: 10, price_unit: 1.5, ...line }]);
  const agreement = erp.installed.create('purchase.requisition', { reference: 'Parts', line_ids });
  return { agreement, ids: erp.rows.valueOf('purchase.requisition', agreement, 'line_ids') as number[] };
}

const lotOf = (reference_id: string, line: number | undefined, more: Partial<AwardLine> = {}) => ({
  lot: `Lot ${line}`,
  quantity: '10',
  unit_price: '5',
  requisition: { intake: 'needs', reference_id, ...(line === undefined ? {} : { line: String(line) }) },
  ...more,
});

const orderOf = (id: number) => erp.rows.find('purchase.order', id) as Row;
const linesOf = (id: number) => erp.rows.all('purchase.order.line').filter(({ order_id }) => order_id === id);

describe('the award of a need', () => {
  test('orders the products and units of its lines, and names the agreement; the mapping may name another product', async () => {
    const { agreement, ids } = needOf(
      { product_id: 30 },
      { product_id: 1, product_uom_id: 2 },
      { product_id: 1, product_uom_id: 2 },
    );
    const name = String(agreement['name']);
    const [special = 0, packs = 0, other = 0] = ids;
    const lots = [lotOf(name, special), lotOf(name, packs), lotOf(name, other, { fields: { product: 'SHEET-1' } })];
    const award = awardOf(lots);
    const made = await write(drafts, 'create', award);
    expect(linesOf(idOf(made))).toMatchObject([
      { product_id: 30, product_uom_id: 1, product_qty: 10, price_unit: 5 },
      { product_id: 1, product_uom_id: 2, product_qty: 10, price_unit: 5 },
      { product_id: 2, product_uom_id: 16 },
    ]);
    expect(orderOf(idOf(made))['requisition_id']).toBe(agreement.id);
    await expect(write(drafts, 'amend', award)).resolves.toMatchObject({ status: 'unchanged' });
    const [held] = (await drafts.readBack?.([{ document: award, reference: referenceOf(made) }], never)) ?? [];
    const differing =
      held?.status === 'held' ? held.fields.filter(({ expected, held: now }) => expected !== now) : held;
    expect(differing).toEqual([]);
  });

  test('of two agreements names neither, and each lot has its product', async () => {
    const [one, two] = [needOf({ product_id: 1 }), needOf({ product_id: 30 })];
    const lots = [one, two].map(({ agreement, ids }) => lotOf(String(agreement['name']), ids[0]));
    const id = idOf(await write(drafts, 'create', awardOf(lots)));
    expect(linesOf(id).map(({ product_id }) => product_id)).toEqual([1, 30]);
    expect(orderOf(id)['requisition_id']).toBeFalsy();
  });

  test('whose line is not known names the agreement, and has the product of the settings', async () => {
    const { agreement } = needOf({ product_id: 1 });
    const id = idOf(await write(drafts, 'create', awardOf([lotOf(String(agreement['name']), undefined)])));
    expect([orderOf(id)['requisition_id'], linesOf(id)[0]?.['product_id']]).toEqual([agreement.id, 10]);
  });

  test('that another ERP has is an award like any other, also where its line has a number that Odoo has', async () => {
    const { ids } = needOf({ product_id: 1 });
    const id = idOf(await write(drafts, 'create', awardOf([lotOf('PR-4711', ids[0])])));
    expect([orderOf(id)['requisition_id'] ?? false, linesOf(id)[0]?.['product_id']]).toEqual([false, 10]);
  });

  test('gets its agreement also when that is known later, on a confirmed order, too', async () => {
    const { agreement, ids } = needOf({ product_id: 10 });
    const lot = lotOf(String(agreement['name']), ids[0]);
    const { requisition: _, ...bare } = lot;
    const award = awardOf([bare]);
    const id = idOf(await write(drafts, 'create', award));
    erp.call('purchase.order', 'button_confirm', [id]);
    await expect(write(drafts, 'amend', withLots(award, [lot]))).resolves.toMatchObject({ status: 'updated' });
    expect(orderOf(id)).toMatchObject({ requisition_id: agreement.id, state: 'purchase' });
    expect(linesOf(id)).toMatchObject([{ price_unit: 5, product_qty: 10 }]);
  });

  test('keeps its price when the award changes, though Odoo would take the agreement’s', async () => {
    const { agreement, ids } = needOf({ product_id: 1 });
    const lot = lotOf(String(agreement['name']), ids[0]);
    const award = awardOf([lot]);
    const id = idOf(await write(drafts, 'create', award));
    const [line] = linesOf(id);
    await write(drafts, 'amend', withLots(award, [{ ...lot, quantity: '11' }]));
    expect(line).toMatchObject({ product_qty: 11, price_unit: 5, name: lot.lot });
    // What Odoo does when a person changes the quantity.
    erp.orm.write('purchase.order.line', line as Row, { product_qty: 12 }, erp.installed.system);
    expect(line).toMatchObject({ price_unit: 1.5, name: '[BOLT-M8] Bolt M8' });
    await write(drafts, 'amend', withLots(award, [{ ...lot, quantity: '13' }]));
    expect(line).toMatchObject({ product_qty: 13, price_unit: 5, name: lot.lot });
  });

  test('as prices is for the product of its line', async () => {
    const session = await openSession(erp, { awards: 'pricelists' });
    const { agreement, ids } = needOf({ product_id: 30 });
    await write(session, 'create', awardOf([lotOf(String(agreement['name']), ids[0])]));
    expect(erp.rows.all('product.supplierinfo').at(-1)).toMatchObject({ product_id: 30, price: 5 });
  });
});
