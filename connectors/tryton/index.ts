/**
 * Tryton 6.0 over JSON-RPC. Suppliers become parties, awards purchases or supplier prices, bids quotations, answers and
 * files attachments; parties and purchase requisitions are read. README.md says what becomes of which field.
 *
 * Tryton has no idempotency keys: each object carries a marker that stands for its document, and is searched for by it in
 * the same write that would make it. What a call does that was cut off is seen once Tryton has ended it: `settle_seconds`.
 */
import { readFile } from 'node:fs/promises';
import { resolve } from 'node:path';
import { ConfigError, defineConnector, outcomeOf } from 'sourcing-bridge/connector';
import { createAttachments } from './attachments.ts';
import { createAwards } from './awards.ts';
import type { Kind } from './batch.ts';
import { check } from './check.ts';
import { createQuotations } from './quotations.ts';
import { createReads } from './reads.ts';
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
    settleMs: 120_000,
    reads: ['supplier', 'requisition'],
  },
  capabilitiesWith: ({ batch_size, timeout_seconds, settle_seconds }) => ({
    batchMax: batch_size,
    timeoutMs: timeout_seconds * 1_000,
    settleMs: settle_seconds * 1_000,
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
    return {
      check: () => check(deps, AbortSignal.timeout(checkTimeoutMs)),
      plan: async (operations, signal) => {
        const plans = [];
        for (const [kind, some] of groupedBy(operations, ({ document }) => document.kind))
          plans.push(...(await kindOf(kind).plan(some, signal)));
        return plans;
      },
      write: async (operations, signal) => {
        const [first] = operations;
        if (!first) return [];
        try {
          return await kindOf(first.document.kind).write(operations, signal);
        } catch (error) {
          // Before anything was sent that changes something: from then on each operation keeps its own error.
          return operations.map(() => outcomeOf(error));
        }
      },
      lookup: async (documents, signal) => {
        const found = [];
        for (const [kind, some] of groupedBy(documents, (document) => document.kind))
          found.push(...(await kindOf(kind).lookup(some, signal)));
        return found;
      },
      read: createReads(deps),
      close: () => tryton.close(),
    };
  },
});

function groupedBy<T>(items: readonly T[], kindOf: (item: T) => WrittenKind): Map<WrittenKind, T[]> {
  return Map.groupBy(items, kindOf);
}

async function readCa(file: string | undefined, dataDir: string): Promise<string | undefined> {
  if (file === undefined) return undefined;
  const path = resolve(dataDir, file);
  return readFile(path, 'utf8').catch((cause: unknown) => {
    throw new ConfigError(`The file ${path} (settings.ca_file) cannot be read: ${String(cause)}`, { cause });
  });
}
