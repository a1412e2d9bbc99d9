/** The requests that a connector sends to an ERP over HTTP, and the responses that it gets. */

export interface HttpRequest {
  readonly method: string;
  /**
   * Appended to the base URL: begins with `/`, or is empty. Parts that come from data go through `pathSegment`. Never
   * put a secret in it: use a header.
   */
  readonly path: string;
  /** Undefined values are left out; a list repeats the name once per entry. */
  readonly query?: Readonly<Record<string, string | readonly string[] | undefined>>;
  /** A value that no header can hold is a DataError. */
  readonly headers?: Readonly<Record<string, string>>;
  /** Sent as JSON; `body` is sent as it is. */
  readonly json?: unknown;
  readonly body?: string | Uint8Array | undefined;
  /** Whether the request changes nothing in the ERP. Default: true for GET and HEAD, false for any other method. */
  readonly safe?: boolean;
  /**
   * Statuses beside 2xx that are answers and not errors, such as 404 for a request that asks whether an object exists.
   */
  readonly accept?: readonly number[];
  readonly signal: AbortSignal;
}

export interface HttpResponse {
  readonly status: number;
  /** Names are in lower case. */
  readonly headers: Readonly<Record<string, string>>;
  readonly bytes: Uint8Array;
  readonly text: () => string;
  /** Throws when the body is not JSON: UnknownOutcome, or TransientError for a safe request. */
  readonly json: () => unknown;
  /** Undefined when the body is not JSON. */
  readonly jsonIfAny: () => unknown;
}
