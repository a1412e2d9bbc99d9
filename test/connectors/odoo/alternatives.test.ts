/** An award of an event whose bids are requests for quotation in Odoo: one draft for a winner, none for the others. */
import { beforeEach, describe, expect, test } from 'vitest';
import type { Session } from '#connector/connector.ts';
import type { AwardDocument, QuotationDocument } from '#connector/documents.ts';
import { awardOf, idOf, never, openSession, operation, referenceOf, startErp, write } from './odoo-session.ts';
import type { Row } from './stand-in/rows.ts';
import type { OdooStandIn } from './stand-in/server.ts';

const event = { id: 'event-1', name: 'Chairs', type: 'RFQ', is_test: false, tags: [] };
const chairs = { lot: 'Chairs', quantity: '10', unit_price: '5' };
const desks = { lot: 'Desks', quantity: '4', unit_price: '20' };
const dealOf = (code: string) => ({
  key: `${event.id}/${code}`,
  event,
  supplier: { id: code, external_id: code, name: code },
});

type Lot = Parameters<typeof awardOf>[0][number];

const awardTo = (code: string, lots: readonly Lot[] = [chairs]): AwardDocument => awardOf(lots, dealOf(code));

function bidOf(code: string, lots: readonly Lot[] = [chairs]): QuotationDocument {
  const { currency, exchange_rates } = awardOf([]);
  const lines = lots.map(({ lot, quantity, unit_price }) => ({ lot, quantity, unit_price, bids: [], values: [] }));
  return { kind: 'quotation', ...dealOf(code), currency, exchange_rates, lines };
}

let erp: OdooStandIn;
let drafts: Session;
let confirmed: Session;

beforeEach(async () => {
  erp = await startErp();
  drafts = await openSession(erp, { missing_supplier: 'create' });
  confirmed = await openSession(erp, { missing_supplier: 'create', order_state: 'confirmed' });
});

const orders = () => erp.rows.all('purchase.order');
const vendorOf = ({ partner_id }: Row) => String(erp.rows.find('res.partner', partner_id)?.['ref']);
/** `<vendor>: <state>`, with the words that the source ends with, by vendor. */
const states = () =>
  orders()
    .map((order) => {
      const [, words = ''] = /((?: \([a-z ]+\))*)$/.exec(String(order['origin'])) ?? [];
      return `${vendorOf(order)}: ${String(order['state'])}${words}`;
    })
    .sort();
const ofVendor = (code: string) => orders().find((order) => vendorOf(order) === code) as Row;
const linesOf = (code: string) =>
  erp.rows
    .all('purchase.order.line')
    .filter(({ order_id }) => order_id === ofVendor(code).id)
    .map(({ name, product_qty, price_unit }) => [name, product_qty, price_unit].join(' '));
const edit = (code: string, values: Record<string, unknown>) =>
  erp.orm.write('purchase.order', ofVendor(code), values, erp.installed.system);
const bid = (session: Session, ...codes: readonly string[]) =>
  session.write(
    codes.map((code) => operation('create', bidOf(code, [chairs, desks]))),
    never,
  );

