/**
 * The interface that keeps the requests of all clients with the same API key within a service's limits (API document,
 * "Limits"), and the limit that each call counts against.
 */
import type { LimitName } from '#contract/limits.ts';

/** A row of the contract's table of limits, except that each feed has its own: `feeds.awards`. */
export type Bucket = LimitName | `feeds.${string}`;

export interface Quotas {
  /**
   * Counts one request before it is sent. If the quota is used up for a short time, it waits. For a longer wait it
   * throws AppError `too-many` with that time. The request must not be sent then.
   */
  take(bucket: Bucket, signal?: AbortSignal): Promise<QuotaUse>;
}

/** One counted request. When neither method is called, it counts for as long as the request could have taken. */
export interface QuotaUse {
  /** The service answered, and did not refuse the request with 429. Does not reject. */
  answered(): Promise<void>;
  /**
   * The service refused the request with 429: all clients of the key wait. Returns the wait in milliseconds: the
   * service's `Retry-After`, or a guess that grows with each refusal. Does not reject.
   */
  refused(retryAfterMs: number | undefined): Promise<number>;
}

/** The buckets by path (without the query). */
const buckets: readonly [method: string, path: RegExp, bucket: LimitName][] = [
  ['GET', /^\/api\/manage\/suppliers(\/|$)/, 'suppliers'],
  ['GET', /^\/api\/manage\/supplier_changes(\/|$)/, 'supplier_changes_read'],
  ['POST', /^\/api\/manage\/supplier_changes\/?$/, 'supplier_changes_write'],
  ['GET', /^\/api\/manage\/sourcing_requests(\/|$)/, 'jobs_read'],
  ['GET', /^\/api\/jobs(\/|$)/, 'jobs_read'],
  ['POST', /^\/api\/jobs\/generate-file-download-links\/?$/, 'file_links'],
  ['POST', /^\/api\/jobs(\/|$)/, 'jobs_write'],
  ['*', /^\/api\/webhooks(\/|$)/, 'webhooks'],
];

/** The bucket that a call counts against; undefined for a call without a documented limit. */
export function bucketOf({ method, path, body }: { method: string; path: string; body?: unknown }): Bucket | undefined {
  const [plain = ''] = path.split('?');
  const feed = method === 'GET' ? /^\/api\/feeds\/([a-z-]+)\/?$/.exec(plain)?.[1] : undefined;
  if (feed !== undefined) return `feeds.${feed}`;
  const bucket = buckets.find(([verb, form]) => (verb === '*' || verb === method) && form.test(plain))?.[2];
  // A call of the generic path counts against the limit of the job type in the body.
  const isLinkJob = /^\/api\/jobs\/?$/.test(plain) && typeOf(body) === 'GENERATE_FILE_DOWNLOAD_LINKS';
  return bucket === 'jobs_write' && isLinkJob ? 'file_links' : bucket;
}

/** The limit that a bucket counts against, as the API document names it. */
export function limitNameOf(bucket: Bucket): LimitName {
  return bucket.startsWith('feeds.') ? 'feeds' : (bucket as LimitName);
}

function typeOf(body: unknown): unknown {
  return typeof body === 'object' && body !== null && 'type' in body ? body.type : undefined;
}
