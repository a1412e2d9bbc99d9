/** A port before a server that can keep what a client has sent, also when the client has gone: as a network may. */
import { type AddressInfo, connect, createServer, type Socket } from 'node:net';
import { closeAfterFile } from '../../harness/programs.ts';

export interface HeldProxy {
  readonly port: number;
  /** Keeps everything from the first chunk on for which `at` is true; it is numbered from 1, over all connections. */
  hold(at: (chunk: Buffer, number: number) => boolean): Promise<void>;
  /** Sends on what was kept, or loses it; then ends the connection. */
  release(kept: 'send' | 'lose'): void;
}

export async function startHeldProxy(target: number): Promise<HeldProxy> {
  const sockets = new Set<Socket>();
  let isHeldAt: (chunk: Buffer, number: number) => boolean = () => false;
  let count = 0;
  let onHeld: () => void = () => undefined;
  let held: { far: Socket; chunks: Buffer[] } | undefined;
  const server = createServer((near) => {
    const far = connect(target, '127.0.0.1');
    for (const socket of [near, far]) {
      sockets.add(socket);
      socket.setNoDelay(true);
      socket.on('error', () => undefined);
      socket.on('close', () => sockets.delete(socket));
    }
    far.on('data', (chunk) => near.destroyed || near.write(chunk));
    far.on('close', () => near.destroy());
    near.on('close', () => held?.far === far || far.end());
    near.on('data', (chunk) => {
      count += 1;
      if (held?.far === far) held.chunks.push(chunk);
      else if (held === undefined && isHeldAt(chunk, count)) {
        held = { far, chunks: [chunk] };
        onHeld();
      } else far.write(chunk);
    });
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  closeAfterFile(async () => {
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
      if (kept === 'lose') held?.far.destroy();
      else {
        for (const chunk of held?.chunks ?? []) held?.far.write(chunk);
        held?.far.end();
      }
      held = undefined;
    },
  };
}
