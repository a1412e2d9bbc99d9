/**
 * A PostgreSQL that shuts down just when a client connects: its error (57P01) comes in one packet with its greeting, so
 * that the driver reads both before its caller gets the connection. Other connections go to the real server.
 */
import { type AddressInfo, connect, createServer, type Socket } from 'node:net';

export interface ShutdownServer {
  readonly url: string;
  /** How many connections have been accepted so far. */
  connections(): number;
  close(): Promise<void>;
}

/** `isShutDown` decides for each connection, numbered from 1, whether it meets the shutdown. */
export async function startShutdownServer(
  databaseUrl: string,
  isShutDown: (connection: number) => boolean,
): Promise<ShutdownServer> {
  const url = new URL(databaseUrl);
  const target = { host: url.hostname, port: Number(url.port || 5432) };
  const sockets = new Set<Socket>();
  let accepted = 0;
  const server = createServer((near) => {
    accepted += 1;
    sockets.add(near);
    near.on('error', () => undefined);
    if (isShutDown(accepted)) {
      // The client first sends the startup packet; it needs no password.
      near.once('data', () => near.end(greetingAndError));
      return;
    }
    const far = connect(target);
    sockets.add(far);
    far.on('error', () => undefined);
    for (const [from, to] of [
      [near, far],
      [far, near],
    ] as const)
      from.on('close', () => to.destroy()).pipe(to);
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  url.host = `127.0.0.1:${(server.address() as AddressInfo).port}`;
  return {
    url: url.href,
    connections: () => accepted,
    close: async () => {
      for (const socket of sockets) socket.destroy();
      await new Promise((resolve) => server.close(resolve));
    },
  };
}

/** A message of the protocol: its type, the length of the rest including the length itself, and the content. */
function message(type: string, content: Buffer): Buffer {
  const head = Buffer.alloc(5);
  head.write(type);
  head.writeInt32BE(4 + content.length, 1);
  return Buffer.concat([head, content]);
}

const greetingAndError = Buffer.concat([
  // AuthenticationOk, ReadyForQuery and ErrorResponse of PostgreSQL's protocol 3.0.
  message('R', Buffer.from([0, 0, 0, 0])),
  message('Z', Buffer.from('I')),
  message('E', Buffer.from('SFATAL\0VFATAL\0C57P01\0Mterminating connection due to administrator command\0\0')),
]);
