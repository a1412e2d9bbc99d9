/** What each kind of document needs, and what its functions share. */
import type {
  ConnectorLog,
  DocumentKind,
  DocumentOf,
  Found,
  Operation,
  Outcome,
  PlannedOperation,
  Unclear,
} from 'sourcing-bridge/connector';
import type { OData } from './odata.ts';
import type { Partners } from './partners.ts';
import type { Settings } from './settings.ts';

export interface Deps {
  readonly odata: OData;
  readonly settings: Settings;
  readonly partners: Partners;
  readonly log: ConnectorLog;
}

/** The functions of a session for the documents of one kind. */
export interface Kind<K extends DocumentKind> {
  plan(operations: readonly Operation<K>[], signal: AbortSignal): Promise<PlannedOperation[]>;
  write(operations: readonly Operation<K>[], signal: AbortSignal): Promise<Outcome[]>;
  lookup(documents: readonly DocumentOf<K>[], signal: AbortSignal): Promise<(Found | Unclear)[]>;
}

/** `PurchaseOrder/4500000001`: what outcomes, `lookup` and `urlOf` name an object by. */
export function referenceOf(object: string, number: string): string {
  return `${object}/${number}`;
}
