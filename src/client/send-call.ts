/**
 * Sends a call to the service's API. Each attempt is counted against the quotas before it is sent. A call that fails
 * with a transient error is retried, if sending it again does no harm. Secrets are sent in headers only.
 */
import pRetry, { AbortError } from 'p-retry';
import type { z } from 'zod';
import type { Clock } from '#platform/clock.ts';
import { AppError, askedToWaitMs } from '#platform/errors.ts';
import { acceptEncoding, decodeAnswer, unpackAnswer } from '#platform/foreign-answer.ts';
import type { GuardedRequest, GuardedResponse } from '#platform/guarded-fetch/guarded-request.ts';
import { FetchError, type GuardedFetch } from '#platform/guarded-fetch.ts';
import { anyNetwork } from '#platform/network-guard.ts';
import { readRateLimitMs, readRetryAfterMs } from '#platform/retry-after.ts';
import type { Dialect } from './dialect.ts';
import { type Bucket, bucketOf, type Quotas, type QuotaUse } from './quotas.ts';
import { errorOfAnswer, readJson, type TextAnswer } from './read-answer.ts';
import { createSlashRedirects } from './slash-redirects.ts';

const answerBytesMax = 64 * 1024 * 1024;
/**
 * The longest wait before a retry. A longer wait is left to the caller, whose schedule waits without holding a worker.
 */
export const longestWaitDefaultMs = 5_000;
const firstBackoffMs = 200;
/** A service may ask for a day by mistake; it is asked again after this time at the latest. */
const retryAfterMaxMs = 2 * 60 * 60_000;

/** Requests to links of files, which count against no limit. */
type FileBucket = 'downloads' | 'uploads';

export interface ClientSettings {
  baseUrl: string;
  apiKey: string;
  timeoutMs: number;
  /** How often a call is retried after transient errors before the error is thrown. */
  retries: number;
  /** The longest wait for which a call waits itself, before it is sent or sent again; default: 5 s. */
  longestWaitMs?: number | undefined;
  /**
   * Private networks (CIDR) that links of files to other hosts than the service's may reach.
   */
  fileNetworks?: readonly string[];
  /** How jobs are said; default: as the contract says them. */
  dialect?: Dialect;
}

export interface ClientDeps {
  settings: ClientSettings;
  fetch: GuardedFetch;
  /** The clock of all waits. */
  clock: Clock;
  /** When left out, requests are not counted. */
  quotas?: Quotas | undefined;
  /** Called after each request: the status of its answer, or why there was none (`timeout`, `reset`). */
  onRequest?: ((request: { bucket: Bucket | FileBucket | 'none'; status: string }) => void) | undefined;
}

export interface ApiCall {
  method: string;
  /** From `/api` on, with the query. */
  path: string;
  /** Sent as JSON. */
  body?: unknown;
  /** Sent as it is, instead of a body. */
  file?: { name: string; contentType: string; bytes: Uint8Array };
  /** A POST with this key may be sent again when there was no answer. */
  idempotencyKey?: string;
  /** Sent once, whatever happens: the caller decides after a failure. */
  once?: boolean;
  /** Texts in the body that no error may show, even if the service repeats them. */
  secrets?: readonly string[];
}

/** Sends a call, and parses the answer's body by `schema`. Throws AppError; `invalid` for a body of another form. */
export type CallApi = <Schema extends z.ZodType>(
  request: ApiCall,
  schema: Schema,
  signal?: AbortSignal,
) => Promise<z.output<Schema>>;

export interface ReadAnswer extends TextAnswer {
  /** The parsed JSON; undefined when there is none. */
  readonly body: unknown;
}

export type Send = (call: ApiCall, signal?: AbortSignal) => Promise<ReadAnswer>;

/**
 * Creates the function that sends calls. It throws AppError. When its promise has settled, no request is open any more.
 */
