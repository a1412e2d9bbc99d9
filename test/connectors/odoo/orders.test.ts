/** What the kit does not cover: confirmed orders, people's changes, what Odoo takes in silence, and how many requests. */
import { beforeAll, describe, expect, test } from 'vitest';
import type { Session } from '#connector/connector.ts';
import {
  awardOf,
  idOf,
  never,
  openSession,
  operation,
  referenceOf,
  startErp,
  withLots,
  write,
} from './odoo-session.ts';
import type { Row } from './stand-in/rows.ts';
import type { OdooStandIn } from './stand-in/server.ts';
import { users } from './stand-in/users.ts';

const chairs = { lot: 'Chairs', quantity: '10', unit_price: '49.9' };
const desks = { lot: 'Desks', quantity: '4', unit_price: '210.5' };
const lamps = { lot: 'Lamps', quantity: '7', unit_price: '12.3456' };

let erp: OdooStandIn;
let drafts: Session;
let confirmed: Session;

beforeAll(async () => {
  erp = await startErp();
  drafts = await openSession(erp);
  confirmed = await openSession(erp, { order_state: 'confirmed' });
});

const orderOf = (id: number) => erp.rows.find('purchase.order', id) as Row;
const linesOf = (id: number) => erp.rows.all('purchase.order.line').filter(({ order_id }) => order_id === id);
const texts = (id: number) =>
  linesOf(id).map(({ name, product_qty, price_unit }) => [name, product_qty, price_unit].join(' '));
const edit = (model: string, row: Row | undefined, values: Record<string, unknown>) =>
  erp.orm.write(model, row as Row, values, erp.installed.system);
const conflict = (message: RegExp) => ({
  status: 'rejected',
  error: { type: 'conflict', message: expect.stringMatching(message) as string },
});
const dataError = (message: RegExp) => ({
  status: 'rejected',
  error: { type: 'data', message: expect.stringMatching(message) as string },
});

describe('requests', () => {
  async function requestsOf(work: () => Promise<unknown>): Promise<number> {
    const before = erp.requests;
    await work();
    return erp.requests - before;
  }

  test('a new draft takes seven, three of them to read it back, a confirmed one twelve, and each further one of a batch one', async () => {
    const many = Array.from({ length: 10 }, (_, number) => ({ ...chairs, lot: `Lot ${number}` }));
    const creates = () => Array.from({ length: 6 }, () => operation('create', awardOf([chairs, desks])));
    // Reads the reference data.
    await write(drafts, 'create', awardOf([chairs]));
    await write(confirmed, 'create', awardOf([chairs]));
    expect(await requestsOf(() => write(drafts, 'create', awardOf(many)))).toBe(7);
    expect(await requestsOf(() => write(confirmed, 'create', awardOf(many)))).toBe(12);
    expect(await requestsOf(() => drafts.write(creates(), never))).toBe(12);
    expect(await requestsOf(() => confirmed.write(creates(), never))).toBe(17);
  });

  test('a changed draft takes eight, a withdrawn one six, an unchanged one four', async () => {
    const award = awardOf([chairs, desks]);
    await write(drafts, 'create', award);
    const changed = withLots(award, [{ ...chairs, quantity: '11' }, desks]);
    expect(await requestsOf(() => write(drafts, 'amend', changed))).toBe(8);
    expect(await requestsOf(() => write(drafts, 'amend', changed))).toBe(4);
    expect(await requestsOf(() => write(drafts, 'cancel', withLots(award, [])))).toBe(6);
  });
});

test('batches that are written side by side count a product and a warehouse once, though each of them reads it', async () => {
  const fresh = await openSession(erp, { warehouse: 'My Company' });
  const creates = [chairs, desks, lamps].map((lot) => operation('create', awardOf([lot])));
  const outcomes = await Promise.all(creates.map((each) => fresh.write([each], never)));
  expect(outcomes.flat().map(({ status }) => status)).toEqual(['created', 'created', 'created']);
});

