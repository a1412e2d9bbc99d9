/**
 * The PostgreSQL connector. Documents become rows of typed tables in a schema of its own, for a warehouse or an ERP that
 * reads them there; or each is given to a stored function of the customer's. A batch is one transaction: a kill at any
 * instant leaves each document in its old state or in its new one, head and parts alike.
 */
import {
  type Document,
  type DocumentKind,
  defineConnector,
  documentKinds,
  type Found,
  type Operation,
  type Outcome,
  outcomeOf,
} from 'sourcing-bridge/connector';
import { createBatchWriter } from './batches.ts';
import { checkAll } from './check.ts';
import { type Connections, createConnections } from './connections.ts';
import { type LoadedFile, withFiles } from './files.ts';
import { migrate, readSchemaState } from './migrations.ts';
import { planOf } from './plan.ts';
import { placeOf, type Settings, settings } from './settings.ts';
import { connectorErrorOf } from './sql-errors.ts';
import { createFunctionWriter } from './write-function.ts';
import { compareKeys, createTableWriter } from './write-tables.ts';
import type { Known, Writer } from './writer.ts';

const timeoutMs = 60_000;

export default defineConnector({
  name: 'postgres',
  settings,
  // A write that was cut off may still be committed; `lookup` waits for it by itself (connections.ts).
  capabilities: {
    kinds: documentKinds,
    batchMax: 500,
    concurrency: 2,
    requestsAtOnce: 3,
    timeoutMs,
    lateEffectMs: 0,
    idempotency: 'external-id',
  },
  capabilitiesWith: ({ batch_max, connections, statement_timeout_ms }) => ({
    batchMax: batch_max,
    concurrency: connections,
    // One more for a moment, to cancel what runs in another.
    requestsAtOnce: connections + 1,
    timeoutMs: Math.max(timeoutMs, 2 * statement_timeout_ms),
  }),
  async open(given, { clock, log }) {
    const connections = createConnections(given, placeOf(given), { clock, log });
    return createSession(connections, given);
  },
});

type Group = readonly { readonly operation: Operation; readonly file: LoadedFile | undefined }[];

/** How documents of one kind are written and found. */
interface Way extends Pick<Writer<never>, 'readKnown' | 'referenceOf'> {
  write(group: Group, signal: AbortSignal): Promise<readonly Outcome[]>;
}

function createSession(connections: Connections, given: Settings) {
  const ways = new Map(documentKinds.map((kind) => [kind, createWay(connections, kind, given)]));
  const wayOf = (kind: DocumentKind) => ways.get(kind) as Way;
  let isMigrated = false;

  async function ensureTables(signal: AbortSignal): Promise<void> {
    if (isMigrated) return;
    await migrate(connections, given, signal);
    isMigrated = true;
  }

  /** What is in the database of these documents of one kind, by key. `alone`: once every write under way has ended. */
  async function readKnown(
    documents: readonly Document[],
    signal: AbortSignal,
    alone: boolean,
  ): Promise<ReadonlyMap<string, Known>> {
    const [first] = documents;
    if (!first) return new Map();
    const lock = alone ? { lock: { name: lockName(given, first.kind), alone } } : {};
    const keys = documents.map(({ key }) => key);
    return connections.read({ signal, ...lock }, async (tx) =>
      !isMigrated && (await readSchemaState(tx, given)).isNew ? new Map() : wayOf(first.kind).readKnown(tx, keys),
    );
  }

  const told = <T>(running: Promise<T>): Promise<T> =>
    running.catch((error: unknown) => {
      throw connectorErrorOf(error, connections.place);
    });

  return {
    check: () => checkAll(connections, given),
    plan: async (operations: readonly Operation[], signal: AbortSignal) => {
      const known = await told(
        readKnown(
          operations.map(({ document }) => document),
          signal,
          false,
        ),
      );
      return operations.map((operation) => planOf(operation, known.get(operation.document.key), given));
    },
    write: async (operations: readonly Operation[], signal: AbortSignal): Promise<Outcome[]> => {
      try {
        await ensureTables(signal);
      } catch (error) {
        const outcome = outcomeOf(connectorErrorOf(error, connections.place));
        return operations.map(() => outcome);
      }
      const [first] = operations;
      if (!first) return [];
      return withFiles(operations, { loads: given.file_bytes, signal }, (group) =>
        wayOf(first.document.kind).write(group, signal),
      );
    },
    lookup: async (documents: readonly Document[], signal: AbortSignal): Promise<Found[]> => {
      const known = await told(readKnown(documents, signal, true));
      return documents.flatMap((document) => {
        const row = known.get(document.key);
        if (row?.state !== 'current') return [];
        const reference = wayOf(document.kind).referenceOf(document, row);
        return [{ key: document.key, reference, contentHash: row.content_hash }];
      });
    },
    close: () => connections.close(),
  };
}

/** Who writes documents of a kind, and who waits until nobody does. */
function lockName({ schema }: Settings, kind: DocumentKind): string {
  return `${schema} ${kind}`;
}

function createWay(connections: Connections, kind: DocumentKind, given: Settings): Way {
  const lock = lockName(given, kind);
  const wayOf = <Unit extends { readonly document: Document }>(writer: Writer<Unit>): Way => {
    const write = createBatchWriter(connections, { lock, apply: writer.apply });
    return {
      ...writer,
      write: (group, signal) => writeSorted(group, writer.prepare, (units) => write(units, signal)),
    };
  };
  return given.mode === 'function' ? wayOf(createFunctionWriter(kind, given)) : wayOf(createTableWriter(kind, given));
}

/** Sorts what can be written by key, and gives the outcomes in the order of the group. */
async function writeSorted<Unit extends { readonly document: Document }>(
  group: Group,
  prepare: (operation: Operation, file: LoadedFile | undefined) => Unit,
  write: (units: readonly Unit[]) => Promise<readonly Outcome[]>,
): Promise<Outcome[]> {
  const outcomes: Outcome[] = [];
  const prepared: { index: number; unit: Unit }[] = [];
  for (const [index, { operation, file }] of group.entries())
    try {
      prepared.push({ index, unit: prepare(operation, file) });
    } catch (error) {
      outcomes[index] = outcomeOf(error);
    }
  prepared.sort((a, b) => compareKeys(a.unit.document.key, b.unit.document.key));
  const written = await write(prepared.map(({ unit }) => unit));
  for (const [place, { index }] of prepared.entries()) outcomes[index] = written[place] as Outcome;
  return outcomes;
}
