/** A new order has what Odoo's own form would fill in for its vendor: payment terms, taxes, buyer. */
import { beforeAll, expect, test } from 'vitest';
import type { Session } from '#connector/connector.ts';
import { awardOf, idOf, openSession, startErp, withLots, write } from './odoo-session.ts';
import type { Row } from './stand-in/rows.ts';
import type { OdooStandIn } from './stand-in/server.ts';

const chairs = { lot: 'Chairs', quantity: '10', unit_price: '49.9' };
const germany = 57;
const domesticTax = 4;

let erp: OdooStandIn;
let session: Session;
let days30: Row;
let abroad: Row;
let buyer: Row;

beforeAll(async () => {
  erp = await startErp();
  session = await openSession(erp);
  days30 = erp.installed.create('account.payment.term', { name: '30 Days' });
  const position = { name: 'Abroad', auto_apply: true, country_id: germany };
  abroad = erp.installed.create('account.fiscal.position', position);
  buyer = erp.installed.create('res.users', { name: 'Bea Buyer' });
});

const supplierOf = (code: string) => ({ supplier: { id: code, external_id: code, name: code } });
const vendor = (ref: string, more: Record<string, unknown> = {}) =>
  erp.installed.create('res.partner', { name: ref, ref, supplier_rank: 1, ...more });
const orderOf = (id: number) => erp.rows.find('purchase.order', id) as Row;
const taxesOf = (id: number) =>
  erp.rows.all('purchase.order.line').flatMap(({ order_id, tax_ids }) => (order_id === id ? [tax_ids] : []));

test('payment terms, fiscal position and buyer are the vendor’s, and the taxes those of its country', async () => {
  vendor('V-DE', {
    country_id: germany,
    property_supplier_payment_term_id: days30.id,
    buyer_id: buyer.id,
  });
  const id = idOf(await write(session, 'create', awardOf([chairs], supplierOf('V-DE'))));
  expect(orderOf(id)).toMatchObject({
    payment_term_id: days30.id,
    fiscal_position_id: abroad.id,
    user_id: buyer.id,
  });
  expect(taxesOf(id)).toEqual([[]]);
});

test('what a buyer has set since then stays when the award changes', async () => {
  vendor('V-HOME', { property_supplier_payment_term_id: days30.id });
  const award = awardOf([chairs], supplierOf('V-HOME'));
  const id = idOf(await write(session, 'create', award));
  expect([orderOf(id)['payment_term_id'], taxesOf(id)]).toEqual([days30.id, [[domesticTax]]]);
  const days60 = erp.installed.create('account.payment.term', { name: '60 Days' });
  erp.orm.write('purchase.order', orderOf(id), { payment_term_id: days60.id }, erp.installed.system);
  await write(session, 'amend', withLots(award, [{ ...chairs, quantity: '11' }]));
  expect(orderOf(id)['payment_term_id']).toBe(days60.id);
});

test('a draft whose vendor changes gets the terms and taxes of the new one', async () => {
  vendor('V-OLD');
  vendor('V-NEW', { country_id: germany, property_supplier_payment_term_id: days30.id });
  const award = awardOf([chairs], supplierOf('V-OLD'));
  const id = idOf(await write(session, 'create', award));
  const next = { ...award, ...supplierOf('V-NEW') };
  await expect(write(session, 'amend', next)).resolves.toMatchObject({ status: 'updated' });
  expect(orderOf(id)).toMatchObject({ payment_term_id: days30.id, fiscal_position_id: abroad.id });
  expect(taxesOf(id)).toEqual([[]]);
});

test('an award waits for a supplier that Odoo does not have, and has the taxes of its country then', async () => {
  const award = awardOf([chairs], supplierOf('V-WAITED'));
  await expect(write(session, 'create', award)).resolves.toMatchObject({
    status: 'retry',
    error: { type: 'locked', message: expect.stringMatching(/Waits until.*"V-WAITED"/) as string },
  });
  expect(erp.rows.all('res.partner').filter(({ ref }) => ref === 'V-WAITED')).toEqual([]);
  vendor('V-WAITED', { country_id: germany });
  const id = idOf(await write(session, 'create', award));
  expect(taxesOf(id)).toEqual([[]]);
});
