/**
 * Tryton 6.0 over JSON-RPC. Suppliers become parties, awards purchases or supplier prices, bids quotations, answers and
 * files attachments; parties and purchase requisitions are read. README.md says what becomes of which field.
 *
 * Tryton has no idempotency keys: each object carries a marker that stands for its document, and is searched for by it in
 * the same write that would make it. What a call does that was cut off is seen once Tryton has ended it: `settle_seconds`.
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
  type Unclear,
} from 'sourcing-bridge/connector';
import { createAttachments } from './attachments.ts';
import { createAwards } from './awards.ts';
import { check } from './check.ts';
import { createQuotations } from './quotations.ts';
import { createReads } from './reads.ts';
import { createReferenceDataReader } from './reference-data.ts';
import { createTryton } from './rpc.ts';
import { asConnectorError, askInHalves, isOfOne } from './send-batch.ts';
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
    reads: ['supplier', 'requisition'],
  },
  capabilitiesWith: ({ batch_size, timeout_seconds, settle_seconds }) => ({
    batchMax: batch_size,
    timeoutMs: timeout_seconds * 1_000,
    lateEffectMs: settle_seconds * 1_000,
  }),
  async open(given, { dataDir, clock }) {
    const tryton = createTryton(given, { clock, caPem: await readCa(given.ca_file, dataDir) });
    const deps = { tryton, settings: given, readReferenceData: createReferenceDataReader(tryton, given, clock) };
    const byKind: { readonly [K in WrittenKind]: Kind<K> } = {
      supplier: createSuppliers(deps),
      quotation: createQuotations(deps),
      award: createAwards(deps),
      'rfi-answers': createAttachments(deps),
      file: createAttachments(deps),
    };
    const kindOf = (kind: WrittenKind) => byKind[kind] as Kind<WrittenKind>;

    /** What hinders all of them is the outcome of each. */
    async function writeAll(operations: readonly Operation<WrittenKind>[], signal: AbortSignal): Promise<Outcome[]> {
      const [first] = operations;
      if (!first) return [];
      let plan: Plan<WrittenKind>;
      try {
        plan = await kindOf(first.document.kind).plan(operations, signal);
      } catch (thrown) {
        if (isOfOne(asConnectorError(thrown))) throw thrown;
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
        const ask = async (some: typeof operations) => (await kind.plan(some, signal)).tasks.map(plannedOf);
        const refused = (one: Operation<WrittenKind>, error: ConnectorError) => plannedOf({ ...newTask(one), error });
        return askInHalves(operations, ask, refused, signal);
      },
      write: async (operations, signal) =>
        askInHalves(
          operations,
          (some) => writeAll(some, signal),
          (_, error) => outcomeOf(error),
          signal,
        ),
      lookup: async (documents, signal) => {
        const [first] = documents;
        if (!first) return [];
        const kind = kindOf(first.kind);
        const ask = async (some: typeof documents): Promise<(Found | Unclear)[]> => kind.lookup(some, signal);
        const unclear = ({ key }: { key: string }, { message }: ConnectorError) => ({ key, unclear: message });
        return askInHalves(documents, ask, unclear, signal);
      },
      read: createReads(deps),
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
