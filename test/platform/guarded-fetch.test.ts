import { spawn } from 'node:child_process';
import { getEventListeners, once } from 'node:events';
import { mkdtemp, rm } from 'node:fs/promises';
import { createServer as createHttpServer, type RequestListener } from 'node:http';
import { createServer as createHttpsServer } from 'node:https';
import { type AddressInfo, connect, createServer as createTcpServer, type Server, type Socket } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { text } from 'node:stream/consumers';
import { createServer as createTlsServer } from 'node:tls';
import { inspect } from 'node:util';
import { gzipSync } from 'node:zlib';
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it, vi } from 'vitest';
import { systemClock } from '#platform/clock.ts';
import type { GuardedRequest } from '#platform/guarded-fetch/guarded-request.ts';
import { createGuardedFetch, FetchError, type GuardedFetchOptions } from '#platform/guarded-fetch.ts';
import { ensureLocalCertificates, type LocalCertificates } from '#platform/local-ca.ts';
import { silentLogger } from '#platform/log.ts';
import { anyNetwork, parseCidrs } from '#platform/network-guard.ts';
import { failureOf } from '../harness/failure.ts';

const loopback = parseCidrs(['127.0.0.0/8', '::1/128']);
const loopback4 = parseCidrs(['127.0.0.0/8']);

let directory: string;
let certificates: LocalCertificates;
let otherCa: LocalCertificates;
beforeAll(async () => {
  directory = await mkdtemp(join(tmpdir(), 'guarded-fetch-'));
  const make = (name: string) =>
    ensureLocalCertificates({
      directory: join(directory, name),
      hostnames: ['localhost', '127.0.0.1', '::1', 'hooks.test', '*.rebind.test'],
      clock: systemClock,
      log: silentLogger,
    });
  certificates = await make('ours');
  otherCa = await make('other');
});
afterAll(() => rm(directory, { recursive: true }));

/** Cleanups that run after each test, newest first. */
let cleanups: (() => unknown)[] = [];
const unhandled: unknown[] = [];
const onUnhandled = (reason: unknown) => unhandled.push(reason);
beforeEach(() => {
  process.on('unhandledRejection', onUnhandled);
});
afterEach(async () => {
  for (const cleanup of cleanups.reverse()) await cleanup();
  cleanups = [];
  await new Promise(setImmediate);
  process.off('unhandledRejection', onUnhandled);
  if (unhandled.length > 0) throw new Error(`unhandled rejections: ${unhandled.splice(0).join()}`);
});

interface Listening {
  url: string;
  port: number;
  /** All connections ever made, and those still open. */
  connections: { total: number; open: Set<Socket> };
}

async function listen(server: Server, scheme: string): Promise<Listening> {
  const connections = { total: 0, open: new Set<Socket>() };
  server.on('connection', (socket: Socket) => {
    connections.total += 1;
    connections.open.add(socket);
    socket.on('error', () => {}).on('close', () => connections.open.delete(socket));
  });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  const { port } = server.address() as AddressInfo;
  cleanups.push(() => {
    for (const socket of connections.open) socket.destroy();
    server.close();
    return once(server, 'close');
  });
  return { url: `${scheme}://localhost:${port}`, port, connections };
}

const httpsServer = (handler: RequestListener, using: LocalCertificates = certificates) =>
  listen(
    createHttpsServer({ key: using.keyPem, cert: using.certPem }, handler).on('tlsClientError', () => {}),
    'https',
  );

function client(options: GuardedFetchOptions = {}) {
  const guarded = createGuardedFetch({
    extraCa: certificates.caPem,
    lookup: async () => [{ address: '127.0.0.1', family: 4 }],
    ...options,
  });
  cleanups.push(() => guarded.close());
  const send = (url: string, request: Partial<GuardedRequest> = {}) =>
    guarded.fetch({
      url,
      method: 'GET',
      allowedNetworks: loopback,
      timeoutMs: 10_000,
      responseBytesMax: 65_536,
      ...request,
    });
  return { send, close: () => guarded.close() };
}

