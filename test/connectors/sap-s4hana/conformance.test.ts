/**
 * The conformance kit against the stub of SAP S/4HANA, which is made of SAP's own metadata. `held` asks SAP's OData
 * server itself, past the connector and past the stub's rules.
 */
import { createHash } from 'node:crypto';
import type { Document, RecordOf, RequisitionRecord, SupplierRecord } from 'sourcing-bridge/connector';
import { conformance, type EditedField } from 'sourcing-bridge/connector/testing';
import { afterAll, beforeAll, describe, test } from 'vitest';
import sap from '../../../connectors/sap-s4hana/index.ts';
import { externalNumber, keyMarker } from '../../../connectors/sap-s4hana/markers.ts';
import { otherBehaviours, usualBehaviour } from '../../sap/behaviour.ts';
import { changedNow, type Entity } from '../../sap/business-rules.ts';
import { sampleRfqs } from '../../sap/function-imports.ts';
import { describeSap, startTestSap } from '../../sap/sap-in-tests.ts';
import type { SapSystem } from '../../sap/sap-system.ts';
import { suppliers } from '../../sap/seed-suppliers.ts';
import { type Awards, heldIn } from './held-in-sap.ts';
import { sapSettings } from './sap-settings.ts';

/**
 * With SAP_FULL, the kit runs for all kinds, with faults at every request; without it for awards, with a fault at the last
 * request of a write.
 */
const isFullRun = process.env['SAP_FULL'] === '1';

describeSap('the SAP connector', () => {
  let system: SapSystem;
  beforeAll(async () => {
    system = await startTestSap();
  });

  const testsOf = (awards: Awards, how?: string, purchase_orders: 'v2' | 'v4' = 'v4') =>
    conformance({
      connector: sap,
      verified: 'official metadata',
      against: `a stub of SAP’s own metadata (OData V2)${purchase_orders === 'v4' && awards === 'purchase-orders' ? ', orders over V4 after its published names' : ''}${isFullRun && how === undefined ? ', faults at every request' : ''}${awards === 'purchase-orders' ? '' : `, awards as ${awards.replace('-', ' ')}`}${how === undefined ? '' : `, ${how}`}`,
      proxy: { protocol: 'http', address: () => system.url },
      settings: (url) =>
        sapSettings(url, {
          batch_size: isFullRun ? 5 : 3,
          supplier_country: 'DE',
          read_page: 20,
          awards,
          purchase_orders,
        }),
      held: (document) => heldIn(system, document, awards),
      edit: (document, n) => editOrder(system, document, n),
      remove: (document) => deleteOrder(system, document),
      adapt: (document) => adapt(document, awards),
      poison,
      expireLogin: async () => system.expireSessions(),
      changeRecord: async <Stream extends 'supplier' | 'requisition'>(
        stream: Stream,
        name: string,
        archived: boolean,
      ) => {
        const change = stream === 'supplier' ? changeSupplier(system, name, archived) : changeRequisition(system, name);
        return (await change) as RecordOf<Stream>;
      },
      // As a planning run does, which leaves no trace of a requisition that it has made.
      deleteRequisition: (requisition) =>
        system.ask('DELETE', `API_PURCHASEREQ_PROCESS_SRV/A_PurchaseRequisitionHeader('${requisition}')`),
      acknowledged: (requisition) => newsOn(system, requisition),
      ...(isFullRun && how === undefined ? {} : { faultPoints: 1 }),
      ...(awards === 'contracts'
        ? {
            notApplicable: {
              references: 'a contract that loses a lot is followed by another: SAP’s service deletes no items',
            },
          }
        : {}),
      // Only awards go over the version.
      ...(isFullRun && awards === 'purchase-orders' && how === undefined && purchase_orders === 'v2'
        ? {}
        : { kinds: ['award'] }),
    });
  // SAP has deprecated V2: a full run has it, too.
  describe.each(isFullRun ? (['v2', 'v4'] as const) : (['v4'] as const))('with orders over %s', (version) => {
    for (const { title, run } of testsOf('purchase-orders', undefined, version)) test(title, run, checkTimeoutMs);
  });
  // In a full run, also where SAP behaves as one of its sources says, and another one does not.
  describe.runIf(isFullRun).each(otherBehaviours)('where %s', (how, behaviour) => {
    beforeAll(() => system.behave({ ...usualBehaviour, ...behaviour }));
    afterAll(() => system.behave(usualBehaviour));
    describe.each(['purchase-orders', 'contracts', 'info-records'] as const)('with awards as %s', (awards) => {
      for (const { title, run } of testsOf(awards, how)) test(title, run, checkTimeoutMs);
    });
  });
  describe.runIf(isFullRun).each(['contracts', 'info-records'] as const)('with awards as %s', (awards) => {
    for (const { title, run } of testsOf(awards)) test(title, run, checkTimeoutMs);
  });
});

