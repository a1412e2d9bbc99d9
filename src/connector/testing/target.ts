/** What the author of a connector tells the conformance kit about the connector and its ERP. */
import type { Connector } from '#connector/connector.ts';
import type { Document, DocumentKind } from '#connector/documents.ts';
import type { ReadStream, RecordOf } from '#connector/records.ts';

/**
 * What a connector was tested against: the ERP itself; a stand-in that a replay of recorded exchanges holds against the
 * ERP; a stub built from the vendor's metadata; or none of them.
 */
export type Verification = 'real server' | 'recorded behaviour' | 'official metadata' | 'documentation only';

export interface ConformanceTarget {
  readonly connector: Connector;
  readonly verified: Verification;
  /** The name and version of that: `Tryton 6.0.29 on PostgreSQL 15`. */
  readonly against: string;
  /** The kinds to test. Default: all kinds of the connector. */
  readonly kinds?: readonly DocumentKind[];
  /**
   * The address of an ERP that is reached over a network: an origin (`https://test.erp.example`) or `127.0.0.1:5432`.
   * The kit puts a fault proxy before it, to count, delay, refuse and cut off requests. `address` is called while the
   * tests run. Left out: the ERP is not reached over a network.
   */
  readonly proxy?: { readonly protocol: 'http' | 'tcp'; readonly address: () => string };
  /**
   * A flow's settings, as in its YAML. The connector must reach the ERP at `address`, which is the fault proxy's:
   * `http://127.0.0.1:4711` or `127.0.0.1:4711`; empty without `proxy`.
   */
  settings(address: string): unknown;
  /**
   * What the ERP holds for this document, read directly from the ERP and not through the connector: each object of its
   * key, without withdrawn ones. Includes every write that has ended.
   *
   * The whole suite depends on it: it must read what the ERP holds, never what the connector remembers, and show as
   * much of the document as the ERP keeps.
   */
  held(document: Document): Promise<readonly HeldObject[]>;
  /**
   * Changes a sample document so that the ERP accepts it, for example to name a material that exists there. Keeps the
   * key. Called with each version of a document, and with the withdrawn one, which has no lines.
   */
  readonly adapt?: (document: Document) => Document;
  /**
   * Changes a document so that the ERP refuses it; returns it unchanged when the ERP refuses no document of its kind.
   * Required, unless `notApplicable` says why there is no such document.
   */
  readonly poison?: (document: Document) => Document;
  /**
   * Invalidates the login of open sessions, as the ERP does when it expires. Required with `proxy`, unless
   * `notApplicable` says why it never expires.
   */
  readonly expireLogin?: () => Promise<void>;
  /**
   * Creates or changes a record with this name directly in the ERP, and returns it as `read` has to show it. Required
   * for each stream of `reads`. `archived`: a supplier that is blocked or deactivated.
   */
  readonly changeRecord?: <Stream extends ReadStream>(
    stream: Stream,
    name: string,
    archived: boolean,
  ) => Promise<RecordOf<Stream>>;
  /**
   * Makes the ERP forget a requisition that `changeRecord` has made, or withdraws it in the way that `read` does not see.
   * Required for `open requisitions`.
   */
  readonly deleteRequisition?: (requisition: string) => Promise<unknown>;
  /**
   * What the ERP shows of a requisition's sourcing, read directly from the ERP: an entry where it shows the newest news
   * only; all of them, the oldest first, where it keeps each. Required for `acknowledge`.
   */
  readonly acknowledged?: (requisition: string) => Promise<readonly ShownAcknowledgement[]>;
  /**
   * Why `acknowledge` takes news of a requisition that the ERP does not have: it cannot ask, as where news are files that
   * somebody imports later. Default: such news have to be rejected as data.
   */
  readonly takesUnknownRequisitions?: string;
  /**
   * Changes one value of the object that the ERP holds for this document, directly in the ERP and as a person does, and
   * returns what `readBack` has to report of it: each field that then differs. `n` counts the edits that are worth a try,
   * from 0: another amount, another text, a line that is added or taken out; undefined, with nothing changed, when there
   * is no further one. Required for `readBack`, with at least one edit of each kind.
   */
  readonly edit?: (document: Document, n: number) => Promise<readonly EditedField[] | undefined>;
  /**
   * Deletes the object of this document in the ERP, or cancels it, as a person does, and returns what `readBack` has to
   * say of it; undefined, with nothing changed, where nobody can. Required for `readBack`.
   */
  readonly remove?: (document: Document) => Promise<'missing' | 'cancelled' | undefined>;
  /** Where relative paths in settings start. Default: the system's temporary folder. */
  readonly dataDir?: () => string;
  /**
   * Resolves when the ERP is idle: everything that earlier calls asked for has taken effect, or never will. Required
   * when the ERP goes on working after it has answered, or shows a new object late (`lateEffectMs`): the kit calls this
   * instead of waiting that long. The kit itself waits for the answers to requests that have reached the ERP.
   */
  readonly idle?: () => Promise<void>;
  /** At how many of a write's requests, spread evenly, faults are injected. Default: at each, up to 64. */
  readonly faultPoints?: number;
  /** The kinds whose writes are disturbed. Default: all. For an ERP that is too slow for all of them. */
  readonly faultKinds?: readonly DocumentKind[];
  /** Checks that cannot apply to this ERP: their names, each with the reason that the table of connectors shows. */
  readonly notApplicable?: Readonly<Record<string, string>>;
}

export interface HeldObject {
  readonly reference: string;
  /**
   * The part of the document that the ERP keeps, in the structure of the document. Each text must be equal to the
   * document's, each decimal equal by value. Lines are identified by their lot or question. Members that the ERP does
   * not keep are left out. `lines`, `bids`, `contacts`, `options`, `files` and `rounds` must be complete where they are
   * shown; other lists may be shown in part.
   */
  readonly document: unknown;
  /** The bytes of a `file` document as the ERP holds them. */
  readonly bytes?: Uint8Array;
}

/** The part of an acknowledgement that the ERP shows: `status` or `text`, and what else it has. */
export interface ShownAcknowledgement {
  readonly status?: string | undefined;
  /** The id of the event. */
  readonly event?: string | undefined;
  readonly reason?: string | undefined;
  readonly text?: string | undefined;
}

/** A field that a person has changed in the ERP. */
export interface EditedField {
  /** As `readBack` names it. */
  readonly name: string;
  /** What the ERP holds since then, as `readBack` writes it. */
  readonly held: string | undefined;
}

/** A test for the author's test runner. `run` rejects with what is wrong. */
export interface ConformanceTest {
  readonly title: string;
  /** `context` is the runner's own, as in vitest and `node:test`: a check that does not apply is shown as skipped. */
  readonly run: (context?: { skip?: (reason: string) => unknown }) => Promise<void>;
}
