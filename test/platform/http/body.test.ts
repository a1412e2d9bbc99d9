import { randomBytes } from 'node:crypto';
import { once } from 'node:events';
import { createServer, IncomingMessage } from 'node:http';
import { type AddressInfo, Socket } from 'node:net';
import * as fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { AppError } from '#platform/errors.ts';
import { parseJson, readBody } from '#platform/http/body.ts';
import { connectRaw } from '../../harness/raw-connection.ts';
import { bodyBytesMax, startTestApplication } from './test-application.ts';

function refusal(text: string | Uint8Array): AppError {
  try {
    parseJson(typeof text === 'string' ? Buffer.from(text) : text);
  } catch (error) {
    if (error instanceof AppError) return error;
    throw error;
  }
  throw new Error('It was taken.');
}

const head = (...headers: string[]) =>
  ['POST /notes HTTP/1.1', 'Host: test', 'Authorization: Bearer good', 'Content-Type: application/json', ...headers]
    .join('\r\n')
    .concat('\r\n\r\n');

/** A note of exactly this many bytes. */
const noteOf = (bytes: number) => JSON.stringify({ text: 'x'.repeat(bytes - '{"text":""}'.length) });

const problemOf = (received: string) => JSON.parse(received.slice(received.indexOf('\r\n\r\n') + 4));

