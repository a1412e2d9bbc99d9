/** A TCP proxy that passes connections on to other ports, in turn, until they are cut. */
import { connect, createServer, type Socket } from 'node:net';
import { closeAtEnd } from '../harness/close-at-end.ts';

export interface TcpProxy {
  readonly port: number;
  /** The ports to which new connections go, in turn. */
  targets: readonly number[];
  /** Resets every connection, in both directions. New ones are accepted as before. */
  cut(): void;
  /** Swallows what is sent over the connections of this moment, in both directions, and leaves them open. */
  hang(): void;
  /** How many bytes were swallowed. */
  readonly swallowed: number;
}

/** Listens on a free port; a connection to a target that does not listen is reset. Closed after the test file. */
export async function startTcpProxy(targets: readonly number[]): Promise<TcpProxy> {
  const sockets = new Set<Socket>();
  const pipes = new Map<Socket, Socket>();
  let taken = 0;
  let swallowed = 0;
  const track = (socket: Socket) => {
    sockets.add(socket);
    socket.on('close', () => sockets.delete(socket));
  };
  const server = createServer((near) => {
    const far = connect(proxy.targets[taken++ % proxy.targets.length] ?? 0, '127.0.0.1');
    for (const [from, to] of [
      [near, far],
      [far, near],
    ] as const) {
      track(from);
      from.setNoDelay(true);
      from.on('error', () => to.destroy());
      from.on('close', () => {
        pipes.delete(from);
        to.destroy();
      });
      from.pipe(to);
      pipes.set(from, to);
    }
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  const address = server.address();
  const proxy: TcpProxy & { targets: readonly number[] } = {
    port: typeof address === 'object' && address ? address.port : 0,
    targets,
    cut: () => {
      for (const socket of sockets) socket.resetAndDestroy();
    },
    hang: () => {
      for (const [from, to] of pipes) {
        from.unpipe(to);
        pipes.delete(from);
        from.on('data', (data) => {
          swallowed += data.length;
        });
        from.resume();
      }
    },
    get swallowed() {
      return swallowed;
    },
  };
  closeAtEnd(async () => {
    for (const socket of sockets) socket.destroy();
    await new Promise((resolve) => server.close(resolve));
  });
  return proxy;
}
