/** One request over an agent of undici, and its answer. */
import type { IncomingHttpHeaders } from 'node:http';
import type { Dispatcher } from 'undici';
import { type FetchError, fetchErrorOf, toFetchError } from './fetch-error.ts';
import type { GuardedRequest, GuardedResponse } from './guarded-request.ts';

/** What a URL says about where a request goes. */
export interface Target {
  readonly origin: string;
  /** Without the brackets of an IPv6 address. */
  readonly hostname: string;
  readonly path: string;
}

/**
 * Sends the request; rejects with a FetchError, and with nothing else. It is dispatched and not sent by undici's
 * `request`, for two reasons: that one leaves a request pending which is aborted while it waits for a connection, and
 * does not tell whether any of it was sent. `check`, where there is one, comes first, within the time limit; when it
 * rejects, nothing is sent.
 */
export function exchange(
  dispatcher: Dispatcher,
  target: Target,
  request: GuardedRequest,
  check?: () => Promise<unknown>,
): Promise<GuardedResponse> {
  const { hostname, origin } = target;
  const { method, headers = {}, body = null, path = target.path, signal, responseBytesMax } = request;
  const { promise, resolve, reject } = Promise.withResolvers<GuardedResponse>();
  const received: Buffer[] = [];
  let receivedBytes = 0;
  let answer: Pick<GuardedResponse, 'status' | 'headers'> = { status: 0, headers: {} };
  let sent = false;
  let ended: FetchError | undefined;
  let controller: Dispatcher.DispatchController | undefined;

  /** Ends the exchange before its answer is complete. */
  function cutOff(error: FetchError): void {
    ended ??= error;
    fail(error);
    controller?.abort(error);
  }

  function fail(error: unknown): void {
    const failed = toFetchError(error, hostname);
    failed.sent = sent;
    reject(failed);
  }

  function succeed(truncated: boolean): void {
    const whole = Buffer.concat(received);
    resolve({
      ...answer,
      body: truncated ? whole.subarray(0, responseBytesMax) : whole,
      truncated,
    });
  }

  function onTooLarge(): void {
    if (request.onTooLarge !== 'fail') succeed(true);
    cutOff(fetchErrorOf('too-large', hostname));
  }

  const timer = setTimeout(() => cutOff(fetchErrorOf('timeout', hostname)), request.timeoutMs);
  const onAbort = () => cutOff(fetchErrorOf('aborted', hostname));
  signal?.addEventListener('abort', onAbort, { once: true });

  const handler: Dispatcher.DispatchHandler = {
    onRequestStart(started) {
      controller = started;
      if (ended) started.abort(ended);
      else sent = true;
    },
    onResponseStart(_controller, status, answered) {
      if (status < 200) return;
      answer = { status, headers: joinedHeaders(answered) };
      const isTooLong = Number(answer.headers['content-length']) > responseBytesMax;
      if (isTooLong && request.onTooLarge === 'fail') onTooLarge();
    },
    onResponseData(_controller, chunk) {
      if (ended) return;
      received.push(chunk);
      receivedBytes += chunk.length;
      if (receivedBytes > responseBytesMax) onTooLarge();
    },
    onResponseEnd: () => succeed(false),
    onResponseError: (_controller, error) => fail(error),
  };
  const dispatch = () => {
    if (!ended) dispatcher.dispatch({ origin, path, method, headers, body }, handler);
  };
  if (check) check().then(dispatch, fail);
  else dispatch();

  return promise.finally(() => {
    clearTimeout(timer);
    signal?.removeEventListener('abort', onAbort);
  });
}

function joinedHeaders(headers: IncomingHttpHeaders): Record<string, string> {
  const joined: Record<string, string> = {};
  for (const [name, value] of Object.entries(headers))
    if (value !== undefined) joined[name] = Array.isArray(value) ? value.join(', ') : value;
  return joined;
}
