/**
 * Fuzzes every endpoint, and the other paths that the service serves, with mutated queries, paths and headers, and with
 * bodies that are no JSON.
 */
import { parse } from 'node:querystring';
import { gzipSync } from 'node:zlib';
import * as fc from 'fast-check';
import { afterAll, expect, test } from 'vitest';
import type { HttpAnswer } from '../../harness/request.ts';
import { type FuzzCase, fuzzEndpoint, runsOf } from './fuzz-endpoint.ts';
import { createFuzzFixture } from './fuzz-fixture.ts';
import { seedsOf, type TestedEndpoint, testedEndpoints } from './seeds.ts';
import { closeConnections, type RawRequest, requestOfSeed, send } from './send-request.ts';

const fixture = await createFuzzFixture();
afterAll(closeConnections);
const runs = runsOf(2);
const table = testedEndpoints.map((endpoint) => [endpoint.name, endpoint] as const);

/** The valid requests of an endpoint. */
const validRequests = (endpoint: TestedEndpoint) =>
  seedsOf(endpoint, fixture).map((seed) => requestOfSeed(fixture, endpoint, seed));
const anyValidRequest = (endpoint: TestedEndpoint) => fc.constantFrom(...validRequests(endpoint));

/** Text for a URL: any characters that HTTP allows, and any percent-encoded bytes. */
const urlText = (maxLength: number) =>
  fc
    .array(
      fc.oneof(
        fc.constantFrom('%', '%0', '%zz', '%ff', '%c3%28', '%ed%a0%80', '%00', '%2F', '%2e', '%5c', '%0d%0a', '%u0041'),
        fc.constantFrom(
          '%F0%9F%AA%91',
          '%E2%80%AE',
          '%C4%B0',
          '..',
          '.',
          ';',
          ',',
          ':',
          '@',
          '!',
          '$',
          "'",
          '(',
          '*',
          '~',
        ),
        fc.constantFrom('[', ']', '{', '|', '}', '<', '>', '"', '\\', '^', '`', '+', '=', '&', 'a', '0', '-', '_'),
        fc
          .string({ unit: 'binary', minLength: 1, maxLength: 3 })
          .map((text) => encodeURIComponent(text.toWellFormed())),
      ),
      { maxLength },
    )
    .map((parts) => parts.join(''));

const values = fc.oneof(
  fc.constantFrom('%00', 'S1%00', '%00EMEA'),
  fc.constantFrom(
    '',
    '0',
    '1',
    '-1',
    '1000',
    '1001',
    '999999999',
    '9999999999',
    '1e3',
    '0x1',
    '%31',
    '1.0',
    '+1',
    '%201',
    'NaN',
  ),
  fc.constantFrom(
    '2030-02-30',
    '0000-01-01',
    '9999-12-31T23:59:59.999999Z',
    '10000-01-01',
    '2030-01-01T00:00:00%2002:00',
    '2030-12-31T23:59:60Z',
  ),
  fc.constantFrom(
    '2030-01-01T00:00:00%2B99:99',
    '0001-01-01T00:00:00%2B23:59',
    'OPEN',
    'open',
    'DRAFT',
    'true',
    'TRUE',
    'null',
    'undefined',
  ),
  fc.constantFrom(
    '11111111-1111-4111-8111-111111111111',
    '11111111-1111-4111-8111-11111111111',
    ',',
    ',,',
    'a,b',
    'TEST',
    '200',
    '600',
    'failed',
  ),
  fc.constantFrom(
    'suppliers',
    'columns',
    'questions',
    'sourcing_events',
    'suppliers,columns',
    "'--",
    '%00',
    '%ED%A0%80',
    'c291cmNpbmctZXZlbnRzIDIwMzA',
  ),
  fc.constantFrom(300, 501, 5_000).map((length) => 'x'.repeat(length)),
  urlText(8),
);

const unknownNames = fc.oneof(
  fc.constantFrom(
    '__proto__',
    'constructor',
    'toString',
    'filter',
    'filter[]',
    'filter[tags]',
    'filter[tags.]',
    'filter[tags.a',
    'filter[tags.%00]',
  ),
  fc.constantFrom(
    'filter[sourcing_event.tags.]',
    'filter[tags.__proto__]',
    'filter[sourcing_event.tags.__proto__]',
    'filter[tags.a][]',
    'page_size[]',
  ),
  fc.constantFrom(
    'page_number%00',
    'organisation',
    'organisation_id',
    'api_key',
    'access_token',
    'sort',
    'limit',
    'offset',
    'include[]',
    'CURSOR',
    'q',
  ),
  fc.constantFrom(`filter[tags.${'x'.repeat(256)}]`, 'x'.repeat(5_000), '%', '%00', ''),
  urlText(6),
);