describe('an award', () => {
  test('continues the request of its winner, and cancels the others', async () => {
    const [made] = await bid(drafts, 'A', 'B', 'C');
    const award = awardTo('A', [{ ...chairs, quantity: '8' }]);
    const steps = await drafts.plan?.([operation('create', award)], never);
    expect(steps?.[0]?.steps.join(' ')).toMatch(/which becomes the order.*Cancel the request P\d+ of B.*P\d+ of C/);
    const outcome = await write(drafts, 'create', award);
    expect(outcome).toEqual({ status: 'created', reference: made && referenceOf(made) });
    expect(states()).toEqual(['A: draft (awarded)', 'B: cancel (not awarded)', 'C: cancel (not awarded)']);
    expect(linesOf('A')).toEqual(['Chairs 8 5']);
    await expect(write(drafts, 'create', award)).resolves.toMatchObject({ status: 'unchanged' });
    await expect(drafts.lookup([award], never)).resolves.toMatchObject([{ reference: referenceOf(outcome) }]);
  });

  test('confirms that request where the flow confirms orders, though Odoo would ask about the alternatives', async () => {
    await bid(confirmed, 'A', 'B');
    expect(erp.call('purchase.order', 'button_confirm', [ofVendor('A').id])).toMatchObject({
      res_model: 'purchase.requisition.alternative.warning',
    });
    expect(states()).toEqual(['A: draft', 'B: draft']);
    await expect(write(confirmed, 'create', awardTo('A'))).resolves.toMatchObject({ status: 'created' });
    expect(states()).toEqual(['A: purchase (awarded)', 'B: cancel (not awarded)']);
  });

  test('keeps the alternatives where the settings say so', async () => {
    const keeping = await openSession(erp, { order_state: 'confirmed', alternatives: 'keep' });
    await bid(drafts, 'A', 'B');
    await write(keeping, 'create', awardTo('A'));
    expect(states()).toEqual(['A: purchase (awarded)', 'B: draft']);
    // Its own bid no longer counts; that of the other does.
    await expect(write(keeping, 'amend', bidOf('A', [desks]))).resolves.toMatchObject({ status: 'unchanged' });
    await expect(write(keeping, 'amend', bidOf('B', [desks]))).resolves.toMatchObject({ status: 'updated' });
    expect([linesOf('A'), linesOf('B')]).toEqual([['Chairs 10 5'], ['Desks 4 20']]);
  });

  test('cancels an alternative that a buyer has added, as Odoo’s own dialog does, and no confirmed one', async () => {
    await bid(drafts, 'A', 'B', 'C');
    const own = erp.installed.create('purchase.order', { partner_id: ofVendor('B')['partner_id'] });
    edit('A', { alternative_po_ids: [[4, own.id, 0]] });
    erp.rows.update('purchase.order', ofVendor('C'), { state: 'purchase' }, 1);
    await write(drafts, 'create', awardTo('A'));
    expect(own['state']).toBe('cancel');
    expect(states()).toContain('C: purchase');
  });

  test('takes a request that a buyer has confirmed already, where nothing else is awarded than it orders', async () => {
    await bid(drafts, 'A', 'B');
    erp.call('purchase.order', 'button_confirm', [ofVendor('A').id, ofVendor('B').id]);
    await expect(write(drafts, 'create', awardTo('A', [chairs, desks]))).resolves.toMatchObject({ status: 'created' });
    await expect(write(drafts, 'create', awardTo('B'))).resolves.toMatchObject({ error: { type: 'conflict' } });
    expect(states()).toEqual(['A: purchase (awarded)', 'B: purchase']);
  });

  test('that has an order of its own beside the request leaves one of them', async () => {
    await write(drafts, 'create', awardTo('A'));
    const origin = String(ofVendor('A')['origin']);
    const made = ofVendor('A');
    erp.rows.update('purchase.order', made, { origin: 'hidden' }, 1);
    await bid(drafts, 'A', 'B');
    erp.rows.update('purchase.order', made, { origin }, 1);
    expect(orders()).toHaveLength(3);
    await expect(write(drafts, 'amend', awardTo('A'))).resolves.toMatchObject({ status: 'updated' });
    expect(states()).toEqual(['A: cancel (not awarded)', 'A: draft', 'B: cancel (not awarded)']);
  });
});

