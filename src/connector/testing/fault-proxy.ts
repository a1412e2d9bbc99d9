/**
 * A fault proxy stands between a connector and its ERP and injects faults into what passes. Each session of the kit has
 * its own proxy. Once it is cut off, nothing passes any more: the session looks to the ERP like a process that was
 * killed.
 */
import type { AddressInfo, Server, Socket } from 'node:net';

/** A request over HTTP; over TCP, one chunk that the client sent. */
export interface ProxiedRequest {
  /** The number of the request since the last `inject` or `reset`, counted from 1. */
  readonly n: number;
  /** `POST /orders`; empty over TCP. */
  readonly line: string;
}

export type FaultAction =
  | 'pass'
  /** Cuts the proxy off before the ERP gets the request, or after the ERP has answered it; the answer is lost. */
  | 'kill-before'
  | 'kill-after'
  /** The same, but only this connection is closed. */
  | 'drop-before'
  | 'drop-after'
  /** Holds the request until `release`; then it passes, if its connection is still open. */
  | 'hold'
  /** HTTP only: the proxy answers; with `forward`, after the ERP has carried the request out. */
  | { status: number; headers?: Record<string, string>; body?: string; forward?: boolean };

/** Decides what happens to a request. */
export type FaultRule = (request: ProxiedRequest) => FaultAction | Promise<FaultAction>;

const passAll: FaultRule = () => 'pass';

/** What both kinds of proxy share: counting, waiting, holding. The servers call `begin`, `decide`, `hold` and `working`. */
export class FaultProxy {
  /** The address for the connector's settings, instead of the ERP's. */
  address = '';
  /** The number of requests since the last `inject` or `reset`. */
  count = 0;
  /** The largest number of requests (over TCP: connections) at once since the last `inject` or `reset`. */
  atOnceMax = 0;
  /** All requests as `POST /orders?x=1`; empty over TCP. */
  readonly lines: string[] = [];
  /** The connector's connections that are open. */
  readonly sockets = new Set<Socket>();
  isCutOff = false;
  #rule = passAll;
  #atOnce = 0;
  #underWay = 0;
  #held: (() => void)[] = [];
  #waiting: { condition: () => boolean; wake: () => void }[] = [];
  #server: Server | undefined;
  #endErp = () => {};

  /** Listens on a free port until `close`, which also ends the requests that run at the ERP, by `endErp`. */
  async listen(server: Server, prefix: string, endErp: () => void): Promise<this> {
    await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
    this.address = `${prefix}127.0.0.1:${(server.address() as AddressInfo).port}`;
    this.#server = server;
    this.#endErp = endErp;
    return this;
  }

  /** Applies a rule to each request from now on, and restarts the counts. */
  inject(rule: FaultRule): void {
    this.#rule = rule;
    this.count = 0;
    this.atOnceMax = this.#atOnce;
  }

  /** Lets everything pass from now on, and restarts the counts. */
  reset(): void {
    this.inject(passAll);
  }

  /** The number of open connections of the connector. */
  get connections(): number {
    return this.sockets.size;
  }

  /** Resolves when the n-th request since the last `inject` or `reset` has arrived. */
  untilRequest(n: number): Promise<void> {
    return this.#until(() => this.count >= n);
  }

  /** Resolves when the ERP has answered every request that reached it. */
  untilIdle(): Promise<void> {
    return this.#until(() => this.#underWay === 0);
  }

  /** Forwards the held requests; resolves once they are on their way. */
  async release(): Promise<void> {
    for (const resolve of this.#held) resolve();
    this.#held = [];
    await new Promise((resolve) => setImmediate(resolve));
  }

  /** Closes all connections and accepts no more, as if the ERP were unreachable. */
  cutOff(): void {
    this.isCutOff = true;
    for (const socket of this.sockets) socket.destroy();
    void this.release();
  }

  async close(): Promise<void> {
    this.cutOff();
    this.#endErp();
    await new Promise((resolve) => this.#server?.close(resolve));
  }

  /** Counts one more request or connection; the caller calls what it returns when it has ended. */
  begin(): () => void {
    this.#atOnce += 1;
    this.atOnceMax = Math.max(this.atOnceMax, this.#atOnce);
    let isOver = false;
    return () => {
      if (!isOver) this.#atOnce -= 1;
      isOver = true;
    };
  }

  async decide(line: string): Promise<FaultAction> {
    this.count += 1;
    const n = this.count;
    this.#wake();
    return this.#rule({ n, line });
  }

  /** Resolves with `release`. */
  hold(): Promise<void> {
    return new Promise((resolve) => this.#held.push(resolve));
  }

  /** Wraps each request at the ERP, for `untilIdle`. */
  async working<T>(work: Promise<T>): Promise<T> {
    this.#underWay += 1;
    try {
      return await work;
    } finally {
      this.#underWay -= 1;
      this.#wake();
    }
  }

  async #until(condition: () => boolean): Promise<void> {
    if (!condition()) await new Promise<void>((resolve) => this.#waiting.push({ condition, wake: resolve }));
  }

  #wake(): void {
    for (const { condition, wake } of this.#waiting) if (condition()) wake();
    this.#waiting = this.#waiting.filter(({ condition }) => !condition());
  }
}
