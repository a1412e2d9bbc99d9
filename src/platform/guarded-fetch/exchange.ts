/** One request over a pool and its answer. */
import type { IncomingHttpHeaders } from 'node:http';
import type { Dispatcher, Pool } from 'undici';
import { listenForAbort, stopListening } from './abort-listeners.ts';
import { type FetchError, fetchErrorOf, toFetchError } from './fetch-error.ts';
import type { GuardedRequest, GuardedResponse } from './guarded-request.ts';

/**
 * Its promise settles as soon as the exchange is ended. An exchange that is ended while it waits for a connection is
 * not sent at all, and whatever the connection reports after the end is ignored. This is a class because one is made
 * for each request: closures would be ten objects.
 */
export class Exchange implements Dispatcher.DispatchHandler {
  readonly #url: URL;
  readonly #request: GuardedRequest;
  readonly #onFinished: (exchange: Exchange) => void;
  readonly #result = Promise.withResolvers<GuardedResponse>();
  readonly #startedAt = performance.now();
  readonly #timer: NodeJS.Timeout;
  #controller: Dispatcher.DispatchController | undefined;
  #ended: FetchError | undefined;
  #isFinished = false;
  /** Set when the exchange gets its connection: from then on it is unknown how much of the request has left. */
  #sent = false;
  #status = 0;
  #headers: Record<string, string> = {};
  #chunks: Buffer[] = [];
  #length = 0;

  constructor(url: URL, request: GuardedRequest, onFinished: (exchange: Exchange) => void) {
    this.#url = url;
    this.#request = request;
    this.#onFinished = onFinished;
    this.#timer = setTimeout(endInTime, request.timeoutMs, this);
    if (request.signal) listenForAbort(request.signal, this);
  }

  /** Sends the request; rejects with a `FetchError`, and with nothing else. */
  run(pool: Pool): Promise<GuardedResponse> {
    const { method, headers = {}, body = null, path, signal } = this.#request;
    if (signal?.aborted) this.end('aborted');
    else pool.dispatch({ path: path ?? `${this.#url.pathname}${this.#url.search}`, method, headers, body }, this);
    return this.#result.promise;
  }

  /** Ends the exchange before its answer is complete. */
  end(reason: 'timeout' | 'aborted'): void {
    this.#cutOff(fetchErrorOf(reason, this.#url.hostname));
  }

  onRequestStart(controller: Dispatcher.DispatchController): void {
    this.#controller = controller;
    if (this.#ended) controller.abort(this.#ended);
    else this.#sent = true;
  }

  onResponseStart(_controller: Dispatcher.DispatchController, status: number, headers: IncomingHttpHeaders): void {
    if (status < 200) return;
    this.#status = status;
    this.#headers = joinedHeaders(headers);
    const { onTooLarge, responseBytesMax } = this.#request;
    if (onTooLarge === 'fail' && Number(this.#headers['content-length']) > responseBytesMax)
      this.#cutOff(fetchErrorOf('too-large', this.#url.hostname));
  }

  onResponseData(_controller: Dispatcher.DispatchController, chunk: Buffer): void {
    if (this.#isFinished) return;
    this.#chunks.push(chunk);
    this.#length += chunk.length;
    if (this.#length <= this.#request.responseBytesMax) return;
    if (this.#request.onTooLarge !== 'fail') this.#answer(true);
    this.#cutOff(fetchErrorOf('too-large', this.#url.hostname));
  }

  onResponseEnd(): void {
    this.#answer(false);
  }

  onResponseError(_controller: Dispatcher.DispatchController | null, error: unknown): void {
    this.#fail(error);
  }

  #cutOff(error: FetchError): void {
    this.#ended = error;
    this.#fail(error);
    this.#controller?.abort(error);
  }

  #answer(truncated: boolean): void {
    if (!this.#finish()) return;
    const [only] = this.#chunks;
    const whole = only && this.#chunks.length === 1 ? only : Buffer.concat(this.#chunks);
    this.#result.resolve({
      status: this.#status,
      headers: this.#headers,
      body: truncated ? whole.subarray(0, this.#request.responseBytesMax) : whole,
      truncated,
      durationMs: Math.round(performance.now() - this.#startedAt),
    });
  }

  #fail(error: unknown): void {
    if (!this.#finish()) return;
    const failed = toFetchError(error, this.#url.hostname);
    failed.sent = this.#sent;
    this.#result.reject(failed);
  }

  /** Returns false when the exchange has finished already. */
  #finish(): boolean {
    if (this.#isFinished) return false;
    this.#isFinished = true;
    clearTimeout(this.#timer);
    if (this.#request.signal) stopListening(this.#request.signal, this);
    this.#onFinished(this);
    return true;
  }
}

function endInTime(exchange: Exchange): void {
  exchange.end('timeout');
}

function joinedHeaders(headers: IncomingHttpHeaders): Record<string, string> {
  const joined: Record<string, string> = {};
  for (const name in headers) {
    const value = headers[name];
    if (value !== undefined) joined[name] = typeof value === 'string' ? value : value.join(', ');
  }
  return joined;
}
