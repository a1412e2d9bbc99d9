import { once } from 'node:events';
import { createServer as createHttpServer, type IncomingMessage, request } from 'node:http';
import { createServer as createHttpsServer } from 'node:https';
import { type AddressInfo, connect, createServer, type Server, type Socket } from 'node:net';
import { text } from 'node:stream/consumers';
import { getCACertificates, setDefaultCACertificates } from 'node:tls';
import { afterEach, describe, expect, test } from 'vitest';
import type { FaultProxy } from '#connector/testing/fault-proxy.ts';
import { startHttpFaultProxy } from '#connector/testing/http-fault-proxy.ts';
import { startTcpFaultProxy } from '#connector/testing/tcp-fault-proxy.ts';
import { systemClock } from '#platform/clock.ts';
import { ensureLocalCertificates } from '#platform/local-ca.ts';
import { silentLogger } from '#platform/log.ts';
import { scratchFolder } from '../../harness/scratch-folder.ts';

const closers: (() => unknown)[] = [];
afterEach(async () => {
  for (const close of closers.splice(0).reverse()) await close();
});

async function listen(server: Server): Promise<string> {
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  closers.push(() => new Promise((resolve) => server.close(resolve)));
  return `127.0.0.1:${(server.address() as AddressInfo).port}`;
}

async function opened(starting: Promise<FaultProxy>): Promise<FaultProxy> {
  const proxy = await starting;
  closers.push(() => proxy.close());
  return proxy;
}

describe('an HTTP fault proxy', () => {
  /** An ERP that answers with the request's body and records the request. */
  async function startEcho() {
    const done: string[] = [];
    const server = createHttpServer((request, response) => {
      void text(request).then((body) => {
        done.push(`${request.method} ${request.url} ${body}`);
        response.writeHead(201, { 'x-erp': 'echo' }).end(body);
      });
    });
    const proxy = await opened(startHttpFaultProxy(`http://${await listen(server)}`));
    closers.push(() => server.closeAllConnections());
    const post = async (body: string, signal?: AbortSignal) => {
      const { promise, resolve, reject } = Promise.withResolvers<IncomingMessage>();
      const options = { method: 'POST', agent: false, ...(signal ? { signal } : {}) };
      request(`${proxy.address}/a?b=c`, options, resolve).on('error', reject).end(body);
      const answer = await promise.catch(() => undefined);
      return answer ? [answer.statusCode, answer.headers['x-erp'], await text(answer)].join(' ') : 'no answer';
    };
    return { proxy, done, post };
  }

  test('forwards requests and answers unchanged, and counts them', async () => {
    const { proxy, done, post } = await startEcho();
    expect(await post('żółć')).toBe('201 echo żółć');
    expect(done).toEqual(['POST /a?b=c żółć']);
    expect([proxy.count, proxy.atOnceMax, proxy.lines]).toEqual([1, 1, ['POST /a?b=c']]);
  });

  test.each([
    ['kill-before', [], false],
    ['kill-after', ['POST /a?b=c 1'], false],
    ['drop-before', ['POST /a?b=c 2'], true],
    ['drop-after', ['POST /a?b=c 1', 'POST /a?b=c 2'], true],
  ] as const)(
    'with the fault %s lets the ERP do %j, and accepts further requests: %s',
    async (action, expected, isOpen) => {
      const { proxy, done, post } = await startEcho();
      proxy.inject(({ n }) => (n === 1 ? action : 'pass'));
      expect([await post('1'), await post('2')]).toEqual(['no answer', isOpen ? '201 echo 2' : 'no answer']);
      await proxy.untilIdle();
      expect(done).toEqual(expected);
    },
  );

  test('answers by itself, and forwards the request to the ERP only with `forward`', async () => {
    const { proxy, done, post } = await startEcho();
    proxy.inject(({ n }) => ({ status: 502, body: 'no', forward: n === 2 }));
    expect([await post('1'), await post('2')]).toEqual(['502  no', '502  no']);
    expect(done).toEqual(['POST /a?b=c 2']);
  });

  test('speaks TLS with an ERP whose address is https, and sends the ERP’s own host name', async () => {
    const { certPem, keyPem, caPem } = await ensureLocalCertificates({
      directory: await scratchFolder(),
      hostnames: ['localhost'],
      clock: systemClock,
      log: silentLogger,
    });
    const trusted = getCACertificates();
    setDefaultCACertificates([...trusted, caPem]);
    closers.push(() => setDefaultCACertificates(trusted));
    const server = createHttpsServer({ cert: certPem, key: keyPem }, ({ headers }, response) =>
      response.end(headers.host),
    );
    const [, port] = (await listen(server)).split(':');
    const proxy = await opened(startHttpFaultProxy(`https://localhost:${port}`));
    expect(proxy.address).toMatch(/^http:/);
    expect(await (await fetch(proxy.address)).text()).toBe(`localhost:${port}`);
  });

  test('holds a request until it is released, and drops it when its client has closed the connection', async () => {
    const { proxy, done, post } = await startEcho();
    proxy.inject(() => 'hold');
    const stop = new AbortController();
    const aborted = post('1', stop.signal);
    const waiting = post('2');
    await proxy.untilRequest(2);
    stop.abort();
    expect(await aborted).toBe('no answer');
    await expect.poll(() => proxy.connections).toBe(1);
    await proxy.release();
    expect(await waiting).toBe('201 echo 2');
    expect(done).toEqual(['POST /a?b=c 2']);
  });
});

