/**
 * The conformance kit against the stub of SAP S/4HANA, which is made of SAP's own metadata. `held` asks SAP's OData
 * server itself, past the connector and past the stub's rules.
 */
import type {
  AwardDocument,
  Document,
  RecordOf,
  RequisitionRecord,
  SupplierDocument,
  SupplierRecord,
} from 'sourcing-bridge/connector';
import { conformance, type HeldObject } from 'sourcing-bridge/connector/testing';
import { beforeAll, test } from 'vitest';
import sap from '../../../connectors/sap-s4hana/index.ts';
import { externalNumber, keyMarker } from '../../../connectors/sap-s4hana/markers.ts';
import { changedNow, type Entity } from '../../sap/business-rules.ts';
import { describeSap, startTestSap } from '../../sap/sap-in-tests.ts';
import type { SapSystem } from '../../sap/sap-system.ts';
import { suppliers } from '../../sap/seed-suppliers.ts';
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

  const tests = conformance({
    connector: sap,
    verified: 'official metadata',
    against: `a stub of SAP’s own metadata (OData V2)${isFullRun ? ', faults at every request' : ''}`,
    proxy: { protocol: 'http', address: () => system.url },
    settings: (url) => sapSettings(url, { batch_size: isFullRun ? 5 : 3, supplier_country: 'DE', read_page: 20 }),
    held: (document) => heldIn(system, document),
    adapt,
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
    ...(isFullRun ? {} : { faultPoints: 1, kinds: ['award'] as const }),
  });
  for (const { title, run } of tests) test(title, run, checkTimeoutMs);
});

/** Long: the kit breaks the connection at each request of a write, and looks each time at what the stub holds. */
const checkTimeoutMs = 300_000;

/**
 * The document with a supplier that SAP has, with a price that fits its field (NetPriceAmount has 9 digits before the
 * point), and the currency's decimals.
 */
function adapt(document: Document): Document {
  if (document.kind !== 'award') return document;
  const [supplier] = suppliers;
  const lines = document.lines.map((line) =>
    line.unit_price === '1234567890123.2501' ? { ...line, unit_price: '1234567.2501' } : line,
  );
  return {
    ...document,
    supplier: { ...document.supplier, external_id: supplier.external, name: supplier.name },
    lines,
  };
}

/** SAP refuses an order at a supplier that is blocked for purchasing. */
function poison(document: Document): Document {
  if (document.kind === 'supplier') return { ...document, fields: { tax_number_DE0: 'WRONG' } };
  if (document.kind !== 'award') return document;
  const [, , blocked] = suppliers;
  return { ...document, supplier: { ...document.supplier, external_id: blocked.external, name: blocked.name } };
}

async function heldIn(system: SapSystem, document: Document): Promise<HeldObject[]> {
  switch (document.kind) {
    case 'supplier':
      return heldPartners(system, document);
    case 'award':
      return heldOrders(system, document);
    default:
      throw new Error(`The connector does not take documents of the kind ${document.kind}.`);
  }
}

async function heldPartners(system: SapSystem, { key }: SupplierDocument): Promise<HeldObject[]> {
  const { results } = await system.ask(
    'GET',
    `API_BUSINESS_PARTNER/A_BusinessPartner?$filter=BusinessPartnerIDByExtSystem%20eq%20'${externalNumber(key)}'&$expand=to_BusinessPartnerAddress/to_EmailAddress,to_Supplier&$format=json`,
  );
  return (results as Entity[]).map((partner) => ({
    reference: `BusinessPartner/${partner['BusinessPartner']}`,
    document: {
      name: [1, 2, 3, 4].flatMap((n) => partner[`OrganizationBPName${n}`] || []).join(' '),
      archived: partner['to_Supplier'].PurchasingIsBlocked === true,
      contacts: (partner['to_BusinessPartnerAddress'].results[0].to_EmailAddress.results as Entity[]).map((email) => ({
        name: email['AddressCommunicationRemarkText'],
        email: email['EmailAddress'],
      })),
    },
  }));
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

async function heldOrders(system: SapSystem, { key }: AwardDocument): Promise<HeldObject[]> {
  const { results } = await system.ask(
    'GET',
    `API_PURCHASEORDER_PROCESS_SRV/A_PurchaseOrder?$filter=CorrespncExternalReference%20eq%20'${keyMarker(key)}'&$expand=to_PurchaseOrderItem/to_PurchaseOrderItemNote,to_PurchaseOrderNote&$format=json`,
  );
  return (results as Entity[])
    .filter(({ PurchasingDocumentDeletionCode }) => !PurchasingDocumentDeletionCode)
    .map((order) => ({
      reference: `PurchaseOrder/${order['PurchaseOrder']}`,
      document: {
        event: { name: /^Sourcing event: (.*?) \(/.exec(order['to_PurchaseOrderNote'].results[0].PlainLongText)?.[1] },
        supplier: { external_id: suppliers.find(({ number }) => number === order['Supplier'])?.external },
        currency: order['DocumentCurrency'],
        lines: (order['to_PurchaseOrderItem'].results as Entity[])
          .filter(({ PurchasingDocumentDeletionCode }) => !PurchasingDocumentDeletionCode)
          .map((item) => ({
            lot: item['to_PurchaseOrderItemNote'].results[0].PlainLongText,
            quantity: item['OrderQuantity'],
            unit_price: perPiece(item['NetPriceAmount'], item['NetPriceQuantity']),
          })),
      },
    }));
}

/** The price of one: the amount with its point moved, without a calculation in floating point. */
function perPiece(amount: string, per: string): string {
  const [whole = '0', fraction = ''] = amount.split('.');
  const places = per.length - 1;
  const digits = whole.padStart(places + 1, '0');
  return `${digits.slice(0, digits.length - places)}.${digits.slice(digits.length - places)}${fraction}`;
}
