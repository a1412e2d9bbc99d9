/**
 * The client as a script or another program uses it: feeds and lists as async iterators, jobs that are waited for, and
 * the service's limits kept in this process.
 *
 *     const client = createClient({ baseUrl: 'https://sourcing.example.com', apiKey });
 *     for await (const award of client.feed('awards', { modifiedAfter: '2026-01-01T00:00:00Z' })) console.log(award);
 *     await client.close();
 */
import type { FeedName } from '#contract/feed.ts';
import type { JobType } from '#contract/job.ts';
import { type Clock, systemClock } from '#platform/clock.ts';
import { AppError } from '#platform/errors.ts';
import { createGuardedFetch } from '#platform/guarded-fetch.ts';
import type { JobInput, SubmittedJob } from './job-calls.ts';
import { readPages } from './list-page.ts';
import { createMemoryQuotas } from './memory-quotas.ts';
import type { Quotas } from './quotas.ts';
import type { FeedWindow } from './read-feed.ts';
import { createSourceClient, type SourceClient } from './source-client.ts';
import { type SupplierQuery, supplierQuery } from './supplier-calls.ts';

export interface ClientOptions {
  /** Without `/api`. */
  readonly baseUrl: string;
  readonly apiKey: string;
  /** How long an answer may take. Default: 30 s. */
  readonly timeoutMs?: number;
  /** How often a call is tried again after a transient error. Default: 3. */
  readonly retries?: number;
  /** PEM of an authority that is trusted beside the usual ones. */
  readonly extraCa?: string;
  /** Private networks (CIDR) that the links of files may reach. Default: the service's own host only. */
  readonly fileNetworks?: readonly string[];
  /** Counts the requests. Default: the limits of the documents, counted in this process. */
  readonly quotas?: Quotas;
  readonly clock?: Clock;
}

/** Each call throws AppError; `recovery` says whether trying again helps. */
export interface SourcingClient extends SourceClient {
  /**
   * The records of a feed from `modifiedAfter` on, page after page, in the service's order. A later page is read when the
   * records before it have been taken. Keep the newest `modified` that you have handled, and begin there the next time:
   * the bound is inclusive, so records at it come again.
   */
  feed(
    feed: FeedName,
    window?: Partial<FeedWindow>,
    signal?: AbortSignal,
  ): AsyncGenerator<Record<string, unknown>, void, undefined>;
  /** The suppliers of a filter, page after page. */
  suppliers(
    query?: Partial<SupplierQuery>,
    signal?: AbortSignal,
  ): AsyncGenerator<Record<string, unknown>, void, undefined>;
  /**
   * Submits a job and waits until it has ended, up to `withinMs` (default: 60 s). A second call with the same key and
   * payload submits no second job. `status` of the result is `COMPLETED` or `FAILED`.
   */
  runJob<Type extends JobType>(
    type: Type,
    payload: JobInput<Type>,
    idempotencyKey: string,
    options?: { readonly withinMs?: number; readonly signal?: AbortSignal },
  ): Promise<SubmittedJob>;
  /** Ends all exchanges and connections. */
  close(): Promise<void>;
}

const timeoutDefaultMs = 30_000;
const retriesDefault = 3;
const pageSizeDefault = 100;
const jobWithinDefaultMs = 60_000;

export function createClient(options: ClientOptions): SourcingClient {
  const { baseUrl, apiKey, timeoutMs = timeoutDefaultMs, retries = retriesDefault, clock = systemClock } = options;
  const outgoing = createGuardedFetch(options.extraCa === undefined ? {} : { extraCa: options.extraCa });
  const client = createSourceClient({
    settings: {
      baseUrl,
      apiKey,
      timeoutMs,
      retries,
      ...(options.fileNetworks && { fileNetworks: options.fileNetworks }),
    },
    fetch: outgoing.fetch,
    clock,
    quotas: options.quotas ?? createMemoryQuotas(clock),
  });

  async function* feed(name: FeedName, window: Partial<FeedWindow> = {}, signal?: AbortSignal) {
    let page = await client.readFeed(name, { pageSize: pageSizeDefault, ...window }, signal);
    for (let asked = ''; ; ) {
      yield* page.records;
      const { next, records } = page;
      // A service that always has a cursor repeats it on the empty page behind the last one.
      if (next === undefined || (next === asked && records.length === 0)) return;
      if (next === asked)
        throw new AppError('unavailable', 'The pages of the feed loop: "next" returns to the same page.', {
          recovery: { do: 'halt' },
        });
      asked = next;
      page = await client.readFeed(name, { next }, signal);
    }
  }

  async function* suppliers(query: Partial<SupplierQuery> = {}, signal?: AbortSignal) {
    const read = (next: string) => client.listSuppliers({ next }, signal);
    for await (const { items } of readPages(read, supplierQuery({ pageSize: pageSizeDefault, ...query }))) yield* items;
  }

  return {
    ...client,
    feed,
    suppliers,
    runJob: async (type, payload, idempotencyKey, { withinMs = jobWithinDefaultMs, signal } = {}) => {
      const { id } = await client.submitJob(type, payload, idempotencyKey, signal);
      return client.waitForJob(id, withinMs, signal);
    },
    close: () => outgoing.close(),
  };
}