describe('confirmed orders', () => {
  test('follow their award: a lot changes, a new one is added, one that is gone becomes zero', async () => {
    const award = awardOf([chairs, desks]);
    const id = idOf(await write(confirmed, 'create', award));
    expect(orderOf(id)['state']).toBe('purchase');
    const next = withLots(award, [{ ...chairs, unit_price: '51' }, lamps]);
    await expect(write(confirmed, 'amend', next)).resolves.toMatchObject({ status: 'updated' });
    expect(texts(id)).toEqual(['Chairs 10 51', 'Desks 0 210.5', 'Lamps 7 12.3456']);
    await expect(write(confirmed, 'amend', next)).resolves.toMatchObject({ status: 'unchanged' });
  });

  test('keep the days of their lots when another lot leaves', async () => {
    const award = awardOf([chairs, desks]);
    const id = idOf(await write(confirmed, 'create', award));
    const days = () => linesOf(id).map(({ date_planned }) => date_planned);
    edit('purchase.order.line', linesOf(id)[0], { date_planned: '2031-05-05 10:00:00' });
    const [, ofDesks] = days();
    await write(confirmed, 'amend', withLots(award, [chairs]));
    expect(days()).toEqual(['2031-05-05 10:00:00', ofDesks]);
    await write(confirmed, 'amend', { ...withLots(award, [desks]), fields: { date_planned: '2031-06-06' } });
    expect(days()).toEqual(['2031-05-05 10:00:00', '2031-06-06 12:00:00']);
  });

  test('do not get another product or unit, whose receipt Odoo would leave as it is', async () => {
    const bolts = { ...chairs, fields: { product: 'BOLT-M8' } };
    const award = awardOf([bolts]);
    const id = idOf(await write(confirmed, 'create', award));
    const before = texts(id);
    const movesOf = (product: number) => erp.rows.all('stock.move').filter(({ product_id }) => product_id === product);
    const moves = movesOf(1).length;
    for (const [fields, what] of [
      [{ product: 'SHEET-1' }, /"Chairs": change the product from .*Bolt M8 to Steel sheet/],
      [{ product: 'BOLT-M8', unit: 'Pack of 6' }, /"Chairs": change the unit from Units to Pack of 6/],
    ] as const)
      await expect(write(confirmed, 'amend', withLots(award, [{ ...bolts, fields }]))).resolves.toMatchObject(
        conflict(what),
      );
    expect([texts(id), movesOf(1).length]).toEqual([before, moves]);
  });

  test('of a buyer are not changed by a flow that makes drafts; the conflict says what the award asks for', async () => {
    const award = awardOf([chairs]);
    const id = idOf(await write(drafts, 'create', award));
    erp.call('purchase.order', 'button_confirm', [id]);
    await expect(write(drafts, 'amend', award)).resolves.toMatchObject({ status: 'unchanged' });
    const next = withLots(award, [{ ...chairs, quantity: '12' }]);
    await expect(write(drafts, 'amend', next)).resolves.toMatchObject(conflict(/confirmed.*quantity from 10 to 12/));
    await expect(write(drafts, 'cancel', withLots(award, []))).resolves.toMatchObject(conflict(/cancel it there/));
    expect(texts(id)).toEqual(['Chairs 10 49.9']);
  });

  test('that were received, billed or locked are neither changed nor cancelled, although Odoo would do it', async () => {
    for (const [prepare, why] of [
      [(id: number) => erp.call('stock.picking', 'button_validate', pickingsOf(id)), /was received/],
      [(id: number) => bill(id, 10), /has bills/],
      [(id: number) => erp.call('purchase.order', 'button_lock', [id]), /is locked/],
    ] as const) {
      const award = awardOf([chairs]);
      const id = idOf(await write(confirmed, 'create', award));
      prepare(id);
      const next = withLots(award, [{ ...chairs, quantity: '1' }]);
      await expect(write(confirmed, 'amend', next)).resolves.toMatchObject(conflict(why));
      await expect(write(confirmed, 'cancel', withLots(award, []))).resolves.toMatchObject(conflict(why));
      expect(orderOf(id)['state']).toBe('purchase');
      expect(texts(id)).toEqual(['Chairs 10 49.9']);
    }
  });

  test('follow their award again when their bill was cancelled, which Odoo still counts', async () => {
    const award = awardOf([chairs]);
    const id = idOf(await write(confirmed, 'create', award));
    bill(id, 10);
    const next = withLots(award, [{ ...chairs, quantity: '11' }]);
    await expect(write(confirmed, 'amend', next)).resolves.toMatchObject(conflict(/has bills/));
    bill(id, 0);
    await expect(write(confirmed, 'amend', next)).resolves.toMatchObject({ status: 'updated' });
  });

  test('that wait for an approval count as done, and follow their award', async () => {
    const strict = await startErp({ approveFrom: 100 });
    const session = await openSession(strict, { order_state: 'confirmed' });
    const award = awardOf([chairs]);
    const id = idOf(await write(session, 'create', award));
    expect(strict.rows.find('purchase.order', id)?.['state']).toBe('to approve');
    const next = withLots(award, [{ ...chairs, quantity: '11' }]);
    await expect(write(session, 'amend', next)).resolves.toMatchObject({ status: 'updated' });
  });

  test('need products: a text line is refused before anything is sent', async () => {
    const session = await openSession(erp, { order_state: 'confirmed', product: undefined });
    const before = erp.rows.all('purchase.order').length;
    await expect(write(session, 'create', awardOf([chairs]))).resolves.toMatchObject(dataError(/has no product/));
    expect(erp.rows.all('purchase.order').length).toBe(before);
  });

  /** A bill of this quantity; of a cancelled one nothing is billed. */
  const bill = (id: number, qty_invoiced: number) => {
    edit('purchase.order', orderOf(id), { invoice_count: 1, invoice_status: 'invoiced' });
    for (const line of linesOf(id)) edit('purchase.order.line', line, { qty_invoiced });
  };

  const pickingsOf = (id: number) =>
    erp.rows
      .all('stock.picking')
      .filter(({ purchase_id }) => purchase_id === id)
      .map((picking) => picking.id);
});

