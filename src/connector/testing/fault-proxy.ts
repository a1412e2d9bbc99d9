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

export interface FaultProxy {
  /** The address for the connector's settings, instead of the ERP's. */
  readonly address: string;
  /** Applies a rule to each request from now on, and restarts the counts. */
  inject(rule: FaultRule): void;
  /** Lets everything pass from now on, and restarts the counts. */
  reset(): void;
  /** The number of requests since the last `inject` or `reset`. */
  readonly count: number;
  /** The largest number of requests (over TCP: connections) at once since the last `inject` or `reset`. */
  readonly atOnceMax: number;
  /** The number of open connections of the connector. */
  readonly connections: number;
  /** All requests as `POST /orders?x=1`; empty over TCP. */
  readonly lines: readonly string[];
  /** Resolves when the n-th request since the last `inject` or `reset` has arrived. */
  untilRequest(n: number): Promise<void>;
  /** Resolves when the ERP has answered every request that reached it. */
  untilIdle(): Promise<void>;
  /** Forwards the held requests; resolves once they are on their way. */
  release(): Promise<void>;
  /** Closes all connections and accepts no more, as if the ERP were unreachable. */
  cutOff(): void;
  close(): Promise<void>;
}

export type ProxyState = ReturnType<typeof createProxyState>;

/** The state that both kinds of proxy share: counting, waiting, holding. */
export function createProxyState() {
  let rule: FaultRule = passAll;
  let count = 0;
  let atOnce = 0;
  let atOnceMax = 0;
  let underWay = 0;
  let held: (() => void)[] = [];
  let waiting: { condition: () => boolean; wake: () => void }[] = [];
  /** The connector's connections that are open. */
  const sockets = new Set<Socket>();
  let isCutOff = false;

  function wake(): void {
    for (const { wake } of waiting.filter(({ condition }) => condition())) wake();
    waiting = waiting.filter(({ condition }) => !condition());
  }

  async function until(condition: () => boolean): Promise<void> {
    if (!condition()) await new Promise<void>((resolve) => waiting.push({ condition, wake: resolve }));
  }

  function apply(next: FaultRule): void {
    rule = next;
    count = 0;
    atOnceMax = atOnce;
  }

  async function release(): Promise<void> {
    for (const resolve of held) resolve();
    held = [];
    await new Promise((resolve) => setImmediate(resolve));
  }

  return {
    sockets,
    get isCutOff() {
      return isCutOff;
    },
    cutOff: (): void => {
      isCutOff = true;
      for (const socket of sockets) socket.destroy();
      void release();
    },
    get count() {
      return count;
    },
    get atOnceMax() {
      return atOnceMax;
    },
    inject: apply,
    reset: (): void => apply(passAll),
    /** Counts one more request or connection; the caller calls `end` when it has ended. */
    begin(): { end: () => void } {
      atOnce += 1;
      atOnceMax = Math.max(atOnceMax, atOnce);
      let isOver = false;
      return {
        end: () => {
          if (!isOver) atOnce -= 1;
          isOver = true;
        },
      };
    },
    async decide(line: string): Promise<FaultAction> {
      count += 1;
      const n = count;
      wake();
      return rule({ n, line });
    },
    hold: () => new Promise<void>((resolve) => held.push(resolve)),
    release,
    untilRequest: (n: number) => until(() => count >= n),
    untilIdle: () => until(() => underWay === 0),
    /** Wraps each request at the ERP, for `untilIdle`. */
    async working<T>(work: Promise<T>): Promise<T> {
      underWay += 1;
      try {
        return await work;
      } finally {
        underWay -= 1;
        wake();
      }
    },
  };
}

const passAll: FaultRule = () => 'pass';

/** Listens on a free port until it is closed; closing also ends the requests that run at the ERP, by `endErp`. */
export async function listenAsProxy(
  state: ProxyState,
  server: Server,
  { prefix = '', lines = [], endErp }: { prefix?: string; lines?: readonly string[]; endErp: () => void },
): Promise<FaultProxy> {
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  const { inject, reset, untilRequest, untilIdle, release, cutOff, sockets } = state;
  return {
    address: `${prefix}127.0.0.1:${(server.address() as AddressInfo).port}`,
    inject,
    reset,
    get count() {
      return state.count;
    },
    get atOnceMax() {
      return state.atOnceMax;
    },
    get connections() {
      return sockets.size;
    },
    lines,
    untilRequest,
    untilIdle,
    release,
    cutOff,
    close: async () => {
      cutOff();
      endErp();
      await new Promise((resolve) => server.close(resolve));
    },
  };
}
