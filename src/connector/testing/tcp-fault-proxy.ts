/** A fault proxy for an ERP that is reached over TCP, for example a database. */
import { connect, createServer, type Socket } from 'node:net';
import { FaultProxy } from './fault-proxy.ts';

/**
 * A chunk that the server does not answer, such as the first part of a message, counts as processed after this time.
 */
const answerMs = 150;
/** How long to wait for the server to close a connection that its client has left. */
const closeMs = 2_000;

/** Listens on a free port until it is closed. `erp` is the ERP's address, for example `127.0.0.1:5432`. */
export async function startTcpFaultProxy(erp: string): Promise<FaultProxy> {
  const { hostname, port } = new URL(`tcp://${erp}`);
  const proxy = new FaultProxy();
  const erpSockets = new Set<Socket>();

  const server = createServer((client) => {
    if (proxy.isCutOff) return void client.destroy();
    const end = proxy.begin();
    const erpSocket = connect(Number(port), hostname);
    const closed = new Promise<void>((resolve) => erpSocket.on('close', () => resolve()));
    proxy.sockets.add(client);
    erpSockets.add(erpSocket);
    for (const socket of [client, erpSocket]) socket.setNoDelay(true).on('error', () => undefined);
    client.on('close', () => {
      proxy.sockets.delete(client);
      end();
      // The server reads what has reached it and then closes. It does nothing for this connection after that.
      void proxy.working(closed);
      erpSocket.end();
      erpSocket.setTimeout(closeMs, () => erpSocket.destroy());
    });
    erpSocket.on('close', () => {
      erpSockets.delete(erpSocket);
      client.end();
    });
    erpSocket.on('data', (chunk) => {
      if (!isLost(client)) client.write(chunk);
    });
    client.on('data', (chunk) => {
      client.pause();
      void pass(client, erpSocket, chunk).finally(() => client.resume());
    });
  });

  const lost = new WeakSet<Socket>();
  const isLost = (client: Socket) => proxy.isCutOff || client.destroyed || lost.has(client);

  async function pass(client: Socket, erpSocket: Socket, chunk: Buffer): Promise<void> {
    const action = await proxy.decide('');
    if (action === 'hold') await proxy.hold();
    if (isLost(client)) return;
    if (action === 'kill-before') return proxy.cutOff();
    if (action === 'drop-before') return void client.destroy();
    if (action === 'kill-after' || action === 'drop-after') {
      lost.add(client);
      erpSocket.write(chunk);
      await answered(erpSocket);
      if (action === 'kill-after') proxy.cutOff();
      else client.destroy();
      return;
    }
    erpSocket.write(chunk);
  }

  const endErp = () => {
    for (const socket of erpSockets) socket.destroy();
  };
  return proxy.listen(server, '', endErp);
}

async function answered(socket: Socket): Promise<void> {
  const { promise, resolve } = Promise.withResolvers<void>();
  const timer = setTimeout(resolve, answerMs);
  socket.once('data', resolve).once('close', resolve);
  await promise;
  clearTimeout(timer);
  socket.off('data', resolve).off('close', resolve);
}