const failure = (run: Promise<unknown>) => failureOf(FetchError, run);

describe('an exchange', () => {
  it('sends method, path, query, headers and the exact bytes of the body, and resolves to the answer', async () => {
    const bytes = Buffer.from([0, 255, 128, 10, 13]);
    const server = await httpsServer((request, response) => {
      const chunks: Buffer[] = [];
      request.on('data', (chunk: Buffer) => chunks.push(chunk));
      request.on('end', () => {
        response.writeHead(418, { 'X-Twice': ['a', 'b'] });
        response.end(
          JSON.stringify({
            method: request.method,
            url: request.url,
            host: request.headers.host,
            signature: request.headers['x-signature'],
            body: Buffer.concat(chunks).toString('hex'),
          }),
        );
      });
    });
    const answer = await client().send(`${server.url}/a%20b?q=1#fragment`, {
      method: 'POST',
      headers: { 'X-Signature': 'hmac-sha256=00' },
      body: bytes,
    });
    expect(answer).toMatchObject({ status: 418, truncated: false, headers: { 'x-twice': 'a, b' } });
    expect(JSON.parse(answer.body.toString())).toEqual({
      method: 'POST',
      url: '/a%20b?q=1',
      host: `localhost:${server.port}`,
      signature: 'hmac-sha256=00',
      body: bytes.toString('hex'),
    });
  });

  it('returns a redirect and does not follow it', async () => {
    const paths: (string | undefined)[] = [];
    const server = await httpsServer((request, response) => {
      paths.push(request.url);
      response.writeHead(307, { location: '/elsewhere' }).end();
    });
    const answer = await client().send(`${server.url}/first`);
    expect(answer).toMatchObject({ status: 307, headers: { location: '/elsewhere' } });
    expect(paths).toEqual(['/first']);
  });

  it('uses at most connectionsPerOrigin connections for any number of requests, and keeps them', async () => {
    const server = await httpsServer((_, response) => response.end('ok'));
    const { send } = client({ connectionsPerOrigin: 3 });
    const many = async (count: number) => {
      const answers = await Promise.all(Array.from({ length: count }, () => send(server.url, { method: 'POST' })));
      expect(answers.every((answer) => answer.status === 200)).toBe(true);
    };
    await many(200);
    await many(100);
    expect(server.connections.total).toBe(3);
  });

  it('closes unused connections by itself', async () => {
    const server = await httpsServer((_, response) => response.end('ok'));
    await client({ keepAliveMs: 50 }).send(server.url);
    await vi.waitFor(() => expect(server.connections.open.size).toBe(0), { timeout: 8_000 });
  });

  it('refuses http unless it is asked for', async () => {
    const server = await listen(
      createHttpServer((_, response) => response.end('plain')),
      'http',
    );
    const { send } = client();
    expect(await failure(send(server.url))).toMatchObject({ code: 'invalid', reason: 'protocol' });
    expect(server.connections.total).toBe(0);
    const answer = await send(server.url, { protocols: ['https:', 'http:'] });
    expect(answer.body.toString()).toBe('plain');
  });
});