/** Long: the kit breaks the connection at each request of a write, and looks each time at what the stub holds. */
const checkTimeoutMs = isFullRun ? 900_000 : 300_000;

/**
 * The document with a supplier that SAP has, with a price that fits its field (NetPriceAmount has 9 digits before the
 * point) and the currency's decimals, and with what the mapping has to name.
 */
function adapt(document: Document, awards: Awards): Document {
  const [{ external, name }] = suppliers;
  const supplier = <T extends object>(given: T) => ({ ...given, external_id: external, name });
  switch (document.kind) {
    case 'award': {
      const lines = document.lines.map((line) => ({
        ...fitting(line),
        ...(awards === 'info-records' ? { fields: { material: materialOf(document.key, line.lot), unit: 'PCE' } } : {}),
      }));
      return { ...document, supplier: supplier(document.supplier), lines };
    }
    case 'quotation': {
      // Lot A is item 10 of the request, lot B item 20, lot C item 30.
      const itemOf = (lot: string) => String(10 + 10 * 'ABC'.indexOf(lot.charAt(4)));
      const lines = document.lines.map((line) => ({ ...fitting(line), fields: { rfq_item: itemOf(line.lot) } }));
      const rfq = sampleRfqs + numberOf(document.key, 8);
      return { ...document, supplier: supplier(document.supplier), lines, fields: { rfq } };
    }
    case 'sourcing-event':
      return { ...document, fields: { attach_to: 'BUS2105/10000017' } };
    case 'rfi-answers':
      return { ...document, supplier: supplier(document.supplier) };
    case 'file':
      return { ...document, ...(document.supplier ? { supplier: supplier(document.supplier) } : {}) };
    case 'supplier':
    case 'event-awards':
    case 'job':
      return document;
  }
}

function fitting<Line extends { unit_price?: string | undefined }>(line: Line): Line {
  return line.unit_price === '1234567890123.2501' ? { ...line, unit_price: '1234567.2501' } : line;
}

/** The document's order in SAP with its items. */
async function orderOf(system: SapSystem, { key }: Document): Promise<Entity> {
  const filter = `CorrespncExternalReference eq '${keyMarker(key)}'`;
  const path = 'API_PURCHASEORDER_PROCESS_SRV/A_PurchaseOrder';
  const { results } = await system.ask(
    'GET',
    `${path}?$filter=${encodeURIComponent(filter)}&$expand=to_PurchaseOrderItem&$format=json`,
  );
  return results[0];
}

