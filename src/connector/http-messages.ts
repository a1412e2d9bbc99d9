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
  /** As they were before they were compressed. */
  readonly bytes: Uint8Array;
  /**
   * Decoded by the charset of the answer. Throws for bytes of another one, unless the status is an error:
   * UnknownOutcome, or TransientError for a safe request.
   */
  readonly text: () => string;
  /**
   * A number that a JavaScript number would change is its text. Throws as `text` does, also when the body is not JSON;
   * for more than 100 levels or 1,000,000 values in the answer to a safe request, ConfigError.
   */
  readonly json: () => unknown;
  /** As `json`, but undefined when the body is not JSON. */
  readonly jsonIfAny: () => unknown;
}