describe('the size limit', () => {
  const sized = (size: number) => httpsServer((_, response) => response.end(Buffer.alloc(size, 97)));

  it('returns a body of exactly the limit completely and keeps the connection', async () => {
    const server = await sized(1_000);
    const { send } = client({ connectionsPerOrigin: 1 });
    for (let round = 0; round < 2; round++) {
      const answer = await send(server.url, { responseBytesMax: 1_000 });
      expect(answer).toMatchObject({ truncated: false, status: 200 });
      expect(answer.body.length).toBe(1_000);
    }
    expect(server.connections.total).toBe(1);
  });

  it('truncates a body that is one byte longer', async () => {
    const server = await sized(1_001);
    const answer = await client().send(server.url, { responseBytesMax: 1_000 });
    expect(answer.truncated).toBe(true);
    expect(answer.body.equals(Buffer.alloc(1_000, 97))).toBe(true);
  });

  it('ends an endless body', async () => {
    const server = await httpsServer((_, response) => {
      const write = () => {
        while (!response.destroyed && response.write(Buffer.alloc(16_384)));
      };
      response.on('drain', write);
      write();
    });
    const answer = await client().send(server.url, { responseBytesMax: 65_536 });
    expect(answer.body.length).toBe(65_536);
    await expect.poll(() => server.connections.open.size).toBe(0);
  });

  it('counts compressed bytes and leaves them compressed', async () => {
    const bomb = gzipSync(Buffer.alloc(5_000_000));
    const server = await httpsServer((_, response) => {
      response.writeHead(200, { 'content-encoding': 'gzip' }).end(bomb);
    });
    const answer = await client().send(server.url);
    expect(answer.body.equals(bomb)).toBe(true);
  });

  it.each([['with'], ['without']])('fails with `onTooLarge: fail`, %s a declared length', async (declared) => {
    const server = await httpsServer((_, response) => {
      // The declared length alone is enough: the server sends no byte of the body.
      if (declared === 'with') response.setHeader('content-length', 1_001).flushHeaders();
      else response.write(Buffer.alloc(1_001));
    });
    const error = await failure(client().send(server.url, { responseBytesMax: 1_000, onTooLarge: 'fail' }));
    expect(error).toMatchObject({ code: 'too-large', reason: 'too-large', recovery: { do: 'skip' } });
    await expect.poll(() => server.connections.open.size).toBe(0);
  });
});

describe('the time limit', () => {
  const never = () => new Promise<never>(() => {});

  it.each<[string, () => Promise<Listening>, GuardedFetchOptions]>([
    ['a name lookup', () => httpsServer((_, response) => response.end()), { lookup: never }],
    [
      'a TLS handshake',
      () =>
        listen(
          createTcpServer((socket) => socket.resume()),
          'https',
        ),
      { connectTimeoutMs: 300 },
    ],
    ['an answer', () => httpsServer(() => {}), {}],
    ['a body', () => httpsServer((_, response) => response.write('begin')), {}],
  ])('ends %s that never comes, and leaves no connection', async (_, start, options) => {
    const server = await start();
    const startedAt = performance.now();
    const error = await failure(client(options).send(server.url, { timeoutMs: 200 }));
    expect(error).toMatchObject({ code: 'unavailable', reason: 'timeout', recovery: { do: 'retry' } });
    expect(performance.now() - startedAt).toBeLessThan(2_000);
    await expect.poll(() => server.connections.open.size).toBe(0);
  });

  it('ends a body that comes byte by byte', async () => {
    const server = await httpsServer((_, response) => {
      const timer = setInterval(() => response.write('.'), 20);
      response.on('close', () => clearInterval(timer));
    });
    expect((await failure(client().send(server.url, { timeoutMs: 300 }))).reason).toBe('timeout');
    await expect.poll(() => server.connections.open.size).toBe(0);
  });

  it('runs while a request waits for a free connection, and such a request is never sent', async () => {
    const paths: (string | undefined)[] = [];
    const server = await httpsServer((request, response) => {
      paths.push(request.url);
      if (request.url === '/free') response.end();
    });
    const { send } = client({ connectionsPerOrigin: 1 });
    const [slow, waiting] = await Promise.all([
      failure(send(`${server.url}/slow`, { timeoutMs: 600 })),
      failure(send(`${server.url}/waiting`, { timeoutMs: 200 })),
    ]);
    expect([slow.reason, waiting.reason]).toEqual(['timeout', 'timeout']);
    expect((await send(`${server.url}/free`)).status).toBe(200);
    expect(paths).toEqual(['/slow', '/free']);
  });

  it('of a request that waits delays none of those behind it, which are sent in their order', async () => {
    const paths: (string | undefined)[] = [];
    const first = Promise.withResolvers<void>();
    const server = await httpsServer((request, response) => {
      paths.push(request.url);
      void (request.url === '/1' ? first.promise : Promise.resolve()).then(() => response.end());
    });
    const { send } = client({ connectionsPerOrigin: 1 });
    const controller = new AbortController();
    const answered = [1, 4, 5].map((at) => send(`${server.url}/${at}`, { timeoutMs: 8_000 }));
    const timedOut = failure(send(`${server.url}/2`, { timeoutMs: 100 }));
    const stopped = failure(send(`${server.url}/3`, { signal: controller.signal }));
    const last = send(`${server.url}/6`);
    expect((await timedOut).reason).toBe('timeout');
    controller.abort();
    expect((await stopped).reason).toBe('aborted');
    first.resolve();
    for (const answer of await Promise.all([...answered, last])) expect(answer.status).toBe(200);
    expect(paths).toEqual(['/1', '/4', '/5', '/6']);
  });

  it("ends at the caller's signal, before and during the exchange", async () => {
    const server = await httpsServer(() => {});
    const { send } = client();
    expect((await failure(send(server.url, { signal: AbortSignal.abort() }))).reason).toBe('aborted');
    const controller = new AbortController();
    const pending = failure(send(server.url, { signal: controller.signal }));
    await expect.poll(() => server.connections.open.size).toBe(1);
    controller.abort();
    expect((await pending).reason).toBe('aborted');
    await expect.poll(() => server.connections.open.size).toBe(0);
  });

  it('leaves no listener on a signal', async () => {
    const server = await httpsServer((_, response) => response.end('ok'));
    const { send } = client();
    const { signal } = new AbortController();
    const both = Promise.all([send(server.url, { signal }), send(server.url, { signal })]);
    await both;
    expect(getEventListeners(signal, 'abort')).toEqual([]);
  });
});

