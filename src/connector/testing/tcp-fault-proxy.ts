/** A proxy before an ERP that is reached over TCP, as a database. */
import { connect, createServer, type Socket } from 'node:net';
import { createProxyState, type FaultProxy, listenAsProxy } from './fault-proxy.ts';

/** What the server answers nothing to (as the first part of a longer message) is taken for done after this. */
const answerMs = 150;
/** A server that does not close a connection that its client has left is not waited for any longer. */
const closeMs = 2_000;

/** Listens on a free port until it is closed. `erp` is like `127.0.0.1:5432`. */
export async function startTcpFaultProxy(erp: string): Promise<FaultProxy> {
  const { hostname, port } = new URL(`tcp://${erp}`);
  const state = createProxyState();
  const far = new Set<Socket>();

  const server = createServer((client) => {
    if (state.isDead) return void client.destroy();
    const { end } = state.begin();
    const erpSocket = connect(Number(port), hostname);
    const isOver = new Promise<void>((resolve) => erpSocket.on('close', () => resolve()));
    state.sockets.add(client);
    far.add(erpSocket);
    for (const socket of [client, erpSocket]) socket.setNoDelay(true).on('error', () => undefined);
    client.on('close', () => {
      state.sockets.delete(client);
      end();
      // The server reads to the end what has reached it, and closes: what it has done by then is all that it does.
      void state.working(isOver);
      erpSocket.end();
      erpSocket.setTimeout(closeMs, () => erpSocket.destroy());
    });
    erpSocket.on('close', () => {
      far.delete(erpSocket);
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
  const isLost = (client: Socket) => state.isDead || client.destroyed || lost.has(client);

  async function pass(client: Socket, erpSocket: Socket, chunk: Buffer): Promise<void> {
    const action = await state.decide('');
    if (action === 'hold') await state.hold();
    if (isLost(client)) return;
    if (action === 'die-before') return state.die();
    if (action === 'lose-before') return void client.destroy();
    if (action === 'die-after' || action === 'lose-after') {
      lost.add(client);
      erpSocket.write(chunk);
      await answered(erpSocket);
      if (action === 'die-after') state.die();
      else client.destroy();
      return;
    }
    erpSocket.write(chunk);
  }

  const endErp = () => {
    for (const socket of far) socket.destroy();
  };
  return listenAsProxy(state, server, { endErp });
}

async function answered(socket: Socket): Promise<void> {
  const { promise, resolve } = Promise.withResolvers<void>();
  const timer = setTimeout(resolve, answerMs);
  socket.once('data', resolve).once('close', resolve);
  await promise;
  clearTimeout(timer);
  socket.off('data', resolve).off('close', resolve);
}
