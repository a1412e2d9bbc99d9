/**
 * The connector for Tryton 6.0, over JSON-RPC. Suppliers become parties, awards become purchases or supplier prices,
 * bids become quotations, answers and files become attachments. Parties and purchase requisitions are read. README.md
 * says which field is written where.
 *
 * Tryton has no idempotency keys. Each object therefore carries a marker that is derived from its document's key, and a
 * write searches for the marker before it creates the object. Tryton goes on with a call that was cut off; the bridge
 * therefore asks for its effect only after `settle_seconds`.
 */
import { defineConnector, type Kind, readSettingsFile, sessionOf } from 'sourcing-bridge/connector';
import { createAcknowledge } from './acknowledge.ts';
import { createAttachments } from './attachments.ts';
import { createAwards } from './awards.ts';
import { check } from './check.ts';
import { createQuotations } from './quotations.ts';
import { createOpenRequisitions, createReads } from './reads.ts';
import { createReferenceDataReader } from './reference-data.ts';
import { createTryton } from './rpc.ts';
import { settings } from './settings.ts';
import { createSuppliers } from './suppliers.ts';

const kinds = ['supplier', 'quotation', 'award', 'rfi-answers', 'file'] as const;
type WrittenKind = (typeof kinds)[number];

const checkTimeoutMs = 60_000;

export default defineConnector({
  name: 'tryton',
  settings,
  capabilities: {
    kinds,
    batchMax: 50,
    concurrency: 1,
    requestsAtOnce: 2,
    idempotency: 'lookup',
    timeoutMs: 120_000,
    lateEffectMs: 120_000,
    // Tryton answers after its commit, and a lookup reads the same database.
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
    // Prices of suppliers are not read back.
    readsBack: awards === 'purchases' ? ['supplier', 'quotation', 'award'] : ['supplier', 'quotation'],
  }),
  // The address of its web client, as it shows it itself. Prices of a supplier are no record of their own.
  urlOf: (reference, { url, database }) => {
    const [, model, id] = /^([a-z_.]+),(\d+)$/.exec(reference) ?? [];
    return model === undefined ? undefined : new URL(`#${database}/model/${model}/${id}`, `${url}/`).href;
  },
  async open(values, { dataDir, clock }) {
    const tryton = createTryton(values, {
      clock,
      caPem: await readSettingsFile(values.ca_file, { setting: 'ca_file', dataDir }),
    });
    const deps = { tryton, settings: values, readReferenceData: createReferenceDataReader(tryton, values, clock) };
    const byKind: { readonly [K in WrittenKind]: Kind<K> } = {
      supplier: createSuppliers(deps),
      quotation: createQuotations(deps),
      award: createAwards(deps),
      'rfi-answers': createAttachments(deps),
      file: createAttachments(deps),
    };
    return {
      check: () => check(deps, AbortSignal.timeout(checkTimeoutMs)),
      ...sessionOf(byKind),
      read: createReads(deps),
      openRequisitions: createOpenRequisitions(deps),
      acknowledge: createAcknowledge(tryton),
      close: () => tryton.close(),
    };
  },
});
