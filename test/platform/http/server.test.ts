import { once } from 'node:events';
import { createServer } from 'node:http';
import { type AddressInfo, connect } from 'node:net';
import { connect as connectTls } from 'node:tls';
import { describe, expect, onTestFinished, test } from 'vitest';
import { AppError } from '#platform/errors.ts';
import { listen } from '#platform/http/server.ts';
import { connectRaw } from '../../harness/raw-connection.ts';
import { testCertificates } from '../../harness/test-certificates.ts';
import { startTestApplication } from './test-application.ts';

/** An application with `/slow`, which answers when the test releases it. */
async function startSlow(listenOptions = {}) {
  const entered = Promise.withResolvers<void>();
  const release = Promise.withResolvers<void>();
  const application = await startTestApplication({
    listen: listenOptions,
    more: (app) =>
      void app.get('/slow', async (_request, response) => {
        entered.resolve();
        await release.promise;
        response.json({ finished: true });
      }),
  });
  return { ...application, entered: entered.promise, release: () => release.resolve() };
}

const get = (path: string) => `GET ${path} HTTP/1.1\r\nHost: test\r\n\r\n`;

/** Long enough that a test which waits for it fails. */
const longGraceMs = 60_000;

describe('a graceful close', () => {
  test('lets a running request finish, and tells its client not to use the connection again', async () => {
    const { url, server, application, entered, release } = await startSlow();
    const answer = fetch(`${url}/slow`);
    await entered;
    application.beginShutdown();
    const closed = server.close(longGraceMs);
    release();
    const { status, headers } = await answer;
    expect([status, headers.get('connection'), await (await answer).json()]).toEqual([
      200,
      'close',
      { finished: true },
    ]);
    await closed;
  });

  test('answers a new request on a connection in use with 503 and Retry-After, and closes it', async () => {
    const { server, application, entered, release } = await startSlow();
    const connection = await connectRaw(server.port);
    connection.send(get('/slow'));
    await entered;
    application.beginShutdown();
    // Sent before the server closes, so that the second request waits in the connection already.
    connection.send(get('/notes'));
    release();
    const received = await connection.until('shutting down');
    expect(received).toMatch(/HTTP\/1\.1 503 Service Unavailable\r\n/);
    expect(received).toMatch(/\r\nRetry-After: [1-9]/i);
    await server.close(longGraceMs);
    await connection.closed();
  });

  test('refuses new connections', async () => {
    const { url, server, entered, release } = await startSlow();
    const answer = fetch(`${url}/slow`);
    await entered;
    const closed = server.close(longGraceMs);
    await expect(connectRaw(server.port)).rejects.toMatchObject({ code: 'ECONNREFUSED' });
    release();
    await answer;
    await closed;
  });

  test('closes idle keep-alive connections, and those that never sent a request', async () => {
    const { server } = await startTestApplication();
    const kept = await connectRaw(server.port);
    kept.send(get('/healthz'));
    await kept.until('{"status":"ok"}');
    const silent = await connectRaw(server.port);
    await server.close(longGraceMs);
    expect(await kept.closed()).toBeUndefined();
    await silent.closed();
  });

  test('closes the remaining connections after the grace time', async () => {
    const { url, server, entered } = await startSlow();
    const outcome = fetch(`${url}/slow`).then(
      () => 'answered',
      () => 'cut',
    );
    await entered;
    await server.close(20);
    expect(await outcome).toBe('cut');
  });

  test('under TLS closes idle connections and those in their handshake, and lets a request finish', async () => {
    const { certPem, keyPem, caPem } = testCertificates();
    const { server, entered, release } = await startSlow({ tls: { certPem, keyPem } });
    const connectSecurely = async () => {
      const socket = connectTls({ port: server.port, host: 'localhost', ca: caPem });
      onTestFinished(() => void socket.destroy());
      await once(socket, 'secureConnect');
      return socket;
    };
    const shaking = await connectRaw(server.port);
    const silent = await connectSecurely();
    const busy = await connectSecurely();
    let received = '';
    busy.on('data', (chunk) => {
      received += String(chunk);
    });
    silent.resume();
    busy.write(get('/slow'));
    await entered;
    const closed = server.close(longGraceMs);
    await Promise.all([shaking.closed(), once(silent, 'close')]);
    release();
    await once(busy, 'close');
    expect(received).toMatch(/^HTTP\/1\.1 200 [\s\S]*"finished":true/);
    await closed;
  });
});