describe('what people do in Odoo', () => {
  test('a buyer’s own line and a source that the buyer wrote over are no obstacle', async () => {
    const award = awardOf([chairs, desks]);
    const created = await write(drafts, 'create', award);
    const id = idOf(created);
    edit('purchase.order', orderOf(id), {
      origin: 'see my notes',
      order_line: [[0, 0, { name: 'Freight', product_qty: 1, price_unit: 30 }]],
    });
    const next = withLots(award, [{ ...chairs, quantity: '12' }]);
    // Neither the source nor the remembered reference names the order: only its external id does.
    await expect(write(drafts, 'amend', next)).resolves.toMatchObject({
      status: 'updated',
      reference: `purchase.order,${id}`,
    });
    expect(texts(id)).toEqual(['Chairs 12 49.9', 'Freight 1 30']);
    await expect(drafts.lookup([award], never)).resolves.toMatchObject([{ reference: `purchase.order,${id}` }]);
  });

  test('an order that a buyer has cancelled is not made again; one that the bridge has cancelled comes back', async () => {
    const award = awardOf([chairs, desks]);
    const id = idOf(await write(drafts, 'create', award));
    await write(drafts, 'cancel', withLots(award, []));
    expect(orderOf(id)).toMatchObject({ state: 'cancel', origin: expect.stringMatching(/\(withdrawn\)$/) as string });
    await expect(write(drafts, 'create', withLots(award, [lamps]))).resolves.toMatchObject({
      status: 'created',
      reference: `purchase.order,${id}`,
    });
    expect(orderOf(id)['state']).toBe('draft');
    expect(texts(id)).toEqual(['Lamps 7 12.3456']);
    erp.call('purchase.order', 'button_cancel', [id]);
    await expect(write(drafts, 'amend', award)).resolves.toMatchObject(conflict(/was cancelled in Odoo/));
    erp.call('purchase.order', 'unlink', [id]);
    const made = await write(drafts, 'create', award);
    expect(made).toMatchObject({ status: 'created' });
    expect(texts(idOf(made))).toEqual(['Chairs 10 49.9', 'Desks 4 210.5']);
  });

  test('a vendor that is archived gets no order, and two contacts with one reference get none', async () => {
    const gone = erp.installed.create('res.partner', {
      name: 'Gone Ltd',
      ref: 'V-GONE',
      supplier_rank: 1,
      active: false,
    });
    for (const name of ['One', 'Two']) erp.installed.create('res.partner', { name, ref: 'V-TWICE', supplier_rank: 1 });
    const to = (external_id: string) => awardOf([chairs], { supplier: { id: 's', external_id, name: 'x' } });
    await expect(write(drafts, 'create', to('V-GONE'))).resolves.toMatchObject(dataError(/"Gone Ltd" is archived/));
    await expect(write(drafts, 'create', to('V-TWICE'))).resolves.toMatchObject(conflict(/2 contacts.*"V-TWICE"/));
    expect(erp.rows.all('purchase.order').filter(({ partner_id }) => partner_id === gone.id)).toEqual([]);
  });
});