describe('the guard', () => {
  it.each(['localhost', '127.0.0.1', '[::1]', '0x7f.1', '2130706433', '[::ffff:127.0.0.1]', '0.0.0.0'])(
    'refuses https://%s before anything is sent',
    async (host) => {
      const server = await httpsServer((_, response) => response.end());
      const { send } = client();
      const error = await failure(send(`https://${host}:${server.port}/secret-path?token=1`, { allowedNetworks: [] }));
      expect(error).toMatchObject({ code: 'forbidden', reason: 'blocked' });
      expect(error.publicMessage).toContain(new URL(`https://${host}`).hostname.replace(/[[\]]/g, ''));
      expect(server.connections.total).toBe(0);
    },
  );

  it('shows the address behind a name only to the log', async () => {
    const error = await failure(client().send('https://hooks.test/', { allowedNetworks: [] }));
    expect(error.publicMessage).not.toContain('127.0.0.1');
    expect(error.message).toContain('127.0.0.1 is loopback');
  });

  it('permits an address to a caller that may reach its network', async () => {
    const server = await httpsServer((_, response) => response.end('ok'));
    const { send } = client();
    const permitted = { allowedNetworks: loopback4 };
    expect((await send(`https://127.0.0.1:${server.port}/`, permitted)).status).toBe(200);
    // The certificate does not name the mapped form: a `tls` failure shows that the guard has permitted the address.
    expect((await failure(send(`https://[::ffff:127.0.0.1]:${server.port}/`, permitted))).reason).toBe('tls');
  });

  it('refuses a name when any of its addresses is not permitted, at whatever position', async () => {
    const server = await httpsServer((_, response) => response.end());
    for (const addresses of [
      ['127.0.0.1', '10.0.0.1'],
      ['10.0.0.1', '127.0.0.1'],
      ['127.0.0.1', 'fd00::1'],
    ]) {
      const lookup = async () => addresses.map((address) => ({ address, family: address.includes(':') ? 6 : 4 }));
      expect((await failure(client({ lookup }).send(server.url, { allowedNetworks: loopback4 }))).reason).toBe(
        'blocked',
      );
    }
    expect(server.connections.total).toBe(0);
  });

  it('resolves once for each connection, so that a name that changes its address gains nothing', async () => {
    const server = await httpsServer((_, response) => response.end('checked'));
    const answers = ['127.0.0.1', '10.0.0.1', '10.0.0.1'];
    const lookup = vi.fn<NonNullable<GuardedFetchOptions['lookup']>>(async () => [
      { address: answers.shift() ?? '10.0.0.1', family: 4 },
    ]);
    const { send } = client({ lookup });
    const url = `https://a.rebind.test:${server.port}/`;
    const permitted = { allowedNetworks: loopback4 };
    expect((await send(url, { ...permitted, headers: { connection: 'close' } })).body.toString()).toBe('checked');
    expect(lookup).toHaveBeenCalledTimes(1);
    await expect.poll(() => server.connections.open.size).toBe(0);
    // The next connection resolves the name again, and is refused.
    expect((await failure(send(url, permitted))).reason).toBe('blocked');
    expect(lookup).toHaveBeenCalledTimes(2);
  });

  it('never uses a kept connection for a caller that may not reach its network', async () => {
    const server = await httpsServer((_, response) => response.end('inner'));
    const { send } = client({ connectionsPerOrigin: 1 });
    expect((await send(server.url, { allowedNetworks: loopback })).status).toBe(200);
    expect(server.connections.open.size).toBe(1);
    for (const allowedNetworks of [[], parseCidrs(['10.0.0.0/8'])])
      expect((await failure(send(server.url, { allowedNetworks }))).reason).toBe('blocked');
    // The same networks in another order and spelling: the connection is used again.
    expect((await send(server.url, { allowedNetworks: parseCidrs(['::1/128', '127.9.9.9/8']) })).status).toBe(200);
    expect(server.connections.total).toBe(1);
  });

  it('refuses credentials in the URL, a Host header and an invalid URL, without repeating them', async () => {
    const { send } = client();
    for (const [url, headers] of [
      ['https://user:hunter2@hooks.test/', {}],
      ['https://hunter2@hooks.test/', {}],
      ['https://hooks.test/hunter2', { hOst: 'other.test' }],
      ['https://hunter2 hooks.test/', {}],
      ['hunter2', {}],
      ['file:///hunter2', {}],
      ['https://hooks.test/', { 'x-bad': 'hunter2\r\nx: y' }],
    ] as const) {
      const error = await failure(send(url, { headers }));
      expect(error).toMatchObject({ code: 'invalid', reason: 'protocol' });
      expect(`${error.message}${error.publicMessage}`).not.toContain('hunter2');
    }
  });
});

