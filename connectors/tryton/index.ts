/**
 * The connector for Tryton 6.0, over JSON-RPC. Suppliers become parties, awards become purchases or supplier prices,
 * bids become quotations, answers and files become attachments. Parties and purchase requisitions are read. README.md
 * says which field is written where.
 *
 * Tryton has no idempotency keys. Each object therefore carries a marker that is derived from its document's key, and a
 * write searches for the marker before it creates the object. Tryton goes on with a call that was cut off; the bridge
 * therefore asks for its effect only after `settle_seconds`.
 */
import { readFile } from 'node:fs/promises';
import { resolve } from 'node:path';
import {
  ConfigError,
  type ConnectorError,
  defineConnector,
  type Found,
  type Operation,
  type Outcome,
  outcomeOf,
  type ReadBack,
  type TakenDocument,
  type Unclear,
} from 'sourcing-bridge/connector';
import { createAcknowledge } from './acknowledge.ts';
import { createAttachments } from './attachments.ts';
import { createAwards } from './awards.ts';
import { check } from './check.ts';
import { createQuotations } from './quotations.ts';
import { createOpenRequisitions, createReads } from './reads.ts';
import { createReferenceDataReader } from './reference-data.ts';
import { createTryton } from './rpc.ts';
import { asConnectorError, concernsOneRecord, runInHalves } from './send-batch.ts';
import { settings } from './settings.ts';
import { createSuppliers } from './suppliers.ts';
import { type Kind, newTask, outcomeOfTask, type Plan, plannedOf } from './task.ts';

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
    const tryton = createTryton(values, { clock, caPem: await readCa(values.ca_file, dataDir) });
    const deps = { tryton, settings: values, readReferenceData: createReferenceDataReader(tryton, values, clock) };
    const byKind: { readonly [K in WrittenKind]: Kind<K> } = {
      supplier: createSuppliers(deps),
      quotation: createQuotations(deps),
      award: createAwards(deps),
      'rfi-answers': createAttachments(deps),
      file: createAttachments(deps),
    };
    const kindOf = (kind: WrittenKind) => byKind[kind] as Kind<WrittenKind>;

    /** Rejects with an error that concerns one record. Any other error becomes the outcome of all operations. */
    async function writeAll(operations: readonly Operation<WrittenKind>[], signal: AbortSignal): Promise<Outcome[]> {
      const [first] = operations;
      if (!first) return [];
      let plan: Plan<WrittenKind>;
      try {
        plan = await kindOf(first.document.kind).plan(operations, signal);
      } catch (thrown) {
        if (concernsOneRecord(asConnectorError(thrown))) throw thrown;
        return operations.map(() => outcomeOf(thrown));
      }
      await plan.send(signal);
      return plan.tasks.map(outcomeOfTask);
    }

    return {
      check: () => check(deps, AbortSignal.timeout(checkTimeoutMs)),
      plan: async (operations, signal) => {
        const [first] = operations;
        if (!first) return [];
        const kind = kindOf(first.document.kind);
        const planAll = async (batch: typeof operations) => (await kind.plan(batch, signal)).tasks.map(plannedOf);
        const refused = (operation: Operation<WrittenKind>, error: ConnectorError) =>
          plannedOf({ ...newTask(operation), error });
        return runInHalves(operations, planAll, refused, signal);
      },
      write: async (operations, signal) =>
        runInHalves(
          operations,
          (batch) => writeAll(batch, signal),
          (_, error) => outcomeOf(error),
          signal,
        ),
      lookup: async (documents, signal) => {
        const [first] = documents;
        if (!first) return [];
        const kind = kindOf(first.kind);
        const findAll = async (batch: typeof documents): Promise<(Found | Unclear)[]> => kind.lookup(batch, signal);
        const unclear = ({ key }: { key: string }, { message }: ConnectorError) => ({ key, unclear: message });
        return runInHalves(documents, findAll, unclear, signal);
      },
      readBack: async (deliveries, signal) => {
        const [first] = deliveries;
        if (!first) return [];
        const { kind } = first.document;
        const store = kindOf(kind);
        if (!store.readBack) throw new ConfigError(`The connector does not read back documents of the kind ${kind}.`);
        const refused = ({ document: { key } }: TakenDocument<WrittenKind>, { message }: ConnectorError): ReadBack => ({
          key,
          status: 'unclear',
          reason: message,
        });
        return runInHalves(
          deliveries,
          (batch) => store.readBack?.(batch, signal) ?? Promise.resolve([]),
          refused,
          signal,
        );
      },
      read: createReads(deps),
      openRequisitions: createOpenRequisitions(deps),
      acknowledge: createAcknowledge(tryton),
      close: () => tryton.close(),
    };
  },
});

async function readCa(file: string | undefined, dataDir: string): Promise<string | undefined> {
  if (file === undefined) return undefined;
  const path = resolve(dataDir, file);
  return readFile(path, 'utf8').catch((cause: unknown) => {
    throw new ConfigError(`The file ${path} (settings.ca_file) cannot be read: ${String(cause)}`, { cause });
  });
}