describe('two winners', () => {
  const half = [{ ...chairs, quantity: '5', share: '0.5' }];

  test('of one write keep both requests', async () => {
    await bid(confirmed, 'A', 'B', 'C');
    await confirmed.write([operation('create', awardTo('A', half)), operation('create', awardTo('B', half))], never);
    expect(states()).toEqual(['A: purchase (awarded)', 'B: purchase (awarded)', 'C: cancel (not awarded)']);
    expect([linesOf('A'), linesOf('B')]).toEqual([['Chairs 5 5'], ['Chairs 5 5']]);
  });

  test('who share a lot keep both also where the second comes later', async () => {
    await bid(confirmed, 'A', 'B', 'C');
    await write(confirmed, 'create', awardTo('A', half));
    expect(states()).toEqual(['A: purchase (awarded)', 'B: draft', 'C: draft']);
    await write(confirmed, 'create', awardTo('B', half));
    expect(states()).toEqual(['A: purchase (awarded)', 'B: purchase (awarded)', 'C: cancel (not awarded)']);
  });

  test('of different lots: the request of the second, who comes later, is set back and confirmed', async () => {
    await bid(confirmed, 'A', 'B');
    await write(confirmed, 'create', awardTo('A', [chairs]));
    expect(states()).toEqual(['A: purchase (awarded)', 'B: cancel (not awarded)']);
    await write(confirmed, 'create', awardTo('B', [desks]));
    expect(states()).toEqual(['A: purchase (awarded)', 'B: purchase (awarded)']);
    expect([linesOf('A'), linesOf('B')]).toEqual([['Chairs 10 5'], ['Desks 4 20']]);
  });
});

describe('an award that is taken back', () => {
  test('cancels its order, and the other requests stay cancelled; it comes back with the same order', async () => {
    const [made] = await bid(drafts, 'A', 'B');
    const award = awardTo('A');
    await write(drafts, 'create', award);
    await expect(write(drafts, 'cancel', awardTo('A', []))).resolves.toMatchObject({ status: 'cancelled' });
    expect(states()).toEqual(['A: cancel (awarded) (withdrawn)', 'B: cancel (not awarded)']);
    await expect(drafts.lookup([award], never)).resolves.toEqual([]);
    await expect(write(drafts, 'create', award)).resolves.toEqual({
      status: 'created',
      reference: made && referenceOf(made),
    });
    expect(states()).toEqual(['A: draft (awarded)', 'B: cancel (not awarded)']);
  });

  test('is a conflict where a buyer has cancelled its order; a request that a buyer cancelled gets an order of its own', async () => {
    await bid(drafts, 'A', 'B');
    erp.call('purchase.order', 'button_cancel', [ofVendor('A').id]);
    const outcome = await write(drafts, 'create', awardTo('A'));
    expect(states()).toEqual(['A: cancel', 'A: draft', 'B: cancel (not awarded)']);
    erp.call('purchase.order', 'button_cancel', [idOf(outcome)]);
    await expect(write(drafts, 'amend', awardTo('A'))).resolves.toMatchObject({ error: { type: 'conflict' } });
  });
});

describe('the bids of an awarded event', () => {
  test('write nothing any more: of the winner, of the others, and of one that comes late', async () => {
    await bid(drafts, 'A', 'B');
    await write(drafts, 'create', awardTo('A'));
    const changed = (code: string) => bidOf(code, [{ ...chairs, unit_price: '1' }]);
    for (const code of ['A', 'B'])
      await expect(write(drafts, 'amend', changed(code))).resolves.toEqual({
        status: 'unchanged',
        reference: `purchase.order,${ofVendor(code).id}`,
      });
    await expect(write(drafts, 'create', changed('D'))).resolves.toMatchObject({ status: 'unchanged' });
    await expect(write(drafts, 'cancel', bidOf('A', []))).resolves.toMatchObject({ status: 'cancelled' });
    expect(states()).toEqual(['A: draft (awarded)', 'B: cancel (not awarded)']);
    expect(linesOf('A')).toEqual(['Chairs 10 5']);
  });

  test('are no differences when they are read back, and the award is compared with the request', async () => {
    const outcomes = await bid(drafts, 'A', 'B');
    const award = awardTo('A');
    const made = await write(drafts, 'create', award);
    const bids = ['A', 'B'].map((code) => bidOf(code, [chairs, desks]));
    const answers = await drafts.readBack?.(
      bids.map((document, index) => ({ document, reference: referenceOf(outcomes[index] as typeof made) })),
      never,
    );
    expect(answers).toMatchObject([
      { status: 'held', fields: [], notCompared: [expect.stringMatching(/awarded/)] },
      { status: 'held', fields: [] },
    ]);
    const [held] = (await drafts.readBack?.([{ document: award, reference: referenceOf(made) }], never)) ?? [];
    const differing =
      held?.status === 'held' ? held.fields.filter(({ expected, held: now }) => expected !== now) : held;
    expect(differing).toEqual([]);
  });
});

