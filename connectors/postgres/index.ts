/**
 * The PostgreSQL connector. It writes documents as rows of typed tables in its own schema, for a warehouse or an ERP
 * that reads them there; or it passes each to a stored function of the customer. A batch is one transaction: a kill at
 * any moment leaves each document in its old state or in its new one, head and parts alike.
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
  type ReadBack,
  readFrom,
  type TakenDocument,
} from 'sourcing-bridge/connector';
import { createBatchWriter } from './batches.ts';
import { checkAll } from './check.ts';
import { type Connections, createConnections } from './connections.ts';
import { type LoadedFile, withFiles } from './files.ts';
import { migrate, readSchemaState } from './migrations.ts';
import { createAcknowledge } from './news.ts';
import { planOf } from './plan.ts';
import { readBackFromTables } from './read-back.ts';
import { createReader, openNumbers, requisitionRead, supplierRead } from './reads.ts';
import { type Settings, settings, targetOf } from './settings.ts';
import { connectorErrorOf } from './sql-errors.ts';
import { createFunctionWriter } from './write-function.ts';
import { compareKeys, createTableWriter } from './write-tables.ts';
import type { Known, Writer } from './writer.ts';

const timeoutMs = 60_000;

export default defineConnector({
  name: 'postgres',
  settings,
  // A write that was cut off may still be committed. lateEffectMs is 0 because `lookup` waits for it (connections.ts).
  capabilities: {
    kinds: documentKinds,
    batchMax: 500,
    concurrency: 2,
    requestsAtOnce: 3,
    timeoutMs,
    lateEffectMs: 0,
    idempotency: 'external-id',
    reads: ['supplier', 'requisition'],
    readsBack: documentKinds,
    acknowledges: true,
    listsOpen: true,
  },
  capabilitiesWith: ({ batch_max, connections, statement_timeout_ms, read, mode }) => ({
    reads: (['supplier', 'requisition'] as const).filter((stream) => read[stream] !== undefined),
    acknowledges: read.requisition?.acknowledge === true,
    listsOpen: read.requisition !== undefined,
    // What a function makes of a document is not known here.
    readsBack: mode === 'tables' ? documentKinds : [],
    batchMax: batch_max,
    concurrency: connections,
    // One more, for a moment, to cancel a statement that runs on another connection.
    requestsAtOnce: connections + 1,
    timeoutMs: Math.max(timeoutMs, 2 * statement_timeout_ms),
  }),
  async open(given, { clock, log }) {
    const connections = createConnections(given, targetOf(given), { clock, log });
    return createSession(connections, given);
  },
});

type Group = readonly { readonly operation: Operation; readonly file: LoadedFile | undefined }[];

/** Writes and finds the documents of one kind. */
interface KindStore extends Pick<Writer<never>, 'readKnown' | 'referenceOf'> {
  write(group: Group, signal: AbortSignal): Promise<readonly Outcome[]>;
}

function createSession(connections: Connections, given: Settings) {
  const stores = new Map(documentKinds.map((kind) => [kind, createKindStore(connections, kind, given)]));
  const storeOf = (kind: DocumentKind) => stores.get(kind) as KindStore;
  const part = { schema: given.schema, part: given.mode };
  const { supplier, requisition } = given.read;
  let isMigrated = false;

  async function ensureTables(signal: AbortSignal): Promise<void> {
    if (isMigrated) return;
    await migrate(connections, part, signal);
    isMigrated = true;
  }

  /** What the database has of these documents of one kind, by key. `exclusive`: waits until no write is running. */
  async function readKnown(
    documents: readonly Document[],
    signal: AbortSignal,
    exclusive: boolean,
  ): Promise<ReadonlyMap<string, Known>> {
    const [first] = documents;
    if (!first) return new Map();
    const lock = exclusive ? { lock: { name: lockName(given, first.kind), exclusive } } : {};
    const keys = documents.map(({ key }) => key);
    return connections.read({ signal, ...lock }, async (tx) =>
      !isMigrated && (await readSchemaState(tx, part)).isNew ? new Map() : storeOf(first.kind).readKnown(tx, keys),
    );
  }

  /** Turns errors of PostgreSQL into ConnectorErrors. */
  const withConnectorErrors = <T>(running: Promise<T>): Promise<T> =>
    running.catch((error: unknown) => {
      throw connectorErrorOf(error, connections.targetName);
    });

  return {
    check: () => checkAll(connections, given),
    plan: async (operations: readonly Operation[], signal: AbortSignal) => {
      const known = await withConnectorErrors(
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
        const outcome = outcomeOf(connectorErrorOf(error, connections.targetName));
        return operations.map(() => outcome);
      }
      const [first] = operations;
      if (!first) return [];
      return withFiles(operations, { loads: given.file_bytes, signal }, (group) =>
        storeOf(first.document.kind).write(group, signal),
      );
    },
    lookup: async (documents: readonly Document[], signal: AbortSignal): Promise<Found[]> => {
      const known = await withConnectorErrors(readKnown(documents, signal, true));
      return documents.flatMap((document) => {
        const row = known.get(document.key);
        if (row?.state !== 'current') return [];
        const reference = storeOf(document.kind).referenceOf(document, row);
        return [{ key: document.key, reference, contentHash: row.content_hash }];
      });
    },
    readBack: async (deliveries: readonly TakenDocument[], signal: AbortSignal): Promise<ReadBack[]> => {
      const [first] = deliveries;
      if (!first) return [];
      const { kind } = first.document;
      return withConnectorErrors(
        connections.read({ signal, readOnly: true }, async (tx) =>
          !isMigrated && (await readSchemaState(tx, part)).isNew
            ? deliveries.map(({ document: { key } }) => ({ key, status: 'missing' }))
            : readBackFromTables(tx, kind, deliveries, given),
        ),
      );
    },
    read: readFrom({
      ...(supplier && { supplier: createReader(connections, supplierRead(supplier)) }),
      ...(requisition && { requisition: createReader(connections, requisitionRead(requisition)) }),
    }),
    ...(requisition && { openRequisitions: (signal: AbortSignal) => openNumbers(connections, requisition, signal) }),
    ...(requisition?.acknowledge && { acknowledge: createAcknowledge(connections, given.schema, requisition) }),
    close: () => connections.close(),
  };
}

/** Writes of a kind share this lock; a lookup takes it exclusively. */
function lockName({ schema }: Settings, kind: DocumentKind): string {
  return `${schema} ${kind}`;
}

function createKindStore(connections: Connections, kind: DocumentKind, given: Settings): KindStore {
  const lock = lockName(given, kind);
  const storeFor = <Unit extends { readonly document: Document }>(writer: Writer<Unit>): KindStore => {
    const write = createBatchWriter(connections, { lock, apply: writer.apply });
    return {
      ...writer,
      write: (group, signal) => writeSorted(group, writer.prepare, (units) => write(units, signal)),
    };
  };
  return given.mode === 'function'
    ? storeFor(createFunctionWriter(kind, given))
    : storeFor(createTableWriter(kind, given));
}

/** Writes the units in the order of their keys; returns the outcomes in the order of the group. */
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