test('a day is noon in the time zone of the bridge’s user, as in Odoo’s own form', async () => {
  const zoned = await startErp();
  const plannedIn = async (tz: string | false, date_planned: string) => {
    const user = zoned.rows.find('res.users', users.connector) as Row;
    zoned.rows.update('res.users', user, { tz }, 1);
    const session = await openSession(zoned);
    const id = idOf(await write(session, 'create', awardOf([{ ...chairs, fields: { date_planned } }])));
    return zoned.rows.all('purchase.order.line').find(({ order_id }) => order_id === id)?.['date_planned'];
  };
  await expect(plannedIn('Europe/Berlin', '2030-12-31')).resolves.toBe('2030-12-31 11:00:00');
  await expect(plannedIn('Pacific/Auckland', '2030-01-01')).resolves.toBe('2029-12-31 23:00:00');
  await expect(plannedIn(false, '2030-12-31')).resolves.toBe('2030-12-31 12:00:00');
  await expect(plannedIn('Europe/Berlin', '2030-12-31 08:30:00')).resolves.toBe('2030-12-31 08:30:00');
});

test('templates of agreements are no requisitions, and a description has no entities', async () => {
  const line_ids = [[0, 0, { product_id: 1, product_qty: 2 }]];
  const values = { reference: 'Bolts', description: '<p>Bolts &amp; nuts &lt;M8&gt;</p>', line_ids };
  erp.installed.create('purchase.requisition', { ...values, requisition_type: 'purchase_template' });
  const wanted = erp.installed.create('purchase.requisition', values);
  const records: object[] = [];
  for await (const page of drafts.read?.('requisition', undefined, never) ?? []) records.push(...page.records);
  expect(records).toMatchObject([{ reference_id: wanted['name'], description: 'Bolts & nuts <M8>' }]);
  const open: string[] = [];
  for await (const names of drafts.openRequisitions?.(never) ?? []) open.push(...names);
  expect(open).toEqual([wanted['name']]);
});

test('the name of a requisition is cut between characters: the service refuses half of one', async () => {
  const own = await startErp();
  const session = await openSession(own);
  const line_ids = [[0, 0, { product_id: 1, product_qty: 2 }]];
  const reference = `${'x'.repeat(119)}🪑`;
  own.installed.create('purchase.requisition', { reference, description: `<p>${'x'.repeat(999)}🪑</p>`, line_ids });
  const records: object[] = [];
  for await (const page of session.read?.('requisition', undefined, never) ?? []) records.push(...page.records);
  expect(records).toMatchObject([{ name: 'x'.repeat(119), description: 'x'.repeat(999) }]);
});

describe('what Odoo takes in silence', () => {
  const line = (fields: Record<string, string>) => awardOf([{ ...chairs, fields }]);

  test.each([
    ['an inactive currency', awardOf([chairs], { currency: 'GBP' }), /no active currency GBP/],
    ['a product that is not to be bought', line({ product: 'NOPO' }), /not to be bought/],
    ['a product that it does not have', line({ product: 'NONE' }), /no product with the reference "NONE"/],
    ['a unit of another kind', line({ unit: 'Hours' }), /"Hours" does not fit/],
    ['a negative quantity', awardOf([{ ...chairs, quantity: '-1' }]), /negative/],
    ['a negative price', awardOf([{ ...chairs, unit_price: '-0.5' }]), /negative/],
    ['a price of 17 digits', awardOf([{ ...chairs, unit_price: '1234567890123.2501' }]), /digits would be lost/],
    ['a quantity that it would round', awardOf([{ ...chairs, quantity: '1.005' }]), /not a multiple of 0.01/],
    ['a date that is none', line({ date_planned: '2030-02-30' }), /"2030-02-30" and not a day/],
    ['a field of the mapping that nobody reads', line({ colour: 'red' }), /"colour".*does not know/],
  ])('%s is refused, and nothing is made', async (_, award, message) => {
    const before = erp.rows.all('purchase.order').length;
    await expect(write(drafts, 'create', award)).resolves.toMatchObject(dataError(message));
    expect(erp.rows.all('purchase.order').length).toBe(before);
  });

  test('the operation type of another company: the order goes to the company of its warehouse', async () => {
    erp.installed.warehouse(2, 'Second WH', 2);
    const session = await openSession(erp, { company: 'Second Co', warehouse: 'Second WH' });
    const id = idOf(await write(session, 'create', awardOf([chairs])));
    expect(orderOf(id)).toMatchObject({ company_id: 2, picking_type_id: 9 });
    const wrong = await openSession(erp, { company: 'My Company', warehouse: 'Second WH' });
    await expect(write(wrong, 'create', awardOf([chairs]))).resolves.toMatchObject(
      dataError(/no operation types.*"Second WH"/),
    );
  });

  test('a pack of the product’s unit fits', async () => {
    const id = idOf(await write(drafts, 'create', line({ unit: 'Pack of 6' })));
    expect(linesOf(id)).toMatchObject([{ product_uom_id: 2, product_qty: 10 }]);
  });
});

