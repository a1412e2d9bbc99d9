import { gzipSync } from 'node:zlib';
import { afterEach, beforeEach, describe, expect, test } from 'vitest';
import { createSourceClient } from '#client/source-client.ts';
import { AppError, errorText } from '#platform/errors.ts';
import type { GuardedRequest } from '#platform/guarded-fetch/guarded-request.ts';
import type { GuardedFetch } from '#platform/guarded-fetch.ts';
import { testClock } from '../bridge/parts.ts';
import { testOutgoing } from '../harness/test-certificates.ts';
import { type ScriptedService, startScriptedService, status } from './scripted-service.ts';

const token = 'secret-token';
const bytes = Buffer.from([0, 255, 1, 254]);

let service: ScriptedService;
let sent: GuardedRequest[];
let outgoing: GuardedFetch;

beforeEach(async () => {
  sent = [];
  service = await startScriptedService();
  const { fetch } = testOutgoing();
  outgoing = (request) => {
    sent.push(request);
    return fetch(request);
  };
});
afterEach(() => service.close());

function clientOf(baseUrl = service.url, fileNetworks: string[] = []) {
  const settings = { baseUrl, apiKey: 'key', timeoutMs: 2_000, retries: 0, fileNetworks };
  return createSourceClient({ settings, fetch: outgoing, clock: testClock() });
}

const link = () => `${service.url}/downloads/${token}`;
const failureOf = (work: Promise<unknown>) =>
  work.then(
    () => {
      throw new Error('it did not fail');
    },
    (error: unknown) => error as AppError,
  );

test('a file is downloaded through its link without the API key', async () => {
  service.answers = [(response) => response.writeHead(200, { 'content-type': 'application/pdf' }).end(bytes)];
  expect(Buffer.from(await clientOf().download(link()))).toEqual(bytes);
  expect(service.requests[0]).toMatchObject({ method: 'GET', url: `/downloads/${token}` });
  expect(service.requests[0]?.headers.authorization).toBeUndefined();
});

test('a file that is sent compressed is decompressed', async () => {
  service.answers = [(response) => response.writeHead(200, { 'content-encoding': 'gzip' }).end(gzipSync(bytes))];
  expect(Buffer.from(await clientOf().download(link()))).toEqual(bytes);
});

describe('a link', () => {
  test.each([
    ['over plain HTTP to another host', 'http://files.example/secret-token', 'http://127.0.0.1:1'],
    ['over plain HTTP, of a service on HTTPS', 'http://127.0.0.1:1/secret-token', 'https://127.0.0.1:1'],
    ['that is no URL', 'secret-token', 'http://127.0.0.1:1'],
    ['to a file of this machine', 'file:///secret-token', 'http://127.0.0.1:1'],
  ])('%s is not followed', async (_what, url, baseUrl) => {
    const error = await failureOf(clientOf(baseUrl).download(url));
    expect(error).toMatchObject({ code: 'invalid', recovery: { do: 'skip' } });
    expect(error.message).not.toContain(token);
    expect(sent).toEqual([]);
  });

  test('to a private address is followed only to the configured host and networks', async () => {
    const other = 'https://127.0.0.2:1/secret-token';
    expect(await failureOf(clientOf('http://127.0.0.1:1').download(other))).toMatchObject({ reason: 'blocked' });
    expect(await failureOf(clientOf('http://127.0.0.1:1', ['127.0.0.2/32']).download(other))).toMatchObject({
      reason: 'refused',
    });
    expect(await failureOf(clientOf('http://127.0.0.2:1').download(other))).toMatchObject({ reason: 'refused' });
  });

  test.each([
    [403, 'forbidden', 'halt'],
    [404, 'not-found', 'skip'],
    [302, 'invalid', 'halt'],
    [503, 'unavailable', 'retry'],
    [206, 'invalid', 'halt'],
  ])('answered with %i is the error %s, without the link in it', async (code, kind, recovery) => {
    service.answers = [status(code, { location: `https://elsewhere.example/${token}` })];
    const error = await failureOf(clientOf().download(link()));
    expect(error).toMatchObject({ code: kind, recovery: { do: recovery } });
    expect([error.message, error.stack, errorText(error.cause)].join()).not.toContain(token);
  });

  test('whose file breaks off is a transient error, without the link in it', async () => {
    service.answers = [
      (response) => {
        response.writeHead(200, { 'content-length': '100' });
        response.write('x', () => response.destroy());
      },
    ];
    const error = await failureOf(clientOf().download(link()));
    expect(error).toBeInstanceOf(AppError);
    expect(error.recovery).toEqual({ do: 'retry' });
    expect([error.message, error.stack, errorText(error.cause)].join()).not.toContain(token);
  });

  test('whose file has a content length above the limit is aborted at once', async () => {
    service.answers = [
      (response) => void response.writeHead(200, { 'content-length': String(129 * 1024 * 1024) }).write('x'),
    ];
    expect(await failureOf(clientOf().download(link()))).toMatchObject({ code: 'too-large', recovery: { do: 'skip' } });
  });
});
