/**
 * What SAP documents of itself, or others have seen of it, behaviour by behaviour: each test is named after one, and says
 * where it comes from. (P): SAP's own public text. (G): notes from a real tenant. (K): common knowledge without a source;
 * these, and what the texts leave open, are tried both ways (`behaviour.ts`). None was seen on an S/4HANA by this project.
 */
import { randomUUID } from 'node:crypto';
import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { beforeAll, beforeEach, describe, expect, test } from 'vitest';
import type { Operation, Outcome, Session } from '#connector/connector.ts';
import type { Document, SupplierDocument } from '#connector/documents.ts';
import { testContext } from '#connector/testing/test-context.ts';
import sap from '../../../connectors/sap-s4hana/index.ts';
import { shortMarker } from '../../../connectors/sap-s4hana/markers.ts';
import { runHere } from '../../cli/command-line.ts';
import { closeAtEnd } from '../../harness/close-at-end.ts';
import { scratchFolder } from '../../harness/scratch-folder.ts';
import { otherBehaviours, usualBehaviour } from '../../sap/behaviour.ts';
import type { Entity } from '../../sap/business-rules.ts';
import { describeSap, startTestSap } from '../../sap/sap-in-tests.ts';
import type { SapSystem } from '../../sap/sap-system.ts';
import { suppliers } from '../../sap/seed-suppliers.ts';
import { awardOf, lineOf, never, operationOf } from './documents.ts';
import { sapSettings } from './sap-settings.ts';

const orders = 'API_PURCHASEORDER_PROCESS_SRV';
const contracts = 'API_PURCHASECONTRACT_PROCESS_SRV';
const partners = 'API_BUSINESS_PARTNER';
const conditions = 'API_PURGPRCGCONDITIONRECORD_SRV';

