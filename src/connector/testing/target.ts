/** What the conformance kit has to know of a connector and of the ERP that it writes to. */
import type { Connector } from '#connector/connector.ts';
import type { Document, DocumentKind } from '#connector/documents.ts';
import type { ReadStream, RecordOf } from '#connector/records.ts';

/** How a connector was verified: against the ERP itself, against a stub made of the vendor's metadata, or not at all. */
export type Verification = 'real server' | 'official metadata' | 'documentation only';

export interface ConformanceTarget {
  readonly connector: Connector;
  readonly verified: Verification;
  /** What it was verified against, with its version: `Tryton 6.0.29 on PostgreSQL 15`. */
  readonly against: string;
  /** Those of the connector's when it is left out. */
  readonly kinds?: readonly DocumentKind[];
  /**
   * Where the ERP is reached, when it is reached over a network: the kit puts itself in between, to count, delay, refuse
   * and cut. Called once the tests run; gives an origin (`https://test.erp.example`) or `127.0.0.1:5432`.
   */
  readonly proxy?: { readonly protocol: 'http' | 'tcp'; readonly address: () => string };
  /**
   * A flow's settings, as they would stand in the YAML. `address` is where to reach the ERP: the kit's own, as
   * `http://127.0.0.1:4711` or `127.0.0.1:4711`; empty without `proxy`.
   */
  settings(address: string): unknown;
  /**
   * What the ERP holds for this document, asked for in the ERP's own way and not through the connector: each object that
   * belongs to its key, but none that is withdrawn. Sees every write that has ended.
   *
   * An honest one is what makes the whole suite worth something: it reads what the ERP holds, never what the connector
   * keeps, and shows as much of the document as the ERP keeps.
   */
  held(document: Document): Promise<readonly HeldObject[]>;
  /**
   * Makes a document of the kit's one that the ERP can take, as a material that exists there. Keeps its key. Called with
   * each version of a document, and with the withdrawn one, which has no lines.
   */
  readonly adapt?: (document: Document) => Document;
  /**
   * Makes a document one that the ERP refuses as it stands; gives it back as it is where the ERP refuses none of its kind.
   * Needed, unless `notApplicable` says why there is no such document.
   */
  readonly poison?: (document: Document) => Document;
  /**
   * Makes the login that sessions hold worthless, as the ERP does when it expires. Needed, unless `notApplicable` says why
   * it never does.
   */
  readonly expireLogin?: () => Promise<void>;
  /**
   * Makes or changes a record under this name in the ERP, in the ERP's own way, and gives it as `read` has to show it.
   * Needed for each stream of `reads`. `archived`: a supplier that is blocked or deactivated.
   */
  readonly changeRecord?: <Stream extends ReadStream>(
    stream: Stream,
    name: string,
    archived: boolean,
  ) => Promise<RecordOf<Stream>>;
  /** Where relative paths in settings start; the system's temporary folder when it is left out. */
  readonly dataDir?: () => string;
  /**
   * Resolves when what an earlier call has asked for has taken effect or never will. Needed where the ERP goes on after it
   * has answered, or shows a new object late (`lateEffectMs`): the kit then asks this instead of waiting for that long. That
   * requests which have reached the ERP are answered, it sees for itself.
   */
  readonly settled?: () => Promise<void>;
  /** At how many of a write's requests, spread evenly, a fault is tried; left out: at each, up to 64. */
  readonly faultPoints?: number;
  /** Of which kinds a write is disturbed; left out: all. For an ERP so slow that all would take too long. */
  readonly faultKinds?: readonly DocumentKind[];
  /** Checks that cannot apply to this ERP, by their names, each with the reason: it is shown in the table. */
  readonly notApplicable?: Readonly<Record<string, string>>;
}

export interface HeldObject {
  readonly reference: string;
  /**
   * What of the document is in the ERP, in the document's own shape: every text that stands in it must be the document's,
   * decimals by value. Lines are told apart by their lot or question. What the ERP does not keep is left out. Of `lines`,
   * `bids`, `contacts`, `options`, `files` and `rounds`, what is shown must be all; of other lists it may be some.
   */
  readonly document: unknown;
  /** Of a `file` document: its bytes as the ERP holds them. */
  readonly bytes?: Uint8Array;
}

/** A test that the author's runner runs; rejects with what is wrong. */
export interface ConformanceTest {
  readonly title: string;
  /** A runner's own context, as those of vitest and of `node:test`: what does not apply is shown as skipped. */
  readonly run: (context?: { skip?: (reason: string) => unknown }) => Promise<void>;
}
