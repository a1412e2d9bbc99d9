/**
 * The connector for SAP S/4HANA, over its OData services. Suppliers become business partners, awards become
 * purchase orders; business partners and purchase requisitions are read, and requisitions show what became of them.
 * README.md says which field is written where, and how it was verified.
 *
 * SAP has no idempotency keys. Each order therefore carries a mark of its document's key, and a write searches for the
 * mark before it creates an order. SAP goes on with a call that was cut off; the bridge therefore asks for its effect
 * only after `settle_seconds`.
 */
import { type AwardDocument, defineConnector, type Kind, readSettingsFile, sessionOf } from 'sourcing-bridge/connector';
import { createAcknowledge } from './acknowledge.ts';
import { createAttachments } from './attachments.ts';
import { createPurchaseOrders } from './awards.ts';
import { check } from './check.ts';
import { createContracts } from './contracts.ts';
import { createFirstTests } from './first-tests.ts';
import { createInfoRecords } from './info-records.ts';
import { createOData } from './odata.ts';
import { createOrders } from './orders.ts';
import { createQuotations } from './quotations.ts';
import { createOpenRequisitions, createReads } from './reads.ts';
import { type Settings, settings } from './settings.ts';
import { createSuppliers } from './suppliers.ts';

const kinds = ['supplier', 'sourcing-event', 'quotation', 'award', 'rfi-answers', 'file'] as const;
type WrittenKind = (typeof kinds)[number];

const awardKinds = {
  'purchase-orders': createPurchaseOrders,
  contracts: createContracts,
  'info-records': createInfoRecords,
} as const;

const checkTimeoutMs = 60_000;

export default defineConnector({
  name: 'sap-s4hana',
  settings,
  capabilities: {
    kinds,
    batchMax: 20,
    concurrency: 1,
    requestsAtOnce: 4,
    idempotency: 'lookup',
    timeoutMs: 180_000,
    lateEffectMs: 600_000,
    // SAP answers after its commit, and a lookup reads the same database.
    visibleAfterMs: 0,
    reads: ['supplier', 'requisition'],
    acknowledges: true,
    listsOpen: true,
    readsBack: ['supplier', 'award'],
  },
  capabilitiesWith: ({ batch_size, connections, timeout_seconds, settle_seconds, awards }) => ({
    batchMax: batch_size,
    requestsAtOnce: connections,
    timeoutMs: timeout_seconds * 1_000,
    lateEffectMs: settle_seconds * 1_000,
    // Contracts and info records are not read back.
    readsBack: awards === 'purchase-orders' ? ['supplier', 'award'] : ['supplier'],
  }),
  // The Fiori launchpad of the same system. Elsewhere the link is wrong, and the reference is still SAP's number.
  urlOf: (reference, { url, client }) => {
    const [, object, number] =
      /^(PurchaseOrder|PurchaseContract|SupplierQuotation|BusinessPartner)\/(\w+)$/u.exec(reference) ?? [];
    if (object === undefined) return undefined;
    const launchpad = new URL('/ui', url);
    if (client !== undefined) launchpad.searchParams.set('sap-client', client);
    launchpad.hash = `${object}-display?${object}=${number}`;
    return launchpad.href;
  },
  async open(values, { dataDir, clock, log }) {
    const odata = createOData(values, { clock, log, certificates: await readCertificates(values, dataDir) });
    const deps = { odata, orders: createOrders(odata, values), settings: values, log, clock };
    const attachments = createAttachments(deps);
    const byKind: { readonly [K in WrittenKind]: Kind<K> } = {
      supplier: createSuppliers(deps),
      'sourcing-event': attachments,
      quotation: createQuotations(deps),
      award: awardKinds[values.awards](deps),
      'rfi-answers': attachments,
      file: attachments,
    };
    return {
      check: () => check(deps, AbortSignal.timeout(checkTimeoutMs)),
      ...sessionOf(byKind),
      read: createReads(deps),
      acknowledge: createAcknowledge(deps),
      openRequisitions: createOpenRequisitions(deps),
      // Of orders; what contracts and info records rely on is in README.md.
      ...(values.awards === 'purchase-orders'
        ? { firstTests: (award: AwardDocument) => createFirstTests(deps, sessionOf({ award: byKind.award }), award) }
        : {}),
      close: () => odata.close(),
    };
  },
});

async function readCertificates({ ca_file, client_certificate_file }: Settings, dataDir: string) {
  const pem = await readSettingsFile(client_certificate_file, { setting: 'client_certificate_file', dataDir });
  return {
    caPem: await readSettingsFile(ca_file, { setting: 'ca_file', dataDir }),
    client: pem ? { certPem: pem, keyPem: pem } : undefined,
  };
}