describe('certificates', () => {
  it('are verified against the default roots and the extra authority, even when the environment says otherwise', async () => {
    const trusted = await httpsServer((_, response) => response.end('ok'));
    const untrusted = await httpsServer((_, response) => response.end('ok'), otherCa);
    vi.stubEnv('NODE_TLS_REJECT_UNAUTHORIZED', '0');
    cleanups.push(() => vi.unstubAllEnvs());
    const { send } = client();
    expect((await send(trusted.url)).status).toBe(200);
    expect(await failure(send(untrusted.url))).toMatchObject({ code: 'unavailable', reason: 'tls' });
    const withoutExtra = createGuardedFetch({ lookup: async () => [{ address: '127.0.0.1', family: 4 }] });
    cleanups.push(() => withoutExtra.close());
    const request = {
      url: trusted.url,
      method: 'GET',
      allowedNetworks: loopback,
      timeoutMs: 5_000,
      responseBytesMax: 9,
    };
    expect((await failure(withoutExtra.fetch(request))).reason).toBe('tls');
  });

  it('must be for the host of the URL, which is also the name in SNI, without a trailing dot', async () => {
    const names: (string | false)[] = [];
    const tls = createTlsServer({ key: certificates.keyPem, cert: certificates.certPem }, (socket) => {
      names.push((socket as { servername?: string }).servername ?? false);
      socket.on('error', () => {});
      socket.once('data', () => socket.end('HTTP/1.1 204 No Content\r\nconnection: close\r\n\r\n'));
    }).on('tlsClientError', () => {});
    const server = await listen(tls, 'https');
    const { send } = client();
    expect((await send(`https://hooks.test:${server.port}/`)).status).toBe(204);
    expect((await send(`https://hooks.test.:${server.port}/`)).status).toBe(204);
    expect(names).toEqual(['hooks.test', 'hooks.test']);
    expect((await failure(send(`https://else.test:${server.port}/`))).reason).toBe('tls');
  });

  it('of NODE_EXTRA_CA_CERTS are also trusted beside the extra authority', async () => {
    const server = await httpsServer((_, response) => response.end('ok'), otherCa);
    const module = (name: string) => JSON.stringify(new URL(`../../src/platform/${name}.ts`, import.meta.url).href);
    const script = `
      import { createGuardedFetch } from ${module('guarded-fetch')};
      import { parseCidrs } from ${module('network-guard')};
      const { fetch, close } = createGuardedFetch({ extraCa: process.env.EXTRA });
      const answer = await fetch({ url: process.argv[1], method: 'GET', allowedNetworks: parseCidrs(['127.0.0.0/8']),
        timeoutMs: 10000, responseBytesMax: 100 });
      process.stdout.write(String(answer.status));
      await close();`;
    const child = spawn(process.execPath, ['--input-type=module', '-e', script, `https://127.0.0.1:${server.port}/`], {
      env: { ...process.env, NODE_EXTRA_CA_CERTS: otherCa.caFile, EXTRA: certificates.caPem },
    });
    const [output, errors] = await Promise.all([text(child.stdout), text(child.stderr)]);
    expect(`${output}${errors}`).toBe('200');
  });
});

