/** One request over a connection and its answer. */
import type { IncomingHttpHeaders } from 'node:http';
import type { Client, Dispatcher } from 'undici';
import { listenForAbort, stopListening } from './abort-listeners.ts';
import type { ConnectionQueue, Waiting } from './connection-queue.ts';
import { type FetchError, fetchErrorOf, toFetchError } from './fetch-error.ts';
import type { GuardedRequest, GuardedResponse } from './guarded-request.ts';

/** What a URL says about where a request goes. */
export interface Target {
  readonly origin: string;
  readonly hostname: string;
  readonly path: string;
}

/**
 * Its promise settles as soon as the exchange is ended. An exchange that is ended while it waits for a connection is
 * not sent at all, and whatever the connection reports after the end is ignored. This is a class because one is made
 * for each request: closures would be ten objects.
 */
export class Exchange implements Dispatcher.DispatchHandler, Waiting {
  /** The moment of `performance.now()` at which its time limit ends it. */
  readonly deadlineMs: number;
  readonly #target: Target;
  readonly #request: GuardedRequest;
  readonly #connections: ConnectionQueue;
  readonly #onFinished: (exchange: Exchange) => void;
  readonly #result = Promise.withResolvers<GuardedResponse>();
  readonly #startedAt = performance.now();
  /** From `begin` until undici has reported the end of the request: only then may another one use the connection. */
  #client: Client | undefined;
  #controller: Dispatcher.DispatchController | undefined;
  #ended: FetchError | undefined;
  #isFinished = false;
  /** Set when the exchange gets its connection: from then on it is unknown how much of the request has left. */
  #sent = false;
  #status = 0;
  #headers: Record<string, string> = {};
  #chunks: Buffer[] = [];
  #length = 0;

  constructor(
    target: Target,
    request: GuardedRequest,
    connections: ConnectionQueue,
    onFinished: (exchange: Exchange) => void,
  ) {
    this.#target = target;
    this.#request = request;
    this.#connections = connections;
    this.#onFinished = onFinished;
    this.deadlineMs = this.#startedAt + request.timeoutMs;
    if (request.signal) listenForAbort(request.signal, this);
  }

  /** Sends the request; rejects with a `FetchError`, and with nothing else. */
  run(): Promise<GuardedResponse> {
    if (this.#request.signal?.aborted) this.end('aborted');
    else this.#connections.enter(this);
    return this.#result.promise;
  }

  begin(client: Client): void {
    const { method, headers = {}, body = null, path = this.#target.path } = this.#request;
    this.#client = client;
    client.dispatch({ path, method, headers, body }, this);
  }

  /** Ends the exchange before its answer is complete. */
  end(reason: 'timeout' | 'aborted'): void {
    this.#cutOff(fetchErrorOf(reason, this.#target.hostname));
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
      this.#cutOff(fetchErrorOf('too-large', this.#target.hostname));
  }

  onResponseData(_controller: Dispatcher.DispatchController, chunk: Buffer): void {
    if (this.#isFinished) return;
    this.#chunks.push(chunk);
    this.#length += chunk.length;
    if (this.#length <= this.#request.responseBytesMax) return;
    if (this.#request.onTooLarge !== 'fail') this.#answer(true);
    this.#cutOff(fetchErrorOf('too-large', this.#target.hostname));
  }

  onResponseEnd(): void {
    this.#answer(false);
    this.#release();
  }

  onResponseError(_controller: Dispatcher.DispatchController | null, error: unknown): void {
    this.#fail(error);
    this.#release();
  }

  #release(): void {
    const client = this.#client;
    this.#client = undefined;
    if (client) this.#connections.release(client);
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
    const failed = toFetchError(error, this.#target.hostname);
    failed.sent = this.#sent;
    this.#result.reject(failed);
  }

  /** Returns false when the exchange has finished already. */
  #finish(): boolean {
    if (this.#isFinished) return false;
    this.#isFinished = true;
    if (!this.#client) this.#connections.forget(this);
    if (this.#request.signal) stopListening(this.#request.signal, this);
    this.#onFinished(this);
    return true;
  }
}

/** Joins the values of repeated headers, in the object that undici has made for this answer. */
function joinedHeaders(headers: IncomingHttpHeaders): Record<string, string> {
  for (const name in headers) {
    const value = headers[name];
    if (Array.isArray(value)) headers[name] = value.join(', ');
  }
  return headers as Record<string, string>;
}
