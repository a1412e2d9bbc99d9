/**
 * A TCP proxy in front of a server, so that a test can take the network away: cut (connections break and new ones are
 * refused), drop (connections break, and new ones are accepted and closed, as a load balancer without a server does) or
 * mute (connections stay open, and no bytes pass).
 */
import { type AddressInfo, connect, createServer, type Server, type Socket } from 'node:net';

export interface CutOffProxy {
  port: number;
  /** Connections that are open now. */
  connections(): number;
  /** Connections that were accepted and closed at once. */
  dropped(): number;
  cut(): Promise<void>;
  drop(): void;
  mute(): void;
  restore(): Promise<void>;
  close(): Promise<void>;
}

export async function startCutOffProxy(target: { host: string; port: number }): Promise<CutOffProxy> {
  const pairs = new Set<{ client: Socket; upstream: Socket }>();
  let muted = false;
  let dropping = false;
  let dropped = 0;
  let server: Server | undefined;
  let port = 0;

  function accept(client: Socket): void {
    if (dropping) {
      dropped += 1;
      client.destroy();
      return;
    }
    const upstream = connect(target);
    const pair = { client, upstream };
    pairs.add(pair);
    const end = () => {
      pairs.delete(pair);
      client.destroy();
      upstream.destroy();
    };
    for (const socket of [client, upstream]) socket.on('error', end).on('close', end);
    client.on('data', (bytes) => muted || upstream.write(bytes));
    upstream.on('data', (bytes) => muted || client.write(bytes));
  }

  async function listen(): Promise<void> {
    const next = createServer(accept);
    await new Promise<void>((resolve) => next.listen(port, '127.0.0.1', resolve));
    port = (next.address() as AddressInfo).port;
    server = next;
  }

  function breakAll(): void {
    for (const { client, upstream } of pairs) {
      client.resetAndDestroy();
      upstream.destroy();
    }
  }

  async function cut(): Promise<void> {
    const closing = server;
    server = undefined;
    const closed = closing && new Promise((resolve) => closing.close(resolve));
    breakAll();
    await closed;
  }

  await listen();
  return {
    get port() {
      return port;
    },
    connections: () => pairs.size,
    dropped: () => dropped,
    cut,
    drop: () => {
      dropping = true;
      breakAll();
    },
    mute: () => {
      muted = true;
    },
    restore: async () => {
      // The bytes that did not pass are lost, so muted connections cannot be used again.
      if (muted) breakAll();
      muted = false;
      dropping = false;
      if (!server) await listen();
    },
    close: cut,
  };
}
