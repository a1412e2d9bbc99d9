/**
 * An attacker without a key, in a process of its own: it opens many connections to a port within ten seconds, keeps
 * them, and opens a new one ten seconds after one was ended: with a thousand, up to a hundred a second. `silent`
 * connections never begin their TLS handshake; `forged` ones send all of a body but its last byte, under a signature of
 * the right form.
 */
import { connect, type Socket } from 'node:net';
import { setPriority } from 'node:os';
import { setTimeout as sleep } from 'node:timers/promises';
import { connect as connectTls } from 'node:tls';

export interface FloodOrder {
  kind: 'silent' | 'forged';
  port: number;
  connections: number;
  /** The address of each connection: that many of 127.0.1.1, 127.0.1.2 … in turn. */
  addresses: number;
  /** What a forged connection sends: the head, then this many bytes of a body. */
  head: string;
  bodyBytes: number;
}

/** Sent when the first wave has been opened, and each second from then on. */
export interface FloodReport {
  opened: number;
  open: number;
}

const againMs = 10_000;
let opened = 0;
let open = 0;

async function keepOpen(order: FloodOrder, index: number): Promise<never> {
  const host = index % order.addresses;
  const localAddress = `127.0.${1 + Math.floor(host / 250)}.${1 + (host % 250)}`;
  await sleep((againMs * index) / order.connections);
  for (;;) {
    const tcp = connect({ port: order.port, host: '127.0.0.1', localAddress });
    opened += 1;
    open += 1;
    const socket = order.kind === 'silent' ? tcp : sendForged(tcp, order);
    await closed(tcp, socket);
    open -= 1;
    await sleep(againMs);
  }
}

function sendForged(tcp: Socket, { head, bodyBytes }: FloodOrder): Socket {
  const socket = connectTls({ socket: tcp, servername: 'localhost', rejectUnauthorized: false });
  socket.once('secureConnect', () => {
    socket.write(head);
    socket.write(Buffer.alloc(bodyBytes, 'x'));
  });
  return socket;
}

async function closed(...sockets: Socket[]): Promise<void> {
  const { promise, resolve } = Promise.withResolvers<void>();
  for (const socket of sockets)
    socket
      .on('error', () => undefined)
      .on('close', resolve)
      .resume();
  await promise;
  for (const socket of sockets) socket.destroy();
}

// An attacker is another machine: its own work takes no time from the programs here.
setPriority(10);

process.on('message', (order: FloodOrder) => {
  for (let index = 0; index < order.connections; index += 1) void keepOpen(order, index);
  setInterval(() => process.send?.({ opened, open } satisfies FloodReport), 1_000);
});
