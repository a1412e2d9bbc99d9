/**
 * An proxy stands between a connector and its ERP and is told what to do with what passes. Each session of the kit has one
 * of its own: cut, it stays dead like a killed process, from which nothing more comes.
 */

import type { AddressInfo, Server, Socket } from 'node:net';

/** A request over HTTP; over TCP, what the client sent in one piece. */
export interface ProxiedRequest {
  /** Counted from the last `steer`, beginning with 1. */
  readonly n: number;
  /** `POST /orders`; empty over TCP. */
  readonly line: string;
}

export type FaultAction =
  | 'pass'
  /** Dies before the ERP sees it, or once the ERP has answered; nobody sees that answer, and nothing passes any more. */
  | 'die-before'
  | 'die-after'
  /** The same for this connection only. */
  | 'lose-before'
  | 'lose-after'
  /** Kept until `letGo`; then it passes, if whoever sent it is still there. */
  | 'hold'
  /** HTTP only: answered here; with `forward`, after the ERP has done what it was asked. */
  | { status: number; headers?: Record<string, string>; body?: string; forward?: boolean };

/** What to do with a request. */
export type Steer = (request: ProxiedRequest) => FaultAction | Promise<FaultAction>;

export interface FaultProxy {
  /** What stands in the settings instead of the ERP's address. */
  readonly address: string;
  /** From now on; left out, everything passes. Counts begin anew. */
  steer(steer?: Steer): void;
  /** Requests since the last `steer`. */
  readonly count: number;
  /** Most requests, or connections over TCP, that were under way at once since the last `steer`. */
  readonly atOnceMost: number;
  /** Connections of the connector that are open. */
  readonly connections: number;
  /** `POST /orders?x=1` of all requests. */
  readonly lines: readonly string[];
  /** Resolves when the n-th request since the last `steer` has come. */
  arrived(n: number): Promise<void>;
  /** Resolves when the ERP has answered everything that reached it. */
  quiet(): Promise<void>;
  /** Resolves once what was held is on its way. */
  letGo(): Promise<void>;
  /** Nothing passes any more, as if the ERP were away. */
  die(): void;
  close(): Promise<void>;
}

export type ProxyState = ReturnType<typeof createProxyState>;

/** What both proxies have in common: counting, waiting, holding. */
export function createProxyState() {
  let steering: Steer = () => 'pass';
  let count = 0;
  let atOnce = 0;
  let atOnceMost = 0;
  let underWay = 0;
  let held: (() => void)[] = [];
  let waiting: { until: () => boolean; wake: () => void }[] = [];
  /** The connector's connections that are open. */
  const sockets = new Set<Socket>();
  let isDead = false;

  function wake(): void {
    for (const one of waiting.filter(({ until }) => until())) one.wake();
    waiting = waiting.filter(({ until }) => !until());
  }

  async function when(until: () => boolean): Promise<void> {
    if (!until()) await new Promise<void>((resolve) => waiting.push({ until, wake: resolve }));
  }

  async function letGo(): Promise<void> {
    for (const resolve of held) resolve();
    held = [];
    await new Promise((resolve) => setImmediate(resolve));
  }

  return {
    sockets,
    get isDead() {
      return isDead;
    },
    die: (): void => {
      isDead = true;
      for (const socket of sockets) socket.destroy();
      void letGo();
    },
    get count() {
      return count;
    },
    get atOnceMost() {
      return atOnceMost;
    },
    steer: (steer: Steer = () => 'pass'): void => {
      steering = steer;
      count = 0;
      atOnceMost = atOnce;
    },
    /** One more; `end` is called when it is over. */
    begin(): { end: () => void } {
      atOnce += 1;
      atOnceMost = Math.max(atOnceMost, atOnce);
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
      return steering({ n, line });
    },
    hold: () => new Promise<void>((resolve) => held.push(resolve)),
    letGo,
    arrived: (n: number) => when(() => count >= n),
    quiet: () => when(() => underWay === 0),
    /** While the ERP works on something. */
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

/** Listens on a free port until it is closed, which ends what is under way with the ERP as well. */
export async function listenAsProxy(
  state: ProxyState,
  server: Server,
  { prefix = '', lines = [], endErp }: { prefix?: string; lines?: readonly string[]; endErp: () => void },
): Promise<FaultProxy> {
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  const { steer, arrived, quiet, letGo, die, sockets } = state;
  return {
    address: `${prefix}127.0.0.1:${(server.address() as AddressInfo).port}`,
    steer,
    get count() {
      return state.count;
    },
    get atOnceMost() {
      return state.atOnceMost;
    },
    get connections() {
      return sockets.size;
    },
    lines,
    arrived,
    quiet,
    letGo,
    die,
    close: async () => {
      die();
      endErp();
      await new Promise((resolve) => server.close(resolve));
    },
  };
}
