/** Contracts, prices in info records, quotations and attachments of the SAP connector, against the stub. */
import { randomUUID } from 'node:crypto';
import { beforeAll, beforeEach, describe, expect, test } from 'vitest';
import type { Operation, Outcome, Session } from '#connector/connector.ts';
import type { Document, QuotationDocument, RfiAnswer } from '#connector/documents.ts';
import { testContext } from '#connector/testing/test-context.ts';
import sap from '../../../connectors/sap-s4hana/index.ts';
import { keyMarker, shortMarker } from '../../../connectors/sap-s4hana/markers.ts';
import { closeAtEnd } from '../../harness/close-at-end.ts';
import type { Entity } from '../../sap/business-rules.ts';
import { sampleRfqs } from '../../sap/function-imports.ts';
import { describeSap, startTestSap } from '../../sap/sap-in-tests.ts';
import type { SapSystem } from '../../sap/sap-system.ts';
import { suppliers } from '../../sap/seed-suppliers.ts';
import { awardOf, lineOf, never, operationOf } from './documents.ts';
import { sapSettings } from './sap-settings.ts';

const contractService = 'API_PURCHASECONTRACT_PROCESS_SRV';
const recordService = 'API_INFORECORD_PROCESS_SRV';
const conditionService = 'API_PURGPRCGCONDITIONRECORD_SRV';
const quotationService = 'API_QTN_PROCESS_SRV';
const attachmentService = 'API_CV_ATTACHMENT_SRV';
/** 2030-01-01 is 21,915 days after 1970-01-01, 2030-12-31 is 364 days later. */
const newYear2030 = '/Date(1893456000000)/';
const lastDay2030 = '/Date(1924905600000)/';