describe('a TCP fault proxy', () => {
  const workMs = 20;

  /** A server that answers each chunk with `ok` and records it. */
  async function startServer() {
    const done: string[] = [];
    const ends: string[] = [];
    const server = createServer({ allowHalfOpen: true }, (socket) => {
      let answers = 0;
      // It answers after a delay, like a server that has to commit something.
      socket.on('data', (chunk) => {
        done.push(chunk.toString());
        setTimeout(() => {
          answers += 1;
          socket.write('ok');
        }, workMs);
      });
      socket.on('end', () => {
        const seen = `left after ${answers} answers`;
        setTimeout(() => {
          ends.push(seen);
          socket.end();
        }, workMs);
      });
      socket.on('error', () => undefined);
    });
    const proxy = await opened(startTcpFaultProxy(await listen(server)));
    return { proxy, done, ends };
  }

  async function client(proxy: FaultProxy): Promise<Socket> {
    const { hostname, port } = new URL(`tcp://${proxy.address}`);
    const socket = connect(Number(port), hostname);
    closers.push(() => socket.destroy());
    socket.on('error', () => undefined);
    await once(socket, 'connect');
    return socket;
  }

  /** The chunk that comes back, or `closed`. */
  async function send(socket: Socket, chunk: string): Promise<string> {
    const { promise, resolve } = Promise.withResolvers<string>();
    socket.once('data', (answer) => resolve(answer.toString())).once('close', () => resolve('closed'));
    socket.write(chunk);
    return promise;
  }

  test('forwards chunks in both directions, and counts them and the connections', async () => {
    const { proxy, done } = await startServer();
    const [first, second] = [await client(proxy), await client(proxy)];
    expect([await send(first, '1'), await send(second, '2'), await send(first, '3')]).toEqual(['ok', 'ok', 'ok']);
    expect(done).toEqual(['1', '2', '3']);
    expect([proxy.count, proxy.atOnceMax, proxy.connections]).toEqual([3, 2, 2]);
  });

  test.each([
    ['kill-before', ['1'], 1, false],
    ['kill-after', ['1', '2'], 2, false],
    ['drop-before', ['1', '3'], 1, true],
    ['drop-after', ['1', '2', '3'], 2, true],
  ] as const)(
    'with the fault %s lets the server see %j and answer %s, and accepts further connections: %s',
    async (action, expected, answers, isOpen) => {
      const { proxy, done, ends } = await startServer();
      const socket = await client(proxy);
      proxy.inject(({ n }) => (n === 2 ? action : 'pass'));
      expect(await send(socket, '1')).toBe('ok');
      expect(await send(socket, '2')).toBe('closed');
      await proxy.untilIdle();
      expect(ends).toEqual([`left after ${answers} answers`]);
      expect(await send(await client(proxy), '3')).toBe(isOpen ? 'ok' : 'closed');
      expect(done).toEqual(expected);
    },
  );

  test('holds a chunk until it is released', async () => {
    const { proxy, done } = await startServer();
    const socket = await client(proxy);
    proxy.inject(() => 'hold');
    const answer = send(socket, '1');
    await proxy.untilRequest(1);
    expect(done).toEqual([]);
    await proxy.release();
    expect(await answer).toBe('ok');
  });
});
