/**
 * Stands in for the service as it is publicly documented, which cannot be run here. What its pages say: pages of 10 to 200
 * records, 100 unless asked for; the next page in the header `Link`; 60 requests a minute with the old `RateLimit`
 * headers; 403 with an empty body for a wrong key; errors as `errors` and `field_errors`. What they do not say is a
 * variant: whether the body names the next page, too, what happens to other page sizes, and the rest of `Variant`.
 */
import type { Quotas } from '#client/quotas.ts';
import { createSourceClient, type SourceClient } from '#client/source-client.ts';
import type { Timestamp } from '#contract/timestamp.ts';
import type { GuardedFetch } from '#platform/guarded-fetch.ts';
import type { TestClock } from '../parts.ts';

export interface Variant {
  /** Where the next page is named. `nowhere` is a service, or a proxy before it, that names none. */
  readonly next: 'link' | 'body' | 'both' | 'nowhere' | 'nowhere unless the page has the size that was asked for';
  /** What happens to a page size outside of 10 to 200. */
  readonly otherSizes: 'cut' | 'refused';
}

const smallestPage = 10;
const largestPage = 200;
const requestsAMinute = 60;

export interface PublicRecord {
  readonly id: string;
  readonly modified: Timestamp;
  readonly value: number;
}

export class PublicSource {
  readonly variant: Variant;
  readonly client: SourceClient;
  /** In the order in which they were added or modified. */
  readonly records: PublicRecord[] = [];
  /** The queries of the feed that were answered, and when, by the clock. */
  readonly asked: { readonly query: string; readonly ms: number }[] = [];
  /** Called before each answer. */
  onRequest: () => void | Promise<void> = () => undefined;
  /** How many requests were refused, as the quota of the minute was spent. */
  refused = 0;
  readonly #clock: TestClock;

  constructor(variant: Variant, clock: TestClock) {
    this.variant = variant;
    this.#clock = clock;
    this.client = this.clientWith();
  }

  /** A client of this source. */
  clientWith(quotas?: Quotas, apiKey = 'key'): SourceClient {
    return createSourceClient({
      settings: { baseUrl: 'https://public.test', apiKey, timeoutMs: 30_000, retries: 0 },
      fetch: this.#fetch,
      clock: this.#clock,
      quotas,
    });
  }

  /** Adds records of these times, in order. */
  add(...times: readonly Timestamp[]): void {
    for (const modified of times) {
      const value = this.records.length + 1;
      this.records.push({ id: `lot-${value}`, modified, value });
    }
  }

  /** The values by id. */
  get state(): Map<string, number> {
    return new Map(this.records.map(({ id, value }) => [id, value]));
  }

  readonly #fetch: GuardedFetch = async ({ url, headers }) => {
    await this.onRequest();
    const nowMs = this.#clock.nowMs();
    const answer = (status: number, body: unknown, more: Record<string, string> = {}) => ({
      status,
      headers: { 'content-type': 'application/json', date: new Date(nowMs).toUTCString(), ...more },
      body: Buffer.from(body === undefined ? '' : JSON.stringify(body)),
      truncated: false,
    });
    if (headers?.['authorization'] !== 'Bearer key') return answer(403, undefined);
    const minute = this.asked.filter(({ ms }) => ms > nowMs - 60_000);
    const resetSeconds = Math.ceil(((minute[0]?.ms ?? nowMs) + 60_000 - nowMs) / 1_000);
    const limit = {
      'ratelimit-limit': String(requestsAMinute),
      'ratelimit-remaining': String(Math.max(0, requestsAMinute - minute.length - 1)),
      'ratelimit-reset': String(resetSeconds),
    };
    if (minute.length >= requestsAMinute) {
      this.refused += 1;
      return answer(429, { errors: ['Too many requests.'] }, { ...limit, 'retry-after': String(resetSeconds) });
    }
    const { searchParams: query } = new URL(url);
    this.asked.push({ query: query.toString(), ms: nowMs });
    const wanted = Number(query.get('page_size') ?? 100);
    const size = Math.min(largestPage, Math.max(smallestPage, wanted));
    if (size !== wanted && this.variant.otherSizes === 'refused')
      return answer(400, { errors: [], field_errors: { page_size: ['Must be between 10 and 200.'] } }, limit);
    const after = query.get('modified_after') ?? '';
    const before = query.get('modified_before') ?? '~';
    const from = Number(query.get('cursor')?.slice(1) ?? 0);
    const page: PublicRecord[] = [];
    let rest: number | undefined;
    for (let at = from; at < this.records.length && rest === undefined; at += 1) {
      const record = this.records[at];
      if (!record || record.modified < after || record.modified > before) continue;
      if (page.length === size) rest = at;
      else page.push(record);
    }
    query.set('cursor', `c${rest ?? 0}`);
    const next = rest === undefined ? undefined : `https://public.test${new URL(url).pathname}?${query.toString()}`;
    const { next: where } = this.variant;
    const isNamed =
      next !== undefined &&
      (where !== 'nowhere unless the page has the size that was asked for' || page.length === wanted);
    const inBody = isNamed && (where === 'body' || where === 'both' || where.startsWith('nowhere unless'));
    const link = isNamed && (where === 'link' || where === 'both') ? { link: `<${next}>; rel="next"` } : {};
    return answer(200, { data: page, ...(inBody ? { next } : {}) }, { ...limit, ...link });
  };
}
