/** What writing documents of one kind takes, whether into tables or into a function. */
import type { Document, Operation } from 'sourcing-bridge/connector';
import type { Apply } from './batches.ts';
import type { Tx } from './connections.ts';
import type { LoadedFile } from './files.ts';

/** What the database has of a document. */
export interface Known {
  readonly state: string;
  readonly content_hash: string;
  /** Where it was not the connector that gave it. */
  readonly reference?: string;
}

/** `Unit` is what one operation becomes before the database is asked. */
export interface Writer<Unit extends { readonly document: Document }> {
  /** Throws DataError for what PostgreSQL cannot hold. */
  readonly prepare: (operation: Operation, file: LoadedFile | undefined) => Unit;
  /** Takes units in the order of `compareKeys`. */
  readonly apply: Apply<Unit>;
  /** By key; those that are withdrawn, too. */
  readonly readKnown: (tx: Tx, keys: readonly string[]) => Promise<ReadonlyMap<string, Known>>;
  readonly referenceOf: (document: Document, known: Known) => string;
}