describeSap('as SAP documents it', () => {
  let system: SapSystem;
  beforeAll(async () => {
    system = await startTestSap();
  });
  beforeEach(() => {
    system.behave(usualBehaviour);
    system.keep('', []);
    system.requests();
  });

  async function open(more: Readonly<Record<string, unknown>> = {}): Promise<Session> {
    const opened = await sap.open(sap.settings.parse(sapSettings(system.url, more)), testContext().context);
    closeAtEnd(() => opened.close());
    return opened;
  }

  async function write(by: Session, operation: Operation): Promise<Outcome> {
    const [outcome] = await by.write([operation], never);
    return outcome as Outcome;
  }

  /** The number that SAP has given. */
  async function created(by: Session, document: Document): Promise<{ reference: string; number: string }> {
    const outcome = await write(by, operationOf('create', document));
    if (outcome.status !== 'created') throw new Error(JSON.stringify(outcome));
    return { reference: outcome.reference, number: outcome.reference.split('/')[1] ?? '' };
  }

  async function list(path: string, filter: string, expand = ''): Promise<Entity[]> {
    const query = `$filter=${encodeURIComponent(filter)}${expand === '' ? '' : `&$expand=${expand}`}&$format=json`;
    return (await system.ask('GET', `${path}?${query}`))['results'];
  }

  const orderItems = (number: string) => list(`${orders}/A_PurchaseOrderItem`, `PurchaseOrder eq '${number}'`);
  const orderItem = (number: string, item = '10') =>
    `${orders}/A_PurchaseOrderItem(PurchaseOrder='${number}',PurchaseOrderItem='${item}')`;
  const changes = () => system.requests().filter((request) => !request.startsWith('GET'));
  const conflict = (words: string) => ({
    status: 'rejected',
    error: { type: 'conflict', message: expect.stringContaining(words) },
  });
  const more = [lineOf('Sheets', { quantity: '6' })];

  describe('contracts', () => {
    let session: Session;
    beforeAll(async () => {
      session = await open({ awards: 'contracts' });
    });
    const later = { valid_from: '2090-01-01', valid_to: '2090-12-31' };
    const header = (number: string) => `${contracts}/A_PurchaseContract('${number}')`;

    test('change when they are approved, and are retried while they are in approval (P: KBA 3338491)', async () => {
      const award = awardOf({ fields: later });
      const { reference, number } = await created(session, award);
      const amend = operationOf('amend', { ...award, lines: more }, reference);
      await system.ask('PATCH', header(number), { PurchasingProcessingStatus: '03' });
      expect(await write(session, amend)).toMatchObject({ status: 'retry', error: { type: 'locked' } });
      await system.ask('PATCH', header(number), { PurchasingProcessingStatus: '08' });
      expect(await write(session, amend)).toMatchObject(conflict('was rejected'));
      await system.ask('PATCH', header(number), { PurchasingProcessingStatus: '05' });
      expect(await write(session, amend)).toMatchObject({ status: 'updated' });
    });

    test('that start later show the price 0.00, and their condition has it (P: KBA 3703619)', async () => {
      const award = awardOf({ fields: later });
      const { reference } = await created(session, award);
      const same = operationOf('amend', award, reference);
      expect(await write(session, same)).toMatchObject({ status: 'unchanged' });
      const dearer = { ...award, lines: [lineOf('Sheets', { unit_price: '2.75' })] };
      expect(await write(session, operationOf('amend', dearer, reference))).toMatchObject({ status: 'updated' });
      expect(await write(session, operationOf('amend', dearer, reference))).toMatchObject({ status: 'unchanged' });
    });
  });

  describe('orders', () => {
    let session: Session;
    beforeAll(async () => {
      session = await open();
    });

    test.each(['A_PurchaseOrder', 'A_PurchaseOrderItem'])(
      'that a person has blocked (S) are neither made again nor changed: %s (P: KBA 3416344)',
      async (set) => {
        const award = awardOf();
        const { reference, number } = await created(session, award);
        const path = set === 'A_PurchaseOrder' ? `${orders}/A_PurchaseOrder('${number}')` : orderItem(number);
        await system.ask('PATCH', path, { PurchasingDocumentDeletionCode: 'S' });
        expect(await session.lookup([award], never)).toMatchObject([{ reference }]);
        for (const operation of [
          operationOf('create', { ...award, lines: more }),
          operationOf('amend', { ...award, lines: more }, reference),
          operationOf('cancel', { ...award, lines: [] }, reference),
        ])
          expect(await write(session, operation)).toMatchObject(conflict('is blocked in SAP'));
        expect(await session.lookup([award], never)).toHaveLength(1);
      },
    );

    test('whose items are all deleted (L) are deleted, with a header that says nothing (P: KBA 3070935)', async () => {
      const award = awardOf({ lines: [lineOf('Sheets'), lineOf('Bolts')] });
      const { number } = await created(session, award);
      for (const item of ['10', '20'])
        await system.ask('PATCH', orderItem(number, item), { PurchasingDocumentDeletionCode: 'L' });
      expect(await session.lookup([award], never)).toEqual([]);
      expect((await created(session, award)).number).not.toBe(number);
    });

    test('that are approved are changed: SAP may start the approval anew (P: KBA 3416344, SAP Learning)', async () => {
      const award = awardOf();
      const { reference, number } = await created(session, award);
      await system.ask('PATCH', `${orders}/A_PurchaseOrder('${number}')`, { PurchasingProcessingStatus: '05' });
      const amend = operationOf('amend', { ...award, lines: more }, reference);
      expect((await write(session, amend)).status).toBe('updated');
    });

    const priced = (material: string) => awardOf({ lines: [lineOf('Sheets', { fields: { material, unit: 'PCE' } })] });

    test('get the price that SAP finds when it makes them; it is changed once (P: KBA 3753433; the answer shows what was sent, K)', async () => {
      system.behave({ echoesPosts: true });
      system.priceMaterial('PRICED-1', '100');
      const award = priced('PRICED-1');
      const { number } = await created(session, award);
      expect(changes()).toEqual([
        `POST ${orders}/A_PurchaseOrder`,
        `POST ${orders}/$batch`,
        `$batch PATCH ${orderItem(number)}`,
      ]);
      expect(await orderItems(number)).toMatchObject([{ NetPriceAmount: '2.500' }]);
      expect(await session.lookup([award], never)).toMatchObject([
        { contentHash: operationOf('create', award).contentHash },
      ]);
    });

    test('whose price stays wrong, although SAP answers the change with 204, are deleted and refused (P: KBA 3753433; G)', async () => {
      system.priceMaterial('PRICED-2', '100');
      system.keep('A_PurchaseOrderItem', ['NetPriceAmount']);
      const award = priced('PRICED-2');
      expect(await write(session, operationOf('create', award))).toMatchObject({
        status: 'rejected',
        error: { type: 'data', message: expect.stringContaining('NetPriceAmount from 100 to 2.5') },
      });
      expect(await session.lookup([award], never)).toEqual([]);
    });

    test('may have a unit of the price that is another one: a person’s change of it is seen (G)', async () => {
      const award = awardOf();
      const { reference, number } = await created(session, award);
      await system.ask('PATCH', orderItem(number), { OrderPriceUnit: 'KG' });
      expect(await session.lookup([award], never)).toMatchObject([{ contentHash: undefined }]);
      expect(await write(session, operationOf('amend', { ...award, lines: more }, reference))).toMatchObject(
        conflict('4 PC 2.5/1 KG'),
      );
    });

    test('are in the language of the supplier, and so is the text that is printed (K)', async () => {
      const [, { number: supplier, external, name }] = suppliers;
      await system.ask('PATCH', `${partners}/A_BusinessPartner('${supplier}')`, { CorrespondenceLanguage: 'DE' });
      const award = awardOf({ supplier: { id: randomUUID(), external_id: external, name } });
      const { number } = await created(session, award);
      const [order] = await list(
        `${orders}/A_PurchaseOrder`,
        `PurchaseOrder eq '${number}'`,
        'to_PurchaseOrderItem/to_PurchaseOrderItemNote',
      );
      expect(order).toMatchObject({
        Language: 'DE',
        to_PurchaseOrderItem: { results: [{ to_PurchaseOrderItemNote: { results: [{ Language: 'DE' }] } }] },
      });
    });
  });

  describe('numbers and texts', () => {
    test('with zeros before them and without are the same, and so are texts with blanks at their end (K: ALPHA)', async () => {
      system.behave({ padsNumbers: true });
      const session = await open();
      const fields = {
        material: '4711',
        unit: 'PCE',
        account_assignment_category: 'K',
        cost_center: '0010101101',
        text: 'Sheets ',
        requisition: '10000017',
        requisition_item: '00010',
      };
      const supplier = { id: randomUUID(), external_id: `00${suppliers[1].number}`, name: 'By its number' };
      const award = awardOf({ supplier, lines: [lineOf('Sheets', { fields })] });
      const { reference } = await created(session, award);
      expect(await write(session, operationOf('amend', award, reference))).toEqual({
        status: 'unchanged',
        reference,
      });
      expect(await session.lookup([award], never)).toMatchObject([
        { reference, contentHash: operationOf('create', award).contentHash },
      ]);
      const lines = [lineOf('Sheets', { fields, quantity: '6' })];
      expect(await write(session, operationOf('amend', { ...award, lines }, reference))).toMatchObject({
        status: 'updated',
      });
      const [read] = (await session.readBack?.([{ document: { ...award, lines }, reference }], never)) ?? [];
      expect(read).toMatchObject({ status: 'held' });
      expect(JSON.stringify(read)).not.toContain('"held":null');
    });
  });

  describe('info records', () => {
    let session: Session;
    beforeAll(async () => {
      session = await open({ awards: 'info-records' });
    });
    const fields = { valid_from: '2090-01-01', valid_to: '2090-12-31' };
    const lineFor = (material: string, unit_price: string) =>
      lineOf(material, { unit_price, fields: { material, unit: 'PCE' } });
    const prices = (material: string) =>
      list(`${conditions}/A_PurgPrcgCndnRecdValidity`, `Material eq '${material}'`, 'to_PurgPrcgConditionRecord');

    test('make a condition by themselves, which would outlive the award’s: there is exactly one (G, K)', async () => {
      const material = 'AUTO-1';
      const award = awardOf({ fields, lines: [lineFor(material, '2.5')] });
      const { reference } = await created(session, award);
      // 2090-01-01 is 43,830 days after 1970-01-01, 2090-12-31 is 364 days later.
      const only = {
        ConditionValidityStartDate: '/Date(3786912000000)/',
        ConditionValidityEndDate: '/Date(3818361600000)/',
      };
      expect(await prices(material)).toMatchObject([only]);
      const dearer = { ...award, lines: [lineFor(material, '2.75')] };
      expect(await write(session, operationOf('amend', dearer, reference))).toMatchObject({ status: 'updated' });
      expect(await prices(material)).toMatchObject([
        { ...only, to_PurgPrcgConditionRecord: { ConditionRateValue: '2.750' } },
      ]);
      expect((await write(session, operationOf('cancel', { ...award, lines: [] }, reference))).status).toBe(
        'cancelled',
      );
      expect(await prices(material)).toEqual([]);
    });

    test('that a stop has left with their own condition alone get the award’s, or lose theirs (G, K)', async () => {
      const award = awardOf({ fields, lines: [lineFor('AUTO-3', '2.5')] });
      system.inject({ method: 'DELETE', path: 'A_PurgPrcgConditionRecord', status: 503 });
      expect((await write(session, operationOf('create', award))).status).not.toBe('created');
      expect(await prices('AUTO-3')).toHaveLength(1);
      expect(await session.lookup([award], never)).toMatchObject([
        { reference: `PurchasingInfoRecords/${shortMarker(award.key)}`, contentHash: undefined },
      ]);
      expect((await write(session, operationOf('cancel', { ...award, lines: [] }))).status).toBe('cancelled');
      expect(await prices('AUTO-3')).toEqual([]);
    });
  });

  describe('suppliers', () => {
    let session: Session;
    beforeAll(async () => {
      session = await open({ supplier_country: 'DE' });
    });
    function supplierOf(change: Partial<SupplierDocument> = {}): SupplierDocument {
      const key = randomUUID();
      return { kind: 'supplier', key, external_id: key, name: 'Acme', attributes: [], contacts: [], ...change };
    }
    const partner = (number: string) =>
      system.ask('GET', `${partners}/A_BusinessPartner('${number}')?$expand=to_Supplier&$format=json`);
    const block = (number: string, isBlocked: boolean) =>
      system.ask('PATCH', `${partners}/A_Supplier('${number}')`, { PurchasingIsBlocked: isBlocked });

    test('need an order currency and a reconciliation account, which check asks for (G)', async () => {
      const without = await open({ supplier_currency: undefined, reconciliation_account: undefined });
      expect(await write(without, operationOf('create', supplierOf()))).toMatchObject({
        status: 'rejected',
        error: { type: 'data', message: expect.stringContaining('PurchaseOrderCurrency') },
      });
      expect(changes()).toEqual([]);
      const asked = (await without.check()).find(({ name }) => name === 'new suppliers');
      expect(asked?.message).toMatch(/supplier_currency.*reconciliation_account/);
      expect((await session.check()).some(({ name }) => name === 'new suppliers')).toBe(false);
      const named = supplierOf({ fields: { currency: 'EUR', reconciliation_account: '21100000' } });
      expect((await write(without, operationOf('create', named))).status).toBe('created');
    });

    test('that are persons, as sole traders are, have a first and a last name (G)', async () => {
      const document = supplierOf({ name: 'Ada M. Lovelace', fields: { person: 'yes' } });
      const { reference, number } = await created(session, document);
      expect(await partner(number)).toMatchObject({
        BusinessPartnerCategory: '1',
        FirstName: 'Ada M.',
        LastName: 'Lovelace',
      });
      const renamed = { ...document, name: 'Ada King', fields: {} };
      expect((await write(session, operationOf('amend', renamed, reference))).status).toBe('updated');
      expect(await partner(number)).toMatchObject({ FirstName: 'Ada', LastName: 'King', OrganizationBPName1: null });
    });

    test('lose the block that the connector has set, and no other: that may be compliance’s (K)', async () => {
      const document = supplierOf({ archived: false });
      const { reference, number } = await created(session, document);
      const states: boolean[] = [];
      for (const archived of [true, false]) {
        await write(session, operationOf('amend', { ...document, archived }, reference));
        states.push((await partner(number))['to_Supplier'].PurchasingIsBlocked);
      }
      expect(states).toEqual([true, false]);
      await block(number, true);
      expect((await write(session, operationOf('amend', document, reference))).status).toBe('unchanged');
      expect((await partner(number))['to_Supplier'].PurchasingIsBlocked).toBe(true);
    });

    test('are read back: a change that SAP answers with 204 and does not make is refused, after it had begun (G)', async () => {
      const document = supplierOf({ name: 'Acme' });
      const { reference } = await created(session, document);
      system.keep('A_BusinessPartner', ['OrganizationBPName1']);
      const changed = { ...document, name: 'New', archived: true };
      expect(await write(session, operationOf('amend', changed, reference))).toMatchObject({
        status: 'rejected',
        error: { type: 'data', message: expect.stringContaining('holds other values than were sent') },
        partial: true,
      });
    });
  });

  // Where SAP behaves as usual, `connector verify` runs them below.
  test.runIf(process.env['SAP_FULL'] === '1').each(otherBehaviours)(
    'the ten first tests of a sandbox pass where %s, and leave nothing',
    async (_how, behaviour) => {
      system.behave(behaviour);
      const session = await open();
      const award = awardOf({ lines: [lineOf('Lot A'), lineOf('Lot B')] });
      const results: string[] = [];
      for (const { name, run } of session.firstTests?.(award) ?? [])
        results.push(
          await run(never).then(
            () => 'ok',
            (error: unknown) => `${name}: ${String(error)}`,
          ),
        );
      expect(results).toEqual(Array.from({ length: 10 }, () => 'ok'));
      expect(await session.lookup([award], never)).toEqual([]);
    },
  );

  test('connector verify runs the ten first tests, and reports each', async () => {
    const folder = await scratchFolder();
    const flow = {
      name: 'sap',
      source: 'main',
      connector: 'sap-s4hana',
      documents: ['award'],
      settings: sapSettings(system.url),
    };
    const sources = [{ name: 'main', base_url: 'https://sourcing.example.com', api_key: 'key-of-the-source' }];
    await writeFile(join(folder, 'bridge.yaml'), JSON.stringify({ bridge: { sources, flows: [flow] } }));
    const [{ external, name }] = suppliers;
    await writeFile(join(folder, 'sample.yaml'), JSON.stringify({ supplier: { external_id: external, name } }));
    const files = ['--config', join(folder, 'bridge.yaml'), '--data', folder, '--sample', join(folder, 'sample.yaml')];
    const { code, stdout } = await runHere(['connector', 'verify', 'sap-s4hana', ...files, '--test-system', '--json']);
    const { lines } = JSON.parse(stdout) as { lines: { of: string; name: string; ok: boolean }[] };
    const tests = lines.filter(({ of }) => of === 'first tests');
    expect(tests.map((line) => [line.name.split(' ')[0], line.ok])).toEqual(
      Array.from({ length: 10 }, (_, index) => [String(index + 1), true]),
    );
    expect(code).toBe(0);
  });

  test('the first tests name what a system does in another way', async () => {
    const session = await open();
    const award = awardOf({ lines: [lineOf('Lot A'), lineOf('Lot B')] });
    system.keep('A_PurchaseOrderItem', ['OrderQuantity']);
    const failed: string[] = [];
    for (const { name, run } of session.firstTests?.(award) ?? [])
      await run(never).catch(() => void failed.push(name.split(' ')[0] ?? ''));
    // The change of quantities (5), and what builds upon it: the order is not as it was written then (8, 9).
    expect(failed).toContain('5');
    expect(failed).not.toContain('1');
  });

  test('a proxy may hold a CSRF token for each service (K)', async () => {
    system.behave({ tokensPerService: true });
    const session = await open();
    const named = { key: 'P-1', external_id: 'P-1', name: 'Acme' };
    const supplier: Document = { kind: 'supplier', ...named, attributes: [], contacts: [] };
    expect((await created(session, supplier)).reference).toContain('BusinessPartner/');
    expect((await created(session, awardOf())).reference).toContain('PurchaseOrder/');
  });
});
