/** The limits of connections, on a real server. Connections from 127.0.0.2 are those of another machine. */
import { once } from 'node:events';
import { connect, type Socket } from 'node:net';
import { describe, expect, onTestFinished, test } from 'vitest';
import { type ConnectionLimits, connectionLimitsDefault, protectConnection } from '#platform/http/connections.ts';
import { listen } from '#platform/http/server.ts';
import { Registry } from '#platform/metrics.ts';
import { eventually } from '../../harness/eventually.ts';
import { testCertificates } from '../../harness/test-certificates.ts';

/**
 * A server that protects the connections of requests to `/key…`; every request is answered with its path, and the answer to
 * `…slow` does not end.
 */
async function start(limits: Partial<ConnectionLimits>, tls = false) {
  const registry = new Registry();
  const server = await listen(
    (request, response) => {
      if (request.url?.startsWith('/key')) protectConnection(request);
      response.write(`at ${request.url}.`);
      if (!request.url?.endsWith('slow')) response.end();
    },
    {
      host: '127.0.0.1',
      port: 0,
      connections: { ...connectionLimitsDefault, ...limits },
      metrics: { registry, port: 'service' },
      ...(tls && { tls: testCertificates() }),
    },
  );
  onTestFinished(() => server.close(0));
  const opened = (localAddress = '127.0.0.1') => open(server.port, localAddress);
  /** How many connections the server has ended, by reason. */
  const counts = async () => {
    const metric = await registry.getSingleMetric('http_connections_ended_total')?.get();
    return Object.fromEntries(
      metric?.values.map(({ labels, value }) => [`${labels['port']} ${labels['reason']}`, value]) ?? [],
    );
  };
  return Object.assign(opened, { counts });
}

async function open(port: number, localAddress: string) {
  const socket: Socket = connect({ port, host: '127.0.0.1', localAddress });
  onTestFinished(() => void socket.destroy());
  let received = '';
  socket.on('data', (bytes) => {
    received += String(bytes);
  });
  socket.on('error', () => undefined);
  const closed = new Promise<void>((resolve) => void socket.on('close', () => resolve()));
  await once(socket, 'connect');
  return {
    socket,
    closed,
    received: () => received,
    /** Sends a request, and returns its answer, or what came before the connection was closed. */
    ask: async (path: string) => {
      const before = received.length;
      socket.write(`GET ${path} HTTP/1.1\r\nHost: test\r\n\r\n`);
      await eventually('an answer', async () => socket.closed || received.slice(before).includes(`at ${path}.`));
      return received.slice(before);
    },
  };
}

const answered = /^HTTP\/1\.1 200 /;

test('a connection whose TLS handshake does not end in time is destroyed, also half way through it', async () => {
  const opened = await start({ clientMs: 50 }, true);
  const [silent, halting] = [await opened(), await opened()];
  // The head of a ClientHello that never comes.
  halting.socket.write(Buffer.from([0x16, 0x03, 0x01, 0x02, 0x00, 0x01]));
  await Promise.all([silent.closed, halting.closed]);
  expect([silent.received(), halting.received()]).toEqual(['', '']);
  expect(await opened.counts()).toEqual({ 'service handshake': 2 });
});

test('bytes that are no TLS end a connection', async () => {
  const opened = await start({}, true);
  const plain = await opened();
  plain.socket.write('GET / HTTP/1.1\r\n\r\n');
  await plain.closed;
  expect(plain.received()).not.toContain('HTTP');
});

describe('beyond the limit of all connections', () => {
  test('a new one takes the place of the oldest, whether that has sent a request or not', async () => {
    const opened = await start({ inAll: 3 });
    const [first, second, third] = [await opened(), await opened(), await opened()];
    expect(await first.ask('/a')).toMatch(answered);
    const fourth = await opened();
    expect(await fourth.ask('/b')).toMatch(answered);
    await first.closed;
    expect(await second.ask('/c')).toMatch(answered);
    expect(await third.ask('/d')).toMatch(answered);
  });

  test('those whose key was right stay', async () => {
    const opened = await start({ inAll: 3 });
    const caller = await opened();
    expect(await caller.ask('/key')).toMatch(answered);
    for (let flood = 0; flood < 20; flood += 1) await opened();
    expect(await caller.ask('/still')).toMatch(answered);
    // Two of the twenty have found a free place.
    expect(await opened.counts()).toEqual({ 'service displaced': 18 });
  });

  test('if all are protected, the oldest that answers nothing makes room', async () => {
    const opened = await start({ inAll: 2 });
    const [waiting, idle] = [await opened(), await opened()];
    expect(await idle.ask('/key')).toMatch(answered);
    // Protected, and its answer does not end.
    waiting.socket.write('GET /key-of-slow HTTP/1.1\r\nHost: test\r\n\r\n');
    await eventually('its answer has begun', async () => waiting.received() !== '');
    expect(await (await opened()).ask('/healthz')).toMatch(answered);
    await idle.closed;
    expect(waiting.socket.closed).toBe(false);
    expect(await opened.counts()).toEqual({ 'service displaced': 1 });
  });

  test('if all are protected and answer, the new one is refused', async () => {
    const opened = await start({ inAll: 1 });
    const waiting = await opened();
    waiting.socket.write('GET /key-of-slow HTTP/1.1\r\nHost: test\r\n\r\n');
    await eventually('its answer has begun', async () => waiting.received() !== '');
    await (await opened()).closed;
    expect(waiting.socket.closed).toBe(false);
    expect(await opened.counts()).toEqual({ 'service refused': 1 });
  });
});

describe('beyond the limit of an address', () => {
  test('it displaces its own connections and no other', async () => {
    const opened = await start({ perAddress: 2 });
    const [other, own] = [await opened('127.0.0.1'), await opened('127.0.0.2')];
    await opened('127.0.0.2');
    await opened('127.0.0.2');
    await own.closed;
    expect(await other.ask('/a')).toMatch(answered);
  });

  test('a trusted proxy has no limit', async () => {
    const opened = await start({ perAddress: 1, isTrustedProxy: (address) => address.endsWith('127.0.0.2') });
    const proxied = [await opened('127.0.0.2'), await opened('127.0.0.2'), await opened('127.0.0.2')];
    for (const connection of proxied) expect(await connection.ask('/a')).toMatch(answered);
  });

  test('a connection that was closed counts no more', async () => {
    const opened = await start({ perAddress: 1 });
    const first = await opened();
    expect(await first.ask('/key')).toMatch(answered);
    first.socket.destroy();
    // Its place is free as soon as the server knows of the end: before that the new one gets a place in the reserve.
    await eventually('a place is free', async () => answered.test(await (await opened()).ask('/b')));
  });
});

test('a client that sends more requests than it takes answers is ended; some at once are answered', async () => {
  const opened = await start({});
  const client = await opened();
  const send = (path: string, times: number) =>
    client.socket.write(`GET ${path} HTTP/1.1\r\nHost: test\r\n\r\n`.repeat(times));
  send('/quick', 32);
  await eventually('all answers', async () => client.received().split('at /quick.').length === 33);
  send('/slow', 33);
  await client.closed;
  expect(await opened.counts()).toEqual({ 'service pipelined': 1 });
});
