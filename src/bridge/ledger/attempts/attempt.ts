/** An attempt: one try of one document, as the history keeps it and the log tells it. */
import { idOf, readPairKey } from '#bridge/documents/document-keys.ts';
import type { RecordVersion } from '#bridge/mirror/assemble/made-of.ts';
import type { Subject } from '#bridge/mirror/subjects.ts';
import type { Operation } from '#connector/connector.ts';
import type { Document, DocumentKind } from '#connector/documents.ts';
import type { Timestamp } from '#contract/timestamp.ts';

/**
 * What an attempt came to: `make` the document of its records, `wait` until an earlier call can no longer take effect,
 * `load` its file, `look up` what the ERP holds, `write`.
 */
export type AttemptStep = 'make' | 'wait' | 'load' | 'look up' | 'write';

/**
 * What the connector answered; or `not-yet`, `held` and `rejected` where the document was not made, `waits` where no
 * call could be made.
 */
export type AttemptOutcome =
  | 'created'
  | 'updated'
  | 'unchanged'
  | 'cancelled'
  | 'rejected'
  | 'retry'
  | 'unknown'
  | 'not-yet'
  | 'held'
  | 'waits';

export interface Attempt extends Subject {
  /** Sorts by the time of the attempt. */
  readonly id: string;
  readonly flow: string;
  readonly kind: DocumentKind;
  readonly key: string;
  /** A decimal in `currency`; null where the document has no total. */
  readonly amount: string | null;
  readonly currency: string | null;
  /** Null where the document could not be made. */
  readonly action: Operation['action'] | null;
  readonly step: AttemptStep;
  readonly outcome: AttemptOutcome;
  /** Counts the tries since the document last changed. */
  readonly number: number;
  readonly started: Timestamp;
  readonly ended: Timestamp;
  /** When the document is tried again; null when it is not. */
  readonly nextTry: Timestamp | null;
  readonly errorType: string | null;
  /** The words of the ERP, or of the bridge, without secrets. */
  readonly message: string | null;
  /** The ERP's. */
  readonly reference: string | null;
  /** The content that was sent: a row of `bridge.document_versions`. */
  readonly contentHash: string | null;
  /** The idempotency key of the call. */
  readonly requestId: string | null;
  /** The pull that brought the change. */
  readonly pull: string | null;
}

/** A content that was sent to the ERP. */
export interface DocumentVersion {
  readonly kind: DocumentKind;
  readonly key: string;
  readonly contentHash: string;
  /** JSON; null where it is too long to be kept. */
  readonly body: string | null;
  readonly madeOf: readonly RecordVersion[];
}

/** Longer documents are not kept: `plan` and `show` then cannot say what differs. */
const bodyCharactersMax = 262_144;

/** Returns what is kept of a content that was sent. */
export function versionOf({ document, contentHash }: Operation, madeOf: readonly RecordVersion[]): DocumentVersion {
  const body = JSON.stringify(document);
  const { kind, key } = document;
  return { kind, key, contentHash, body: body.length > bodyCharactersMax ? null : body, madeOf };
}

/** Returns what a document is about. Empty names, as a withdrawal may have, count as unknown. */
export function subjectOf(document: Document): Subject {
  const event = 'event' in document ? document.event : undefined;
  const supplier = document.kind === 'supplier' ? document : 'supplier' in document ? document.supplier : undefined;
  return {
    sourcingEvent: event?.id ?? null,
    eventName: event?.name || null,
    eventReference: event?.reference_id || null,
    supplier: supplier?.id ?? null,
    supplierName: supplier?.name || null,
    supplierExternalId: supplier?.external_id || null,
  };
}

/** The decimal total of a document and its currency, where its kind has them. */
export function amountOf(document: Document): Pick<Attempt, 'amount' | 'currency'> {
  return {
    amount: 'total_cost' in document ? document.total_cost : null,
    currency: 'currency' in document ? document.currency : null,
  };
}

/** What the key and the row of a document that could not be made say of its subject: ids, and no names. */
export function subjectOfKey(document: {
  readonly kind: DocumentKind;
  readonly key: string;
  readonly sourcingEvent: string | null;
  readonly supplier: string | null;
}): Subject {
  const { kind, key } = document;
  const isPair = kind === 'award' || kind === 'quotation' || kind === 'rfi-answers';
  const { event, supplier } = isPair ? readPairKey(key) : { event: undefined, supplier: undefined };
  return {
    sourcingEvent: document.sourcingEvent ?? idOf(event) ?? null,
    eventName: null,
    eventReference: null,
    supplier: document.supplier ?? idOf(supplier) ?? null,
    supplierName: null,
    supplierExternalId: kind === 'supplier' ? key : null,
  };
}
