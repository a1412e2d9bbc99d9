/**
 * The conformance kit against the stub of SAP S/4HANA, which is made of SAP's own metadata. `held` asks SAP's OData
 * server itself, past the connector and past the stub's rules.
 */
import type { AwardDocument, Document } from 'sourcing-bridge/connector';
import { conformance, type HeldObject } from 'sourcing-bridge/connector/testing';
import { beforeAll, test } from 'vitest';
import sap from '../../../connectors/sap-s4hana/index.ts';
import { keyMarker } from '../../../connectors/sap-s4hana/markers.ts';
import type { Entity } from '../../sap/business-rules.ts';
import { describeSap, startTestSap, suppliers } from '../../sap/sap-in-tests.ts';
import type { SapSystem } from '../../sap/sap-system.ts';
import { sapSettings } from './sap-settings.ts';

/** With SAP_FULL, the kit injects faults at every request; without it, only at the last one of a write. */
const isFullRun = process.env['SAP_FULL'] === '1';

describeSap('the SAP connector', () => {
  let system: SapSystem;
  beforeAll(async () => {
    system = await startTestSap();
  });

  const tests = conformance({
    connector: sap,
    verified: 'official metadata',
    against: 'a stub of SAP’s own metadata (OData V2)',
    proxy: { protocol: 'http', address: () => system.url },
    settings: (url) => sapSettings(url, { batch_size: isFullRun ? 5 : 3 }),
    held: (document) => heldIn(system, document),
    adapt,
    poison,
    expireLogin: async () => system.expireSessions(),
    ...(isFullRun ? {} : { faultPoints: 1 }),
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
  if (document.kind !== 'award') return document;
  const [, , blocked] = suppliers;
  return { ...document, supplier: { ...document.supplier, external_id: blocked.external, name: blocked.name } };
}

async function heldIn(system: SapSystem, document: Document): Promise<HeldObject[]> {
  return heldOrders(system, document as AwardDocument);
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
