/** The interface of the two ways to write documents of one kind: into tables, or through a function. */
import type { Document, Operation } from 'sourcing-bridge/connector';
import type { Apply } from './batches.ts';
import type { Tx } from './connections.ts';
import type { LoadedFile } from './files.ts';

/** What the database has of a document. */
export interface Known {
  readonly state: string;
  readonly content_hash: string;
  /** The reference that the function returned; undefined in tables, where the connector makes it. */
  readonly reference?: string;
}

/** `Unit` is one operation, prepared for the database. */
export interface Writer<Unit extends { readonly document: Document }> {
  /** Prepares an operation. Throws DataError for values that PostgreSQL cannot hold. */
  readonly prepare: (operation: Operation, file: LoadedFile | undefined) => Unit;
  /** Writes units, which must be in the order of `compareKeys`. */
  readonly apply: Apply<Unit>;
  /** What the database has of these keys, withdrawn documents included. */
  readonly readKnown: (tx: Tx, keys: readonly string[]) => Promise<ReadonlyMap<string, Known>>;
  readonly referenceOf: (document: Document, known: Known) => string;
}
