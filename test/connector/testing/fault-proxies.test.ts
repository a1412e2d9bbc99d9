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
import { scratchFolder } from '../../harness/programs.ts';

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

describe('an HTTP proxy', () => {
  /** Answers with what it was sent, and keeps that. */
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

  test('passes everything on as it is, and counts', async () => {
    const { proxy, done, post } = await startEcho();
    expect(await post('żółć')).toBe('201 echo żółć');
    expect(done).toEqual(['POST /a?b=c żółć']);
    expect([proxy.count, proxy.atOnceMost, proxy.lines]).toEqual([1, 1, ['POST /a?b=c']]);
  });

  test.each([
    ['die-before', [], false],
    ['die-after', ['POST /a?b=c 1'], false],
    ['lose-before', ['POST /a?b=c 2'], true],
    ['lose-after', ['POST /a?b=c 1', 'POST /a?b=c 2'], true],
  ] as const)('told to %s lets the ERP do %j, and lives on: %s', async (action, expected, livesOn) => {
    const { proxy, done, post } = await startEcho();
    proxy.steer(({ n }) => (n === 1 ? action : 'pass'));
    expect([await post('1'), await post('2')]).toEqual(['no answer', livesOn ? '201 echo 2' : 'no answer']);
    await proxy.quiet();
    expect(done).toEqual(expected);
  });

  test('answers itself, and only with `forward` the ERP has done it all the same', async () => {
    const { proxy, done, post } = await startEcho();
    proxy.steer(({ n }) => ({ status: 502, body: 'no', forward: n === 2 }));
    expect([await post('1'), await post('2')]).toEqual(['502  no', '502  no']);
    expect(done).toEqual(['POST /a?b=c 2']);
  });

  test('speaks TLS with an ERP whose address says so, and asks for it by its own name', async () => {
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

  test('holds a request until it is let go, and forgets it when whoever sent it has gone', async () => {
    const { proxy, done, post } = await startEcho();
    proxy.steer(() => 'hold');
    const stop = new AbortController();
    const gone = post('1', stop.signal);
    const patient = post('2');
    await proxy.arrived(2);
    stop.abort();
    expect(await gone).toBe('no answer');
    await expect.poll(() => proxy.connections).toBe(1);
    await proxy.letGo();
    expect(await patient).toBe('201 echo 2');
    expect(done).toEqual(['POST /a?b=c 2']);
  });
});

describe('a TCP proxy', () => {
  const workMs = 20;

  /** Answers each piece with `ok`, and keeps what came. */
  async function startServer() {
    const done: string[] = [];
    const ends: string[] = [];
    const server = createServer({ allowHalfOpen: true }, (socket) => {
      let answers = 0;
      // It takes its time, as a server that has to commit something.
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

  /** What comes back: a piece, or the end. */
  async function send(socket: Socket, piece: string): Promise<string> {
    const { promise, resolve } = Promise.withResolvers<string>();
    socket.once('data', (chunk) => resolve(chunk.toString())).once('close', () => resolve('closed'));
    socket.write(piece);
    return promise;
  }

  test('passes pieces on and back, and counts them and the connections', async () => {
    const { proxy, done } = await startServer();
    const [one, other] = [await client(proxy), await client(proxy)];
    expect([await send(one, '1'), await send(other, '2'), await send(one, '3')]).toEqual(['ok', 'ok', 'ok']);
    expect(done).toEqual(['1', '2', '3']);
    expect([proxy.count, proxy.atOnceMost, proxy.connections]).toEqual([3, 2, 2]);
  });

  test.each([
    ['die-before', ['1'], 1, false],
    ['die-after', ['1', '2'], 2, false],
    ['lose-before', ['1', '3'], 1, true],
    ['lose-after', ['1', '2', '3'], 2, true],
  ] as const)(
    'told to %s lets the server see %j and answer %s, and lives on: %s',
    async (action, expected, answers, livesOn) => {
      const { proxy, done, ends } = await startServer();
      const socket = await client(proxy);
      proxy.steer(({ n }) => (n === 2 ? action : 'pass'));
      expect(await send(socket, '1')).toBe('ok');
      expect(await send(socket, '2')).toBe('closed');
      await proxy.quiet();
      expect(ends).toEqual([`left after ${answers} answers`]);
      expect(await send(await client(proxy), '3')).toBe(livesOn ? 'ok' : 'closed');
      expect(done).toEqual(expected);
    },
  );

  test('holds a piece until it is let go', async () => {
    const { proxy, done } = await startServer();
    const socket = await client(proxy);
    proxy.steer(() => 'hold');
    const answer = send(socket, '1');
    await proxy.arrived(1);
    expect(done).toEqual([]);
    await proxy.letGo();
    expect(await answer).toBe('ok');
  });
});
