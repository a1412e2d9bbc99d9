/**
 * The connector for Odoo 19, over `/json/2`. Suppliers become contacts, awards become purchase orders, prices or blanket
 * orders, bids become requests for quotation, answers and files become attachments. Vendors and purchase agreements are
 * read. README.md says which field is written where.
 *
 * Records are written by Odoo's `load` under external ids that are derived from the documents' keys: a repeated call
 * finds its record, whatever was killed in between.
 */
import { defineConnector, type Kind, readSettingsFile, sessionOf } from 'sourcing-bridge/connector';
import { createAcknowledge } from './acknowledge.ts';
import { createAttachments } from './attachments.ts';
import { check } from './check.ts';
import { connections, createOdoo } from './odoo.ts';
import { awardOrder, bidOrder, blanketOrder } from './order-shapes.ts';
import { createOrders } from './orders.ts';
import { createPricelists } from './pricelists.ts';
import { createReads, openAgreements } from './reads.ts';
import { createReferenceDataReader } from './reference-data.ts';
import { settings } from './settings.ts';
import { createSuppliers } from './suppliers.ts';
import { createVendors } from './vendors.ts';

const kinds = ['supplier', 'quotation', 'award', 'rfi-answers', 'file'] as const;
type WrittenKind = (typeof kinds)[number];

const checkTimeoutMs = 60_000;

export default defineConnector({
  name: 'odoo',
  settings,
  capabilities: {
    kinds,
    batchMax: 20,
    concurrency: 1,
    requestsAtOnce: connections,
    idempotency: 'external-id',
    timeoutMs: 120_000,
    lateEffectMs: 120_000,
    // Odoo answers after its commit, and a lookup reads the same database.
    visibleAfterMs: 0,
    reads: ['supplier', 'requisition'],
    acknowledges: true,
    listsOpen: true,
    readsBack: ['supplier', 'quotation', 'award'],
  },
  capabilitiesWith: ({ batch_size, timeout_seconds, settle_seconds, awards }) => ({
    batchMax: batch_size,
    timeoutMs: timeout_seconds * 1_000,
    lateEffectMs: settle_seconds * 1_000,
    // Prices are not read back.
    readsBack: awards === 'pricelists' ? ['supplier', 'quotation'] : ['supplier', 'quotation', 'award'],
  }),
  // Odoo's own link to a record, which leads to its form. Prices of an award are no record of their own.
  urlOf: (reference, { url }) => {
    const [, model, id] = /^([a-z_.]+),(\d+)$/.exec(reference) ?? [];
    if (model === undefined || id === undefined) return undefined;
    const link = new URL(`${url.replace(/(?<!\/)\/+$/, '')}/mail/view`);
    link.search = new URLSearchParams({ model, res_id: id }).toString();
    return link.href;
  },
  async open(values, { dataDir, clock }) {
    const odoo = createOdoo(values, {
      clock,
      caPem: await readSettingsFile(values.ca_file, { setting: 'ca_file', dataDir }),
    });
    const vendors = createVendors(odoo, values);
    const readReferenceData = createReferenceDataReader(odoo, clock);
    const deps = { odoo, settings: values, vendors, readReferenceData, clock };
    const awards = {
      orders: () => createOrders(deps, awardOrder),
      pricelists: () => createPricelists(deps),
      'blanket-orders': () => createOrders(deps, blanketOrder),
    };
    // Orders and attachments are one implementation for two kinds each.
    const byKind = {
      supplier: createSuppliers(deps),
      quotation: createOrders(deps, bidOrder),
      award: awards[values.awards](),
      'rfi-answers': createAttachments(deps),
      file: createAttachments(deps),
    } as { readonly [K in WrittenKind]: Kind<K> };
    return {
      check: () => check(deps, AbortSignal.timeout(checkTimeoutMs)),
      ...sessionOf(byKind),
      read: createReads(deps),
      openRequisitions: (signal) => openAgreements(deps, signal),
      acknowledge: createAcknowledge(odoo),
      close: () => odoo.close(),
    };
  },
});