test('a bid that comes after an award without requests makes none beside the order: of its supplier, nor of another one', async () => {
  const reference = referenceOf(await write(drafts, 'create', awardTo('A')));
  await expect(bid(drafts, 'A', 'B')).resolves.toEqual([
    { status: 'unchanged', reference },
    { status: 'unchanged', reference },
  ]);
  expect(states()).toEqual(['A: draft']);
});

test('a request that Odoo made after the award, of a call that was cut off, is cancelled by the next write of its bid', async () => {
  const made = idOf(await write(drafts, 'create', awardTo('A')));
  const order = orders().find(({ id }) => id === made) as Row;
  const origin = order['origin'];
  erp.rows.update('purchase.order', order, { origin: 'not there yet' }, 1);
  await bid(drafts, 'A', 'B');
  erp.rows.update('purchase.order', order, { origin }, 1);
  expect(states()).toEqual(['A: draft', 'A: draft', 'B: draft']);
  const amended = operation('amend', bidOf('B'));
  const steps = await drafts.plan?.([amended], never);
  expect(steps?.[0]?.steps.join(' ')).toMatch(/Cancel the request P\d+ of B: not awarded/);
  await expect(drafts.write([amended, operation('amend', bidOf('A'))], never)).resolves.toMatchObject([
    { status: 'updated' },
    { status: 'updated' },
  ]);
  expect(states()).toEqual(['A: cancel (not awarded)', 'A: draft', 'B: cancel (not awarded)']);
  await expect(write(drafts, 'amend', bidOf('B'))).resolves.toMatchObject({ status: 'unchanged' });
});

test('an event whose name has the words of a mark was not awarded by it', async () => {
  const named = { ...bidOf('A'), event: { ...event, name: 'Chairs (awarded 2029) (not awarded)' } };
  await write(drafts, 'create', named);
  await expect(write(drafts, 'amend', { ...named, ...bidOf('A', [desks]), event: named.event })).resolves.toMatchObject(
    {
      status: 'updated',
    },
  );
  expect(linesOf('A')).toEqual(['Desks 4 20']);
});

test('a source that a buyer wrote over does not hide the winner’s request', async () => {
  await bid(drafts, 'A', 'B');
  edit('A', { origin: 'see my notes' });
  await write(drafts, 'create', awardTo('A'));
  expect(states()).toEqual(['A: draft (awarded)', 'B: cancel (not awarded)']);
});

test('an award that was cut off before its last step cancels the alternatives when it is repeated', async () => {
  await bid(confirmed, 'A', 'B');
  const stop = new AbortController();
  const { rows } = erp;
  const update = rows.update.bind(rows);
  rows.update = (model, row, values, user) => {
    update(model, row, values, user);
    if (values['state'] === 'purchase') stop.abort();
  };
  const award = awardTo('A');
  await expect(confirmed.write([operation('create', award)], stop.signal)).resolves.toMatchObject([
    { status: 'unknown' },
  ]);
  rows.update = update;
  await erp.idle();
  expect(states()).toEqual(['A: purchase (awarded)', 'B: draft']);
  await expect(write(confirmed, 'amend', award)).resolves.toMatchObject({ status: 'updated' });
  expect(states()).toEqual(['A: purchase (awarded)', 'B: cancel (not awarded)']);
});
