/**
 * The interface between the bridge and a connector. The bridge decides what to write and when. The connector declares
 * what its ERP can do, and carries operations out: it never retries, never decides about order, and returns exactly one
 * outcome for each operation.
 */
import type { ZodType, z } from 'zod';
import type { Clock } from '#platform/clock.ts';
import type { Acknowledgement } from './acknowledgements.ts';
import type { DocumentKind, DocumentOf } from './documents.ts';
import type { ReadBack, TakenDocument } from './read-back.ts';
import type { ReadPage, ReadStream } from './records.ts';

export interface Capabilities<Kind extends DocumentKind = DocumentKind> {
  /**
   * The kinds of documents that it takes, in the order in which the bridge writes them where several are due: a
   * supplier before the award that names it. Two kinds are never written at the same time.
   */
  readonly kinds: readonly Kind[];
  /** The largest number of operations in one `write`; all of them are of one kind. */
  readonly batchMax: number;
  /** The largest number of `write` calls at once, never two with the same key. Default: 1. */
  readonly concurrency?: number;
  /** The largest number of requests to the ERP that run at once, over all calls. Default: `concurrency`. */
  readonly requestsAtOnce?: number;
  /**
   * What prevents a second object when a create is repeated. `key`: the ERP recognises the idempotency key.
   * `external-id`: the ERP stores the object under the document's key. `lookup`: only that the bridge calls `lookup`
   * before it creates again.
   */
  readonly idempotency: 'key' | 'external-id' | 'lookup';
  /** The longest time that one `write` may take; then the bridge aborts its signal. */
  readonly timeoutMs: number;
  /**
   * How long after a `write` call has ended without the ERP's answer (it was aborted, or its connection broke) it may
   * still take effect in the ERP, or its object may be missing from `lookup`. The bridge waits that long before it calls
   * `lookup`, counted from the end of the call; from the end of its time limit only where no process has seen the end.
   * 0 when a write ends with the process and is visible at once (files). Whole milliseconds, at most 24 days.
   */
  readonly lateEffectMs: number;
  /**
   * How long after the ERP's answer to a `write` its object may be missing from `lookup`. 0 where `lookup` reads what
   * the write has written, and not a copy or an index of it. Default: `lateEffectMs`.
   */
  readonly visibleAfterMs?: number;
  /** The streams that `read` offers. Default: none. */
  readonly reads?: readonly ReadStream[];
  /** Whether sessions have `acknowledge`. Default: false. */
  readonly acknowledges?: boolean;
  /** Whether sessions have `openRequisitions`. Default: false. */
  readonly listsOpen?: boolean;
  /** The kinds that `readBack` compares. Default: none; the bridge then says `not compared`. */
  readonly readsBack?: readonly Kind[];
  /**
   * The kinds of which the first requests of a write may leave something that `lookup` does not find: a draft state, say.
   * After a write of these that was cut off, or is `partial`, a withdrawal is sent as a `cancel` although `lookup` finds
   * nothing; it then has no reference, and may find nothing to do. Default: none.
   */
  readonly leavesParts?: readonly Kind[];
}

/** One document that the ERP should hold, or should no longer hold. */
export interface Operation<Kind extends DocumentKind = DocumentKind> {
  readonly action: 'create' | 'amend' | 'cancel';
  readonly document: DocumentOf<Kind>;
  /** SHA-256 of the document in hexadecimal. The ERP keeps it with the object, and `lookup` returns it. */
  readonly contentHash: string;
  /**
   * Stays the same for every attempt of this operation until the outcome of one is known. The ERP may use it to
   * recognise a repetition.
   */
  readonly idempotencyKey: string;
  /** The ERP's reference of the object, as the last write returned it: text of at most 2,000 characters. */
  readonly reference: string | undefined;
  /** The bytes of a `file` document; absent when it is cancelled. */
  readonly file?: FileContent;
}

/** A file of the sourcing service. */
export interface FileContent {
  readonly name: string;
  /** Downloads the file; each call downloads it again. Rejects when the service does not deliver it. */
  read(signal: AbortSignal): Promise<Uint8Array>;
}

/** What a `write` would do, in words for an operator. */
export interface PlannedOperation {
  readonly key: string;
  readonly action: 'create' | 'amend' | 'cancel' | 'none';
  /** What would be written, changed or withdrawn in the ERP, one line each. */
  readonly steps: readonly string[];
}

