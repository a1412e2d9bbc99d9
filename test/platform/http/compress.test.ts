/** Which answers are compressed, and for which clients. Compared by the bytes that come over the connection. */
import { brotliDecompressSync, gunzipSync } from 'node:zlib';
import { request } from 'undici';
import { describe, expect, test } from 'vitest';
import { startTestApplication } from './test-application.ts';

const list = JSON.stringify({ rows: Array.from({ length: 200 }, (_, number) => ({ number, name: 'größer' })) });

async function start() {
  const { url } = await startTestApplication({
    more: (app) => {
      app.all('/list', (_request, response) => void response.type('json').set('ETag', 'W/"list"').send(list));
      app.get('/short', (_request, response) => void response.json({ text: 'x'.repeat(400) }));
      app.get('/file', (_request, response) => void response.attachment('a.json').type('json').send(list));
      app.get('/part', (_request, response) => {
        response.status(206).set('Content-Range', `bytes 0-999/${list.length}`).type('json').send(list.slice(0, 1_000));
      });
      app.get('/picture', (_request, response) => void response.type('png').send(Buffer.from(list)));
      app.get('/broken', () => {
        throw new Error('broken');
      });
    },
  });
  return async (path: string, accepts?: string, options: { method?: 'HEAD' | 'POST'; ifNoneMatch?: string } = {}) => {
    const answer = await request(url + path, {
      method: options.method ?? 'GET',
      headers: {
        ...(accepts === undefined ? {} : { 'accept-encoding': accepts }),
        ...(options.ifNoneMatch === undefined ? {} : { 'if-none-match': options.ifNoneMatch }),
      },
    });
    const bytes = Buffer.from(await answer.body.arrayBuffer());
    const { 'content-encoding': encoding, 'content-length': length, vary, etag } = answer.headers;
    return { status: answer.statusCode, bytes, encoding, length, vary, etag };
  };
}

describe('a long answer to GET', () => {
  test.each([
    ['gzip', 'gzip'],
    ['gzip, deflate, br, zstd', 'br'],
    ['gzip;q=1, br;q=0.5', 'gzip'],
    ['*', 'br'],
    ['br;q=0, *', 'gzip'],
  ])('is compressed for Accept-Encoding: %s, by %s', async (accepts, expected) => {
    const get = await start();
    const { bytes, encoding, length, vary } = await get('/list', accepts);
    const unpacked = expected === 'br' ? brotliDecompressSync(bytes) : gunzipSync(bytes);
    expect([encoding, unpacked.toString(), vary]).toEqual([expected, list, 'Accept-Encoding']);
    expect(bytes.length).toBeLessThan(list.length / 5);
    expect(length).toBeUndefined();
  });

  test.each([undefined, '', 'identity', 'zstd', 'gzip;q=0', 'identity, gzip;q=0.5'])(
    'is sent as it is for Accept-Encoding: %s',
    async (accepts) => {
      const get = await start();
      const { bytes, encoding, length, vary } = await get('/list', accepts);
      expect([encoding, bytes.toString(), vary]).toEqual([undefined, list, 'Accept-Encoding']);
      expect(length).toBe(String(Buffer.byteLength(list)));
    },
  );

  test('has the same headers on HEAD, without a wrong length', async () => {
    const get = await start();
    for (const accepts of ['gzip', 'identity']) {
      const { bytes: _body, ...ofGet } = await get('/list', accepts);
      const { bytes, ...ofHead } = await get('/list', accepts, { method: 'HEAD' });
      expect([ofHead, bytes.length]).toEqual([ofGet, 0]);
    }
  });

  test('is 304 for its tag, whatever encoding the client accepts', async () => {
    const get = await start();
    for (const accepts of ['gzip', 'identity']) {
      const answer = await get('/list', accepts, { ifNoneMatch: 'W/"list"' });
      expect(answer).toMatchObject({ status: 304, vary: 'Accept-Encoding', etag: 'W/"list"' });
      expect([answer.encoding, answer.bytes.length]).toEqual([undefined, 0]);
    }
  });
});

test.each(['/short', '/file', '/part', '/picture', '/broken'])('%s is sent as it is', async (path) => {
  const get = await start();
  const [packed, plain] = [await get(path, 'gzip'), await get(path)];
  expect([packed.encoding, packed.bytes.toString()]).toEqual([undefined, plain.bytes.toString()]);
});

test('the answer to POST is sent as it is: it may hold a secret that is shown once', async () => {
  const get = await start();
  const { bytes, encoding, vary } = await get('/list', 'gzip', { method: 'POST' });
  expect([encoding, bytes.toString(), vary]).toEqual([undefined, list, undefined]);
});