export function createSender({ settings, fetch, clock, quotas, onRequest }: ClientDeps): Send {
  const base = settings.baseUrl.replace(/(?<!\/)\/+$/, '');
  const followSlash = createSlashRedirects(base);

  async function exchange(
    call: ApiCall,
    path: string,
    headers: Record<string, string>,
    sent: string | Uint8Array | undefined,
    signal?: AbortSignal,
  ) {
    const bucket = bucketOf(call);
    let use: QuotaUse | undefined;
    try {
      use = bucket === undefined ? undefined : await quotas?.take(bucket, signal);
    } catch (error) {
      // The quotas have already waited for as long as a call may wait: no retry.
      throw error instanceof Error ? new AbortError(error) : error;
    }
    const received = await reportingFetch({ fetch, onRequest }, bucket ?? 'none', {
      url: base + path,
      method: call.method,
      headers,
      ...(sent === undefined ? {} : { body: sent }),
      allowedNetworks: anyNetwork,
      protocols: ['https:', 'http:'],
      timeoutMs: settings.timeoutMs,
      responseBytesMax: answerBytesMax,
      onTooLarge: 'fail',
      ...(signal ? { signal } : {}),
    });
    const askedMs = readWaitMs(received, clock.nowMs());
    const boundedMs = askedMs === undefined ? undefined : Math.min(askedMs, retryAfterMaxMs);
    const note = askedMs === boundedMs ? '' : boundNote(askedMs, retryAfterMaxMs);
    if (received.status === 429) return { received, note, afterMs: use ? await use.refused(boundedMs) : boundedMs };
    await use?.answered();
    return { received, note, afterMs: boundedMs };
  }

  return async (call, signal) => {
    const { method, path, body, file, idempotencyKey, secrets = [] } = call;
    const hidden = [settings.apiKey, ...secrets];
    const headers: Record<string, string> = {
      authorization: `Bearer ${settings.apiKey}`,
      accept: 'application/json',
      'accept-encoding': acceptEncoding,
    };
    if (body !== undefined) headers['content-type'] = 'application/json';
    if (file) {
      headers['content-type'] = file.contentType;
      headers['x-file-name'] = encodeURIComponent(file.name);
    }
    if (idempotencyKey !== undefined) headers['idempotency-key'] = idempotencyKey;
    const sent = file?.bytes ?? (body === undefined ? undefined : JSON.stringify(body));
    const what = `${method} ${path.split('?')[0]}`;
    const attempt = async (): Promise<ReadAnswer> => {
      const request = (target: string) => exchange(call, target, headers, sent, signal);
      const { received, afterMs, note } = await (method === 'GET' ? followSlash(path, request) : request(path));
      const { status, headers: answered } = received;
      const subject = `The answer to ${what}`;
      const unpacking = unpackAnswer(received, subject, answerBytesMax);
      const reading = unpacking.then((unpacked) => decodeAnswer(unpacked, subject));
      // For an error the status is enough: a proxy may have sent a page that cannot be read.
      const text = await (status >= 400 ? reading.catch(() => 'unreadable') : reading);
      const answer = { status, headers: answered, text };
      if (status === 304)
        throw new AppError('unavailable', `${what} was answered with 304, although it had no If-None-Match.`);
      if (status < 200 || status > 299)
        throw errorOfAnswer(answer, what, { secrets: hidden, afterMs, note, url: base + path });
      return { ...answer, body: readJson(answer, { method, what }, hidden) };
    };
    // A POST without a key may have taken effect although there was no answer: only the caller can decide what to do.
    const canRepeat = call.once !== true && (method !== 'POST' || idempotencyKey !== undefined);
    const longestWaitMs = settings.longestWaitMs ?? longestWaitDefaultMs;
    return retried(attempt, { retries: canRepeat ? settings.retries : 0, longestWaitMs, clock, signal });
  };
}

/** How long the service asks to wait. A 429 without `Retry-After` may say it in the headers of its limits. */
function readWaitMs({ status, headers }: GuardedResponse, nowMs: number): number | undefined {
  return readRetryAfterMs(headers['retry-after'], nowMs) ?? (status === 429 ? readRateLimitMs(headers) : undefined);
}

/** What an operator reads in the feed's state when a `Retry-After` is longer than the bound. */
function boundNote(askedMs = 0, retryAfterMaxMs: number): string {
  const [asked, bound] = [askedMs / 1000, retryAfterMaxMs / 1000].map(Math.ceil);
  return ` It asks for a wait of ${asked} s or more; the bridge waits ${bound} s.`;
}

/** Fetches, and reports the outcome to `onRequest`. Rejects as the fetch does. */
export async function reportingFetch(
  { fetch, onRequest }: Pick<ClientDeps, 'fetch' | 'onRequest'>,
  bucket: Bucket | FileBucket | 'none',
  request: GuardedRequest,
): Promise<GuardedResponse> {
  try {
    const received = await fetch(request);
    onRequest?.({ bucket, status: String(received.status) });
    return received;
  } catch (error) {
    onRequest?.({ bucket, status: error instanceof FetchError ? error.reason : 'failed' });
    throw error;
  }
}

/** Retries after transient errors, and waits at least as long as the error asks. */
async function retried<T>(
  attempt: () => Promise<T>,
  {
    retries,
    longestWaitMs,
    clock,
    signal,
  }: { retries: number; longestWaitMs: number; clock: Clock; signal: AbortSignal | undefined },
): Promise<T> {
  return pRetry(attempt, {
    retries,
    // p-retry itself does not wait: `onFailedAttempt` waits on our clock.
    minTimeout: 0,
    ...(signal ? { signal } : {}),
    shouldRetry: ({ error }) => isTransient(error),
    onFailedAttempt: async ({ error, attemptNumber, retriesLeft }) => {
      if (!isTransient(error) || retriesLeft === 0) return;
      const askedMs = askedToWaitMs(error);
      if (askedMs > longestWaitMs) throw error;
      const backoffMs = Math.round(firstBackoffMs * 2 ** (attemptNumber - 1) * (1 + Math.random()));
      await clock.sleep(Math.max(askedMs, backoffMs), signal);
    },
  });
}

function isTransient(error: Error): boolean {
  if (error instanceof FetchError) return error.recovery.do === 'retry' && error.reason !== 'aborted';
  return error instanceof AppError && error.recovery.do === 'retry';
}
