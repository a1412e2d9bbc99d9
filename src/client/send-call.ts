/**
 * Sends a call to the service's API until its answer could be read: counted against the quotas before each try, and
 * tried again where the fault passes and repeating does no harm. Secrets stand in headers only.
 */
import pRetry, { AbortError } from 'p-retry';
import type { z } from 'zod';
import type { Clock } from '#platform/clock.ts';
import { AppError, askedToWaitMs } from '#platform/errors.ts';
import { FetchError, type GuardedFetch, type GuardedRequest, type GuardedResponse } from '#platform/guarded-fetch.ts';
import { anyNetwork } from '#platform/network-guard.ts';
import { readRetryAfterMs } from '#platform/retry-after.ts';
import { type Bucket, bucketOf, type Quotas, type QuotaUse } from './quotas.ts';
import { decode, errorOfAnswer, readJson, type TextAnswer, unpack } from './read-answer.ts';

const answerBytesMax = 64 * 1024 * 1024;
/** A longer wait is the caller's: its schedule waits without holding a worker. */
export const longestWaitMs = 5_000;
const firstBackoffMs = 200;

export interface ClientSettings {
  baseUrl: string;
  apiKey: string;
  timeoutMs: number;
  /** How often a transient error is tried again before the caller hears of it. */
  retries: number;
  /**
   * Networks (CIDR) that are not public and may be reached through download links to other hosts than the service's.
   */
  fileNetworks?: readonly string[];
}

export interface ClientDeps {
  settings: ClientSettings;
  fetch: GuardedFetch;
  /** Asked for the time, and waited on. */
  clock: Clock;
  /** Without them requests are not counted. */
  quotas?: Quotas | undefined;
  /** LeakDetector of each request that was sent: the status of its answer, or why none came (`timeout`, `reset`). */
  onRequest?: ((request: { bucket: Bucket | 'downloads' | 'none'; status: string }) => void) | undefined;
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
  /** Texts in the body that no error may show, although the service repeats them. */
  secrets?: readonly string[];
}

/** Sends a call; the answer's body read through `schema`. Throws AppError, `invalid` for an answer of another shape. */
export type CallApi = <Schema extends z.ZodType>(
  request: ApiCall,
  schema: Schema,
  signal?: AbortSignal,
) => Promise<z.output<Schema>>;

export interface ReadAnswer extends TextAnswer {
  /** What the text says; undefined where there is none, and of a 304. */
  readonly body: unknown;
}

export interface SendOptions {
  signal?: AbortSignal | undefined;
  /** The `ETag` of an answer that is kept; the answer may be a 304 then. */
  ifNoneMatch?: string | undefined;
}

export type Send = (call: ApiCall, options?: SendOptions) => Promise<ReadAnswer>;

/** The function throws AppError, and nothing of the call goes on when it has settled. */
export function createSender({ settings, fetch, clock, quotas, onRequest }: ClientDeps): Send {
  const base = settings.baseUrl.replace(/\/+$/, '');

  async function exchange(
    call: ApiCall,
    headers: Record<string, string>,
    sent: string | Uint8Array | undefined,
    signal?: AbortSignal,
  ) {
    const bucket = bucketOf(call);
    let use: QuotaUse | undefined;
    try {
      use = bucket === undefined ? undefined : await quotas?.take(bucket, signal);
    } catch (error) {
      // What short waits could do has been done.
      throw error instanceof Error ? new AbortError(error) : error;
    }
    const received = await toldFetch({ fetch, onRequest }, bucket ?? 'none', {
      url: base + call.path,
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
    const askedMs = readRetryAfterMs(received.headers['retry-after'], clock.nowMs());
    if (received.status === 429) return { received, afterMs: use ? await use.refused(askedMs) : askedMs };
    await use?.answered();
    return { received, afterMs: askedMs };
  }

  return async (call, { signal, ifNoneMatch } = {}) => {
    const { method, path, body, file, idempotencyKey, secrets = [] } = call;
    const hidden = [settings.apiKey, ...secrets];
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
    if (idempotencyKey !== undefined) headers['idempotency-key'] = idempotencyKey;
    if (ifNoneMatch !== undefined) headers['if-none-match'] = ifNoneMatch;
    const sent = file?.bytes ?? (body === undefined ? undefined : JSON.stringify(body));
    const what = `${method} ${path.split('?')[0]}`;
    const once = async (): Promise<ReadAnswer> => {
      const { received, afterMs } = await exchange(call, headers, sent, signal);
      const { status, headers: answered } = received;
      const reading = unpack(received, what, answerBytesMax).then((bytes) => decode(bytes, what));
      // The status of a refusal counts, in whatever way a proxy has written its page.
      const text = await (status >= 400 ? reading.catch(() => '') : reading);
      const answer = { status, headers: answered, text };
      if (status === 304) {
        if (ifNoneMatch !== undefined) return { ...answer, body: undefined };
        throw new AppError('unavailable', `${what} was answered with 304, although nothing is kept of it.`);
      }
      if (status < 200 || status > 299) throw errorOfAnswer(answer, what, { secrets: hidden, afterMs });
      return { ...answer, body: readJson(answer, { method, what }, hidden) };
    };
    // A POST without a key may have taken effect although no answer came: only its caller knows what to do.
    const repeatable = method !== 'POST' || idempotencyKey !== undefined;
    return retried(once, repeatable ? settings.retries : 0, clock, signal);
  };
}

/** Fetches, and tells what came of it. Rejects as the fetch does. */
export async function toldFetch(
  { fetch, onRequest }: Pick<ClientDeps, 'fetch' | 'onRequest'>,
  bucket: Bucket | 'downloads' | 'none',
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

/** Retries what the error itself calls passing, waiting at least as long as it asks. */
async function retried<T>(once: () => Promise<T>, retries: number, clock: Clock, signal?: AbortSignal): Promise<T> {
  return pRetry(once, {
    retries,
    // The waits are the clock's.
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