/** What a buyer may change in SAP, and the fields that differ then. */
async function editOrder(system: SapSystem, document: Document, n: number): Promise<EditedField[] | undefined> {
  if (document.kind === 'supplier') return editPartner(system, document.key, n);
  if (document.kind !== 'award') return undefined;
  const { PurchaseOrder: number, to_PurchaseOrderItem: items } = await orderOf(system, document);
  const [item] = items.results;
  const lot = document.lines.find((line) => line.lot.startsWith(item.PurchaseOrderItemText))?.lot ?? 'another lot';
  const service = 'API_PURCHASEORDER_PROCESS_SRV';
  const itemPath = `${service}/A_PurchaseOrderItem(PurchaseOrder='${number}',PurchaseOrderItem='${item.PurchaseOrderItem}')`;
  const edits = [
    async () => {
      await system.ask('PATCH', itemPath, { NetPriceAmount: '4567.8' });
      return [{ name: `items[${lot}].NetPriceAmount`, held: '4567.8' }];
    },
    async () => {
      await system.ask('PATCH', itemPath, { OrderQuantity: '7654.5' });
      return [{ name: `items[${lot}].OrderQuantity`, held: '7654.5' }];
    },
    async () => {
      await system.ask('PATCH', itemPath, { PurchaseOrderItemText: 'Other "text"' });
      return [{ name: `items[${lot}].PurchaseOrderItemText`, held: 'Other "text"' }];
    },
    async () => {
      await system.ask('PATCH', `${service}/A_PurchaseOrder('${number}')`, { CorrespncExternalReference: 'Ann' });
      return [{ name: 'CorrespncExternalReference', held: 'Ann' }];
    },
  ];
  return edits[n]?.();
}

/** What a person may change of a business partner, and the fields that differ then. */
async function editPartner(system: SapSystem, key: string, n: number): Promise<EditedField[] | undefined> {
  const service = 'API_BUSINESS_PARTNER';
  const filter = encodeURIComponent(`BusinessPartnerIDByExtSystem eq '${externalNumber(key)}'`);
  const expand = 'to_BusinessPartnerAddress/to_EmailAddress,to_Supplier';
  const { results } = await system.ask(
    'GET',
    `${service}/A_BusinessPartner?$filter=${filter}&$expand=${expand}&$format=json`,
  );
  const [{ BusinessPartner: number, to_Supplier: supplier, to_BusinessPartnerAddress: addresses }] = results;
  const [address] = addresses.results;
  const path = `${service}/A_BusinessPartner('${number}')`;
  const edits = [
    async () => {
      await system.ask('PATCH', path, { OrganizationBPName1: 'Other "name"' });
      return [{ name: 'OrganizationBPName1', held: 'Other "name"' }];
    },
    async () => {
      await system.ask('PATCH', `${service}/A_Supplier('${supplier.Supplier}')`, { PurchasingIsBlocked: true });
      return [{ name: 'PurchasingIsBlocked', held: 'true' }];
    },
    async () => {
      await system.ask('PATCH', path, { BusinessPartnerIDByExtSystem: `ANN-${number}` });
      return [{ name: 'BusinessPartnerIDByExtSystem', held: `ANN-${number}` }];
    },
    async () => {
      const own = `${service}/A_BusinessPartnerAddress(BusinessPartner='${number}',AddressID='${address.AddressID}')`;
      await system.ask('PATCH', own, { Country: 'PL' });
      return [{ name: 'address.Country', held: 'PL' }];
    },
    async () => {
      await system.ask('POST', `${path}/to_BusinessPartnerTax`, { BPTaxType: 'PL0', BPTaxNumber: '5261040828' });
      return [];
    },
  ];
  return edits[n]?.();
}

async function deleteOrder(system: SapSystem, document: Document): Promise<'missing' | undefined> {
  // SAP deletes no business partner.
  if (document.kind !== 'award') return undefined;
  const { PurchaseOrder: number } = await orderOf(system, document);
  await system.ask('DELETE', `API_PURCHASEORDER_PROCESS_SRV/A_PurchaseOrder('${number}')`);
  return 'missing';
}

/** Each award has materials of its own. */
function materialOf(key: string, lot: string): string {
  return `M-${numberOf(`${key} ${lot}`, 12)}`;
}

function numberOf(text: string, digits: number): string {
  const hash = createHash('sha256').update(text).digest('hex');
  return (BigInt(`0x${hash}`) % 10n ** BigInt(digits)).toString().padStart(digits, '0');
}

/** SAP refuses an order at a supplier that is blocked for purchasing. */
function poison(document: Document): Document {
  if (document.kind === 'supplier') return { ...document, fields: { tax_number_DE0: 'WRONG' } };
  if (document.kind !== 'award' && document.kind !== 'quotation') return document;
  const [, , blocked] = suppliers;
  return { ...document, supplier: { ...document.supplier, external_id: blocked.external, name: blocked.name } };
}