describe('how much is read', () => {
  test('nothing of a request that was aborted, before or during its reading: the call rejects instead of waiting', async () => {
    const request = new IncomingMessage(new Socket());
    const reading = readBody(request, 10);
    request.push('half');
    request.destroy();
    await expect(reading).rejects.toMatchObject({
      code: 'invalid',
      publicMessage: 'The body broke off before its end.',
    });
    await expect(readBody(request, 10)).rejects.toMatchObject({ code: 'invalid' });
  });

  test('a body of exactly the limit is accepted, with an announced length and in chunks', async () => {
    const { url, server } = await startTestApplication();
    const headers = { authorization: 'Bearer good', 'content-type': 'application/json' };
    expect((await fetch(`${url}/notes`, { method: 'POST', headers, body: noteOf(bodyBytesMax) })).status).toBe(201);
    const connection = await connectRaw(server.port);
    connection.send(head('Transfer-Encoding: chunked'));
    const body = noteOf(bodyBytesMax);
    for (const part of [body.slice(0, 1), body.slice(1, 600), body.slice(600)])
      connection.send(`${part.length.toString(16)}\r\n${part}\r\n`);
    connection.send('0\r\n\r\n');
    expect(await connection.until('"params"')).toMatch(/^HTTP\/1\.1 201 /);
  });

  test('small bodies are read one after the other on a connection, and where two come together', async () => {
    const server = createServer((request, response) => {
      void readBody(request, 1_000).then((body) => response.end(`<${body.toString()}>`));
    });
    await once(server.listen(0, '127.0.0.1'), 'listening');
    const connection = await connectRaw((server.address() as AddressInfo).port);
    const post = (body: string) => `POST / HTTP/1.1\r\nHost: test\r\nContent-Length: ${body.length}\r\n\r\n${body}`;
    for (const body of ['one', 'two', 'three']) {
      connection.send(post(body));
      await connection.until(`<${body}>`);
    }
    connection.send(post('four') + post('five'));
    await connection.until('<four>');
    await connection.until('<five>');
    connection.send(post('six').slice(0, -1));
    connection.send('x');
    expect(await connection.until('<six>')).toContain('<six>');
    server.closeAllConnections();
    server.close();
  });

  test('one byte more is refused with 413', async () => {
    const { url } = await startTestApplication();
    const answer = await fetch(`${url}/notes`, {
      method: 'POST',
      headers: { authorization: 'Bearer good', 'content-type': 'application/json' },
      body: noteOf(bodyBytesMax + 1),
    });
    expect(answer.status).toBe(413);
    expect(await answer.json()).toMatchObject({
      title: 'Content too large',
      detail: `The body is larger than the limit of ${bodyBytesMax} bytes.`,
    });
  });

  test('an announced length over the limit is refused before a byte of it is sent', async () => {
    const { server } = await startTestApplication();
    const connection = await connectRaw(server.port);
    connection.send(head('Content-Length: 1000000000'));
    const received = await connection.until('limit of');
    expect(received).toMatch(/^HTTP\/1\.1 413 /);
    expect(received).toMatch(/\r\nConnection: close\r\n/i);
    expect(problemOf(received)).toMatchObject({ status: 413 });
  });

  test('a body in chunks is refused as soon as it is over the limit; the client, still sending, gets the answer', async () => {
    const { server } = await startTestApplication();
    const connection = await connectRaw(server.port);
    connection.send(head('Transfer-Encoding: chunked'));
    const chunk = `${(4_096).toString(16)}\r\n${'x'.repeat(4_096)}\r\n`;
    connection.send(chunk);
    expect(await connection.until('limit of')).toMatch(/^HTTP\/1\.1 413 /);
    // The answer is complete, by its own length, while the request is not.
    expect(problemOf(connection.received())).toMatchObject({ status: 413 });
    for (let sent = 0; sent < 20; sent += 1) connection.send(chunk);
    connection.send('0\r\n\r\n');
    expect(await connection.closed()).toBeUndefined();
  });

  test('a client that sends everything before it reads gets the answer, and no reset', async () => {
    const { server } = await startTestApplication();
    const connection = await connectRaw(server.port);
    connection.socket.pause();
    connection.send(head('Content-Length: 900000'));
    const rest = randomBytes(900_000);
    await new Promise<void>((resolve, reject) => {
      connection.socket.write(rest, (error) => (error ? reject(error) : resolve()));
    });
    connection.socket.resume();
    expect(await connection.until('limit of')).toMatch(/^HTTP\/1\.1 413 /);
    expect(await connection.closed()).toBeUndefined();
  });

  test('of a body that is far too long, little is read on after the refusal', async () => {
    const sockets: Socket[] = [];
    const { server } = await startTestApplication({
      more: (app) =>
        void app.post('/long', async (request) => {
          sockets.push(request.socket);
          await readBody(request, 1_000);
        }),
    });
    const connection = await connectRaw(server.port);
    connection.send(head('Content-Length: 1000000000').replace('/notes', '/long'));
    await connection.until('limit of');
    const part = randomBytes(1_000_000);
    const sendOn = () => {
      if (!connection.socket.destroyed) connection.socket.write(part, sendOn);
    };
    sendOn();
    await connection.closed();
    // The service reads 1 MB, and what was under way in a chunk and in the buffers of its stream.
    expect(sockets[0]?.bytesRead).toBeLessThan(2_000_000);
  });

  test.each([
    ['with a length', 'Content-Length: 100', ['{"te', 'xt":']],
    ['in chunks', 'Transfer-Encoding: chunked', ['4\r\n{"te\r\n', '4\r\nxt":\r\n']],
  ])('a body %s that does not end in time is refused with 408', async (_what, length, parts) => {
    const { server } = await startTestApplication({
      more: (app) =>
        void app.post('/bounded', async (request, response) => {
          response.json({ length: (await readBody(request, 1_000, { withinMs: 50 })).length });
        }),
    });
    const connection = await connectRaw(server.port);
    connection.send(head(length).replace('/notes', '/bounded'));
    for (const part of parts) connection.send(part);
    expect(await connection.until('of its first byte')).toMatch(/^HTTP\/1\.1 408 /);
    expect(problemOf(connection.received())).toMatchObject({
      status: 408,
      detail: 'The body did not come within 0.05 s of its first byte.',
    });
  });

  test('an unauthorized client gets its answer before its body has arrived, and the connection is closed', async () => {
    const { server, logged } = await startTestApplication();
    const connection = await connectRaw(server.port);
    connection.send('POST /notes HTTP/1.1\r\nHost: test\r\nContent-Length: 500\r\n\r\n{"text"');
    const received = await connection.until('needs a key');
    expect(received).toMatch(/^HTTP\/1\.1 401 /);
    connection.socket.end();
    expect(await connection.closed()).toBeUndefined();
    expect(logged()).toEqual([]);
  });

  test('a client that never stops sending is disconnected after a while', async () => {
    const { server } = await startTestApplication();
    const connection = await connectRaw(server.port);
    connection.send(head('Content-Length: 1000000000'));
    await connection.until('limit of');
    expect(await connection.closed()).toBeUndefined();
  });

  test('a body that breaks off is not an internal error', async () => {
    const { server, logged, registry } = await startTestApplication();
    const connection = await connectRaw(server.port);
    connection.send(`${head('Content-Length: 500')}{"text":`);
    connection.socket.destroy();
    await connection.closed();
    await expect
      .poll(() => registry.metrics())
      .toMatch(/http_request_duration_seconds_count\{method="POST",route="\/notes",status="\d+"\} 1/);
    expect(logged()).toEqual([]);
  });
});

