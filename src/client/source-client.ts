/**
 * The client of a sourcing service's API, ours or somebody else's: typed, with transient errors retried and
 * `Retry-After` kept. Unknown fields and enum values pass through. Secrets stand in headers only.
 */
import { promisify } from 'node:util';
import { brotliDecompress, gunzip } from 'node:zlib';
import pRetry from 'p-retry';
import type { z } from 'zod';
import { type FeedName, feedOrderHeader, feedPage } from '#contract/feed.ts';
import { problem } from '#contract/problem.ts';
import type { Timestamp } from '#contract/timestamp.ts';
import type { Clock } from '#platform/clock.ts';
import { AppError, hasErrorCode, type Recovery } from '#platform/errors.ts';
import { FetchError, type GuardedFetch, type GuardedResponse } from '#platform/guarded-fetch.ts';
import { parseInput } from '#platform/input.ts';
import { parseCidrs } from '#platform/network-guard.ts';
import { readRetryAfterMs } from '#platform/retry-after.ts';

/** The address of the service is the operator's own setting: it may lie in any network. */
const anyNetwork = parseCidrs(['0.0.0.0/0', '::/0']);
const answerBytesMax = 64 * 1024 * 1024;

export interface ClientSettings {
  baseUrl: string;
  apiKey: string;
  timeoutMs: number;
  /** How often a transient error is tried again before the caller hears of it. */
  retries: number;
}

export interface FeedPage {
  records: Record<string, unknown>[];
  /** The query of the next page; undefined on the last one. */
  next: string | undefined;
  /** The service declares that the feed shows records in the order of their commits. */
  commitOrdered: boolean;
  /** A time that the source's clock had passed when it made the page; undefined when it gives no `Date`. */
  sourceMs: number | undefined;
}

/** Either bound may be left out. */
export interface FeedWindow {
  modifiedAfter?: Timestamp | undefined;
  modifiedBefore?: Timestamp | undefined;
  pageSize: number;
}

export interface ApiCall {
  method: string;
  /** From `/api` on, with its query. */
  path: string;
  /** Sent as JSON. */
  body?: unknown;
  /** Sent as it is, instead of a body. */
  file?: { name: string; contentType: string; bytes: Uint8Array };
  /** With it a POST may be sent again when no answer came. */
  idempotencyKey?: string;
}

export interface SourceClient {
  /** One page. `at` is a filter, or the `next` of an earlier page. Throws AppError, as `call` does. */
  readFeed(feed: FeedName, at: FeedWindow | { next: string }, signal?: AbortSignal): Promise<FeedPage>;
  /** Any other call; the answer's body read through `schema`. Throws AppError with the service's own words. */
  call<Schema extends z.ZodType>(request: ApiCall, schema: Schema): Promise<z.output<Schema>>;
}

/** `clock` is asked for the time and waited on where an answer says `Retry-After`. */
export function createSourceClient(deps: {
  settings: ClientSettings;
  fetch: GuardedFetch;
  clock: Clock;
}): SourceClient {
  const { settings, fetch, clock } = deps;
  const base = settings.baseUrl.replace(/\/+$/, '');

  /** Sends until an answer could be read; a body that cannot be parsed is as passing a fault as a lost connection. */
  async function request(
    { method, path, body, file, idempotencyKey }: ApiCall,
    signal?: AbortSignal,
  ): Promise<{ headers: Record<string, string>; body: unknown }> {
    const headers: Record<string, string> = {
      authorization: `Bearer ${settings.apiKey}`,
      accept: 'application/json',
      'accept-encoding': 'gzip, br',
    };
    if (body !== undefined) headers['content-type'] = 'application/json';
    if (file) {
      headers['content-type'] = file.contentType;
      headers['x-file-name'] = encodeURIComponent(file.name);
    }
    const sent = file?.bytes ?? (body === undefined ? undefined : JSON.stringify(body));
    if (idempotencyKey !== undefined) headers['idempotency-key'] = idempotencyKey;
    const what = `${method} ${path.split('?')[0]}`;
    const once = async () => {
      const received = await fetch({
        url: base + path,
        method,
        headers,
        ...(sent === undefined ? {} : { body: sent }),
        allowedNetworks: anyNetwork,
        protocols: ['https:', 'http:'],
        timeoutMs: settings.timeoutMs,
        responseBytesMax: answerBytesMax,
        onTooLarge: 'fail',
        ...(signal ? { signal } : {}),
      });
      const answer = { ...received, body: await unpacked(received, what) };
      if (answer.status < 200 || answer.status > 299) throw refusedBy(answer, what, settings.apiKey, clock);
      return { headers: answer.headers, body: parseAnswer(answer, what) };
    };
    // A POST without a key may have taken effect although no answer came: only its caller knows what to do.
    const repeatable = method !== 'POST' || idempotencyKey !== undefined;
    return retried(once, repeatable ? settings.retries : 0, clock, signal);
  }

  return {
    async readFeed(feed, at, signal) {
      const query = 'next' in at ? at.next : firstQuery(at);
      const sentMs = clock.nowMs();
      const answer = await request({ method: 'GET', path: `/api/feeds/${feed}?${query}` }, signal);
      const page = parseInput(feedPage, answer.body, `The answer of the ${feed} feed`);
      const commitOrdered = answer.headers[feedOrderHeader] === 'commit';
      const sourceMs = sourceTimeOf(answer.headers['date'], clock.nowMs() - sentMs);
      return { records: page.data, next: queryOf(page.next), commitOrdered, sourceMs };
    },
    async call(call, schema) {
      const answer = await request(call);
      return parseInput(schema, answer.body, `The answer to ${call.method} ${call.path}`);
    },
  };
}

