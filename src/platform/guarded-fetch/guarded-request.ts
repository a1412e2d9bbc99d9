/** A request of `guarded-fetch.ts`, and its answer. */
import type { Cidr } from '../network-guard.ts';

export interface GuardedRequest {
  url: string;
  /** Replaces the URL's own path and query, and is sent unchanged: it may hold only characters of a URL. */
  path?: string | undefined;
  method: string;
  /** `host` may not be set: it would also choose the name that the certificate is checked for. */
  headers?: Record<string, string>;
  body?: string | Uint8Array | undefined;
  /** Networks that this caller may reach although they are not public. */
  allowedNetworks: readonly Cidr[];
  /**
   * On whose behalf it is sent. Groups share neither connections nor turns of the name lookup, so that the slow servers
   * of one delay no request of another. Default: requests without a group share their connections.
   */
  group?: string | undefined;
  /** For the whole exchange: waiting for a connection, DNS, connecting, TLS, sending, and reading the body. */
  timeoutMs: number;
  responseBytesMax: number;
  /** `truncate` (the default) returns the first `responseBytesMax` bytes and closes the connection; `fail` rejects. */
  onTooLarge?: 'truncate' | 'fail';
  signal?: AbortSignal;
  /** Default: `['https:']`. */
  protocols?: readonly ('https:' | 'http:')[];
}

export interface GuardedResponse {
  status: number;
  /** Lower-case names; the values of a repeated header are joined by `, `. */
  headers: Record<string, string>;
  /** The bytes as they came: nothing is decompressed. */
  body: Buffer;
  truncated: boolean;
}
