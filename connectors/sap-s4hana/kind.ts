/** What each kind of document needs, and what its functions share. */
import {
  type Clock,
  ConnectorError,
  type ConnectorLog,
  type DocumentKind,
  type DocumentOf,
  type Found,
  type Operation,
  type Outcome,
  outcomeOf,
  type PlannedOperation,
  type ReadBack,
  type TakenDocument,
  type Unclear,
  writeEach,
} from 'sourcing-bridge/connector';
import type { OData } from './odata.ts';
import type { Partners } from './partners.ts';
import type { Settings } from './settings.ts';

export interface Deps {
  readonly odata: OData;
  readonly settings: Settings;
  readonly partners: Partners;
  readonly log: ConnectorLog;
  readonly clock: Clock;
}

/** The functions of a session for the documents of one kind. */
export interface Kind<K extends DocumentKind> {
  plan(operations: readonly Operation<K>[], signal: AbortSignal): Promise<PlannedOperation[]>;
  write(operations: readonly Operation<K>[], signal: AbortSignal): Promise<Outcome[]>;
  lookup(documents: readonly DocumentOf<K>[], signal: AbortSignal): Promise<(Found | Unclear)[]>;
  /** What SAP holds of delivered documents, field by field; only of some kinds. */
  readBack?(deliveries: readonly TakenDocument<K>[], signal: AbortSignal): Promise<ReadBack[]>;
}

/** `PurchaseOrder/4500000001`: what outcomes, `lookup` and `urlOf` name an object by. */
export function referenceOf(object: string, number: string): string {
  return `${object}/${number}`;
}

/** What is to be done for one operation. */
export interface Task {
  readonly action: PlannedOperation['action'];
  /** In words for an operator; empty where there is nothing to do. */
  readonly steps: readonly string[];
  run(signal: AbortSignal): Promise<Outcome>;
}

interface KindParts<K extends DocumentKind, Held> {
  /** Asks SAP for all that the operations need. */
  readonly read: (operations: readonly Operation<K>[], signal: AbortSignal) => Promise<Held>;
  /** Decides. Throws a ConnectorError for a document that cannot be written. */
  readonly taskOf: (operation: Operation<K>, held: Held) => Task;
  readonly lookup: (documents: readonly DocumentOf<K>[], signal: AbortSignal) => Promise<Found[]>;
  /** Called after a write that SAP has refused. */
  readonly refused?: (operation: Operation<K>) => void;
}

/** A kind whose operations are read together, decided one by one, and written one by one. */
export function kindOfParts<K extends DocumentKind, Held>(
  { read, taskOf, lookup, refused }: KindParts<K, Held>,
  { settings }: Deps,
): Kind<K> {
  return {
    async write(operations, signal) {
      let held: Held;
      try {
        held = await read(operations, signal);
      } catch (error) {
        // Nothing was sent but questions.
        return operations.map(() => outcomeOf(error));
      }
      const write = async (operation: Operation<K>) => {
        try {
          return await taskOf(operation, held).run(signal);
        } catch (error) {
          if (error instanceof ConnectorError && error.type === 'data') refused?.(operation);
          throw error;
        }
      };
      return writeEach(operations, write, { signal, atOnce: settings.connections });
    },
    async plan(operations, signal) {
      const held = await read(operations, signal);
      return operations.map((operation) => {
        const { key } = operation.document;
        try {
          const { action, steps } = taskOf(operation, held);
          return { key, action, steps };
        } catch (error) {
          if (!(error instanceof ConnectorError)) throw error;
          return { key, action: operation.action, steps: [`cannot be written: ${error.message}`] };
        }
      });
    },
    lookup,
  };
}

/** A task that finds everything as it has to be. */
export function nothingToDo(reference: string): Task {
  return { action: 'none', steps: [], run: async () => ({ status: 'unchanged', reference }) };
}
