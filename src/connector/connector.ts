/**
 * What a connector is. The bridge decides what to write and when; a connector says what its ERP can do, and does it.
 * It never retries and never decides about order: it answers exactly one outcome for each operation it was given.
 */
import type { ZodType, z } from 'zod';
import type { Document, DocumentKind } from './documents.ts';

export interface Capabilities {
  readonly kinds: readonly DocumentKind[];
  /** Most operations in one `write`. */
  readonly batchMax: number;
  /** Longest time that one `write` may take. */
  readonly timeoutMs: number;
  /**
   * How long after a `write` was cut off it may still take effect in the ERP. The bridge waits that long (counted from
   * the end of the time limit) before it asks `lookup` what became of it; 0 when a write ends with the process (files).
   */
  readonly settleMs: number;
}

/** One thing to make true. */
export interface Operation {
  readonly action: 'create' | 'amend' | 'cancel';
  readonly document: Document;
  /** SHA-256 of the document in hexadecimal: what `lookup` gives back for what it finds. */
  readonly contentHash: string;
  /** The same for every try of this operation: the ERP may use it to recognise a repetition. */
  readonly idempotencyKey: string;
  /** What the ERP called the object when it was written last. */
  readonly reference: string | undefined;
}

/** How an error is recovered from is in its type. */
export type OutcomeError =
  /** Will pass: tried again. */
  | { type: 'transient'; message: string }
  /** Tried again, not before `retryAfterMs`. */
  | { type: 'rate-limited'; message: string; retryAfterMs?: number }
  /** Held by somebody in the ERP: tried again. */
  | { type: 'locked'; message: string }
  /** The record is refused: a dead letter, with the ERP's own words. */
  | { type: 'data'; message: string }
  /** The ERP's object was changed by somebody else: a dead letter. */
  | { type: 'conflict'; message: string }
  /** Nothing will work until a person acts: the flow pauses. */
  | { type: 'auth'; message: string }
  | { type: 'config'; message: string };

export type Outcome =
  | { status: 'created' | 'updated' | 'unchanged' | 'cancelled'; reference: string }
  | { status: 'rejected' | 'retry'; error: OutcomeError }
  /** It may or may not have taken effect: the bridge asks `lookup` before it tries again. */
  | { status: 'unknown'; message: string };

export interface Found {
  readonly key: string;
  readonly reference: string;
  /** Of what was written last; undefined when the ERP cannot tell. */
  readonly contentHash: string | undefined;
}

export interface CheckResult {
  readonly name: string;
  readonly ok: boolean;
  /** A sentence for a person. */
  readonly message: string;
}

export interface Session {
  /** Called at the start of a flow and by `check`: reachable, authorised, may write. Changes nothing that stays. */
  check(): Promise<CheckResult[]>;
  /**
   * Never called twice at once. When `signal` aborts, it sends nothing more and returns soon: until it has, nothing else
   * is called. Throws only when the outcome of every operation is unknown.
   */
  write(operations: readonly Operation[], signal: AbortSignal): Promise<Outcome[]>;
  /**
   * What the ERP holds for these documents' keys. Left out: a key that it does not hold, and one whose object is
   * cancelled. Never called during a `write`. Throws when it cannot tell.
   */
  lookup(documents: readonly Document[], signal: AbortSignal): Promise<Found[]>;
  /** Called once, at the end; a write that did not stop in time may still be running. */
  close(): Promise<void>;
}

/** What the bridge lends to a connector. */
export interface ConnectorContext {
  /** Relative paths in settings are taken from here. */
  readonly dataDir: string;
}

export interface Connector<Settings = unknown> {
  readonly name: string;
  readonly settings: ZodType<Settings>;
  readonly capabilities: Capabilities;
  /** Throws AppError when the settings cannot work; nothing is written yet. */
  open(settings: Settings, context: ConnectorContext): Promise<Session>;
}

/** Types a connector by its settings schema. */
export function defineConnector<Schema extends ZodType>(
  connector: Omit<Connector<z.output<Schema>>, 'settings'> & { settings: Schema },
): Connector {
  return connector;
}
