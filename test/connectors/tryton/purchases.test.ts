import { beforeAll, expect, test } from 'vitest';
import type { Session } from '#connector/connector.ts';
import { describeTryton } from '../../tryton/tryton-in-tests.ts';
import { decimal, type TrytonClient, type TrytonValue } from '../../tryton/tryton-rpc.ts';
import type { TrytonDatabase, TrytonServer } from '../../tryton/tryton-server.ts';
import {
  awardOf,
  idOf,
  messageOf,
  never,
  openSession,
  openTestTryton,
  operation,
  referenceOf,
  startTrytonProxy,
  withLots,
  write,
} from './tryton-session.ts';

const chairs = { lot: 'Chairs', quantity: '10', unit_price: '49.9' };
const desks = { lot: 'Desks', quantity: '4', unit_price: '210.5' };
const lamps = { lot: 'Lamps', quantity: '7', unit_price: '12.3456' };

describeTryton('purchases in Tryton', () => {
  let server: TrytonServer;
  let database: TrytonDatabase;
  let admin: TrytonClient;
  let session: Session;

  beforeAll(async () => {
    ({ server, database, admin, session } = await openTestTryton());
    return () => session.close();
  });

  async function purchaseOf(id: number): Promise<TrytonValue> {
    const lines = ['description', 'quantity', 'unit_price', 'note', 'product.code'].map((name) => `lines.${name}`);
    const fields = ['state', 'reference', 'number', 'party.code', 'invoice_address', 'untaxed_amount', ...lines];
    const [purchase] = await admin.search('purchase.purchase', [['id', '=', id]], fields);
    return purchase;
  }

  const lineOf = (purchase: TrytonValue, lot: string) =>
    purchase['lines.'].find((line: TrytonValue) => line.description === lot);

  async function editLine(purchase: number, line: number, values: object): Promise<void> {
    await admin.call('purchase.purchase', 'write', [[purchase], { lines: [['write', [line], values]] }]);
  }

  async function confirm(purchase: number): Promise<void> {
    await admin.call('purchase.purchase', 'quote', [[purchase]]);
    await admin.call('purchase.purchase', 'confirm', [[purchase]]);
  }

  test('an award becomes a draft to the supplier’s address, with exact prices, the savings and the bid sheet', async () => {
    const sheet = [{ column: 'Incoterm', value: '=DAP' }];
    const award = awardOf([{ ...lamps, cost: '86.4192', historic_cost: '90', savings: '3.5808', values: sheet }]);
    const created = await write(session, 'create', award);
    expect(created.status).toBe('created');
    const purchase = await purchaseOf(idOf(created));
    expect(purchase).toMatchObject({ state: 'draft', number: null, untaxed_amount: '86.42' });
    expect(purchase['party.'].code).toBe('V-1001');
    expect(purchase.invoice_address).not.toBeNull();
    expect(lineOf(purchase, 'Lamps')).toMatchObject({
      quantity: 7,
      unit_price: '12.3456',
      'product.': { code: 'LOT' },
      note: 'Lot: Lamps\nShare: 1\nCost: 86.4192 EUR\nHistoric cost: 90 EUR\nSavings: 3.5808 EUR',
    });
    const domain = [['resource', '=', referenceOf(created)]];
    const [attachment] = await admin.search('ir.attachment', domain, ['name', 'data']);
    expect(attachment.name).toBe('Award Office chairs.csv');
    expect(attachment.data.toString('utf8')).toBe(
      "\uFEFFLot,Share,Quantity,Unit price,Cost,Historic cost,Savings,Currency,Incoterm\r\nLamps,1,7,12.3456,86.4192,90,3.5808,EUR,'=DAP\r\n",
    );
    // A user can confirm the draft without changes.
    await confirm(idOf(created));
    expect((await purchaseOf(idOf(created))).state).toBe('processing');
  });

  test('a lot of a Dutch auction is ordered at its cost, divided by the quantity, or refused where that has no end', async () => {
    const lot = { lot: 'Chairs', quantity: '8', cost: '500' };
    const created = await write(session, 'create', awardOf([lot]));
    const purchase = await purchaseOf(idOf(created));
    expect(purchase).toMatchObject({ untaxed_amount: '500.00' });
    expect(lineOf(purchase, 'Chairs')).toMatchObject({ quantity: 8, unit_price: '62.5' });
    const refused = await write(session, 'create', awardOf([{ ...lot, quantity: '3' }]));
    expect(refused.status).toBe('rejected');
    expect(messageOf(refused)).toContain('Lot "Chairs": it has the quantity 3 and no unit price');
  });

  test('a price that follows from the cost is never rounded, as the purchase would then have another amount', async () => {
    const rounding = await openSession(database, { rounding: 'half-up' });
    for (const lot of [
      { quantity: '32', cost: '1000.01' },
      { quantity: '2.5', cost: '100' },
    ]) {
      const refused = await write(rounding, 'create', awardOf([{ lot: 'Chairs', ...lot }]));
      expect(refused.status).toBe('rejected');
      expect(messageOf(refused)).toContain('is not rounded, as the lot is ordered at its cost');
    }
    await rounding.close();
  });

  test('an amendment changes only the lots that differ: the others keep their lines, and no second purchase is created', async () => {
    const award = awardOf([chairs, desks]);
    const created = await write(session, 'create', award);
    const before = await purchaseOf(idOf(created));
    const updated = await write(session, 'amend', withLots(award, [chairs, { ...desks, unit_price: '199' }, lamps]));
    expect(updated).toEqual({ status: 'updated', reference: referenceOf(created) });
    const after = await purchaseOf(idOf(created));
    expect(lineOf(after, 'Chairs').id).toBe(lineOf(before, 'Chairs').id);
    expect(lineOf(after, 'Desks')).toMatchObject({ id: lineOf(before, 'Desks').id, unit_price: '199' });
    expect(lineOf(after, 'Lamps')).toMatchObject({ quantity: 7, unit_price: '12.3456' });
    await write(session, 'amend', withLots(award, [lamps]));
    expect((await purchaseOf(idOf(created)))['lines.']).toMatchObject([{ description: 'Lamps' }]);
  });

  test('users’ edits and additions in a draft stay as long as the award does not change the same values', async () => {
    const award = awardOf([chairs, desks]);
    const created = await write(session, 'create', award);
    const id = idOf(created);
    const before = await purchaseOf(id);
    const chair = lineOf(before, 'Chairs');
    await editLine(id, chair.id, {
      description: 'Chairs, black',
      quantity: 12,
      note: `${chair.note}\nCall before delivery`,
    });
    const freight = { type: 'line', description: 'Freight', quantity: 1, unit_price: decimal('30') };
    await admin.call('purchase.purchase', 'write', [[id], { comment: 'Ask Rita', lines: [['create', [freight]]] }]);
    const changed = withLots(award, [
      { ...chairs, cost: '500' },
      { ...desks, quantity: '5' },
    ]);
    expect((await write(session, 'amend', changed)).status).toBe('updated');
    const after = await purchaseOf(id);
    expect(after['lines.']).toMatchObject([
      {
        id: chair.id,
        description: 'Chairs, black',
        quantity: 12,
        note: 'Lot: Chairs\nShare: 1\nCost: 500 EUR\nCall before delivery',
      },
      { description: 'Desks', quantity: 5 },
      { description: 'Freight', unit_price: '30' },
    ]);
    const [{ comment }] = await admin.search('purchase.purchase', [['id', '=', id]], ['comment']);
    expect(comment).toBe('Ask Rita');
  });

  test('if users and the award have changed the same value, nothing is written, and the conflict shows both', async () => {
    const award = awardOf([chairs, desks]);
    const created = await write(session, 'create', award);
    const id = idOf(created);
    await editLine(id, lineOf(await purchaseOf(id), 'Chairs').id, { quantity: 12 });
    const before = await purchaseOf(id);
    const refused = await write(
      session,
      'amend',
      withLots(award, [
        { ...chairs, quantity: '15' },
        { ...desks, quantity: '5' },
      ]),
    );
    expect(refused).toMatchObject({ status: 'rejected', error: { type: 'conflict' } });
    expect(messageOf(refused)).toContain('Lot "Chairs": the quantity is 12 in Tryton, but 15 is awarded.');
    expect(await purchaseOf(id)).toEqual(before);
    // As soon as the line has the awarded value, there is no conflict any more.
    await editLine(id, lineOf(before, 'Chairs').id, { quantity: 15 });
    const same = withLots(award, [
      { ...chairs, quantity: '15' },
      { ...desks, quantity: '5' },
    ]);
    expect((await write(session, 'amend', same)).status).toBe('updated');
  });

  test('a confirmed purchase is never changed: the conflict shows its state and the differences by lot', async () => {
    const award = awardOf([chairs, desks]);
    const created = await write(session, 'create', award);
    const id = idOf(created);
    await confirm(id);
    const before = await purchaseOf(id);
    const refused = await write(
      session,
      'amend',
      withLots(award, [{ ...chairs, unit_price: '45' }, lamps]),
      referenceOf(created),
    );
    expect(refused).toMatchObject({ status: 'rejected', error: { type: 'conflict' } });
    const message = messageOf(refused);
    expect(message).toContain(`the purchase ${before.number} is processing in Tryton and was not changed`);
    expect(message).toContain('Lot "Chairs": change the unit price from 49.9 to 45.');
    expect(message).toContain('Add a line: lot "Lamps", 7 u of LOT at 12.3456.');
    expect(message).toContain('Remove the line of the lot "Desks": 4 u of LOT at 210.5.');
    const kept = await write(session, 'cancel', withLots(award, []), referenceOf(created));
    expect(kept).toMatchObject({ status: 'rejected', error: { type: 'conflict' } });
    expect(await purchaseOf(id)).toEqual(before);
    // An award that changes nothing in the purchase is no conflict.
    const same = withLots(award, [{ ...chairs, savings: '5' }, desks]);
    expect((await write(session, 'amend', same, referenceOf(created))).status).toBe('updated');
    expect((await purchaseOf(id))['lines.']).toEqual(before['lines.']);
  });

  test('a withdrawal that Tryton refuses after it was recorded says that it had begun', async () => {
    const award = awardOf([chairs]);
    const created = await write(session, 'create', award);
    const proxy = await startTrytonProxy(server.url, [], (method) => method === 'model.purchase.purchase.cancel');
    const through = await openSession(database, { url: proxy.url });
    const refused = await write(through, 'cancel', withLots(award, []), referenceOf(created));
    expect(refused).toMatchObject({ status: 'rejected', partial: true });
    await through.close();
    await proxy.close();
    expect((await write(session, 'cancel', withLots(award, []), referenceOf(created))).status).toBe('cancelled');
  });

  test('a purchase that a user has cancelled is not created again; one that was cancelled with its award is', async () => {
    const award = awardOf([chairs]);
    const created = await write(session, 'create', award);
    await admin.call('purchase.purchase', 'cancel', [[idOf(created)]]);
    expect(await session.lookup([award], never)).toEqual([]);
    const refused = await write(session, 'amend', withLots(award, [desks]), referenceOf(created));
    expect(refused).toMatchObject({ status: 'rejected', error: { type: 'conflict' } });
    expect(messageOf(refused)).toContain('was cancelled in Tryton');
    await admin.call('purchase.purchase', 'draft', [[idOf(created)]]);
    expect((await write(session, 'cancel', withLots(award, []), referenceOf(created))).status).toBe('cancelled');
    const again = await write(session, 'create', award);
    expect(again.status).toBe('created');
    expect((await purchaseOf(idOf(created))).state).toBe('cancelled');
    expect((await purchaseOf(idOf(again))).state).toBe('draft');
    expect(await session.lookup([award], never)).toHaveLength(1);
  });

  test('a purchase is found although users replace its reference, and a user’s copy is not mistaken for it', async () => {
    const award = awardOf([chairs]);
    const created = await write(session, 'create', award);
    const id = idOf(created);
    const [copy] = await admin.call('purchase.purchase', 'copy', [[id], {}]);
    await admin.call('purchase.purchase', 'write', [[id], { reference: 'AB 4711 of the supplier' }]);
    expect(await session.lookup([award], never)).toMatchObject([{ reference: referenceOf(created) }]);
    expect((await write(session, 'create', withLots(award, [desks]))).status).toBe('updated');
    expect((await purchaseOf(id))['lines.']).toMatchObject([{ description: 'Desks' }]);
    expect((await purchaseOf(id)).reference).toBe('AB 4711 of the supplier');
    expect((await purchaseOf(copy))['lines.']).toMatchObject([{ description: 'Chairs' }]);
  });

  test('a purchase without its attachment is found by its reference, and gets the attachment again', async () => {
    const award = awardOf([chairs]);
    const created = await write(session, 'create', award);
    const domain = [['resource', '=', referenceOf(created)]];
    const attachments = () => admin.search('ir.attachment', domain, ['link', 'description']);
    const [attachment] = await attachments();
    await admin.call('ir.attachment', 'delete', [[attachment.id]]);
    // The attachment of another document, as answers have when they are attached to purchases.
    await admin.create('ir.attachment', [{ name: 'x', link: 'SB-0000000000000000', resource: referenceOf(created) }]);
    expect(await session.lookup([award], never)).toMatchObject([{ reference: referenceOf(created) }]);
    const again = await write(session, 'create', withLots(award, [desks]));
    expect(again).toEqual({ status: 'updated', reference: referenceOf(created) });
    expect((await purchaseOf(idOf(created)))['lines.']).toMatchObject([{ description: 'Desks' }]);
    expect((await attachments()).map(({ link }) => link)).toContain(attachment.link);
  });

  test('a price or quantity that Tryton would not keep exactly is refused, with the lot, unless rounding is set', async () => {
    const price = await write(session, 'create', awardOf([chairs, { ...desks, unit_price: '1.00005' }]));
    expect(price).toMatchObject({ status: 'rejected', error: { type: 'data' } });
    expect(messageOf(price)).toContain('Lot "Desks": 1.00005 has more decimals than a price in Tryton takes (4)');
    const quantity = await write(session, 'create', awardOf([{ ...chairs, quantity: '2.5' }]));
    expect(messageOf(quantity)).toContain('Lot "Chairs": 2.5 has more decimals than the unit "Unit" takes (0)');
    const rounding = await openSession(database, { rounding: 'half-up' });
    const rounded = await write(rounding, 'create', awardOf([{ ...desks, unit_price: '1.00005' }]));
    expect((await purchaseOf(idOf(rounded)))['lines.']).toMatchObject([{ unit_price: '1.0001' }]);
    await rounding.close();
  });

  test('a supplier that Tryton does not have is created with its name, or its award is refused, as the settings say', async () => {
    const supplier = { id: 'a0000000-0000-4000-8000-000000000001', external_id: 'NEW-1', name: 'New Chairs Ltd' };
    const award = awardOf([chairs], { supplier });
    const strict = await openSession(database, { missing_supplier: 'reject' });
    const refused = await write(strict, 'create', award);
    expect(refused).toMatchObject({ status: 'rejected', error: { type: 'data' } });
    expect(messageOf(refused)).toContain('no party with the code "NEW-1"');
    await strict.close();
    const created = await write(session, 'create', award);
    const purchase = await purchaseOf(idOf(created));
    expect(purchase['party.'].code).toBe('NEW-1');
    expect(purchase.invoice_address).not.toBeNull();
  });

  test('purchases become quotations if the settings say so; one that cannot leaves nothing, or says so', async () => {
    const quoting = await openSession(database, { purchase_state: 'quotation' });
    const created = await write(quoting, 'create', awardOf([chairs]));
    expect(await purchaseOf(idOf(created))).toMatchObject({ state: 'quotation', number: expect.stringMatching(/\d/) });
    // With two warehouses and none set, the purchase has no warehouse. Tryton requires one only for a quotation.
    const locations = ['Input', 'Output', 'Storage'].map((name) => ({ name: `Second ${name}`, type: 'storage' }));
    const [input_location, output_location, storage_location] = await admin.create('stock.location', locations);
    const inside = { input_location, output_location, storage_location };
    const second = { name: 'Second', code: 'WH2', type: 'warehouse', ...inside };
    const [warehouse] = await admin.create('stock.location', [second]);
    const undecided = await openSession(database, { purchase_state: 'quotation' });
    const award = awardOf([chairs]);
    const refused = await write(undecided, 'create', { ...award, event: { ...award.event, name: 'No warehouse' } });
    expect(refused).toMatchObject({ status: 'rejected', error: { type: 'data' } });
    expect(messageOf(refused)).toContain('warehouse');
    expect(await undecided.lookup([award], never)).toEqual([]);
    expect(await admin.search('purchase.purchase', [['description', '=', 'No warehouse']], ['id'])).toEqual([]);
    // The prices were there before the purchase was refused: they go with the award.
    const both = await openSession(database, { awards: 'both', purchase_state: 'quotation' });
    const priced = awardOf([{ ...desks, lot: 'Priced before' }]);
    const prices = () => admin.search('purchase.product_supplier', [['name', '=', 'Priced before']], ['id']);
    expect(await write(both, 'create', priced)).toMatchObject({ status: 'rejected', partial: true });
    expect(await prices()).toHaveLength(1);
    const [found] = await both.lookup([priced], never);
    expect((await write(both, 'cancel', withLots(priced, []), referenceOf(found))).status).toBe('cancelled');
    expect(await prices()).toEqual([]);
    await both.close();
    await admin.call('stock.location', 'write', [[warehouse], { active: false }]);
    await undecided.close();
    await quoting.close();
  });

  test('a lot that is no longer awarded is removed from a quotation, too, which stays a quotation with its number', async () => {
    const quoting = await openSession(database, { purchase_state: 'quotation' });
    const award = awardOf([chairs, desks, lamps]);
    const created = await write(quoting, 'create', award);
    const { number } = await purchaseOf(idOf(created));
    expect((await write(quoting, 'amend', withLots(award, [chairs, desks]))).status).toBe('updated');
    const after = await purchaseOf(idOf(created));
    expect(after).toMatchObject({
      state: 'quotation',
      number,
      'lines.': [{ description: 'Chairs' }, { description: 'Desks' }],
    });
    await quoting.close();
    // If the amendment is cut off while the purchase is a draft, the next write makes it a quotation again. A purchase
    // that a user has set back to draft stays a draft.
    const proxy = await startTrytonProxy(server.url, [], (method) => method === 'model.purchase.purchase.quote');
    const through = await openSession(database, { url: proxy.url });
    await write(through, 'amend', withLots(award, [chairs]));
    await through.close();
    await proxy.close();
    expect(await purchaseOf(idOf(created))).toMatchObject({ state: 'draft', number });
    expect(await session.lookup([award], never)).toMatchObject([{ contentHash: undefined }]);
    expect((await write(session, 'amend', withLots(award, [chairs]))).status).toBe('updated');
    expect(await purchaseOf(idOf(created))).toMatchObject({ state: 'quotation', number });
    await admin.call('purchase.purchase', 'draft', [[idOf(created)]]);
    expect((await write(session, 'amend', withLots(award, [desks]))).status).toBe('updated');
    expect((await purchaseOf(idOf(created))).state).toBe('draft');
  });

  test('a draft that cannot become a quotation is not deleted if a user has changed it in the meantime', async () => {
    const proxy = await startTrytonProxy(server.url, [], async (method) => {
      if (method !== 'model.purchase.purchase.quote') return false;
      const [draft] = await admin.search('purchase.purchase', [['description', '=', 'Worked on']], ['id']);
      await admin.call('purchase.purchase', 'write', [[draft.id], { comment: 'Ask Rita' }]);
      return true;
    });
    const through = await openSession(database, { url: proxy.url, purchase_state: 'quotation' });
    const award = awardOf([chairs]);
    const outcome = await write(through, 'create', { ...award, event: { ...award.event, name: 'Worked on' } });
    expect(outcome).toMatchObject({ status: 'unknown', message: expect.stringContaining('a user has changed it') });
    expect(await admin.search('purchase.purchase', [['description', '=', 'Worked on']], ['comment'])).toMatchObject([
      { comment: 'Ask Rita' },
    ]);
    await through.close();
    await proxy.close();
  });

  test('an award moves to a new party if its supplier gets a code that Tryton does not have', async () => {
    const both = await openSession(database, { awards: 'both' });
    const award = awardOf([{ ...chairs, lot: 'Moved' }]);
    const created = await write(both, 'create', award);
    const moved = { ...award, supplier: { ...award.supplier, external_id: 'MOVED-1', name: 'Moved Ltd' } };
    const [planned] = (await both.plan?.([operation('amend', moved)], never)) ?? [];
    expect(planned?.steps).toContain('Change the supplier from Müller & Söhne KG to Moved Ltd.');
    expect(await write(both, 'amend', moved)).toEqual({ status: 'updated', reference: referenceOf(created) });
    const purchase = await purchaseOf(idOf(created));
    expect(purchase['party.'].code).toBe('MOVED-1');
    const domain = [['name', '=', 'Moved']];
    expect(await admin.search('purchase.product_supplier', domain, ['party.code'])).toMatchObject([
      { 'party.': { code: 'MOVED-1' } },
    ]);
    expect((await write(both, 'amend', moved)).status).toBe('unchanged');
    await both.close();
  });

  test('if creating a supplier ended in a fault, the supplier is found, and the award is written', async () => {
    const proxy = await startTrytonProxy(server.url, ['model.party.party.create']);
    const through = await openSession(database, { url: proxy.url });
    const supplier = { id: 'a0000000-0000-4000-8000-000000000002', external_id: 'FAULT-1', name: 'Fault Ltd' };
    const created = await write(through, 'create', awardOf([chairs], { supplier }));
    expect((await purchaseOf(idOf(created)))['party.'].code).toBe('FAULT-1');
    expect(proxy.pendingFaults()).toEqual([]);
    expect(await admin.search('party.party', [['code', '=', 'FAULT-1']], ['id'])).toHaveLength(1);
    await through.close();
    await proxy.close();
  });

  test('a record that Tryton cannot search for fails alone', async () => {
    const half = { id: 'a0000000-0000-4000-8000-000000000003', external_id: 'half a character \ud800', name: 'x' };
    const awards = [awardOf([chairs]), awardOf([chairs], { supplier: half }), awardOf([desks])];
    const operations = awards.map((award) => operation('create', award));
    const planned = (await session.plan?.(operations, never)) ?? [];
    expect(planned.map(({ steps }) => steps[0])).toMatchObject([
      expect.stringMatching(/^Make a purchase/u),
      expect.stringContaining('surrogates'),
      expect.stringMatching(/^Make a purchase/u),
    ]);
    expect(await session.write(operations, never)).toMatchObject([
      { status: 'created' },
      { status: 'rejected', error: { type: 'data' } },
      { status: 'created' },
    ]);
  });

  test('an award can become supplier prices, in addition to the purchase or instead of it', async () => {
    const pricing = await openSession(database, { awards: 'both' });
    const award = awardOf([{ ...chairs, fields: { product: 'BOLT-M8' } }, desks]);
    const pricesOf = async () => {
      const domain = [
        ['party.code', '=', 'V-1001'],
        ['name', 'in', ['Chairs', 'Desks']],
      ];
      const fields = ['name', 'product.code', 'currency.code', 'prices.quantity', 'prices.unit_price'];
      return admin.search('purchase.product_supplier', domain, fields);
    };
    const created = await write(pricing, 'create', award);
    const before = await pricesOf();
    expect(before).toMatchObject([
      {
        name: 'Chairs',
        'product.': { code: 'BOLT-M8' },
        'currency.': { code: 'EUR' },
        'prices.': [{ quantity: 0, unit_price: '49.9' }],
      },
      { name: 'Desks', 'product.': { code: 'LOT' }, 'prices.': [{ unit_price: '210.5' }] },
    ]);
    const amended = withLots(award, [{ ...chairs, unit_price: '48', fields: { product: 'BOLT-M8' } }]);
    expect((await write(pricing, 'amend', amended, referenceOf(created))).status).toBe('updated');
    expect(await pricesOf()).toMatchObject([{ id: before[0].id, 'prices.': [{ unit_price: '48' }] }]);
    expect((await write(pricing, 'amend', amended, referenceOf(created))).status).toBe('unchanged');
    expect((await write(pricing, 'cancel', withLots(award, []), referenceOf(created))).status).toBe('cancelled');
    expect(await pricesOf()).toEqual([]);
    expect(await pricing.lookup([award], never)).toEqual([]);
    await pricing.close();
    const only = await openSession(database, { awards: 'supplier-prices' });
    expect((await write(only, 'create', award)).status).toBe('created');
    expect(await pricesOf()).toHaveLength(2);
    expect(await only.lookup([award], never)).toHaveLength(1);
    await only.close();
  });

  test('an unknown field of the mapping is refused with a list of the known fields', async () => {
    const refused = await write(session, 'create', awardOf([{ ...chairs, fields: { Material: 'LOT' } }]));
    expect(messageOf(refused)).toContain(
      'the field "Material", which the Tryton connector does not know. It knows: product',
    );
  });
});
