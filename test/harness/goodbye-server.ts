/**
 * PostgreSQL as it is shut down just when somebody connects: its goodbye (57P01) comes in one packet with its welcome, so
 * that the driver reads both before its caller is told of the connection. Other connections lead to the real server.
 */
import { type AddressInfo, connect, createServer, type Socket } from 'node:net';

export interface GoodbyeServer {
  readonly url: string;
  /** How many have been taken so far. */
  connections(): number;
  close(): Promise<void>;
}

/** `isGoodbye` is asked with each connection's number, from 1 on. */
export async function startGoodbyeServer(
  databaseUrl: string,
  isGoodbye: (connection: number) => boolean,
): Promise<GoodbyeServer> {
  const url = new URL(databaseUrl);
  const target = { host: url.hostname, port: Number(url.port || 5432) };
  const sockets = new Set<Socket>();
  let taken = 0;
  const server = createServer((near) => {
    taken += 1;
    sockets.add(near);
    near.on('error', () => undefined);
    if (isGoodbye(taken)) {
      // What comes first is the startup packet; no password is asked for.
      near.once('data', () => near.end(welcomeAndGoodbye));
      return;
    }
    const far = connect(target);
    sockets.add(far);
    far.on('error', () => undefined);
    for (const [one, other] of [
      [near, far],
      [far, near],
    ] as const)
      one.on('close', () => other.destroy()).pipe(other);
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  url.host = `127.0.0.1:${(server.address() as AddressInfo).port}`;
  return {
    url: url.href,
    connections: () => taken,
    close: async () => {
      for (const socket of sockets) socket.destroy();
      await new Promise((resolve) => server.close(resolve));
    },
  };
}

/** Type, length of what follows with the length itself, and that. */
function message(type: string, content: Buffer): Buffer {
  const head = Buffer.alloc(5);
  head.write(type);
  head.writeInt32BE(4 + content.length, 1);
  return Buffer.concat([head, content]);
}

const welcomeAndGoodbye = Buffer.concat([
  // AuthenticationOk, ReadyForQuery and ErrorResponse of PostgreSQL's protocol 3.0.
  message('R', Buffer.from([0, 0, 0, 0])),
  message('Z', Buffer.from('I')),
  message('E', Buffer.from('SFATAL\0VFATAL\0C57P01\0Mterminating connection due to administrator command\0\0')),
]);
