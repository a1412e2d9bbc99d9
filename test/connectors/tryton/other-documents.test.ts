import { randomUUID } from 'node:crypto';
import { beforeAll, expect, test } from 'vitest';
import type { Outcome, Session } from '#connector/connector.ts';
import type { AwardDocument, DocumentOf, QuotationDocument, SupplierDocument } from '#connector/documents.ts';
import { testContext } from '#connector/testing/test-context.ts';
import tryton from '../../../connectors/tryton/index.ts';
import { describeTryton } from '../../tryton/tryton-in-tests.ts';
import type { TrytonClient } from '../../tryton/tryton-rpc.ts';
import { type TrytonDatabase, type TrytonServer, trytonUsers } from '../../tryton/tryton-server.ts';
import {
  awardOf,
  idOf,
  messageOf,
  never,
  openSession,
  openTestTryton,
  operation,
  referenceOf,
  settingsOf,
  startTrytonProxy,
  write,
} from './tryton-session.ts';

describeTryton('Tryton', () => {
  let server: TrytonServer;
  let database: TrytonDatabase;
  let admin: TrytonClient;
  let session: Session;

  beforeAll(async () => {
    ({ server, database, admin, session } = await openTestTryton());
    return () => session.close();
  });

  async function partyOf(code: string) {
    const fields = [
      'name',
      'active',
      'identifiers.type',
      'identifiers.code',
      ...['street', 'city', 'country.code'].map((name) => `addresses.${name}`),
      ...['type', 'value', 'name'].map((name) => `contact_mechanisms.${name}`),
    ];
    const found = await admin.search('party.party', [['code', '=', code]], fields, { active_test: false });
    expect(found).toHaveLength(1);
    return found[0];
  }

  test('a party that a user created is the supplier’s: only what differs is written, and nothing is created twice', async () => {
    const supplier = supplierOf('V-1002', {
      name: 'Établissements Lefèvre',
      contacts: [
        { name: 'Sales', email: 'Sales@v-1002.example' },
        { name: 'Anne', email: 'anne@v-1002.example' },
      ],
      fields: { identifier_eu_vat: 'FR 40 303 265 045', street: '5 rue Neuve', country: 'fr' },
    });
    const created = await write(session, 'create', supplier);
    expect(created.status).toBe('updated');
    const party = await partyOf('V-1002');
    expect(party).toMatchObject({ name: 'Établissements Lefèvre' });
    expect(party['identifiers.']).toMatchObject([{ type: 'eu_vat', code: 'FR40303265045' }]);
    expect(party['addresses.']).toMatchObject([{ street: '5 rue Neuve', city: 'Lyon', 'country.': { code: 'FR' } }]);
    expect(party['contact_mechanisms.']).toMatchObject([
      { type: 'email', value: 'sales@v-1002.example', name: 'Sales' },
      { type: 'email', value: 'anne@v-1002.example', name: 'Anne' },
    ]);
    expect(await write(session, 'amend', supplier)).toEqual({ ...created, status: 'unchanged' });
    expect(await partyOf('V-1002')).toEqual(party);
    expect((await write(session, 'amend', { ...supplier, archived: true })).status).toBe('updated');
    expect((await partyOf('V-1002')).active).toBeFalsy();
  });

  test('a supplier that Tryton cannot search for is unclear; the others of the same lookup are found', async () => {
    const [first, second] = [supplierOf('ASK-1'), supplierOf('ASK-2')];
    const created = await session.write([operation('create', first), operation('create', second)], never);
    const odd = supplierOf('half a character \ud800');
    expect(await session.lookup([first, odd, second], never)).toMatchObject([
      { reference: referenceOf(created[0]) },
      { key: odd.key, unclear: expect.stringContaining('surrogates') },
      { reference: referenceOf(created[1]) },
    ]);
  });

  test('a refusal shows Tryton’s own words; a wrong country also what to do', async () => {
    const vat = await write(session, 'create', supplierOf('BAD-1', { fields: { identifier_eu_vat: 'DE1' } }));
    expect(vat).toMatchObject({ status: 'rejected', error: { type: 'data' } });
    expect(messageOf(vat)).toMatch(/^Tryton: .*DE1/u);
    const country = await write(session, 'create', supplierOf('BAD-2', { fields: { country: 'Germany' } }));
    expect(messageOf(country)).toContain('no country with the code "Germany": use the two letters');
  });

  test('an address that a user saves at the moment of a write is not overwritten: the write is tried again', async () => {
    const [party] = await admin.search('party.party', [['code', '=', 'V-1001']], ['name', 'addresses']);
    const proxy = await startTrytonProxy(server.url, [], async (method) => {
      if (method === 'model.party.party.write')
        await admin.call('party.address', 'write', [party.addresses, { street: 'Am Hafen 9' }]);
      return false;
    });
    const through = await openSession(database, { url: proxy.url });
    const supplier = supplierOf('V-1001', { name: party.name, fields: { street: 'Neue Str. 1' } });
    expect(await write(through, 'amend', supplier)).toMatchObject({ status: 'retry', error: { type: 'locked' } });
    expect((await partyOf('V-1001'))['addresses.']).toMatchObject([{ street: 'Am Hafen 9' }]);
    await through.close();
    await proxy.close();
    expect((await write(session, 'amend', supplier)).status).toBe('updated');
    expect((await partyOf('V-1001'))['addresses.']).toMatchObject([{ street: 'Neue Str. 1' }]);
  });

  test('bids of two suppliers answer the same requests; withdrawn bids are rejected, and may come back', async () => {
    const event = { id: randomUUID(), name: 'Chairs 2030', type: 'RFQ', is_test: false, tags: [] };
    const first = quotationOf(event, 'V-1001', '49.9');
    const second = quotationOf(event, 'V-1003', '48');
    const outcomes = await session.write([operation('create', first), operation('create', second)], never);
    expect(outcomes.map(({ status }) => status)).toEqual(['created', 'created']);
    const fields = ['state', 'number', 'supplier.code', 'lines.request', 'lines.unit_price', 'lines.quantity'];
    const read = async () => admin.search('purchase.request.quotation', [], fields);
    const [firstHeld, secondHeld] = await read();
    expect(firstHeld).toMatchObject({ state: 'received', 'lines.': [{ unit_price: '49.9', quantity: 10 }] });
    expect(secondHeld).toMatchObject({
      state: 'received',
      'supplier.': { code: 'V-1003' },
      'lines.': [{ unit_price: '48' }],
    });
    expect(secondHeld['lines.'][0].request).toBe(firstHeld['lines.'][0].request);
    const requests = await admin.search('purchase.request', [], ['state', 'description', 'product.code']);
    expect(requests).toMatchObject([{ state: 'received', 'product.': { code: 'LOT' } }]);
    expect(requests[0].description).toMatch(/^Chairs\n/u);

    const cheaper = quotationOf(event, 'V-1003', '47.5', second);
    expect(await write(session, 'amend', cheaper)).toMatchObject({ status: 'updated' });
    expect((await read())[1]['lines.']).toMatchObject([{ id: secondHeld['lines.'][0].id, unit_price: '47.5' }]);
    expect((await write(session, 'cancel', { ...cheaper, lines: [] })).status).toBe('cancelled');
    expect((await read())[1].state).toBe('rejected');
    expect(await session.lookup([second], never)).toEqual([]);
    expect((await write(session, 'create', cheaper)).status).toBe('created');
    expect(await read()).toHaveLength(3);
    expect(await admin.search('purchase.request', [], ['id'])).toHaveLength(1);
  });

  test('a quotation that a user has rejected is still the supplier’s', async () => {
    const event = { id: randomUUID(), name: 'Desks 2030', type: 'RFQ', is_test: false, tags: [] };
    const bid = quotationOf(event, 'V-1001', '49.9');
    const created = await write(session, 'create', bid);
    await admin.call('purchase.request.quotation', 'reject', [[idOf(created)]]);
    expect(await session.lookup([bid], never)).toMatchObject([{ reference: referenceOf(created) }]);
    expect((await write(session, 'amend', bid, referenceOf(created))).status).toBe('unchanged');
  });

  test('a quotation is found although users replace its reference, and a user’s copy is not mistaken for it', async () => {
    const event = { id: randomUUID(), name: 'Numbered', type: 'RFQ', is_test: false, tags: [] };
    const bid = quotationOf(event, 'V-1001', '49.9');
    const created = await write(session, 'create', bid);
    const id = idOf(created);
    await admin.call('purchase.request.quotation', 'copy', [[id], {}]);
    expect(await session.lookup([bid], never)).toMatchObject([{ reference: referenceOf(created) }]);
    await admin.call('purchase.request.quotation', 'write', [[id], { reference: 'AB 4711' }]);
    expect(await session.lookup([bid], never)).toMatchObject([{ reference: referenceOf(created) }]);
    const cheaper = quotationOf(event, 'V-1001', '48', bid);
    expect(await write(session, 'create', cheaper)).toEqual({ status: 'updated', reference: referenceOf(created) });
    expect(await write(session, 'create', cheaper)).toEqual({ status: 'unchanged', reference: referenceOf(created) });
    const read = async () =>
      (await admin.search('purchase.request.quotation', [['id', '=', id]], ['reference', 'state']))[0];
    expect(await read()).toMatchObject({ reference: 'AB 4711', state: 'received' });
    expect((await write(session, 'cancel', { ...cheaper, lines: [] })).status).toBe('cancelled');
    expect(await read()).toMatchObject({ reference: 'AB 4711 withdrawn', state: 'rejected' });
    expect(await session.lookup([bid], never)).toEqual([]);
  });

  test('a quotation whose attachment was not created is found by its reference, and the next write attaches it', async () => {
    const event = { id: randomUUID(), name: 'Cut off', type: 'RFQ', is_test: false, tags: [] };
    const bid = quotationOf(event, 'V-1001', '49.9');
    const proxy = await startTrytonProxy(server.url, [], (method) => method === 'model.ir.attachment.create');
    const through = await openSession(database, { url: proxy.url });
    expect((await write(through, 'create', bid)).status).toBe('rejected');
    await through.close();
    await proxy.close();
    const [found] = await session.lookup([bid], never);
    expect(await write(session, 'create', bid)).toEqual({ status: 'updated', reference: referenceOf(found) });
    const attachments = await admin.search('ir.attachment', [['resource', '=', referenceOf(found)]], ['link']);
    expect(attachments).toHaveLength(1);
    expect(
      await admin.search(
        'purchase.request.quotation',
        [
          ['lines.request.description', 'like', 'Chairs%'],
          ['reference', '=', attachments[0].link],
        ],
        ['id'],
      ),
    ).toHaveLength(1);
  });

  test('a quotation moves to another party if the supplier’s code changes', async () => {
    const event = { id: randomUUID(), name: 'Renumbered', type: 'RFQ', is_test: false, tags: [] };
    const bid = quotationOf(event, 'V-1001', '49.9');
    const created = await write(session, 'create', bid);
    const moved = { ...bid, supplier: { ...bid.supplier, external_id: 'NEW-BIDDER', name: 'New Bidder' } };
    expect(await write(session, 'amend', moved)).toEqual({ status: 'updated', reference: referenceOf(created) });
    const domain = [['id', '=', idOf(created)]];
    const fields = ['supplier.code', 'supplier_address.party'];
    const [quotation] = await admin.search('purchase.request.quotation', domain, ['supplier', ...fields]);
    expect(quotation).toMatchObject({
      'supplier.': { code: 'NEW-BIDDER' },
      'supplier_address.': { party: quotation.supplier },
    });
  });

  test('a cancelled purchase request is left alone: new bids answer a new request, existing bids keep theirs', async () => {
    const event = { id: randomUUID(), name: 'Cancelled request', type: 'RFQ', is_test: false, tags: [] };
    const first = quotationOf(event, 'V-1001', '49.9');
    const requestOf = async (outcome: Outcome) => {
      const domain = [['id', '=', idOf(outcome)]];
      const [quotation] = await admin.search('purchase.request.quotation', domain, ['lines.request']);
      return quotation['lines.'].map(({ request }: { request: number }) => request);
    };
    const created = await write(session, 'create', first);
    const before = await requestOf(created);
    const setState = (state: string) => admin.call('purchase.request', 'write', [before, { state }]);
    await setState('purchased');
    const late = quotationOf(event, 'V-1003', '48');
    const refused = await write(session, 'create', late);
    expect(refused).toMatchObject({ status: 'rejected', error: { type: 'conflict' } });
    expect(messageOf(refused)).toContain(`its purchase request ${before} is purchased in Tryton`);
    await setState('cancelled');
    const second = await write(session, 'create', late);
    expect(second.status).toBe('created');
    expect(await requestOf(second)).not.toEqual(before);
    await write(session, 'amend', quotationOf(event, 'V-1001', '47', first));
    expect(await requestOf(created)).toEqual(before);
  });

  test('bids answer the purchase request that the mapping names', async () => {
    const request = { quantity: 10, description: 'Chairs', company: 1 };
    const [requestId] = await admin.create('purchase.request', [request]);
    const event = { id: randomUUID(), name: 'Requested', type: 'RFQ', is_test: false, tags: [] };
    const bid = quotationOf(event, 'V-1001', '49.9');
    const lines = bid.lines.map((line) => ({ ...line, fields: { request: String(requestId) } }));
    const plain = await openSession(database, { product: undefined, quotation_state: 'draft' });
    const created = await write(plain, 'create', { ...bid, lines });
    await plain.close();
    const domain = [['id', '=', idOf(created)]];
    const [quotation] = await admin.search('purchase.request.quotation', domain, ['state', 'lines.request']);
    expect(quotation).toMatchObject({ state: 'draft', 'lines.': [{ request: requestId }] });
    const twice = lines.flatMap((line) => [line, { ...line, lot: 'Stools' }]);
    const refused = await write(session, 'amend', { ...bid, lines: twice }, referenceOf(created));
    expect(messageOf(refused)).toContain(`Lot "Chairs" and another one name the purchase request ${requestId}`);
  });

  test('files and answers are attached to the supplier, or to its purchase if the settings say so', async () => {
    const bytes = Uint8Array.from({ length: 300 }, (_, index) => index % 256);
    const award = awardOf([{ lot: 'Chairs', quantity: '1', unit_price: '1' }]);
    const file: DocumentOf<'file'> = {
      kind: 'file',
      key: randomUUID(),
      event: award.event,
      supplier: award.supplier,
      question: { id: randomUUID(), identifier: '1.2', text: 'A drawing?', categories: [] },
    };
    const content = { name: 'drawing "1".pdf', read: async () => bytes };
    const purchase = await write(session, 'create', award);
    const [created] = await session.write([{ ...operation('create', file), file: content }], never);
    const read = async () => {
      const domain = [['id', '=', idOf(created as never)]];
      return admin.search('ir.attachment', domain, ['name', 'resource', 'data']);
    };
    const [party] = await admin.search('party.party', [['code', '=', 'V-1001']], ['id']);
    expect(await read()).toMatchObject([
      { name: 'drawing "1".pdf', resource: `party.party,${party.id}`, data: Buffer.from(bytes) },
    ]);
    const onPurchase = await openSession(database, { attach_to: 'purchase' });
    const [moved] = await onPurchase.write([{ ...operation('amend', file), file: content }], never);
    expect(moved).toEqual({ status: 'updated', reference: referenceOf(created as never) });
    expect(await read()).toMatchObject([{ resource: referenceOf(purchase), data: Buffer.from(bytes) }]);
    expect((await write(onPurchase, 'cancel', file)).status).toBe('cancelled');
    expect(await read()).toEqual([]);
    await onPurchase.close();
  });

  test('after a fault that follows the commit, nothing is created twice', async () => {
    const methods = ['purchase.purchase', 'purchase.product_supplier', 'purchase.request.quotation', 'ir.attachment'];
    const proxy = await startTrytonProxy(
      server.url,
      methods.map((model) => `model.${model}.create`),
    );
    const through = await openSession(database, { url: proxy.url, awards: 'both' });
    const counts = async () =>
      Promise.all(methods.map(async (model) => (await admin.search(model, [], ['id'])).length));
    const before = await counts();
    const awards = ['V-1001', 'V-1002'].map((code) =>
      awardOf([{ lot: `Fault ${code}`, quantity: '1', unit_price: '1' }], {
        supplier: { id: randomUUID(), external_id: code, name: code },
      }),
    );
    const bids = ['V-1001', 'V-1003'].map((code) => quotationOf((awards[0] as AwardDocument).event, code, '1'));
    const answers = awards.map(
      ({ event, supplier, key }): DocumentOf<'rfi-answers'> => ({
        kind: 'rfi-answers',
        key,
        event,
        supplier,
        lines: [],
      }),
    );
    for (const documents of [awards, bids, answers]) {
      const outcomes = await through.write(
        documents.map((document) => operation('create', document)),
        never,
      );
      expect(outcomes.map(({ status }) => status)).toEqual(['created', 'created']);
      const found = await through.lookup(documents, never);
      expect(found).toMatchObject(outcomes.map((outcome) => ({ reference: referenceOf(outcome) })));
    }
    expect(proxy.pendingFaults()).toEqual([]);
    const after = await counts();
    // Each purchase and each quotation has an attachment of its own.
    expect(after.map((count, index) => count - (before[index] ?? 0))).toEqual([2, 2, 2, 6]);
    await through.close();
    await proxy.close();
  });

  test('for a user who may only read, the check names the missing right, and the flow pauses', async () => {
    const { login, password } = trytonUsers.reader;
    const reading = await openSession(database, { user: login, password });
    const results = await reading.check();
    const messages = Object.fromEntries(results.map(({ name, ok, message }) => [name, `${ok} ${message}`]));
    expect(messages['login']).toMatch(/^true .*company Buyer GmbH/u);
    expect(messages['purchases']).toBe(
      'false The user reader cannot create and change purchases: add the user to the group Purchase.',
    );
    expect(messages['quotations']).toMatch(/^true .*matters only when the flow delivers quotations/u);
    expect(messages['notes on requisitions']).toMatch(
      /^true .*cannot create and change .*group Purchase Requisition\. .*to show what became of them/u,
    );
    const news = { requisition: 'none', status: 'failed', text: 'x', idempotencyKey: randomUUID() } as const;
    const [unknown] = (await reading.acknowledge?.([news], never)) ?? [];
    expect(unknown).toMatchObject({
      status: 'rejected',
      error: { message: 'Tryton has no purchase requisition none.' },
    });
    const refused = await write(reading, 'create', supplierOf('NO-1'));
    expect(refused).toMatchObject({ status: 'retry', error: { type: 'auth' } });
    expect(messageOf(refused)).toContain('You are not allowed to access "Party"');
    await reading.close();
  });

  test('for a wrong password, company, product or database, the check names the setting', async () => {
    const failures = async (more: Record<string, unknown>) => {
      const opened = await openSession(database, more);
      const results = await opened.check();
      await opened.close();
      return results.filter(({ ok }) => !ok).map(({ message }) => message);
    };
    expect(await failures({})).toEqual([]);
    expect(await failures({ password: 'wrong' })).toEqual([
      'Tryton refused the login of the user connector: check settings.user and settings.password.',
    ]);
    expect(await failures({ company: 'Nobody' })).toEqual([
      'Tryton has no company with the code or name "Nobody" (settings.company).',
    ]);
    expect(await failures({ product: 'NONE' })).toEqual(['Tryton has no active product with the code "NONE".']);
    expect((await failures({ database: 'nowhere' }))[0]).toContain('settings.database');
    const closed = tryton.settings.parse({
      ...(settingsOf(database) as object),
      password: 'x',
      url: 'http://127.0.0.1:1',
    });
    const away = await tryton.open(closed, testContext().context);
    expect(await away.check()).toMatchObject([{ name: 'login', ok: false }]);
    await away.close();
  });

  test('a read returns a supplier again if only its address, contact or identifier has changed', async () => {
    const reading = await openSession(database, { read_overlap_seconds: 0 });
    const [{ id }] = await admin.search('party.party', [['code', '=', 'V-1003']], ['id']);
    const read = async (from?: string) => {
      const records = [];
      let checkpoint = from;
      for await (const page of reading.read?.('supplier', checkpoint, never) ?? []) {
        records.push(...page.records);
        ({ checkpoint } = page);
      }
      return { records, checkpoint };
    };
    let { checkpoint, records } = await read();
    expect(records.find(({ external_id }) => external_id === 'V-1003')).toMatchObject({
      name: '山田製作所',
      archived: false,
    });
    for (const [model, values, shown] of [
      [
        'party.contact_mechanism',
        { type: 'email', value: 'new@v-1003.example' },
        { contacts: [{}, { email: 'new@v-1003.example' }] },
      ],
      ['party.identifier', { code: 'JP-1' }, { fields: { identifier_other: 'JP-1' } }],
    ] as const) {
      await admin.create(model, [{ party: id, ...values }]);
      ({ checkpoint, records } = await read(checkpoint));
      expect(records.find(({ external_id }) => external_id === 'V-1003')).toMatchObject(shown);
    }
    await admin.call('party.party', 'write', [[id], { active: false }]);
    expect((await read(checkpoint)).records.find(({ external_id }) => external_id === 'V-1003')).toMatchObject({
      archived: true,
    });
    await reading.close();
  });
});

function supplierOf(key: string, more: Partial<SupplierDocument> = {}): SupplierDocument {
  return { kind: 'supplier', key, external_id: key, name: key, archived: false, attributes: [], contacts: [], ...more };
}

function quotationOf(
  event: QuotationDocument['event'],
  code: string,
  unit_price: string,
  { supplier }: Pick<QuotationDocument, 'supplier'> = { supplier: { id: randomUUID(), external_id: code, name: code } },
): QuotationDocument {
  const line = { lot: 'Chairs', quantity: '10', unit_price, bids: [{ value: unit_price }], values: [] };
  const key = `${event.id}/${supplier.id}`;
  return { kind: 'quotation', key, event, supplier, currency: 'EUR', exchange_rates: [], lines: [line] };
}