describe('failures', () => {
  const tcp = (onConnection: (socket: Socket) => void) =>
    listen(
      createTcpServer((socket) => onConnection(socket.resume())),
      'https',
    );
  const tlsAnswer = (answer: string) =>
    listen(
      createTlsServer({ key: certificates.keyPem, cert: certificates.certPem }, (socket) => {
        socket.on('error', () => {});
        socket.once('data', () => socket.end(answer));
      }),
      'https',
    );

  it.each<[string, string, () => Promise<Listening>]>([
    ['reset', 'that hangs up before TLS', () => tcp((socket) => socket.destroy())],
    ['tls', 'that does not speak TLS', () => tcp((socket) => socket.end('SSH-2.0-OpenSSH_9.9\r\n'))],
    ['reset', 'that hangs up without an answer', () => httpsServer((request) => request.socket.destroy())],
    [
      'reset',
      'that hangs up within the body',
      () =>
        httpsServer((_, response) => {
          response.writeHead(200, { 'content-length': 100 }).write('begin', () => response.destroy());
        }),
    ],
    ['protocol', 'that does not speak HTTP', () => tlsAnswer('hello hunter2\r\n\r\n')],
    [
      'protocol',
      'whose headers never end',
      () => tlsAnswer(`HTTP/1.1 200 OK\r\n${'x-hunter2: 1234567890\r\n'.repeat(5_000)}\r\n`),
    ],
  ])('say %s for a server %s, with its host and nothing secret', async (reason, _, start) => {
    const server = await start();
    const error = await failure(
      client().send(`${server.url}/hunter2?token=hunter2`, {
        method: 'POST',
        headers: { authorization: 'Bearer hunter2' },
        body: 'hunter2',
      }),
    );
    expect(error).toMatchObject({ code: 'unavailable', reason });
    expect(error.publicMessage).toContain('localhost');
    // Everything that the error holds, as a thorough logger would show it.
    expect(inspect(error, { depth: 10, showHidden: true })).not.toContain('hunter2');
    await expect.poll(() => server.connections.open.size).toBe(0);
  });

  it('say refused for a closed port, also when all of several addresses refuse', async () => {
    const server = createTcpServer().listen(0, '127.0.0.1');
    await once(server, 'listening');
    const { port } = server.address() as AddressInfo;
    server.close();
    await once(server, 'close');
    expect((await failure(client().send(`https://localhost:${port}/`))).reason).toBe('refused');
    const lookup = async () => ['127.0.0.1', '127.0.0.2'].map((address) => ({ address, family: 4 }));
    expect((await failure(client({ lookup }).send(`https://localhost:${port}/`))).reason).toBe('refused');
  });

  it('say dns for a name that does not resolve', async () => {
    const notFound = Object.assign(new Error('getaddrinfo ENOTFOUND'), { code: 'ENOTFOUND' });
    for (const lookup of [() => Promise.reject(notFound), async () => []])
      expect(await failure(client({ lookup }).send('https://hooks.test/'))).toMatchObject({
        code: 'unavailable',
        reason: 'dns',
      });
  });

  it('tries the next checked address when the first does not answer', async () => {
    const server = await httpsServer((_, response) => response.end('ok'));
    const lookup = async () => ['127.0.0.2', '127.0.0.1'].map((address) => ({ address, family: 4 }));
    expect((await client({ lookup }).send(server.url)).status).toBe(200);
  });

  it('of one request do not affect the next ones', async () => {
    let count = 0;
    const server = await httpsServer((request, response) => {
      count += 1;
      if (count % 2 === 1) request.socket.destroy();
      else response.end('ok');
    });
    const { send } = client({ connectionsPerOrigin: 1 });
    for (let round = 0; round < 5; round++) {
      expect((await failure(send(server.url))).reason).toBe('reset');
      expect((await send(server.url)).status).toBe(200);
    }
  });
});