function firstQuery(window: FeedWindow): string {
  const query = new URLSearchParams({ page_size: String(window.pageSize) });
  if (window.modifiedAfter !== undefined) query.set('modified_after', window.modifiedAfter);
  if (window.modifiedBefore !== undefined) query.set('modified_before', window.modifiedBefore);
  return query.toString();
}

/** `Date` counts whole seconds, and may have been written at any time between the request and its answer. */
function sourceTimeOf(date: string | undefined, roundTripMs: number): number | undefined {
  const ms = Date.parse(date ?? '');
  return Number.isNaN(ms) ? undefined : ms - roundTripMs - 1_000;
}

/** Only the query of a `next` link counts: it is never followed to another origin or path. */
function queryOf(next: string | null | undefined): string | undefined {
  if (next === null || next === undefined) return undefined;
  const query = URL.parse(next, 'http://relative.invalid')?.search.slice(1);
  if (query === undefined || query === '')
    throw new AppError('unavailable', 'The feed gave a "next" link without a query.', { recovery: { do: 'halt' } });
  return query;
}

const unpackers: Readonly<Record<string, (packed: Buffer, limit: { maxOutputLength: number }) => Promise<Buffer>>> = {
  gzip: promisify(gunzip),
  'x-gzip': promisify(gunzip),
  br: promisify(brotliDecompress),
};

/** The limit holds for what comes out, too: a small body may unpack to one that fills the memory. */
async function unpacked({ headers, body }: GuardedResponse, what: string): Promise<Buffer> {
  const encoding = headers['content-encoding']?.trim().toLowerCase() ?? '';
  if (encoding === '' || encoding === 'identity' || body.length === 0) return body;
  const unpack = unpackers[encoding];
  if (!unpack) throw new AppError('unavailable', `The answer to ${what} is packed in a way that was not asked for.`);
  return unpack(body, { maxOutputLength: answerBytesMax }).catch((cause: unknown) => {
    throw hasErrorCode(cause, 'ERR_BUFFER_TOO_LARGE')
      ? new AppError('too-large', `The answer to ${what} is larger than allowed.`, { recovery: { do: 'skip' } })
      : new AppError('unavailable', `The answer to ${what} cannot be unpacked.`, { cause });
  });
}

function parseAnswer(answer: GuardedResponse, what: string): unknown {
  if (answer.body.length === 0) return undefined;
  try {
    return JSON.parse(answer.body.toString('utf8'));
  } catch {
    throw new AppError('unavailable', `The answer to ${what} is not JSON.`);
  }
}

function refusedBy(answer: GuardedResponse, what: string, secret: string, clock: Clock): AppError {
  const retryAfterMs = readRetryAfterMs(answer.headers['retry-after'], clock.nowMs());
  const transient = answer.status === 429 || answer.status === 408 || answer.status >= 500;
  const recovery: Recovery = transient
    ? { do: 'retry', ...(retryAfterMs === undefined ? {} : { afterMs: retryAfterMs }) }
    : { do: 'halt' };
  const code = answer.status === 429 ? 'too-many' : transient ? 'unavailable' : codeOf(answer.status);
  // Some services repeat in their words what they were sent.
  const words = wordsOf(answer).replaceAll(secret, '[secret]').slice(0, 500);
  return new AppError(code, `${what} was answered with ${answer.status}${words}`, { recovery });
}

function codeOf(status: number) {
  if (status === 401) return 'unauthorized';
  if (status === 403) return 'forbidden';
  if (status === 404) return 'not-found';
  return status === 409 ? 'conflict' : 'invalid';
}

function wordsOf(answer: GuardedResponse): string {
  try {
    const { detail } = problem.parse(JSON.parse(answer.body.toString('utf8')));
    return `: ${detail}`;
  } catch {
    return '.';
  }
}

/** Retries what the error itself calls passing, waiting at least as long as it asks. */
async function retried<T>(once: () => Promise<T>, retries: number, clock: Clock, signal?: AbortSignal): Promise<T> {
  return pRetry(once, {
    retries,
    minTimeout: 200,
    randomize: true,
    ...(signal ? { signal } : {}),
    shouldRetry: ({ error }) => isTransient(error),
    onFailedAttempt: async ({ error, retriesLeft }) => {
      const afterMs = error instanceof AppError && error.recovery.do === 'retry' ? error.recovery.afterMs : undefined;
      // A long wait is not sat out here: the caller's schedule does that without holding a worker.
      if (afterMs !== undefined && afterMs > 5_000) throw error;
      if (afterMs !== undefined && retriesLeft > 0) await clock.sleep(afterMs, signal);
    },
  });
}

function isTransient(error: Error): boolean {
  if (error instanceof FetchError) return error.recovery.do === 'retry' && error.reason !== 'aborted';
  return error instanceof AppError && error.recovery.do === 'retry';
}