/** The type says how the bridge recovers. */
export type OutcomeError =
  /** The cause will pass: the bridge tries again. */
  | { type: 'transient'; message: string }
  /** The bridge tries again, not before `retryAfterMs`. */
  | { type: 'rate-limited'; message: string; retryAfterMs?: number }
  /** A user of the ERP holds the object: the bridge tries again. */
  | { type: 'locked'; message: string }
  /** The ERP refuses the record: the bridge makes a dead letter, with the ERP's own words. */
  | { type: 'data'; message: string }
  /** A user of the ERP changed the object: the bridge makes a dead letter. */
  | { type: 'conflict'; message: string }
  /** Nothing will work until an operator acts: the bridge pauses the flow. */
  | { type: 'auth'; message: string }
  | { type: 'config'; message: string };

export type Outcome =
  | { status: 'created' | 'updated' | 'unchanged' | 'cancelled'; reference: string }
  /**
   * `partial`: an earlier request of this write has taken effect. The bridge calls `lookup` before it sends anything
   * again, and cancels what there is when the document is withdrawn meanwhile.
   */
  | { status: 'rejected' | 'retry'; error: OutcomeError; partial?: boolean }
  /**
   * The write may or may not have taken effect: the bridge calls `lookup` before it tries again. `answered`: the ERP has
   * answered and works on it no longer, so nothing takes effect later, and the bridge waits for `visibleAfterMs` only.
   */
  | { status: 'unknown'; message: string; answered?: boolean };

export interface Found {
  /**
   * For a key that is found twice, the bridge writes nothing: an operator has to say which object is the document's.
   */
  readonly key: string;
  readonly reference: string;
  /** The hash of the document that was written last; undefined when the ERP does not keep it. */
  readonly contentHash: string | undefined;
}

/** `lookup` could not find out what the ERP holds for this document; the bridge asks again later. */
export interface Unclear {
  readonly key: string;
  /** The reason, in words for an operator. */
  readonly unclear: string;
}

export interface CheckResult {
  readonly name: string;
  readonly ok: boolean;
  /** A sentence for an operator. */
  readonly message: string;
}

export interface Session<Kind extends DocumentKind = DocumentKind> {
  /**
   * Whether the ERP is reachable, the login is accepted and may write. Called at the start of a flow and by the command
   * `check`. Leaves nothing in the ERP.
   */
  check(): Promise<CheckResult[]>;
  /**
   * What `write` would do with these operations, all of one kind; changes nothing. For an operation that could not be
   * written, it returns the action with a step that says why. Optional: without it the bridge shows the documents'
   * differences only.
   */
  plan?(operations: readonly Operation<Kind>[], signal: AbortSignal): Promise<PlannedOperation[]>;
  /**
   * Writes operations, all of one kind. Up to `concurrency` calls run at once, never two with the same key. When
   * `signal` aborts, it sends nothing more and returns soon; the bridge calls nothing else until it has returned.
   * Throws only when the outcome of every operation is unknown.
   */
  write(operations: readonly Operation<Kind>[], signal: AbortSignal): Promise<Outcome[]>;
  /**
   * What the ERP holds for the keys of these documents: at most `batchMax`, all of one kind. The result leaves out keys
   * that the ERP does not hold and keys whose object is cancelled. Never called during a `write`. Throws when it cannot
   * tell for any of them.
   */
  lookup(documents: readonly DocumentOf<Kind>[], signal: AbortSignal): Promise<(Found | Unclear)[]>;
  /**
   * The opposite direction: the records that have changed in the ERP since the checkpoint (undefined: all records),
   * oldest change first. A page's checkpoint may be stored once the page is stored. A read from it returns everything
   * that has changed since then, perhaps also records that were read before, and never misses one. Each call ends; it
   * throws when it cannot go on. Optional, as `capabilities.reads` is.
   */
  read?<Stream extends ReadStream>(
    stream: Stream,
    checkpoint: string | undefined,
    signal: AbortSignal,
  ): AsyncIterable<ReadPage<Stream>>;
  /**
   * The numbers (`reference_id`) of all requisitions that are open now, in pages and in any order. For an ERP in which one
   * may disappear without a trace: the bridge calls it after a read, and takes an open one that two lists in a row do not
   * have for withdrawn. So it must list exactly those that `read` returns as open, and throw rather than leave one out.
   * Optional, as `capabilities.listsOpen` is.
   */
  openRequisitions?(signal: AbortSignal): AsyncIterable<readonly string[]>;
  /**
   * Tells the ERP what became of requisitions that `read` has returned: at most `batchMax`, never two of one requisition,
   * and never two calls at once. The bridge does not look up what the ERP shows: after an unknown outcome it waits for
   * `lateEffectMs`, and makes the call again under the same key. So a repetition must leave what one call leaves. A
   * requisition that the ERP does not have is `rejected` with `data`, where the connector can see that. What it writes
   * must not change what `read` returns of the requisition. Throws only when every outcome is unknown. Optional, as
   * `capabilities.acknowledges` is.
   */
  acknowledge?(acknowledgements: readonly Acknowledgement[], signal: AbortSignal): Promise<Outcome[]>;
  /**
   * What the ERP holds of documents that it has taken, field by field: at most `batchMax`, all of one kind of
   * `capabilities.readsBack`. Changes nothing in the ERP. Returns exactly one answer for each, in their order. The
   * expected values come from the mapping that `write` uses, so a document that was written and not touched since
   * has no difference. An object that a person has deleted is `missing`; what could not be read is never taken for that,
   * it is `unclear`. Throws when it cannot tell for any of them: RateLimited where the ERP limits the rate. Optional, as
   * `capabilities.readsBack` is.
   */
  readBack?(deliveries: readonly TakenDocument<Kind>[], signal: AbortSignal): Promise<ReadBack[]>;
  /**
   * What to try first on a customer's test system, beside the steps of the kit: `connector verify --test-system` runs
   * these in their order, all of them, and reports each. `award` is a document of two lots under a new key; the last
   * test removes what was made of it. Optional.
   */
  firstTests?(award: DocumentOf<'award'>): FirstTest[];
  /** Called once, at the end. A write that did not stop in time may still be running. */
  close(): Promise<void>;
}

