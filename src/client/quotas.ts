/**
 * What a client needs so that it keeps within the limits of a service (API document, "Limits") together with everybody
 * who asks under the same API key, and which limit a call counts against.
 */
import type { LimitName } from '#contract/limits.ts';

/** A row of the table of limits; each feed has one of its own: `feeds.awards`. */
export type Bucket = LimitName | `feeds.${string}`;

export interface Quotas {
  /**
   * Counts one request before it is sent. A short wait for the quota is sat out. Throws AppError `too-many`, with the
   * time after which it is of use to come again, for a longer one; `unavailable` when it cannot be counted. Nothing is
   * to be sent then.
   */
  take(bucket: Bucket, signal?: AbortSignal): Promise<QuotaUse>;
}

/** One request that was let through. When neither is called, it counts for as long as it could have been under way. */
export interface QuotaUse {
  /** An answer came that is no refusal. Does not reject. */
  answered(): Promise<void>;
  /**
   * The service refused it with 429: everybody waits. Gives for how long: what it asked for, or a guess that grows with
   * each refusal. Does not reject.
   */
  refused(retryAfterMs: number | undefined): Promise<number>;
}

/** Without the query. An id in them is one segment. */
const buckets: readonly [method: string, path: RegExp, bucket: LimitName][] = [
  ['GET', /^\/api\/manage\/suppliers(\/|$)/, 'suppliers'],
  ['GET', /^\/api\/manage\/supplier_changes(\/|$)/, 'supplier_changes_read'],
  ['POST', /^\/api\/manage\/supplier_changes\/?$/, 'supplier_changes_write'],
  ['GET', /^\/api\/jobs(\/|$)/, 'jobs_read'],
  ['POST', /^\/api\/jobs\/generate-file-download-links\/?$/, 'file_links'],
  ['POST', /^\/api\/jobs(\/|$)/, 'jobs_write'],
  ['*', /^\/api\/webhooks(\/|$)/, 'webhooks'],
];

/** The bucket that a call counts against; undefined where the service documents no limit. */
export function bucketOf({ method, path, body }: { method: string; path: string; body?: unknown }): Bucket | undefined {
  const [plain = ''] = path.split('?');
  const feed = method === 'GET' ? /^\/api\/feeds\/([a-z-]+)\/?$/.exec(plain)?.[1] : undefined;
  if (feed !== undefined) return `feeds.${feed}`;
  const bucket = buckets.find(([verb, form]) => (verb === '*' || verb === method) && form.test(plain))?.[2];
  // The generic path counts against the limit of the type that stands in the body.
  const isLinkJob = /^\/api\/jobs\/?$/.test(plain) && typeOf(body) === 'GENERATE_FILE_DOWNLOAD_LINKS';
  return bucket === 'jobs_write' && isLinkJob ? 'file_links' : bucket;
}

function typeOf(body: unknown): unknown {
  return typeof body === 'object' && body !== null && 'type' in body ? body.type : undefined;
}