describe('what is accepted as JSON', () => {
  test('any JSON value with text that PostgreSQL can hold is read as JSON.parse reads it', () => {
    const storable = fc.jsonValue({ maxDepth: 8 }).filter((value) => {
      const text = JSON.stringify(value);
      return !text.includes('\\u0000') && !/\\ud[89a-f]/i.test(text);
    });
    fc.assert(
      fc.property(storable, (value) => {
        const text = JSON.stringify(value);
        expect(parseJson(Buffer.from(text))).toEqual(JSON.parse(text));
      }),
    );
  });

  test('no body is undefined, and a byte order mark is skipped', () => {
    expect(parseJson(Buffer.alloc(0))).toBeUndefined();
    expect(parseJson(Buffer.from('\ufeff{"a":1}'))).toEqual({ a: 1 });
  });

  test('bytes that are not UTF-8 are refused', () => {
    for (const bytes of [[0x22, 0xff, 0x22], [0x22, 0xc3, 0x28, 0x22], [0x22, 0xed, 0xa0, 0x80, 0x22], [0xc3]])
      expect(refusal(Uint8Array.from(bytes)).publicMessage).toBe('The body is not valid UTF-8.');
  });

  test.each([
    ['{"a":1,}', 7],
    ['{"a" 1}', 5],
    ['{"a":1} x', 8],
  ])('invalid JSON is refused with the place: %s at character %i', (text, position) => {
    expect(refusal(text).publicMessage).toBe(`The body is not valid JSON (at character ${position}).`);
  });

  test.each([
    '{"password":"hunter2" oops}',
    'hunter2',
    '{"key": hunter2}',
    '"hunter2',
    '{"a":"x\nhunter2"}',
    'position 4711',
    '"JSON at position 4711',
    ' ',
  ])('the refusal of %j quotes nothing of it, neither for the caller nor for the log', (text) => {
    const error = refusal(text);
    expect(error.code).toBe('invalid');
    expect(error.publicMessage).toMatch(/^The body is not valid JSON( \(at character \d+\))?\.$/);
    expect(`${error.publicMessage} ${error.message} ${error.stack} ${JSON.stringify(error.cause)}`).not.toMatch(
      /hunter2|4711/,
    );
  });

  const nested = (levels: number) => '['.repeat(levels) + ']'.repeat(levels);

  test('64 levels are accepted, 65 are refused', () => {
    expect(parseJson(Buffer.from(nested(64)))).toHaveLength(1);
    expect(refusal(nested(65)).publicMessage).toBe('The body is nested deeper than 64 levels (at character 64).');
  });

  test('a million levels are refused, not a crash', () => {
    expect(refusal(nested(1_000_000)).code).toBe('invalid');
    expect(refusal('{"a":'.repeat(1_000_000)).code).toBe('invalid');
  });

  test.each([
    ['"a\\u0000b"', '', 'contains a NUL character'],
    ['{"lots":[{"name":"ok"},{"name":"\\u0000"}]}', 'lots[1].name', 'contains a NUL character'],
    ['{"lots":["\\ud800"]}', 'lots[0]', 'contains half of a surrogate pair'],
    ['{"a b":{"c":"\\udc00x"}}', '["a b"].c', 'contains half of a surrogate pair'],
    ['{"fields":{"x\\u0000y":1}}', 'fields', 'has a field whose name contains a NUL character'],
    ['{"\\ud83d":1}', '', 'has a field whose name contains half of a surrogate pair'],
  ])('%s is refused with its place: %j %s', (text, path, message) => {
    const error = refusal(text);
    expect(error.issues).toEqual([{ path, message }]);
    expect(error.publicMessage).toBe(`The body is not valid: ${path === '' ? '' : `${path} `}${message}.`);
  });

  test('a complete surrogate pair is an ordinary character', () => {
    expect(parseJson(Buffer.from('"\\ud83d\\ude00"'))).toBe('😀');
  });
});