/** One thing that the connector relies on, and that only the ERP can show. */
export interface FirstTest {
  readonly name: string;
  /** Resolves with what the ERP did, in words; rejects where the connector relies on something else. */
  readonly run: (signal: AbortSignal) => Promise<string>;
}

type LogLine = (message: string, fields?: Readonly<Record<string, unknown>>) => void;

export interface ConnectorLog {
  readonly debug: LogLine;
  readonly info: LogLine;
  readonly warn: LogLine;
  readonly error: LogLine;
}

/** What the bridge provides to a connector. */
export interface ConnectorContext {
  /** Relative paths in settings start here. */
  readonly dataDir: string;
  /** For changes of state, not for records. The bridge removes the secrets of the settings from what is logged. */
  readonly log: ConnectorLog;
  /** The only source of time. */
  readonly clock: Clock;
}

export interface Connector<Settings = unknown, Kind extends DocumentKind = DocumentKind> {
  readonly name: string;
  readonly settings: ZodType<Settings>;
  readonly capabilities: Capabilities<Kind>;
  /** What these settings change in `capabilities`, for example a batch size that is set. */
  capabilitiesWith?(settings: Settings): Partial<Omit<Capabilities<Kind>, 'kinds'>>;
  /**
   * Where a person sees the object with this reference: an http or https URL without a login or another secret, shown
   * wherever the reference is. Undefined for a reference that no page shows. Called without a session, also where the
   * secrets of the settings are not known (they are then other texts), so it is pure: it asks nobody. Optional.
   */
  urlOf?(reference: string, settings: Settings): string | undefined;
  /**
   * Opens a session; writes nothing to the ERP. Throws ConfigError when the settings cannot work, and closes before
   * that what it has opened.
   */
  open(settings: Settings, context: ConnectorContext): Promise<Session<Kind>>;
}

/**
 * Types a connector by its settings schema and by the kinds of documents that it takes. The bridge passes it no other
 * kinds.
 */
export function defineConnector<Schema extends ZodType, const Kind extends DocumentKind>(
  connector: Omit<Connector<z.output<Schema>, Kind>, 'settings'> & { settings: Schema },
): Connector {
  // Safe: the bridge passes it documents of its own kinds only.
  return connector as unknown as Connector;
}