describeSap('in SAP', () => {
  let system: SapSystem;
  beforeAll(async () => {
    system = await startTestSap();
  });
  beforeEach(() => void system.requests());

  async function open(more: Readonly<Record<string, unknown>>): Promise<Session> {
    const opened = await sap.open(sap.settings.parse(sapSettings(system.url, more)), testContext().context);
    closeAtEnd(() => opened.close());
    return opened;
  }

  async function write(by: Session, operation: Operation): Promise<Outcome> {
    const [outcome] = await by.write([operation], never);
    return outcome as Outcome;
  }

  async function created(by: Session, document: Document): Promise<string> {
    const outcome = await write(by, operationOf('create', document));
    if (outcome.status !== 'created') throw new Error(JSON.stringify(outcome));
    return outcome.reference;
  }

  async function list(path: string, filter: string, expand = ''): Promise<Entity[]> {
    const query = `$filter=${encodeURIComponent(filter)}${expand === '' ? '' : `&$expand=${expand}`}&$format=json`;
    return (await system.ask('GET', `${path}?${query}`))['results'];
  }

  const changes = () => system.requests().filter((request) => !request.startsWith('GET'));

  describe('a contract', () => {
    let session: Session;
    beforeAll(async () => {
      session = await open({ awards: 'contracts' });
    });
    const validity = { valid_from: '2030-01-01', valid_to: '2030-12-31' };
    const held = async (reference: string) =>
      (
        await list(
          `${contractService}/A_PurchaseContract`,
          `PurchaseContract eq '${reference.replace('PurchaseContract/', '')}'`,
          'to_PurchaseContractItem',
        )
      )[0] as Entity;
    const itemOf = (reference: string, item: string) =>
      `${contractService}/A_PurchaseContractItem(PurchaseContract='${reference.replace('PurchaseContract/', '')}',PurchaseContractItem='${item}')`;

    test('is made with its validity, and a price of five decimals exactly; an amend is one changeset', async () => {
      const award = awardOf({ fields: validity, lines: [lineOf('Sheets', { unit_price: '0.01255' })] });
      const reference = await created(session, award);
      expect(await held(reference)).toMatchObject({
        PurchaseContractType: 'MK',
        Supplier: suppliers[0].number,
        CorrespncExternalReference: keyMarker(award.key),
        ValidityStartDate: newYear2030,
        ValidityEndDate: lastDay2030,
        to_PurchaseContractItem: {
          results: [
            {
              PurchaseContractItemText: 'Sheets',
              TargetQuantity: '4.000',
              // 0.01255 is 12.55 for 1,000.
              ContractNetPriceAmount: '12.550',
              NetPriceQuantity: '1000',
            },
          ],
        },
      });
      changes();
      const lines = [lineOf('Sheets', { unit_price: '0.01255', quantity: '6' }), lineOf('Bolts')];
      expect(await write(session, operationOf('amend', { ...award, lines }, reference))).toEqual({
        status: 'updated',
        reference,
      });
      const number = reference.replace('PurchaseContract/', '');
      expect(changes()).toEqual([
        `POST ${contractService}/$batch`,
        `$batch PATCH ${itemOf(reference, '10')}`,
        `$batch POST ${contractService}/A_PurchaseContract('${number}')/to_PurchaseContractItem`,
      ]);
      expect((await write(session, operationOf('amend', { ...award, lines }, reference))).status).toBe('unchanged');
    });

    test('that loses a lot, or is withdrawn, ends: SAP deletes neither contracts nor their items', async () => {
      const award = awardOf({ fields: validity, lines: [lineOf('Sheets'), lineOf('Bolts')] });
      const reference = await created(session, award);
      const outcome = await write(session, operationOf('amend', { ...award, lines: [lineOf('Sheets')] }, reference));
      expect(outcome).toMatchObject({ status: 'updated' });
      expect(outcome).not.toMatchObject({ reference });
      // It has not begun: it ends on its first day.
      expect(await held(reference)).toMatchObject({
        CorrespncExternalReference: '',
        CorrespncInternalReference: keyMarker(award.key),
        ValidityEndDate: newYear2030,
      });
      const second = (outcome as { reference: string }).reference;
      const cancel = operationOf('cancel', { ...award, lines: [] }, second);
      expect((await write(session, cancel)).status).toBe('cancelled');
      expect(await session.lookup([award], never)).toEqual([]);
    });

    test.each([
      ['a changed price', { ContractNetPriceAmount: '99' }, 'which the bridge has not written'],
      ['call-offs', { PurgDocReleaseOrderQuantity: '1' }, 'has call-offs'],
    ])('with %s is neither changed nor ended, and the outcome says why', async (_what, change, words) => {
      const award = awardOf({ fields: validity });
      const reference = await created(session, award);
      await system.ask('PATCH', itemOf(reference, '10'), change);
      for (const operation of [
        operationOf('amend', { ...award, lines: [lineOf('Sheets', { quantity: '6' })] }, reference),
        operationOf('cancel', { ...award, lines: [] }, reference),
      ])
        expect(await write(session, operation)).toMatchObject({
          status: 'rejected',
          error: { type: 'conflict', message: expect.stringContaining(words) },
        });
    });
  });

  describe('the price of an info record', () => {
    let session: Session;
    beforeAll(async () => {
      session = await open({ awards: 'info-records' });
    });
    const fields = { valid_from: '2030-01-01', valid_to: '2030-12-31' };
    const lineFor = (material: string, unit_price: string, more: Readonly<Record<string, string>> = {}) =>
      lineOf(material, { unit_price, fields: { material, unit: 'PCE', ...more } });
    const prices = async (material: string) =>
      list(
        `${conditionService}/A_PurgPrcgCndnRecdValidity`,
        `Material eq '${material}'`,
        'to_PurgPrcgConditionRecord/to_PurgPricingCndnRecdScale',
      );

    test('has its validity, and a price unit that keeps all its decimals', async () => {
      const lines = [lineFor('STEEL-1', '2.0625')];
      const award = awardOf({ fields, lines });
      expect(await created(session, award)).toBe(`PurchasingInfoRecords/${shortMarker(award.key)}`);
      const [price, ...others] = await prices('STEEL-1');
      expect(others).toEqual([]);
      expect(price).toMatchObject({
        ConditionValidityStartDate: newYear2030,
        ConditionValidityEndDate: lastDay2030,
        Supplier: suppliers[0].number,
        PurchasingOrganization: '1010',
        Plant: '1010',
        to_PurgPrcgConditionRecord: {
          ConditionTable: '017',
          ConditionType: 'PPR0',
          ConditionRateValue: '206.250',
          ConditionQuantity: '100',
          ConditionRateValueUnit: 'EUR',
        },
      });
      expect(
        await list(`${recordService}/A_PurgInfoRecdOrgPlantData`, `SupplierQuotation eq '${shortMarker(award.key)}'`),
      ).toMatchObject([{ Material: 'STEEL-1', SupplierQuotationDate: newYear2030, PurchasingGroup: '001' }]);
      expect((await write(session, operationOf('amend', award))).status).toBe('unchanged');
    });

    test('is changed in one request, and a second award takes the info record over', async () => {
      const award = awardOf({ fields, lines: [lineFor('STEEL-2', '2.5')] });
      const reference = await created(session, award);
      changes();
      const amend = operationOf('amend', { ...award, lines: [lineFor('STEEL-2', '2.75')] }, reference);
      expect((await write(session, amend)).status).toBe('updated');
      expect(changes()).toHaveLength(1);
      const later = awardOf({
        fields: { valid_from: '2031-01-01', valid_to: '2031-12-31' },
        lines: [lineFor('STEEL-2', '3')],
      });
      await created(session, later);
      expect(await list(`${recordService}/A_PurchasingInfoRecord`, `Material eq 'STEEL-2'`)).toHaveLength(1);
      expect(await prices('STEEL-2')).toHaveLength(2);
      // The later price stays when the first award is withdrawn.
      expect((await write(session, operationOf('cancel', { ...award, lines: [] }, reference))).status).toBe(
        'cancelled',
      );
      expect(await session.lookup([later], never)).toHaveLength(1);
      expect(await prices('STEEL-2')).toHaveLength(2);
      expect((await write(session, operationOf('cancel', { ...later, lines: [] }))).status).toBe('cancelled');
      expect(await prices('STEEL-2')).toMatchObject([{ ConditionValidityStartDate: newYear2030 }]);
    });

    test('that a person has set for other days stays when the award is withdrawn', async () => {
      const award = awardOf({ fields, lines: [lineFor('STEEL-3', '2.5')] });
      const reference = await created(session, award);
      await system.ask('POST', `${conditionService}/A_PurgPrcgConditionRecord`, {
        ConditionRecord: '99',
        to_PurgPrcgCndnRecdValidity: [
          {
            ConditionValidityEndDate: '/Date(1956441600000)/',
            ConditionType: 'PPR0',
            Supplier: suppliers[0].number,
            Material: 'STEEL-3',
            PurchasingOrganization: '1010',
            Plant: '1010',
          },
        ],
      });
      expect((await write(session, operationOf('cancel', { ...award, lines: [] }, reference))).status).toBe(
        'cancelled',
      );
      expect(await prices('STEEL-3')).toMatchObject([{ ConditionRecord: '99' }]);
    });

    test.each(['PATCH', 'DELETE', 'POST'])(
      'is for no day too many, where a change of its days was cut off at its %s',
      async (method) => {
        const material = `STEEL-${method}`;
        const award = awardOf({ fields, lines: [lineFor(material, '2.5')] });
        const reference = await created(session, award);
        const later = operationOf('amend', { ...award, fields: { ...fields, valid_from: '2030-02-01' } }, reference);
        system.inject({ method, path: /A_PurgInfoRecdOrgPlantData\(|A_PurgPrcgConditionRecord/u, status: 503 });
        expect((await write(session, later)).status).not.toBe('updated');
        expect((await write(session, later)).status).toBe('updated');
        expect(await prices(material)).toMatchObject([{ ConditionValidityStartDate: '/Date(1896134400000)/' }]);
      },
    );

    test('of which SAP refuses the second stays withdrawable: the first is deleted with the award', async () => {
      const again = { ...lineFor('STEEL-4', '3', { plant: '1020' }), lot: 'Again' };
      const lines = [lineFor('STEEL-4', '2.5'), again];
      const award = awardOf({ fields, lines });
      const outcome = await write(session, operationOf('create', award));
      expect(outcome).toMatchObject({ status: 'rejected', partial: true });
      expect(await prices('STEEL-4')).toHaveLength(1);
      expect(await session.lookup([award], never)).toHaveLength(1);
      const cancel = operationOf('cancel', { ...award, lines: [] }, `PurchasingInfoRecords/${shortMarker(award.key)}`);
      expect((await write(session, cancel)).status).toBe('cancelled');
      expect(await prices('STEEL-4')).toEqual([]);
    });

    test.each([
      ['without a material', lineOf('Sheets'), 'Material'],
      [
        'without a price',
        lineOf('Sheets', { quantity: undefined, unit_price: undefined, fields: { material: 'M', unit: 'PCE' } }),
        'ConditionRateValue',
      ],
    ])('%s is refused with the name of the field', async (_what, line, field) => {
      const { unit_price, quantity: _quantity, ...rest } = line;
      const given = unit_price === undefined ? rest : line;
      const outcome = await write(session, operationOf('create', awardOf({ fields, lines: [given] })));
      expect(outcome).toMatchObject({ status: 'rejected', error: { type: 'data' } });
      expect(JSON.stringify(outcome)).toContain(field);
      expect(changes()).toEqual([]);
    });
  });

  describe('a quotation', () => {
    let session: Session;
    beforeAll(async () => {
      session = await open({});
    });
    let last = 10_000_000;
    const quotationOf = (more: Partial<QuotationDocument> = {}): QuotationDocument => {
      const { key, event, supplier, currency, exchange_rates } = awardOf();
      const lines = [{ lot: 'Sheets', quantity: '4', unit_price: '2.0625', bids: [], values: [] }];
      last += 1;
      return {
        kind: 'quotation',
        key,
        event,
        supplier,
        currency,
        exchange_rates,
        fields: { rfq: `${sampleRfqs}${last}` },
        lines: lines.map((line) => ({ ...line, fields: { rfq_item: '10' } })),
        ...more,
      };
    };
    const heldItems = async (reference: string) => {
      const number = reference.replace('SupplierQuotation/', '');
      const [held] = await list(
        `${quotationService}/A_SupplierQuotation`,
        `SupplierQuotation eq '${number}'`,
        'to_SupplierQuotationItem',
      );
      return [held, held?.['to_SupplierQuotationItem'].results] as [Entity, Entity[]];
    };

    test('is made of a request for quotation, gets its mark and prices, and loses a price with its bid', async () => {
      const document = quotationOf();
      const reference = await created(session, document);
      const number = reference.replace('SupplierQuotation/', '');
      expect(changes()).toEqual([
        `POST ${quotationService}/CreateFromRFQ`,
        `PATCH ${quotationService}/A_SupplierQuotation('${number}')`,
        `PATCH ${quotationService}/A_SupplierQuotationItem(SupplierQuotation='${number}',SupplierQuotationItem='10')`,
      ]);
      expect(await heldItems(reference)).toMatchObject([
        { SupplierQuotationExternalID: shortMarker(document.key), QTNLifecycleStatus: '01' },
        [
          { NetPriceAmount: '206.250', NetPriceQuantity: '100', ScheduleLineOrderQuantity: '4.000' },
          { NetPriceAmount: '0.000' },
          { NetPriceAmount: '0.000' },
        ],
      ]);
      const [line] = document.lines;
      const lines = line ? [{ ...line, fields: { rfq_item: '20' } }] : [];
      expect((await write(session, operationOf('amend', { ...document, lines }, reference))).status).toBe('updated');
      const [, items] = await heldItems(reference);
      expect(items.map(({ NetPriceAmount }) => NetPriceAmount)).toEqual(['0.000', '206.250', '0.000']);
      expect((await write(session, operationOf('cancel', { ...document, lines: [] }, reference))).status).toBe(
        'cancelled',
      );
      expect(await session.lookup([document], never)).toEqual([]);
    });

    test('that a kill has left without its mark is taken over: the supplier has one for the request', async () => {
      const document = quotationOf();
      system.inject({ method: 'PATCH', path: 'A_SupplierQuotation(', status: 503 });
      expect((await write(session, operationOf('create', document))).status).not.toBe('created');
      expect((await write(session, operationOf('create', document))).status).toBe('created');
      const { rfq = '' } = document.fields ?? {};
      expect(await list(`${quotationService}/A_SupplierQuotation`, `RequestForQuotation eq '${rfq}'`)).toHaveLength(1);
    });

    test('of another number for the same request and supplier is left alone, and named', async () => {
      const { fields, supplier } = quotationOf();
      await created(session, quotationOf({ fields, supplier }));
      const outcome = await write(session, operationOf('create', quotationOf({ fields, supplier })));
      expect(outcome).toMatchObject({
        status: 'rejected',
        error: { type: 'conflict', message: expect.stringContaining('SupplierQuotationExternalID') },
      });
    });

    test('that a person has submitted is not changed, and SAP’s refusal is told in its words', async () => {
      const document = quotationOf();
      const reference = await created(session, document);
      const number = reference.replace('SupplierQuotation/', '');
      await system.ask('PATCH', `${quotationService}/A_SupplierQuotation('${number}')`, { QTNLifecycleStatus: '02' });
      const lines = document.lines.map((line) => ({ ...line, unit_price: '3' }));
      expect(await write(session, operationOf('amend', { ...document, lines }, reference))).toMatchObject({
        status: 'rejected',
        error: { type: 'data', message: expect.stringContaining('was submitted') },
      });
    });

    test('that was awarded in SAP is not deleted', async () => {
      const document = quotationOf();
      const reference = await created(session, document);
      const number = reference.replace('SupplierQuotation/', '');
      await system.ask(
        'PATCH',
        `${quotationService}/A_SupplierQuotationItem(SupplierQuotation='${number}',SupplierQuotationItem='10')`,
        { AwardedQuantity: '1' },
      );
      expect(await write(session, operationOf('cancel', { ...document, lines: [] }, reference))).toMatchObject({
        status: 'rejected',
        error: { type: 'conflict', message: expect.stringContaining('AwardedQuantity') },
      });
    });

    test.each([
      ['without a request', { fields: {} }, 'RequestForQuotation'],
      ['without an item', { lines: [{ lot: 'A', unit_price: '1', bids: [], values: [] }] }, 'RequestForQuotationItem'],
      [
        'without a price',
        { lines: [{ lot: 'A', bids: [{ value: '3' }], values: [], fields: { rfq_item: '10' } }] },
        'NetPriceAmount',
      ],
    ])('%s is refused with the name of the field', async (_what, more, field) => {
      const outcome = await write(session, operationOf('create', quotationOf(more)));
      expect(outcome).toMatchObject({ status: 'rejected', error: { type: 'data' } });
      expect(JSON.stringify(outcome)).toContain(field);
      expect(changes()).toEqual([]);
    });
  });

  describe('an attachment', () => {
    let session: Session;
    beforeAll(async () => {
      session = await open({});
    });
    const { event } = awardOf();
    const [{ external, name: supplierName, number }] = suppliers;
    const supplier = { id: randomUUID(), external_id: external, name: supplierName };
    const answer = (value: string): RfiAnswer => ({
      question: { id: 'q1', text: 'Which <steel>?', categories: [] },
      value,
      options: [],
      files: [],
    });
    const answersOf = (key: string, value: string): Document => ({
      kind: 'rfi-answers',
      key,
      event: { ...event, name: 'Steel: 2030/31' },
      supplier,
      lines: [answer(value)],
    });
    const namesAt = async (object: string) =>
      (await list(`${attachmentService}/AttachmentContentSet`, `LinkedSAPObjectKey eq '${object}'`)).map(
        ({ BusinessObjectTypeName: type, FileName }) => `${type} ${FileName}`,
      );

    test('of answers belongs to the supplier; a changed one is uploaded before the old one is deleted', async () => {
      const key = randomUUID();
      const reference = await created(session, answersOf(key, 'S235'));
      expect(reference).toBe(`Attachment/${keyMarker(`rfi-answers/${key}`)}`);
      changes();
      expect((await write(session, operationOf('amend', answersOf(key, 'S355'), reference))).status).toBe('updated');
      expect(changes().map((request) => request.split(' ')[0])).toEqual(['POST', 'DELETE']);
      const names = (await namesAt(number.padStart(10, '0'))).filter((name) =>
        name.includes(keyMarker(`rfi-answers/${key}`)),
      );
      expect(names).toEqual([
        expect.stringMatching(/^LFA1 Answers Steel 2030 31 \[[A-Z2-7]{12}-[A-Z2-7]{12}\]\.html$/),
      ]);
      expect((await write(session, operationOf('amend', answersOf(key, 'S355'), reference))).status).toBe('unchanged');
    });

    test('that a kill has left beside the new one is deleted by the next write', async () => {
      const key = randomUUID();
      const reference = await created(session, answersOf(key, 'S235'));
      system.inject({ method: 'DELETE', path: 'AttachmentContentSet', status: 503 });
      const amend = operationOf('amend', answersOf(key, 'S355'), reference);
      expect((await write(session, amend)).status).not.toBe('updated');
      expect(await session.lookup([answersOf(key, 'S355')] as never, never)).toHaveLength(1);
      expect((await write(session, amend)).status).toBe('updated');
      const mark = keyMarker(`rfi-answers/${key}`);
      expect((await namesAt(number.padStart(10, '0'))).filter((name) => name.includes(mark))).toHaveLength(1);
    });

    test('whose old one SAP does not delete says that the change had begun', async () => {
      const key = randomUUID();
      const reference = await created(session, answersOf(key, 'S235'));
      system.inject({ method: 'DELETE', path: 'AttachmentContentSet', status: 400, message: 'It is archived' });
      expect(await write(session, operationOf('amend', answersOf(key, 'S355'), reference))).toMatchObject({
        status: 'rejected',
        error: { type: 'data' },
        partial: true,
      });
    });

    test('of which SAP keeps other bytes is taken away and refused, however often it is tried', async () => {
      const document = answersOf(randomUUID(), 'S235');
      system.behave({ cutsAttachments: true });
      for (const _attempt of [1, 2])
        expect(await write(session, operationOf('create', document))).toMatchObject({
          status: 'rejected',
          error: { type: 'data', message: expect.stringMatching(/^SAP keeps \d+ bytes of the attachment/u) },
        });
      expect(await session.lookup([document], never)).toEqual([]);
      system.behave({ cutsAttachments: false });
      expect((await write(session, operationOf('create', document))).status).toBe('created');
    });

    test('of a file without a supplier, and of an event, goes where the mapping says, or is refused', async () => {
      const bytes = Uint8Array.from([0, 255, 13, 10]);
      const file = { name: 'Zeichnung ü.pdf', read: async () => bytes };
      const question = { id: 'q1', text: 'Which steel?', categories: [] };
      const document: Document = { kind: 'file', key: randomUUID(), event, question };
      const lost = await write(session, { ...operationOf('create', document), file });
      expect(lost).toMatchObject({ status: 'rejected', error: { type: 'data' } });
      expect(JSON.stringify(lost)).toContain('attach_to');
      const given = { ...document, fields: { attach_to: 'BUS2105/10000099' } };
      expect((await write(session, { ...operationOf('create', given), file })).status).toBe('created');
      const [held] = await list(`${attachmentService}/AttachmentContentSet`, `LinkedSAPObjectKey eq '0010000099'`);
      expect(held?.['FileName']).toMatch(/^Zeichnung ü \[[A-Z2-7]{12}-[A-Z2-7]{12}\]\.pdf$/);
      expect(Buffer.from(system.contentOf(held?.['LogicalDocument']) ?? [])).toEqual(Buffer.from(bytes));
    });
  });
});