describe('groups', () => {
  it('share no connections: one whose answers do not come delays no other at the same host', async () => {
    const server = await httpsServer((request, response) => {
      if (request.url === '/quick') response.end('ok');
    });
    const { send, close } = client({ connectionsPerOrigin: 2 });
    const slow = Array.from({ length: 5 }, () => failure(send(`${server.url}/slow`, { group: 'a' })));
    await vi.waitFor(() => expect(server.connections.open.size).toBe(2));
    expect((await send(`${server.url}/quick`, { group: 'b' })).status).toBe(200);
    expect((await send(`${server.url}/quick`)).status).toBe(200);
    // Two of the slow group, and one of each other caller.
    expect(server.connections.total).toBe(4);
    await close();
    for (const error of await Promise.all(slow)) expect(error.reason).toBe('aborted');
  });

  it('have one name lookup under way each, so that names which nobody answers for delay no other group', async () => {
    const server = await httpsServer((_, response) => response.end('ok'));
    const asked: string[] = [];
    const { send, close } = client({
      lookup: async (hostname) => {
        asked.push(hostname);
        if (hostname !== 'localhost') await new Promise(() => undefined);
        return [{ address: '127.0.0.1', family: 4 }];
      },
    });
    const unknown = Array.from({ length: 5 }, (_, at) => failure(send(`https://name-${at}.test/`, { group: 'a' })));
    expect((await send(server.url, { group: 'b' })).status).toBe(200);
    expect((await send(server.url)).status).toBe(200);
    expect(asked).toEqual(['name-0.test', 'localhost', 'localhost']);
    await close();
    for (const error of await Promise.all(unknown)) expect(error.reason).toBe('aborted');
  });
});

