/**
 * What a connector is. The bridge decides what to write and when; a connector says what its ERP can do, and does it.
 * It never retries and never decides about order: it answers exactly one outcome for each operation it was given.
 */
import type { ZodType, z } from 'zod';
import type { Clock } from '#platform/clock.ts';
import type { DocumentKind, DocumentOf } from './documents.ts';
import type { ReadPage, ReadStream } from './records.ts';

export interface Capabilities<Kind extends DocumentKind = DocumentKind> {
  /** In this order where several are due: a supplier before the award that names it. Kinds are never written at once. */
  readonly kinds: readonly Kind[];
  /** Most operations in one `write`, all of one kind. */
  readonly batchMax: number;
  /** Most calls of `write` at once, never with the same key; 1 when it is left out. */
  readonly concurrency?: number;
  /** Most requests to the ERP that are under way at once, over all calls; as `concurrency` when it is left out. */
  readonly requestsAtOnce?: number;
  /**
   * What keeps a repeated create from making a second object: the ERP knows the idempotency key again (`key`), the object
   * is stored under the document's key (`external-id`), or nothing but that `lookup` is asked first (`lookup`).
   */
  readonly idempotency: 'key' | 'external-id' | 'lookup';
  /** Longest time that one `write` may take. */
  readonly timeoutMs: number;
  /**
   * How long after a `write` was cut off it may still take effect in the ERP, and after any `write` its object may be
   * missing from `lookup`. The bridge waits that long (counted from the end of the time limit, or of the write) before it
   * asks; 0 when a write ends with the process and is seen at once (files). At most 24 days, in whole milliseconds.
   */
  readonly lateEffectMs: number;
  /** What `read` gives; left out: nothing. */
  readonly reads?: readonly ReadStream[];
}

/** One thing to make true. */
export interface Operation<Kind extends DocumentKind = DocumentKind> {
  readonly action: 'create' | 'amend' | 'cancel';
  readonly document: DocumentOf<Kind>;
  /** SHA-256 of the document in hexadecimal: what `lookup` gives back for what it finds. */
  readonly contentHash: string;
  /**
   * The same for every try of this operation until the outcome of one is known: the ERP may use it to recognise a
   * repetition.
   */
  readonly idempotencyKey: string;
  /** What the ERP called the object when it was written last: text of at most 2,000 characters. */
  readonly reference: string | undefined;
  /** The bytes of a `file` document, unless it is cancelled. */
  readonly file?: FileContent;
}

/** A file of the sourcing service. */
export interface FileContent {
  readonly name: string;
  /** Loads it; each call does so anew. Rejects when the service does not give it. */
  read(signal: AbortSignal): Promise<Uint8Array>;
}

/** What a `write` would do, in words for a person. */
export interface PlannedOperation {
  readonly key: string;
  readonly action: 'create' | 'amend' | 'cancel' | 'none';
  /** What would be written, changed or taken back in the ERP, one line each. */
  readonly steps: readonly string[];
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
  /** With two references for one key nothing is written: a person has to say which object is the document's. */
  readonly key: string;
  readonly reference: string;
  /** Of what was written last; undefined when the ERP cannot tell. */
  readonly contentHash: string | undefined;
}

/** What the ERP holds for this document could not be found out; it is asked again later. */
export interface Unclear {
  readonly key: string;
  /** Why, in words for a person. */
  readonly unclear: string;
}

export interface CheckResult {
  readonly name: string;
  readonly ok: boolean;
  /** A sentence for a person. */
  readonly message: string;
}

export interface Session<Kind extends DocumentKind = DocumentKind> {
  /** Called at the start of a flow and by `check`: reachable, authorised, may write. Changes nothing that stays. */
  check(): Promise<CheckResult[]>;
  /**
   * What `write` would do with these, all of one kind; changes nothing. Of one that could not be written, its action with a step that says
   * why. Left out: the bridge shows the documents' differences only.
   */
  plan?(operations: readonly Operation<Kind>[], signal: AbortSignal): Promise<PlannedOperation[]>;
  /**
   * Up to `concurrency` calls at once, never two with the same key, all operations of one kind. When `signal` aborts, it
   * sends nothing more and returns soon: until it has, nothing else is called. Throws only when the outcome of every
   * operation is unknown.
   */
  write(operations: readonly Operation<Kind>[], signal: AbortSignal): Promise<Outcome[]>;
  /**
   * What the ERP holds for these documents' keys: at most `batchMax`, all of one kind. Left out: a key that it does not
   * hold, and one whose object is cancelled. Never called during a `write`. Throws when it cannot tell of any.
   */
  lookup(documents: readonly DocumentOf<Kind>[], signal: AbortSignal): Promise<(Found | Unclear)[]>;
  /**
   * The other direction: what has changed in the ERP since the checkpoint (undefined: everything), oldest first. A page's
   * checkpoint may be kept once the page is stored: reading from it again gives all that has changed since, perhaps also
   * what was read before; nothing is ever left out. Each call ends; throws when it cannot go on. Left out with `reads`.
   */
  read?<Stream extends ReadStream>(
    stream: Stream,
    checkpoint: string | undefined,
    signal: AbortSignal,
  ): AsyncIterable<ReadPage<Stream>>;
  /** Called once, at the end; a write that did not stop in time may still be running. */
  close(): Promise<void>;
}

type LogLine = (message: string, fields?: Readonly<Record<string, unknown>>) => void;

export interface ConnectorLog {
  readonly debug: LogLine;
  readonly info: LogLine;
  readonly warn: LogLine;
  readonly error: LogLine;
}

/** What the bridge lends to a connector. */
export interface ConnectorContext {
  /** Relative paths in settings are taken from here. */
  readonly dataDir: string;
  /** For changes of state, not for records. Secrets of the settings are taken out of what is logged. */
  readonly log: ConnectorLog;
  /** The only source of time. */
  readonly clock: Clock;
}

export interface Connector<Settings = unknown, Kind extends DocumentKind = DocumentKind> {
  readonly name: string;
  readonly settings: ZodType<Settings>;
  readonly capabilities: Capabilities<Kind>;
  /** What these settings change of `capabilities`, as a batch size that is set. */
  capabilitiesWith?(settings: Settings): Partial<Omit<Capabilities<Kind>, 'kinds'>>;
  /** Throws ConfigError when the settings cannot work; nothing is written yet. Closes what it has opened when it throws. */
  open(settings: Settings, context: ConnectorContext): Promise<Session<Kind>>;
}

/** Types a connector by its settings' schema and by the kinds of documents that it takes: it is given no others. */
export function defineConnector<Schema extends ZodType, const Kind extends DocumentKind>(
  connector: Omit<Connector<z.output<Schema>, Kind>, 'settings'> & { settings: Schema },
): Connector {
  // The bridge hands it documents of its own kinds only.
  return connector as unknown as Connector;
}