describe('input that cannot be read as a request', () => {
  const problemIn = (received: string) => JSON.parse(received.slice(received.indexOf('\r\n\r\n') + 4));

  test.each([
    ['a line that is no HTTP', 'nonsense\r\n\r\n', 400],
    ['a header without a name', 'GET /notes HTTP/1.1\r\nHost: test\r\n: x\r\n\r\n', 400],
    ['no Host', 'GET /notes HTTP/1.1\r\n\r\n', 400],
    ['an unknown expectation', 'GET /notes HTTP/1.1\r\nHost: test\r\nExpect: wonders\r\n\r\n', 417],
    ['two lengths', 'POST /notes HTTP/1.1\r\nHost: test\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\nab', 400],
    [
      'a length beside chunks',
      'POST /notes HTTP/1.1\r\nHost: test\r\nContent-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n',
      400,
    ],
    ['a whole URL that is not valid', get('http://[::1/notes'), 400],
    ['a whole URL with a port that is none', get('http://test:99999/notes'), 400],
    ['headers that are too long', `GET /notes HTTP/1.1\r\nHost: test\r\nX-Long: ${'x'.repeat(40_000)}\r\n\r\n`, 431],
    ['a path that is too long', get(`/${'x'.repeat(40_000)}`), 431],
  ])('%s is a problem like any other, and the connection is closed', async (_what, sent, status) => {
    const { server, logged } = await startTestApplication();
    const connection = await connectRaw(server.port);
    connection.send(sent);
    await connection.closed();
    expect(connection.received()).toMatch(new RegExp(`^HTTP/1\\.1 ${status} `));
    expect(connection.received()).toContain('application/problem+json');
    expect(problemIn(connection.received())).toEqual({
      type: 'about:blank',
      title: expect.any(String),
      status,
      detail: expect.any(String),
    });
    expect(logged()).toEqual([]);
  });

  test('invalid chunks end the request that is being read', async () => {
    const { server, logged } = await startTestApplication();
    const connection = await connectRaw(server.port);
    connection.send(
      'POST /notes HTTP/1.1\r\nHost: test\r\nAuthorization: Bearer good\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n',
    );
    await connection.closed();
    expect(problemIn(connection.received())).toMatchObject({ status: 400 });
    expect(logged()).toEqual([]);
  });

  test('an answer that is being sent is not written into', async () => {
    const entered = Promise.withResolvers<void>();
    const { server } = await startTestApplication({
      more: (app) =>
        void app.get('/half', (_request, response) => {
          response.write('{"half":');
          entered.resolve();
        }),
    });
    const connection = await connectRaw(server.port);
    connection.send(get('/half'));
    await entered.promise;
    await connection.until('half');
    connection.send('nonsense\r\n\r\n');
    await connection.closed();
    expect(connection.received()).not.toContain('problem');
  });

  test('a whole URL in place of the path is parsed', async () => {
    const { server } = await startTestApplication();
    const connection = await connectRaw(server.port);
    connection.send(get('http://elsewhere.example/notes'));
    // The path is known, and needs a key.
    expect(await connection.until('WWW-Authenticate')).toMatch(/^HTTP\/1\.1 401 /);
  });
});

describe('listening', () => {
  test('returns a URL with the actual port', async () => {
    const server = await listen((_request, response) => void response.end('here'), { host: '127.0.0.1', port: 0 });
    onTestFinished(() => server.close(0));
    expect(server.url).toBe(`http://127.0.0.1:${server.port}`);
    expect(await (await fetch(server.url)).text()).toBe('here');
  });

  test.each([
    ['0.0.0.0', undefined, 'http://localhost'],
    ['127.0.0.1', 'bridge.example.com', 'http://bridge.example.com'],
    ['127.0.0.1', '::1', 'http://[::1]'],
  ])('at %s with the public host %s the URL is %s', async (host, publicHost, url) => {
    const server = await listen(() => undefined, { host, port: 0, ...(publicHost ? { publicHost } : {}) });
    onTestFinished(() => server.close(0));
    expect(server.url).toBe(`${url}:${server.port}`);
  });

  test('a taken port is an error that says so and what to do, and is not worth a retry', async () => {
    const other = createServer().listen(0, '127.0.0.1');
    await once(other, 'listening');
    onTestFinished(() => void other.close());
    const { port } = other.address() as AddressInfo;
    const failure: unknown = await listen(() => undefined, { host: '127.0.0.1', port }).catch(
      (error: unknown) => error,
    );
    expect(failure).toBeInstanceOf(AppError);
    expect(failure).toMatchObject({
      code: 'unavailable',
      recovery: { do: 'halt' },
      publicMessage: `Cannot listen on 127.0.0.1:${port}: the port is taken by another program; stop that program, or choose another port.`,
    });
  });
});

test('disconnects a client that requests much and does not read: its answer would stay in memory for ever', async () => {
  const cut = Promise.withResolvers<void>();
  const server = await listen(
    (_request, response) => {
      response.on('close', cut.resolve);
      response.end(Buffer.alloc(64 * 1024 * 1024));
    },
    { host: '127.0.0.1', port: 0, stalledMs: 100 },
  );
  onTestFinished(() => server.close(0));
  const client = connect(server.port, '127.0.0.1');
  onTestFinished(() => void client.destroy());
  client.on('error', () => undefined);
  client.write(get('/much'));
  await expect(cut.promise).resolves.toBeUndefined();
});