describe('behind a proxy', () => {
  /** A proxy that makes tunnels to this machine, whatever the host is; or none, with another status than 200. */
  async function startProxy(status = 200) {
    const asked: string[] = [];
    const proxy = createHttpServer((request, response) => {
      asked.push(request.url ?? '');
      response.end('by the proxy');
    });
    proxy.on('connect', (request, socket: Socket) => {
      asked.push(request.url ?? '');
      const upstream = connect(Number(request.url?.split(':').at(-1)), '127.0.0.1');
      for (const end of [socket, upstream]) end.on('error', () => {});
      socket.write(`HTTP/1.1 ${status} Tunnel\r\n\r\n`);
      socket.pipe(upstream).pipe(socket);
    });
    const { port } = await listen(proxy, 'http');
    vi.stubEnv('HTTPS_PROXY', `http://127.0.0.1:${port}`);
    vi.stubEnv('HTTP_PROXY', `http://127.0.0.1:${port}`);
    cleanups.push(() => vi.unstubAllEnvs());
    return asked;
  }

  const start = () => httpsServer((_, response) => response.end('ok'));

  it('a request goes through it, and the certificate is still that of the host', async () => {
    const asked = await startProxy();
    const [ours, other] = [await start(), await httpsServer((_, response) => response.end('ok'), otherCa)];
    const { send } = client();
    expect((await send(`https://hooks.test:${ours.port}/`)).body.toString()).toBe('ok');
    expect((await failure(send(`https://hooks.test:${other.port}/`))).reason).toBe('tls');
    expect((await send('http://hooks.test/a', { protocols: ['http:'] })).body.toString()).toBe('by the proxy');
    expect(asked).toEqual([`hooks.test:${ours.port}`, `hooks.test:${other.port}`, 'http://hooks.test/a']);
  });

  it('a host that may not be reached is refused before the proxy is asked', async () => {
    const asked = await startProxy();
    const { send } = client({ lookup: async () => [{ address: '10.0.0.1', family: 4 }] });
    for (const host of ['hooks.test', '10.0.0.1', '[fd00::1]'])
      expect(await failure(send(`https://${host}/`))).toMatchObject({ reason: 'blocked', sent: false });
    expect(asked).toEqual([]);
  });

  it('the time limit covers the check, too', async () => {
    const asked = await startProxy();
    const { send } = client({ lookup: () => new Promise(() => {}) });
    expect((await failure(send('https://hooks.test/', { timeoutMs: 100 }))).reason).toBe('timeout');
    expect(asked).toEqual([]);
  });

  it('a name that only the proxy can resolve is reached where every address is allowed', async () => {
    const asked = await startProxy();
    const server = await start();
    const { send } = client({ lookup: () => Promise.reject(new Error('getaddrinfo ENOTFOUND')) });
    const url = `https://hooks.test:${server.port}/`;
    expect((await send(url, { allowedNetworks: anyNetwork })).status).toBe(200);
    expect((await failure(send(url))).reason).toBe('dns');
    expect(asked).toEqual([`hooks.test:${server.port}`]);
  });

  it('the hosts of NO_PROXY and this machine are reached without it', async () => {
    const asked = await startProxy();
    const server = await start();
    vi.stubEnv('NO_PROXY', '.test');
    const { send } = client();
    for (const host of ['hooks.test', 'localhost', '127.0.0.1'])
      expect((await send(`https://${host}:${server.port}/`)).status).toBe(200);
    expect(asked).toEqual([]);
  });

  it('that is no URL stops the start, without showing its login', () => {
    vi.stubEnv('HTTPS_PROXY', 'user:hunter2@proxy');
    cleanups.push(() => vi.unstubAllEnvs());
    expect(() => client()).toThrow(/^HTTPS_PROXY must be a URL like http:\/\/proxy.internal:3128\.$/);
  });

  it('that makes no tunnel, nothing was sent', async () => {
    await startProxy(403);
    const error = await failure(client().send('https://hooks.test/', { body: 'x', method: 'POST' }));
    expect(error).toMatchObject({ reason: 'refused', sent: false, message: expect.stringContaining('403') });
  });
});

describe('close', () => {
  it('ends exchanges in every state, and all connections', async () => {
    const silent = await httpsServer(() => {});
    const quick = await httpsServer((_, response) => response.end('ok'));
    const deaf = await listen(
      createTcpServer((socket) => socket.resume()),
      'https',
    );
    const { send, close } = client({ connectionsPerOrigin: 1, connectTimeoutMs: 300 });
    await send(quick.url);
    const pending = [silent, silent, deaf].map((server) => failure(send(server.url)));
    await vi.waitFor(() => {
      for (const server of [silent, quick, deaf]) expect(server.connections.open.size).toBe(1);
    });
    await close();
    for (const error of await Promise.all(pending)) expect(error.reason).toBe('aborted');
    await vi.waitFor(() => {
      for (const server of [silent, quick, deaf]) expect(server.connections.open.size).toBe(0);
    }, 3_000);
    expect((await failure(send(quick.url))).reason).toBe('aborted');
    await close();
  });
});