/** As a user of SAP: a new business partner, with the date of its change. */
async function changeSupplier(system: SapSystem, name: string, archived: boolean): Promise<SupplierRecord> {
  const number = String(Math.floor(2_000_000_000 + Math.random() * 1_000_000_000));
  await system.ask('POST', 'API_BUSINESS_PARTNER/A_BusinessPartner', {
    BusinessPartner: number,
    Supplier: number,
    BusinessPartnerCategory: '2',
    OrganizationBPName1: name,
    ...changedNow(),
    to_Supplier: { Supplier: number, PurchasingIsBlocked: archived },
    to_BusinessPartnerAddress: [
      {
        AddressID: number,
        StreetName: 'ul. Długa',
        HouseNumber: '1',
        PostalCode: '00-001',
        CityName: 'Warszawa',
        Country: 'PL',
        to_EmailAddress: [{ Person: '', OrdinalNumber: '001', EmailAddress: 'sales@example.com' }],
      },
    ],
  });
  return {
    external_id: number,
    name,
    archived,
    fields: { StreetName: 'ul. Długa', HouseNumber: '1', PostalCode: '00-001', CityName: 'Warszawa', Country: 'PL' },
    contacts: [{ name: 'sales@example.com', email: 'sales@example.com' }],
  };
}

/** What a user of SAP reads in the notes of the requisition's items, without the line that has the key. */
async function newsOn(system: SapSystem, requisition: string) {
  const filter = encodeURIComponent(`PurchaseRequisition eq '${requisition}'`);
  const path = `API_PURCHASEREQ_PROCESS_SRV/A_PurchaseReqnItemText?$filter=${filter}&$format=json`;
  const { results } = await system.ask('GET', path);
  return (results as Entity[]).map(({ NoteDescription }) => {
    const [news = '', ...more] = String(NoteDescription).split('\n');
    const isPlain = news.startsWith('[Sourcing bridge] ') && more.length === 1;
    return { text: isPlain ? news.replace('[Sourcing bridge] ', '') : String(NoteDescription) };
  });
}

/** As a user of SAP: a requisition of two items, one of which is deleted. */
async function changeRequisition(system: SapSystem, name: string): Promise<RequisitionRecord> {
  const number = String(Math.floor(1_000_000_000 + Math.random() * 1_000_000_000));
  const item = (position: string, more: Entity) => ({
    PurchaseRequisition: number,
    PurchaseRequisitionItem: position,
    PurchaseRequisitionItemText: 'Sheet steel',
    Material: 'TG11',
    MaterialGroup: 'L001',
    Plant: '1010',
    PurchasingGroup: '001',
    RequestedQuantity: '2.5',
    OrderedQuantity: '0',
    BaseUnit: 'KG',
    PurchaseRequisitionPrice: '187.5',
    PurReqnPriceQuantity: '100',
    PurReqnItemCurrency: 'EUR',
    // 2030-03-31 is 22,004 days after 1970-01-01.
    DeliveryDate: '/Date(1901145600000)/',
    RequisitionerName: 'MILLER',
    IsDeleted: '',
    LastChangeDateTime: `/Date(${Date.now()}+0000)/`,
    ...more,
  });
  await system.ask('POST', 'API_PURCHASEREQ_PROCESS_SRV/A_PurchaseRequisitionHeader', {
    PurchaseRequisition: number,
    PurReqnDescription: name,
    to_PurchaseReqnItem: [item('10', {}), item('20', { IsDeleted: 'X' })],
  });
  return {
    reference_id: number,
    name,
    requested_by: 'MILLER',
    needed_by: '2030-03-31T00:00:00.000000Z',
    category: 'L001',
    tags: [
      { name: 'Plant', value: '1010' },
      { name: 'Purchasing Group', value: '001' },
    ],
    items: [
      {
        line: '10',
        name: 'Sheet steel',
        description: 'Material TG11',
        quantity: '2.5',
        unit: 'KG',
        target_price: '1.875',
        currency: 'EUR',
      },
    ],
    open: true,
  };
}
