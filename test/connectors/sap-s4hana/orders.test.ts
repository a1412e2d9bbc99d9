/** Purchase orders of the SAP connector, and what users of SAP do with them, against the stub. */
import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { beforeAll, beforeEach, describe, expect, test } from 'vitest';
import type { Operation, Outcome, Session } from '#connector/connector.ts';
import type { AwardDocument } from '#connector/documents.ts';
import { testContext } from '#connector/testing/test-context.ts';
import sap from '../../../connectors/sap-s4hana/index.ts';
import { closeAtEnd } from '../../harness/close-at-end.ts';
import { scratchFolder } from '../../harness/scratch-folder.ts';
import { testCertificates } from '../../harness/test-certificates.ts';
import { type Behaviour, usualBehaviour } from '../../sap/behaviour.ts';
import type { Entity } from '../../sap/business-rules.ts';
import { createClientCertificate, startCertificateLogin } from '../../sap/certificate-login.ts';
import { describeSap, startTestSap } from '../../sap/sap-in-tests.ts';
import { login, type SapSystem } from '../../sap/sap-system.ts';
import { suppliers } from '../../sap/seed-suppliers.ts';
import { awardOf, lineOf, never, operationOf } from './documents.ts';
import { sapSettings } from './sap-settings.ts';

describeSap('in SAP', () => {
  let system: SapSystem;
  beforeAll(async () => {
    system = await startTestSap();
  });

  describe('the version of the service for purchase orders', () => {
    /** The service that `check` names, after an order was made. */
    async function used(v4: Behaviour['v4'], settings: object): Promise<{ created: string; checked: string }> {
      system.behave({ v4 });
      const opened = await sap.open(
        sap.settings.parse({ ...sapSettings(system.url), ...settings }),
        testContext().context,
      );
      closeAtEnd(() => opened.close());
      const [outcome] = await opened.write([operationOf('create', awardOf())], never);
      const [checked] = await opened.check();
      const message = outcome && 'error' in outcome ? outcome.error.message : '';
      return { created: `${outcome?.status}${message}`, checked: `${checked?.ok} ${checked?.message}` };
    }
    const v2 = expect.stringMatching(/^true .*\(API_PURCHASEORDER_PROCESS_SRV\)/) as string;
    const v4 = expect.stringMatching(/^true .*\(api_purchaseorder_2\//) as string;

    test('is V4 where the system has it', async () => {
      expect(await used('whole', {})).toEqual({ created: 'created', checked: v4 });
    });

    test('is V2 where the system has no V4, where its V4 cannot change texts of orders, and where the settings say so', async () => {
      expect(await used('none', {})).toEqual({ created: 'created', checked: v2 });
      expect(await used('without changes of notes', {})).toEqual({ created: 'created', checked: v2 });
      expect(await used('whole', { purchase_orders: 'v2' })).toEqual({ created: 'created', checked: v2 });
    });

    test('is refused in words where the settings want V4, and the system cannot', async () => {
      const reasons = { none: 'SAP has no service', 'without changes of notes': 'cannot be changed' } as const;
      for (const [lacking, words] of Object.entries(reasons)) {
        const { created, checked } = await used(lacking as keyof typeof reasons, { purchase_orders: 'v4' });
        expect(created).toMatch(new RegExp(`^retry.*settings.purchase_orders is v4.*${words}.*set it to v2`));
        expect(checked).toMatch(new RegExp(`^false .*${words}`));
      }
    });

    test('is asked for again after a failure, so that a system that is away for a moment is not taken for one without V4', async () => {
      system.behave({ v4: 'whole' });
      const opened = await sap.open(sap.settings.parse(sapSettings(system.url)), testContext().context);
      closeAtEnd(() => opened.close());
      system.inject({ method: 'GET', path: '$metadata', status: 503 });
      const [first] = await opened.write([operationOf('create', awardOf())], never);
      expect(first).toMatchObject({ status: 'retry', error: { type: 'transient' } });
      const [second] = await opened.write([operationOf('create', awardOf())], never);
      expect(second).toMatchObject({ status: 'created' });
      const [checked] = await opened.check();
      expect(checked?.message).toContain('api_purchaseorder_2');
    });
  });

  describe.each(['v2', 'v4'] as const)('a purchase order over OData %s', (purchase_orders) => {
    let session: Session;

    async function open(more: Readonly<Record<string, unknown>> = {}): Promise<Session> {
      const values = sapSettings(system.url, { purchase_orders, ...more });
      const opened = await sap.open(sap.settings.parse(values), testContext().context);
      closeAtEnd(() => opened.close());
      return opened;
    }

    beforeAll(async () => {
      session = await open();
    });
    beforeEach(() => {
      system.behave(usualBehaviour);
      system.requests();
    });

    async function write(operation: Operation, by = session): Promise<Outcome> {
      const [outcome] = await by.write([operation], never);
      return outcome as Outcome;
    }

    /** Creates the order, and returns it with its number. */
    async function created(award: AwardDocument): Promise<{ award: AwardDocument; reference: string; number: string }> {
      const outcome = await write(operationOf('create', award));
      if (outcome.status !== 'created') throw new Error(JSON.stringify(outcome));
      return { award, reference: outcome.reference, number: outcome.reference.replace('PurchaseOrder/', '') };
    }

    async function items(number: string): Promise<Entity[]> {
      const order = await system.ask(
        'GET',
        `${service}/A_PurchaseOrder('${number}')?$expand=to_PurchaseOrderItem&$format=json`,
      );
      return order['to_PurchaseOrderItem'].results;
    }

    const lineFor = (day: string, center: string, quantity = '4') =>
      lineOf('Sheets', {
        quantity,
        fields: { delivery_date: day, account_assignment_category: 'K', cost_center: center, gl_account: '61000000' },
      });
    const parts = async (number: string) => {
      const order = await system.ask(
        'GET',
        `${service}/A_PurchaseOrder('${number}')?$expand=to_PurchaseOrderItem/to_ScheduleLine,to_PurchaseOrderItem/to_AccountAssignment&$format=json`,
      );
      const [item] = order['to_PurchaseOrderItem'].results;
      return [item.to_ScheduleLine.results, item.to_AccountAssignment.results] as Entity[][];
    };

    test('that is new takes a search for it and its supplier before and after the request that makes it', async () => {
      await created(awardOf());
      await created(awardOf());
      const partners = 'API_BUSINESS_PARTNER';
      const search = `GET ${service}/A_PurchaseOrder`;
      const supplier = `GET ${partners}/A_BusinessPartner`;
      const rest = [`POST ${service}/A_PurchaseOrder`, search, supplier];
      // The second one has the sessions of the services, and knows which one has orders.
      expect(system.requests()).toEqual([
        `GET ${service}/`,
        ...questionsOf[purchase_orders],
        search,
        `GET ${partners}/`,
        supplier,
        ...rest,
        search,
        supplier,
        ...rest,
      ]);
      const batch = Array.from({ length: 20 }, () => operationOf('create', awardOf()));
      const fresh = await open();
      expect((await fresh.write(batch, never)).map(({ status }) => status)).toEqual(batch.map(() => 'created'));
      // Two tokens, one search for 20 orders and one for their supplier, an order each, and both searches once more.
      expect(system.requests()).toHaveLength(questionsOf[purchase_orders].length + 2 + 2 + 20 + 2);
    });

    test('keeps the items that do not change: of three lots, one is changed, one deleted, one added', async () => {
      const lots = ['Sheets', 'Bolts', 'Nuts'].map((lot) => lineOf(lot));
      const { award, number, reference } = await created(awardOf({ lines: lots }));
      system.requests();
      const lines = [
        lots[0],
        lineOf('Bolts', { quantity: '7', unit_price: '2.125' }),
        lineOf('Pins'),
      ] as AwardDocument['lines'];
      expect((await write(operationOf('amend', { ...award, lines }, reference))).status).toBe('updated');
      expect(await items(number)).toMatchObject([
        { PurchaseOrderItem: '10', PurchasingDocumentDeletionCode: '', OrderQuantity: '4.000' },
        {
          PurchaseOrderItem: '20',
          PurchasingDocumentDeletionCode: '',
          OrderQuantity: '7.000',
          NetPriceAmount: '21.250',
          NetPriceQuantity: '10',
        },
        { PurchaseOrderItem: '30', PurchasingDocumentDeletionCode: 'L' },
        { PurchaseOrderItem: '40', PurchasingDocumentDeletionCode: '', PurchaseOrderItemText: 'Pins' },
      ]);
      // One save: each may send a message to the supplier (SAP blogs).
      expect(system.requests().filter((request) => !request.startsWith('GET'))).toEqual([
        `POST ${service}/$batch`,
        `$batch PATCH ${service}/A_PurchaseOrderItem(PurchaseOrder='${number}',PurchaseOrderItem='20')`,
        `$batch DELETE ${service}/A_PurchaseOrderItem(PurchaseOrder='${number}',PurchaseOrderItem='30')`,
        `$batch POST ${service}/A_PurchaseOrder('${number}')/to_PurchaseOrderItem`,
        `$batch PATCH ${service}/A_PurchaseOrderNote(PurchaseOrder='${number}',TextObjectType='F02',Language='EN')`,
      ]);
    });

    describe('whose delivery date and account assignment the mapping sets', () => {
      test('gets the new ones with an amend, on the same item', async () => {
        const { award, number, reference } = await created(awardOf({ lines: [lineFor('2030-03-31', '10101101')] }));
        system.requests();
        const amend = operationOf('amend', { ...award, lines: [lineFor('2030-04-30', '10101102')] }, reference);
        expect((await write(amend)).status).toBe('updated');
        // 2030-04-30 is 30 days after 2030-03-31, which is 22,004 days after 1970-01-01.
        expect(await parts(number)).toMatchObject([
          [{ ScheduleLineDeliveryDate: '/Date(1903737600000)/' }],
          [{ CostCenter: '10101102', GLAccount: '61000000' }],
        ]);
        const changes = system.requests().filter((request) => /^\$batch (?!.*Note)/.test(request));
        expect(changes).toEqual([
          `$batch PATCH ${service}/A_PurchaseOrderScheduleLine(PurchasingDocument='${number}',PurchasingDocumentItem='10',ScheduleLine='1')`,
          `$batch PATCH ${service}/A_PurOrdAccountAssignment(PurchaseOrder='${number}',PurchaseOrderItem='10',AccountAssignmentNumber='1')`,
        ]);
        expect(await session.lookup([amend.document], never)).toMatchObject([{ contentHash: amend.contentHash }]);
        // The order's text names them: what SAP shows with zeros before it is the same.
        await system.ask(
          'PATCH',
          `${service}/A_PurOrdAccountAssignment(PurchaseOrder='${number}',PurchaseOrderItem='10',AccountAssignmentNumber='1')`,
          { CostCenter: '0010101102' },
        );
        expect((await write(amend)).status).toBe('unchanged');
      });

      test('is not changed at all where SAP refuses one of both', async () => {
        const { award, number, reference } = await created(awardOf({ lines: [lineFor('2030-03-31', '10101101')] }));
        const amend = operationOf('amend', { ...award, lines: [lineFor('2030-04-30', '10101102', '6')] }, reference);
        system.inject({
          method: 'PATCH',
          path: 'A_PurchaseOrderScheduleLine',
          status: 400,
          message: 'No delivery then',
        });
        expect(await write(amend)).toMatchObject({ status: 'rejected', error: { type: 'data' } });
        expect(await items(number)).toMatchObject([{ OrderQuantity: '4.000' }]);
        expect((await write(amend)).status).toBe('updated');
        expect(await parts(number)).toMatchObject([
          [{ ScheduleLineDeliveryDate: '/Date(1903737600000)/' }],
          [{ CostCenter: '10101102' }],
        ]);
      });
    });

    test('is replaced when its currency changes', async () => {
      const { award, number, reference } = await created(awardOf());
      const outcome = await write(operationOf('amend', { ...award, currency: 'USD' }, reference));
      expect(outcome).toMatchObject({ status: 'updated' });
      expect(outcome).not.toMatchObject({ reference });
      expect(await items(number)).toMatchObject([{ PurchasingDocumentDeletionCode: 'L' }]);
    });

    describe('that a person has changed in SAP', () => {
      test('in its quantity, is not overwritten, and the outcome says what was changed', async () => {
        const { award, number, reference } = await created(awardOf());
        await system.ask('PATCH', itemOf(number, '10'), { OrderQuantity: '5' });
        const outcome = await write(
          operationOf('amend', { ...award, lines: [lineOf('Sheets', { quantity: '6' })] }, reference),
        );
        expect(outcome).toMatchObject({ status: 'rejected', error: { type: 'conflict' } });
        expect(JSON.stringify(outcome)).toContain(`purchase order ${number} was changed in SAP`);
        expect(JSON.stringify(outcome)).toContain('item 10 has 5 PC 2.5/1 instead of 4 PC 2.5/1');
        expect(await items(number)).toMatchObject([{ OrderQuantity: '5.000' }]);
        // She sets it as the award asks: then it is the award's again.
        await system.ask('PATCH', itemOf(number, '10'), { OrderQuantity: '6' });
        const next = operationOf('amend', { ...award, lines: [lineOf('Sheets', { quantity: '6' })] }, reference);
        expect((await write(next)).status).toBe('updated');
        expect(await session.lookup([award], never)).toMatchObject([{ contentHash: next.contentHash }]);
      });
    });

    test('whose item is delivered, is not changed', async () => {
      const { award, number, reference } = await created(awardOf());
      await system.ask('PATCH', itemOf(number, '10'), { IsCompletelyDelivered: true });
      const refused = {
        status: 'rejected',
        error: { type: 'conflict', message: expect.stringContaining('completely delivered') },
      };
      const lines = [lineOf('Sheets', { quantity: '6' })];
      expect(await write(operationOf('amend', { ...award, lines }, reference))).toMatchObject(refused);
      expect(await write(operationOf('cancel', { ...award, lines: [] }, reference))).toMatchObject(refused);
    });

    test('that a user has open is tried again later, and then changed', async () => {
      const { award, number, reference } = await created(awardOf());
      system.lock(number);
      const amend = operationOf('amend', { ...award, lines: [lineOf('Sheets', { quantity: '6' })] }, reference);
      expect(await write(amend)).toMatchObject({ status: 'retry', error: { type: 'locked' } });
      system.unlock(number);
      expect((await write(amend)).status).toBe('updated');
    });

    test('that a person changes between the reading and the writing is not overwritten (412)', async () => {
      const { award, number, reference } = await created(awardOf());
      const amend = operationOf('amend', { ...award, lines: [lineOf('Sheets', { quantity: '6' })] }, reference);
      const patch = { method: 'PATCH', path: 'A_PurchaseOrderItem', status: 412, message: 'Precondition failed' };
      system.inject({
        ...patch,
        before: async () => system.ask('PATCH', itemOf(number, '10'), { OrderQuantity: '5' }),
      });
      expect(await write(amend)).toMatchObject({
        status: 'retry',
        error: { type: 'locked', message: expect.stringContaining('412') },
      });
      expect(await session.lookup([amend.document], never)).toMatchObject([{ contentHash: undefined }]);
      expect(await write(amend)).toMatchObject({ status: 'rejected', error: { type: 'conflict' } });
      expect(await items(number)).toMatchObject([{ OrderQuantity: '5.000' }]);
    });

    test('is changed item by item also where one ETag stands for the whole order', async () => {
      system.behave({ sharesEtags: true });
      const award = awardOf({ lines: [lineOf('Sheets'), lineOf('Bolts')] });
      const { reference } = await created(award);
      const lines = award.lines.map((line) => ({ ...line, quantity: '7' }));
      expect((await write(operationOf('amend', { ...award, lines }, reference))).status).toBe('updated');
    });

    test('is refused with SAP’s words, each once for each item that they are about', async () => {
      const details = [
        {
          code: 'MEPO/005',
          message: 'Enter a cost center',
          severity: 'error',
          target: "to_PurchaseOrderItem(PurchaseOrder='',PurchaseOrderItem='00010')",
        },
        { code: 'ME/303', message: 'Delivery date is in the past', severity: 'error', target: '' },
        { code: 'MEPO/005', message: 'Enter a cost center', severity: 'error', target: '' },
        {
          code: 'MEPO/005',
          message: 'Enter a cost center',
          severity: 'error',
          target: "/#TRANSIENT#/to_PurchaseOrderItem(PurchaseOrder='',PurchaseOrderItem='00020')",
        },
        { code: 'ME/303', message: 'Delivery date is in the past', severity: 'error', target: '/#TRANSIENT#' },
        { code: '06/017', message: 'Draft was saved', severity: 'info', target: '' },
      ];
      system.inject({
        method: 'POST',
        path: 'A_PurchaseOrder',
        status: 400,
        message: 'An exception was raised',
        details,
      });
      const outcome = await write(operationOf('create', awardOf()));
      expect(outcome).toMatchObject({ status: 'rejected', error: { type: 'data' } });
      expect((outcome as { error: { message: string } }).error.message).toBe(
        'SAP: Enter a cost center (MEPO/005) [item 10]; Delivery date is in the past (ME/303); Enter a cost center (MEPO/005) [item 20]',
      );
    });

    test('about which SAP warns is made, and the log keeps the warnings, by item', async () => {
      const { context, lines } = testContext();
      const opened = await sap.open(sap.settings.parse(sapSettings(system.url, { purchase_orders })), context);
      closeAtEnd(() => opened.close());
      system.warnNext('Net price must be checked', {
        target: "to_PurchaseOrderItem(PurchaseOrder='',PurchaseOrderItem='00010')",
        details: [
          { code: 'ME/664', message: 'Order quantity is unusual', severity: 'warning', target: 'OrderQuantity' },
          { code: 'ME/665', message: 'Saved in 2 ms', severity: 'info', target: '' },
        ],
      });
      expect((await write(operationOf('create', awardOf()), opened)).status).toBe('created');
      const logged = lines.join('\n');
      expect(logged).toContain('Net price must be checked (06/017) [item 10]');
      expect(logged).toContain('Order quantity is unusual (ME/664) [OrderQuantity]');
      expect(logged).not.toContain('Saved in 2 ms');
    });

    // What follows does not depend on the version of the service.
    if (purchase_orders === 'v2' && process.env['SAP_FULL'] !== '1') return;

    test('whose delivery a person has moved or divided is not changed', async () => {
      const moved = await created(awardOf({ lines: [lineFor('2030-03-31', '10101101')] }));
      await system.ask('PATCH', scheduleLineOf(moved.number), { ScheduleLineDeliveryDate: '/Date(1903737600000)/' });
      const divided = await created(awardOf({ lines: [lineFor('2030-03-31', '10101101')] }));
      await system.ask('POST', `${service}/A_PurchaseOrderScheduleLine`, {
        PurchasingDocument: divided.number,
        PurchasingDocumentItem: '10',
        ScheduleLine: '2',
        ScheduleLineDeliveryDate: '/Date(1903737600000)/',
      });
      for (const [{ award, reference }, words] of [
        [moved, 'on 2030-04-30'],
        [divided, 'has 2 schedule lines'],
      ] as const) {
        const outcome = await write(
          operationOf('amend', { ...award, lines: [lineFor('2030-03-31', '10101101', '6')] }, reference),
        );
        expect(outcome).toMatchObject({ status: 'rejected', error: { type: 'conflict' } });
        expect(JSON.stringify(outcome)).toContain(words);
      }
    });

    test('is not touched in its dates and accounts where the mapping sets none', async () => {
      const { award, number, reference } = await created(awardOf());
      await system.ask('POST', `${service}/A_PurchaseOrderScheduleLine`, {
        PurchasingDocument: number,
        PurchasingDocumentItem: '10',
        ScheduleLine: '1',
        ScheduleLineDeliveryDate: '/Date(1903737600000)/',
      });
      const amend = operationOf('amend', { ...award, lines: [lineOf('Sheets', { quantity: '6' })] }, reference);
      expect((await write(amend)).status).toBe('updated');
      expect(await parts(number)).toMatchObject([[{ ScheduleLineDeliveryDate: '/Date(1903737600000)/' }], []]);
    });

    test('that a person has changed by an item of her own, has no hash for lookup, and is not deleted', async () => {
      const { award, number, reference } = await created(awardOf());
      await system.ask('POST', `${service}/A_PurchaseOrderItem`, {
        PurchaseOrder: number,
        PurchaseOrderItem: '20',
        OrderQuantity: '1',
        PurchasingDocumentDeletionCode: '',
      });
      expect(await session.lookup([award], never)).toEqual([{ key: award.key, reference, contentHash: undefined }]);
      const outcome = await write(operationOf('cancel', { ...award, lines: [] }, reference));
      expect(outcome).toMatchObject({
        status: 'rejected',
        error: { type: 'conflict', message: expect.stringContaining('item 20 was added') },
      });
    });

    test('that a person has deleted is not made again by an amend', async () => {
      const { award, number, reference } = await created(awardOf());
      await system.ask('PATCH', `${service}/A_PurchaseOrder('${number}')`, { PurchasingDocumentDeletionCode: 'L' });
      const outcome = await write(
        operationOf('amend', { ...award, lines: [lineOf('Sheets', { quantity: '6' })] }, reference),
      );
      expect(outcome).toMatchObject({ status: 'rejected', error: { type: 'conflict' } });
      expect(await session.lookup([award], never)).toEqual([]);
    });

    test('that asks for an ETag although it has shown none (428) pauses the flow, in words', async () => {
      const { award, reference } = await created(awardOf());
      const amend = operationOf('amend', { ...award, lines: [lineOf('Sheets', { quantity: '6' })] }, reference);
      system.inject({ method: 'PATCH', path: 'A_PurchaseOrderItem', status: 428, message: 'Precondition required' });
      expect(await write(amend)).toMatchObject({
        status: 'retry',
        error: { type: 'config', message: expect.stringContaining('428') },
      });
      expect((await write(amend)).status).toBe('updated');
    });

    test('that is there twice is not written, and both are named', async () => {
      const { award, number, reference } = await created(awardOf());
      const copy = await system.ask('GET', `${service}/A_PurchaseOrder('${number}')?$format=json`);
      await system.ask('POST', `${service}/A_PurchaseOrder`, {
        PurchaseOrder: '4599999999',
        Supplier: copy['Supplier'],
        CorrespncExternalReference: copy['CorrespncExternalReference'],
        PurchasingDocumentDeletionCode: '',
      });
      expect(await session.lookup([award], never)).toHaveLength(2);
      const outcome = await write(
        operationOf('amend', { ...award, lines: [lineOf('Sheets', { quantity: '6' })] }, reference),
      );
      expect(outcome).toMatchObject({
        status: 'rejected',
        error: { type: 'conflict', message: expect.stringContaining('4599999999') },
      });
    });

    test('waits for a supplier that SAP does not have yet, and is written once it has', async () => {
      const award = awardOf({ supplier: { id: 'x', external_id: 'V-77', name: 'New' } });
      expect(await write(operationOf('create', award))).toMatchObject({ status: 'retry', error: { type: 'locked' } });
      await system.ask('POST', 'API_BUSINESS_PARTNER/A_BusinessPartner', {
        BusinessPartner: '17300077',
        Supplier: '17300077',
        BusinessPartnerCategory: '2',
        OrganizationBPName1: 'New',
        BusinessPartnerIDByExtSystem: 'V-77',
        to_Supplier: { Supplier: '17300077' },
      });
      expect(await write(operationOf('create', award))).toMatchObject({ status: 'created' });
      const byNumber = awardOf({ supplier: { id: 'x', external_id: suppliers[1].number, name: 'By its number' } });
      expect(await write(operationOf('create', byNumber))).toMatchObject({ status: 'created' });
    });

    describe('is written with each login', () => {
      test('OAuth: one token and one session for many requests at once', async () => {
        const oauth = {
          token_url: `${system.url}/oauth/token`,
          client_id: login.client,
          client_secret: login.clientSecret,
        };
        const { user: _user, password: _password, ...rest } = sapSettings(system.url, { purchase_orders });
        const opened = await sap.open(sap.settings.parse({ ...rest, oauth }), testContext().context);
        const outcomes = await Promise.all(
          [1, 2, 3].map(async () => opened.write([operationOf('create', awardOf())], never)),
        );
        await opened.close();
        expect(outcomes.flat().map(({ status }) => status)).toEqual(['created', 'created', 'created']);
        const requests = system.requests();
        expect(requests.filter((request) => request === 'POST /oauth/token')).toHaveLength(1);
        expect(requests.filter((request) => request === `GET ${service}/`)).toHaveLength(1);
      });

      test('a client certificate: the one that SAP knows writes; another one, and a password, are refused in words', async () => {
        const known = await createClientCertificate('BRIDGE');
        const unknown = await createClientCertificate('BRIDGE');
        const url = await startCertificateLogin(system.url, known);
        const dataDir = await scratchFolder();
        await writeFile(join(dataDir, 'ca.pem'), testCertificates().caPem);
        await writeFile(join(dataDir, 'known.pem'), known.pem);
        await writeFile(join(dataDir, 'unknown.pem'), unknown.pem);
        const { user: _user, password: _password, ...rest } = sapSettings(url, { purchase_orders, ca_file: 'ca.pem' });
        const writeWith = async (login: object) => {
          const settings = sap.settings.parse({ ...rest, ...login });
          const opened = await sap.open(settings, testContext({ dataDir }).context);
          const [outcome] = await opened.write([operationOf('create', awardOf())], never);
          const checked = await opened.check();
          await opened.close();
          return { outcome, isWell: checked.every(({ ok }) => ok) };
        };
        expect(await writeWith({ client_certificate_file: 'known.pem' })).toMatchObject({
          outcome: { status: 'created' },
          isWell: true,
        });
        expect(await writeWith({ client_certificate_file: 'unknown.pem' })).toMatchObject({
          outcome: { status: 'retry', error: { type: 'auth', message: expect.stringContaining('CERTRULE') } },
          isWell: false,
        });
        // A password does not stand in for the certificate that this server asks for.
        expect(await writeWith({ user: login.user, password: login.password })).toMatchObject({
          outcome: { status: 'retry', error: { type: 'auth' } },
        });
        const missing = sap.settings.parse({ ...rest, client_certificate_file: 'elsewhere.pem' });
        await expect(sap.open(missing, testContext({ dataDir }).context)).rejects.toThrow(
          'settings.client_certificate_file',
        );
      });

      test('a session that has expired is renewed once for many requests', async () => {
        system.expireSessions();
        const batch = Array.from({ length: 8 }, () => operationOf('create', awardOf()));
        expect((await session.write(batch, never)).map(({ status }) => status)).toEqual(batch.map(() => 'created'));
        expect(system.requests().filter((request) => request === `GET ${service}/`)).toHaveLength(1);
      });

      test.each([
        [{ password: 'wrong' }, 'settings.password'],
        [{ service_path: '/elsewhere' }, 'settings.service_path'],
      ])('%o is refused in words', async (more, words) => {
        const opened = await sap.open(
          sap.settings.parse(sapSettings(system.url, { purchase_orders, ...more })),
          testContext().context,
        );
        const [outcome] = await opened.write([operationOf('create', awardOf())], never);
        const lines = await opened.check();
        await opened.close();
        expect(JSON.stringify(outcome)).toContain(words);
        expect(lines.some(({ ok }) => ok)).toBe(false);
      });
    });
  });
});

const service = 'API_PURCHASEORDER_PROCESS_SRV';
/** Whether the system has V4 is asked once. */
const questionsOf = { v2: [], v4: [`GET ${service}/$metadata`] };

function scheduleLineOf(order: string): string {
  return `${service}/A_PurchaseOrderScheduleLine(PurchasingDocument='${order}',PurchasingDocumentItem='10',ScheduleLine='1')`;
}

function itemOf(order: string, item: string): string {
  return `${service}/A_PurchaseOrderItem(PurchaseOrder='${order}',PurchaseOrderItem='${item}')`;
}
