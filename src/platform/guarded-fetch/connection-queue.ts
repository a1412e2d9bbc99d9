/**
 * The connections to one origin, and the exchanges that wait for one. An exchange gets an unused connection, the one that
 * was used last first; else a new one; else its turn. This is done here and not by undici's Pool: that takes a connection
 * for unused only in the next round of the event loop, so that two rounds pass between an answer and the next request.
 */
import type { Client as UndiciClient } from 'undici';
import { Client } from './undici-parts.ts';

/** What needs a connection for a while. */
export interface Waiting {
  /** It has a connection now, until it calls `release`. */
  begin(client: UndiciClient): void;
}

export interface ConnectionQueue {
  /** Calls `begin` as soon as there is a connection: at once, or later. */
  enter(exchange: Waiting): void;
  /** An exchange that waits is not begun any more. */
  forget(exchange: Waiting): void;
  /** The connection is unused now. It need not be intact: undici makes it anew. */
  release(client: UndiciClient): void;
  /** Ends all connections. */
  destroy(): Promise<void>;
}

/** Opens no connection yet. There are at most `most`; each of them is closed by undici when it is unused for a while. */
export function createConnectionQueue(origin: string, most: number, options: UndiciClient.Options): ConnectionQueue {
  const all: UndiciClient[] = [];
  const unused: UndiciClient[] = [];
  const waiting = new Set<Waiting>();
  // Under TLS the first connection is made alone, so that the others can continue its session.
  let atMost = origin.startsWith('https:') ? 1 : most;

  function open(): UndiciClient | undefined {
    if (all.length >= atMost) return undefined;
    const client = new Client(origin, options);
    all.push(client);
    if (atMost < most) client.once('connect', openFurther);
    return client;
  }

  function openFurther(): void {
    atMost = most;
    for (const exchange of waiting) {
      const client = open();
      if (!client) return;
      waiting.delete(exchange);
      exchange.begin(client);
    }
  }

  function beginNext(client: UndiciClient): void {
    const [next] = waiting;
    if (!next) {
      unused.push(client);
      return;
    }
    waiting.delete(next);
    next.begin(client);
  }

  return {
    enter(exchange) {
      const client = unused.pop() ?? open();
      if (client) exchange.begin(client);
      else waiting.add(exchange);
    },
    forget(exchange) {
      waiting.delete(exchange);
    },
    release(client) {
      if (waiting.size === 0) unused.push(client);
      // Not at once: undici is just reporting the end of the request before.
      else queueMicrotask(() => beginNext(client));
    },
    async destroy() {
      await Promise.all(all.map((client) => client.destroy()));
    },
  };
}