/** Without the characters that Node does not send in a path. */
const sendableInPath = (text: string) => text.replaceAll(/[\s#]/g, '');

/** Query text as it is sent, to be added to the valid query or to replace it. */
function mutatedQuery(names: readonly string[]): fc.Arbitrary<string> {
  const name =
    names.length > 0 ? fc.oneof(fc.constantFrom(...names), fc.constantFrom(...names), unknownNames) : unknownNames;
  const parameter = fc.tuple(name, values).map(([key, value]) => `${key}=${value}`);
  return fc
    .oneof(
      { weight: 8, arbitrary: fc.array(parameter, { minLength: 1, maxLength: 4 }).map((members) => members.join('&')) },
      { weight: 1, arbitrary: urlText(10) },
      {
        weight: 1,
        arbitrary: fc
          .tuple(parameter, fc.constantFrom(50, 999, 1_001))
          .map(([member, times]) => Array(times).fill(member).join('&').slice(0, 15_000)),
      },
    )
    .map(sendableInPath);
}

test.each(table)('%s with a mutated query', async (_name, endpoint) => {
  const valid = validRequests(endpoint);
  const names = Object.keys(seedsOf(endpoint, fixture)[0]?.query ?? {}).concat(
    endpoint.path.includes('/feeds/') ? 'cursor' : [],
  );
  const cases = fc
    .tuple(fc.constantFrom(...valid), mutatedQuery(names), fc.boolean())
    .map(([request, query, replaces]): FuzzCase => {
      const [path = '', right = ''] = request.path.split('?');
      const whole = replaces || right === '' ? query : `${right}&${query}`;
      return {
        request: { ...request, path: `${path}?${whole}` },
        check: (answer) => checkQuery(endpoint, whole, answer),
      };
    });
  await fuzzEndpoint(fixture, cases, runs);
});

/** Checks that a query which the endpoint's schema refuses is answered 400, with the parameter's name. */
function checkQuery(endpoint: TestedEndpoint, text: string, answer: HttpAnswer): void {
  const query = { ...parse(text) };
  const stored = JSON.stringify(query);
  const isValid =
    !/\\u0000|\\ud[89a-f]/i.test(stored) &&
    (endpoint.query ? endpoint.query.safeParse(query).success : Object.keys(query).length === 0);
  if (answer.status < 400) {
    if (!isValid) throw new Error('an invalid query was accepted');
    return;
  }
  if (answer.status !== 400) throw new Error(`refused with ${answer.status}`);
  const paths = (answer.body.errors as { path: string }[] | undefined)?.map(({ path }) => path);
  if (!paths?.length) throw new Error('refused without a path');
  // Characters that no text may have are not shown in a name.
  const known = [...Object.keys(query), 'filter'].filter((name) => name !== '');
  for (const path of paths)
    if (path !== '' && !path.startsWith('[') && !known.some((name) => path.startsWith(name.slice(0, 90))))
      throw new Error(`the path ${path} is no parameter of the query`);
}

test.each(table.filter(([, { path }]) => path.includes(':')))('%s with a mutated path', async (_name, endpoint) => {
  const cases = fc
    .tuple(
      anyValidRequest(endpoint),
      fc.nat(3),
      fc.oneof(urlText(8), values, fc.constantFrom('.', '..', '%2e%2e', '%2F', 'a/b', '', '/')),
    )
    .map(([request, which, text]): FuzzCase => {
      const parts = request.path.split('/');
      const places = endpoint.path.split('/').flatMap((part, index) => (part.startsWith(':') ? [index] : []));
      const place = places[which % places.length] ?? 0;
      const path = parts
        .map((part, index) => (index === place ? sendableInPath(text).replaceAll('?', '') : part))
        .join('/');
      return {
        request: { ...request, path },
        check: ({ status }) => {
          // A scenario may have any name, and a path without one of its values may be another known path.
          if (![200, 201, 202, 204, 400, 404, 405].includes(status)) throw new Error(`answered ${status}`);
        },
      };
    });
  await fuzzEndpoint(fixture, cases, runs);
});

const headerTexts = fc.oneof(
  fc.constantFrom(
    '',
    ' ',
    '*',
    '0',
    '-1',
    'x',
    '"',
    '""',
    'W/"',
    'W/"x"',
    '"a", "b"',
    '"a" "b"',
    ',',
    ',,,',
    ';',
    '=',
    'null',
    'é',
    '\u00ff',
    '\t',
  ),
  fc.constantFrom(
    'application/json',
    'application/json;',
    'application/json; charset=utf-16',
    'application/json; charset="',
    'text/plain',
    'application/x+json',
  ),
  fc.constantFrom(
    'multipart/form-data',
    'application/json, text/plain',
    'a/b; c="\\"',
    'gzip',
    'identity',
    'br, gzip',
    'identity;q=0',
    '*;q=0',
    'gzip;q=a',
  ),
  fc.constantFrom(
    'bytes=0-',
    'bytes=99999999-',
    'bytes=-1',
    'bytes=0-0,2-3',
    'bytes=a-b',
    'lines=0-1',
    'Thu, 01 Jan 1970 00:00:00 GMT',
    'yesterday',
    '100-continue',
  ),
  fc.constantFrom(
    'a%20b',
    '%',
    '%00',
    '%2F',
    '..',
    '%2e%2e',
    '%ED%A0%80',
    '%F0%9F%AA%91',
    "a'b",
    'a;b',
    'CON',
    '%0d%0aX: y',
    "UTF-8''a",
    'evil.example',
    'a b',
  ),
  fc.constantFrom(200, 256, 5_000).map((length) => 'x'.repeat(length)),
  fc.string({ maxLength: 30 }),
  fc.string({ unit: fc.integer({ min: 0xa0, max: 0xff }).map((code) => String.fromCharCode(code)), maxLength: 5 }),
);

const headerNames = [
  'content-type',
  'content-encoding',
  'content-language',
  'x-file-name',
  'idempotency-key',
  'if-none-match',
  'if-match',
  'if-modified-since',
  'if-unmodified-since',
  'if-range',
  'range',
  'accept',
  'accept-encoding',
  'accept-charset',
  'host',
  'x-request-id',
  'x-forwarded-for',
  'x-forwarded-host',
  'x-forwarded-proto',
  'forwarded',
  'x-http-method-override',
  'origin',
  'cookie',
  'referer',
  'user-agent',
  'upgrade',
  'te',
  'via',
  'x-organisation',
  '__proto__',
  'x-original-url',
];

/** Without the characters that Node does not send in a header. */
const sendable = (text: string) => text.replaceAll(/[^\t\x20-\x7e\x80-\xff]/g, '');

const mutatedHeaders = fc
  .array(fc.tuple(fc.constantFrom(...headerNames), headerTexts.map(sendable)), { minLength: 1, maxLength: 3 })
  .map((pairs) => Object.fromEntries(pairs));

test.each(table)('%s with mutated headers', async (_name, endpoint) => {
  const cases = fc.tuple(anyValidRequest(endpoint), mutatedHeaders).map(
    ([request, headers]): FuzzCase => ({
      request: { ...request, headers: { ...request.headers, ...headers } },
      check: ({ status, body }) => {
        if (![200, 201, 202, 204, 304, 400, 415].includes(status)) throw new Error(`answered ${status}`);
        if (status === 400 && !/header|Idempotency-Key|body/i.test(body.detail))
          throw new Error('refused without naming the header');
      },
    }),
  );
  await fuzzEndpoint(fixture, cases, runs);
});

/** Bodies that are no JSON, no objects, or JSON in another encoding. */
function invalidJsonBodies(text: string): readonly (string | Uint8Array)[] {
  const bytes = Buffer.from(text);
  return [
    'null',
    'true',
    '1',
    '""',
    '[]',
    '[[]]',
    '{',
    '}',
    '{"',
    '{}{}',
    '{},',
    'undefined',
    'NaN',
    "{'a':1}",
    '{a:1}',
    '//',
    '<xml/>',
    'a=b',
    '\0',
    '-',
    '1e',
    '"\\x"',
    ' ',
    '\n\n',
    '﻿',
    `${text}x`,
    `${text},`,
    text.slice(0, -1),
    text.slice(1),
    `\ufeff${text.slice(0, -1)}`,
    text.replace('}', ',}'),
    text.replaceAll('"', "'"),
    Buffer.from(text, 'utf16le'),
    Buffer.concat([Buffer.of(255, 254), Buffer.from(text, 'utf16le')]),
    gzipSync(bytes),
    Buffer.concat([bytes.subarray(0, 3), Buffer.of(255), bytes.subarray(3)]),
    Buffer.concat([Buffer.of(237, 160, 128), bytes]),
    Buffer.of(0),
    Buffer.alloc(1e3),
    '['.repeat(1e5),
    '{"a":'.repeat(1e5),
    `${'['.repeat(65)}${']'.repeat(65)}`,
    `{"a":${'9'.repeat(1e5)}`,
  ];
}

test.each(table.filter(([, endpoint]) => endpoint.raw !== true && endpoint.method !== 'GET'))(
  '%s with a body that is no JSON',
  async (_name, endpoint) => {
    const requests = validRequests(endpoint).flatMap((request): RawRequest[] =>
      invalidJsonBodies(typeof request.body === 'string' && request.body.length > 2 ? request.body : '{"a":"b"}').map(
        (body) => ({
          ...request,
          headers: { ...request.headers, 'content-type': 'application/json' },
          body,
        }),
      ),
    );
    const cases = fc.constantFrom(...requests).map(
      (request): FuzzCase => ({
        request,
        check: ({ status }) => expect(status).toBe(isEmptyList(request) ? 200 : 400),
      }),
    );
    await fuzzEndpoint(fixture, cases, runs);
  },
);

/** The only one of these bodies that an endpoint accepts: an empty list of questions. */
const isEmptyList = ({ path, body }: RawRequest) => path.endsWith('/questions') && body === '[]';

test('POST /desk/files accepts any bytes, but only with a valid name', async () => {
  const endpoint = testedEndpoints.find(({ raw }) => raw === true);
  if (!endpoint) throw new Error('no endpoint accepts raw bytes');
  const [request] = validRequests(endpoint);
  if (!request) throw new Error('the endpoint has no seed');
  const cases = fc.tuple(fc.uint8Array({ maxLength: 2_000 }), headerTexts.map(sendable), headerTexts.map(sendable)).map(
    ([body, name, type]): FuzzCase => ({
      request: { ...request, body, headers: { ...request.headers, 'x-file-name': name, 'content-type': type } },
      check: (answer) => {
        if (answer.status === 201) {
          expect(answer.body.file_name).toBe(decodeURIComponent(name.trim()));
          expect(answer.body.size).toBe(body.length);
        } else expect([answer.status, answer.body.errors.length > 0]).toEqual([400, true]);
      },
    }),
  );
  await fuzzEndpoint(fixture, cases, runs * 10);
});

/** Paths that are served outside of the tables of endpoints. */
const otherPaths = [
  '/healthz',
  '/readyz',
  '/metrics',
  '/openapi.json',
  '/openapi-desk.json',
  '/openapi.yaml',
  '/docs',
  '/docs/desk',
  '/docs/admin',
  '/docs/assets/swagger-ui.css',
  '/docs/assets/start.js',
  '/downloads/x',
  '/',
  '/api',
  '/desk',
  '/admin',
  '/favicon.ico',
];

test.each(otherPaths)('%s with a mutated path, query and headers', async (path) => {
  const cases = fc
    .tuple(
      fc.constantFrom('GET', 'GET', 'HEAD', 'POST', 'PUT', 'PATCH', 'DELETE', 'OPTIONS', 'TRACE', 'PROPFIND'),
      fc.constantFrom('', '/', '//', '/..', '/%2e%2e/etc/passwd', '%00', '%', '/%ff', '/../../package.json', '/x'),
      fc.oneof(fc.constant(''), mutatedQuery([])),
      fc.oneof(fc.constant({}), mutatedHeaders),
    )
    .map(
      ([method, tail, query, headers]): FuzzCase => ({
        request: { method, path: `${path}${tail}${query === '' ? '' : `?${query}`}`, headers },
        check: ({ status, body }) => {
          const isRedirect = status === 302 && path === '/';
          if (!isRedirect && ![200, 206, 304, 400, 401, 403, 404, 405].includes(status))
            throw new Error(`answered ${status}`);
          expect(typeof body === 'string' ? body : '').not.toMatch(/root:x:0|"devDependencies"/);
        },
      }),
    );
  await fuzzEndpoint(fixture, cases, runs * 3);
});

test.each([
  { range: 'bytes=99999999-' },
  { range: 'bytes=0-1' },
  { 'if-match': '"another"' },
  { 'if-unmodified-since': 'Thu, 01 Jan 1970 00:00:00 GMT' },
  { 'if-match': '*', 'if-none-match': '*', range: 'bytes=5-1' },
])('static documents are served whole, also if the request asks for a part: %j', async (headers) => {
  for (const path of otherPaths.filter((each) => /^.(docs|openapi|healthz|metrics)/.test(each))) {
    const request = { method: 'GET', path, headers };
    const answer = await send(fixture, request);
    expect([path, answer.status]).toEqual([path, 'if-none-match' in headers && answer.status === 304 ? 304 : 200]);
  }
});

test('the prototype of all objects was not changed', () => {
  expect(({} as Record<string, unknown>)['polluted']).toBeUndefined();
  expect(({} as Record<string, unknown>)['a']).toBeUndefined();
});
