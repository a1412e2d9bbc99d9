/** A proxy that can hold what a client has sent even after the client has gone, as a network may. */
import { type AddressInfo, connect, createServer, type Socket } from 'node:net';
import { closeAtEnd } from '../../harness/close-at-end.ts';

export interface HeldProxy {
  readonly port: number;
  /** Holds everything from the first chunk for which `at` is true; chunks of all connections are counted from 1. */
  hold(at: (chunk: Buffer, number: number) => boolean): Promise<void>;
  /** Forwards the held chunks, or drops them; then ends the connection. */
  release(kept: 'send' | 'lose'): void;
}

/** Listens on a free port before the server on port `target`; closed after the test file. */
export async function startHeldProxy(target: number): Promise<HeldProxy> {
  const sockets = new Set<Socket>();
  let isHeldAt: (chunk: Buffer, number: number) => boolean = () => false;
  let count = 0;
  let onHeld: () => void = () => undefined;
  let held: { upstream: Socket; chunks: Buffer[] } | undefined;
  const server = createServer((client) => {
    const upstream = connect(target, '127.0.0.1');
    for (const socket of [client, upstream]) {
      sockets.add(socket);
      socket.setNoDelay(true);
      socket.on('error', () => undefined);
      socket.on('close', () => sockets.delete(socket));
    }
    upstream.on('data', (chunk) => client.destroyed || client.write(chunk));
    upstream.on('close', () => client.destroy());
    client.on('close', () => held?.upstream === upstream || upstream.end());
    client.on('data', (chunk) => {
      count += 1;
      if (held?.upstream === upstream) held.chunks.push(chunk);
      else if (held === undefined && isHeldAt(chunk, count)) {
        held = { upstream, chunks: [chunk] };
        onHeld();
      } else upstream.write(chunk);
    });
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  closeAtEnd(async () => {
    for (const socket of sockets) socket.destroy();
    await new Promise((resolve) => server.close(resolve));
  });
  return {
    port: (server.address() as AddressInfo).port,
    hold: (at) => {
      const { promise, resolve } = Promise.withResolvers<void>();
      count = 0;
      isHeldAt = at;
      onHeld = resolve;
      return promise;
    },
    release: (kept) => {
      isHeldAt = () => false;
      if (kept === 'lose') held?.upstream.destroy();
      else {
        for (const chunk of held?.chunks ?? []) held?.upstream.write(chunk);
        held?.upstream.end();
      }
      held = undefined;
    },
  };
}