describe('other forms of awards and bids', () => {
  test('prices: one for each lot’s product; a lot that is gone loses its price, other prices stay', async () => {
    const session = await openSession(erp, { awards: 'pricelists' });
    const vendor = erp.installed.create('res.partner', { name: 'Priced', ref: 'V-PRICES', supplier_rank: 1 });
    const own = erp.installed.create('product.supplierinfo', { partner_id: vendor.id, product_id: 1, price: 7 });
    const prices = () =>
      erp.rows
        .all('product.supplierinfo')
        .filter(({ partner_id }) => partner_id === vendor.id)
        .map(({ id, product_id, price, date_end }) => (id === own.id ? 'own' : [product_id, price, date_end]));
    const bolts = { lot: 'Bolts', quantity: '1', unit_price: '1.875', fields: { product: 'BOLT-M8' } };
    const sheets = { lot: 'Sheets', quantity: '1', unit_price: '1.9', fields: { product: 'SHEET-1' } };
    const supplier = { id: 's', external_id: 'V-PRICES', name: 'Priced' };
    const award = awardOf([bolts, sheets], { supplier, fields: { date_end: '2031-12-31' } });
    await expect(write(session, 'create', award)).resolves.toMatchObject({ status: 'created' });
    expect(prices()).toEqual(['own', [1, 1.875, '2031-12-31'], [2, 1.9, '2031-12-31']]);
    const next = withLots(award, [{ ...bolts, unit_price: '1.8' }]);
    await expect(write(session, 'amend', next)).resolves.toMatchObject({ status: 'updated' });
    await expect(write(session, 'amend', next)).resolves.toMatchObject({ status: 'unchanged' });
    await expect(session.lookup([award], never)).resolves.toHaveLength(1);
    expect(prices()).toEqual(['own', [1, 1.8, '2031-12-31']]);
    await write(session, 'cancel', withLots(award, []));
    expect(prices()).toEqual(['own']);
    await expect(session.lookup([award], never)).resolves.toEqual([]);
  });

  test('prices are for the lot’s unit: 1,800 a ton is not 1,800 a kilogram', async () => {
    const session = await openSession(erp, { awards: 'pricelists', missing_supplier: 'create' });
    const ton = erp.installed.create('uom.uom', { name: 'Ton', factor: 1_000_000, relative_uom_id: 16 });
    const steel = { lot: 'Steel', quantity: '5', unit_price: '1800', fields: { product: 'SHEET-1', unit: 'Ton' } };
    const supplier = { id: 's', external_id: 'V-STEEL', name: 'Steel Ltd' };
    const award = awardOf([steel], { supplier });
    await write(session, 'create', award);
    const [vendor] = erp.rows.all('res.partner').filter(({ ref }) => ref === 'V-STEEL');
    const [price] = erp.rows.all('product.supplierinfo').filter(({ partner_id }) => partner_id === vendor?.id);
    expect(price).toMatchObject({ price: 1800, product_uom_id: ton.id });
    // As a person has left it.
    edit('product.supplierinfo', price, { product_uom_id: 16 });
    await expect(write(session, 'amend', award)).resolves.toMatchObject({ status: 'updated' });
    expect(price).toMatchObject({ price: 1800, product_uom_id: ton.id });
    // A buyer's orders: Odoo takes such a price for its own unit only.
    const totals = [ton.id, 16].map((product_uom_id) => {
      const line = { product_id: 2, product_qty: 500, product_uom_id };
      const values = { partner_id: vendor?.id, currency_id: 126, order_line: [[0, 0, line]] };
      const order = erp.installed.create('purchase.order', values);
      return erp.rows.valueOf('purchase.order', order, 'amount_total');
    });
    expect(totals).toEqual([900_000, 0]);
  });

  test('prices of a vendor that was archived since are found and withdrawn', async () => {
    const session = await openSession(erp, { awards: 'pricelists', missing_supplier: 'create' });
    const supplier = { id: 's', external_id: 'V-LATER', name: 'Archived later' };
    const award = awardOf([chairs], { supplier });
    await write(session, 'create', award);
    const [vendor] = erp.rows.all('res.partner').filter(({ ref }) => ref === 'V-LATER');
    const prices = () => erp.rows.all('product.supplierinfo').filter(({ partner_id }) => partner_id === vendor?.id);
    expect(prices()).toHaveLength(1);
    edit('res.partner', vendor, { active: false });
    const later = await openSession(erp, { awards: 'pricelists' });
    await expect(later.lookup([award], never)).resolves.toHaveLength(1);
    await expect(write(later, 'cancel', withLots(award, []))).resolves.toMatchObject({ status: 'cancelled' });
    expect(prices()).toEqual([]);
  });

  test('prices of a vendor that has another reference since are a conflict, and do not count as withdrawn', async () => {
    const session = await openSession(erp, { awards: 'pricelists', missing_supplier: 'create' });
    const award = awardOf([chairs], { supplier: { id: 's', external_id: 'V-RENAMED', name: 'Renamed' } });
    const reference = referenceOf(await write(session, 'create', award));
    const [vendor] = erp.rows.all('res.partner').filter(({ ref }) => ref === 'V-RENAMED');
    edit('res.partner', vendor, { ref: 'V-OTHER' });
    await expect(write(session, 'cancel', withLots(award, []), reference)).resolves.toMatchObject(
      conflict(/no contact with the reference "V-RENAMED"/),
    );
    edit('res.partner', vendor, { ref: 'V-RENAMED' });
    await expect(write(session, 'cancel', withLots(award, []), reference)).resolves.toMatchObject({
      status: 'cancelled',
    });
    expect(erp.rows.all('product.supplierinfo').filter(({ partner_id }) => partner_id === vendor?.id)).toEqual([]);
  });

  test('blanket orders: confirmed ones make prices in Odoo, and are not changed any more', async () => {
    const session = await openSession(erp, { awards: 'blanket-orders', order_state: 'confirmed' });
    const award = awardOf([chairs], { fields: { date_start: '2030-01-01', date_end: '2030-12-31' } });
    const id = idOf(await write(session, 'create', award));
    expect(erp.rows.find('purchase.requisition', id)).toMatchObject({ state: 'confirmed', date_end: '2030-12-31' });
    await expect(write(session, 'amend', award)).resolves.toMatchObject({ status: 'unchanged' });
    const next = withLots(award, [{ ...chairs, unit_price: '50' }]);
    await expect(write(session, 'amend', next)).resolves.toMatchObject(conflict(/blanket order BO\d+ is confirmed/));
    await expect(write(session, 'cancel', withLots(award, []))).resolves.toMatchObject({ status: 'cancelled' });
    expect(erp.rows.find('purchase.requisition', id)).toMatchObject({ state: 'cancel' });
  });

  test('a blanket order with an order on it is a conflict; Odoo would cancel that order, too', async () => {
    const session = await openSession(erp, { awards: 'blanket-orders', order_state: 'confirmed' });
    const award = awardOf([chairs]);
    const id = idOf(await write(session, 'create', award));
    const { vendor_id: partner_id } = erp.rows.find('purchase.requisition', id) as Row;
    const line = { product_id: 10, product_qty: 3, price_unit: 49.9 };
    const callOff = { partner_id, requisition_id: id, order_line: [[0, 0, line]] };
    const order = erp.installed.create('purchase.order', callOff);
    erp.call('purchase.order', 'button_confirm', [order.id]);
    const withdrawn = withLots(award, []);
    await expect(write(session, 'cancel', withdrawn)).resolves.toMatchObject(
      conflict(
        new RegExp(`withdrawn, but the blanket order BO\\d+ has orders on it in Odoo \\(${String(order['name'])}\\)`),
      ),
    );
    expect([orderOf(order.id)['state'], erp.rows.find('purchase.requisition', id)?.['state']]).toEqual([
      'purchase',
      'confirmed',
    ]);
    erp.call('purchase.order', 'button_cancel', [order.id]);
    await expect(write(session, 'cancel', withdrawn)).resolves.toMatchObject({ status: 'cancelled' });
  });

  test('several blanket orders of one write are confirmed, though Odoo confirms one at a time', async () => {
    const session = await openSession(erp, { awards: 'blanket-orders', order_state: 'confirmed' });
    const outcomes = await session.write(
      [chairs, desks].map((lot) => operation('create', awardOf([lot]))),
      never,
    );
    const states = outcomes.map((outcome) => erp.rows.find('purchase.requisition', idOf(outcome))?.['state']);
    expect(states).toEqual(['confirmed', 'confirmed']);
  });
});
