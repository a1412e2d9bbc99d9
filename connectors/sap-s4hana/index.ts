/**
 * The connector for SAP S/4HANA, over its OData V2 services. Suppliers become business partners, awards become
 * purchase orders; business partners and purchase requisitions are read, and requisitions show what became of them.
 * README.md says which field is written where, and how it was verified.
 *
 * SAP has no idempotency keys. Each order therefore carries a mark of its document's key, and a write searches for the
 * mark before it creates an order. SAP goes on with a call that was cut off; the bridge therefore asks for its effect
 * only after `settle_seconds`.
 */
import { readFile } from 'node:fs/promises';
import { resolve } from 'node:path';
import { ConfigError, defineConnector, outcomeOf, type ReadBack } from 'sourcing-bridge/connector';
import { createAcknowledge } from './acknowledge.ts';
import { createAttachments } from './attachments.ts';
import { createPurchaseOrders } from './awards.ts';
import { check } from './check.ts';
import { createContracts } from './contracts.ts';
import { createInfoRecords } from './info-records.ts';
import type { Kind } from './kind.ts';
import { createOData } from './odata.ts';
import { createPartners } from './partners.ts';
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
    const deps = { odata, settings: values, partners: createPartners(odata, values, clock), log, clock };
    const attachments = createAttachments(deps);
    const createAwards = awardKinds[values.awards];
    const byKind: { readonly [K in WrittenKind]: Kind<K> } = {
      supplier: createSuppliers(deps),
      'sourcing-event': attachments,
      quotation: createQuotations(deps),
      award: createAwards(deps),
      'rfi-answers': attachments,
      file: attachments,
    };
    const kindOf = (kind: WrittenKind) => byKind[kind] as unknown as Kind<WrittenKind>;
    return {
      check: () => check(deps, AbortSignal.timeout(checkTimeoutMs)),
      plan: async (operations, signal) => {
        const [first] = operations;
        return first ? kindOf(first.document.kind).plan(operations, signal) : [];
      },
      write: async (operations, signal) => {
        const [first] = operations;
        if (!first) return [];
        try {
          return await kindOf(first.document.kind).write(operations, signal);
        } catch (error) {
          return operations.map(() => outcomeOf(error));
        }
      },
      lookup: async (documents, signal) => {
        const [first] = documents;
        return first ? kindOf(first.kind).lookup(documents, signal) : [];
      },
      readBack: async (deliveries, signal): Promise<ReadBack[]> => {
        const [first] = deliveries;
        if (!first) return [];
        const { kind } = first.document;
        const store = kindOf(kind);
        if (!store.readBack) throw new ConfigError(`The connector does not read back documents of the kind ${kind}.`);
        return store.readBack(deliveries, signal);
      },
      read: createReads(deps, clock),
      acknowledge: createAcknowledge(deps),
      openRequisitions: createOpenRequisitions(deps),
      close: () => odata.close(),
    };
  },
});

async function readCertificates({ ca_file, client_certificate_file }: Settings, dataDir: string) {
  const read = async (file: string, setting: string) => {
    const path = resolve(dataDir, file);
    return readFile(path, 'utf8').catch((cause: unknown) => {
      throw new ConfigError(`The file ${path} (settings.${setting}) cannot be read: ${String(cause)}`, { cause });
    });
  };
  const pem = client_certificate_file && (await read(client_certificate_file, 'client_certificate_file'));
  return {
    caPem: ca_file && (await read(ca_file, 'ca_file')),
    client: pem ? { certPem: pem, keyPem: pem } : undefined,
  };
}
