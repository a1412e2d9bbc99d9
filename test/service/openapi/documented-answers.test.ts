/** The check of the harness for every answer: documented answers pass, and each kind of wrong answer fails. */
import { expect, test } from 'vitest';
import { createAnswerCheck } from '../../harness/documented-answers.ts';

const headers = (mediaType: string | undefined, more: Record<string, string> = {}) =>
  new Headers({ ...(mediaType === undefined ? {} : { 'content-type': mediaType }), 'x-request-id': 'r', ...more });

const item = {
  type: 'object',
  properties: {
    id: { type: 'string', format: 'uuid' },
    made: { type: 'string', format: 'date-time' },
    parts: { type: 'array', items: { $ref: '#/components/schemas/Part' } },
    free: { type: 'object', properties: {} },
  },
  required: ['id'],
};
const id = '7f9c24e8-3b12-4c8f-9a51-2d6f0e4b7a10';

const held = createAnswerCheck({
  api: {
    openapi: '3.1.1',
    paths: {
      '/api/things/{id}': {
        get: {
          responses: {
            200: {
              headers: { 'X-Request-Id': { $ref: '#/components/headers/X-Request-Id' } },
              content: { 'application/json': { schema: item } },
            },
            304: {},
            404: { $ref: '#/components/responses/NotFound' },
          },
        },
        delete: { responses: { 204: {} } },
      },
      '/api/things/newest': {
        get: { responses: { 200: { content: { 'application/json': { schema: { type: 'null' } } } } } },
      },
    },
    components: {
      headers: { 'X-Request-Id': { required: true, schema: { type: 'string' } } },
      responses: {
        NotFound: { content: { 'application/problem+json': { schema: { $ref: '#/components/schemas/Problem' } } } },
      },
      schemas: {
        Part: { type: 'object', properties: { name: { type: 'string' } }, required: ['name'] },
        Problem: { type: 'object', properties: { status: { type: 'integer' } }, required: ['status'] },
      },
    },
  },
});

const json = 'application/json; charset=utf-8';
const problemJson = 'application/problem+json';
const url = 'http://127.0.0.1:1/api/things/1';
const ok = (body: unknown) => ({ status: 200, headers: headers(json), body });

test('an answer as documented passes, and the check returns its operation', () => {
  const whole = { id, made: '2030-12-31T23:59:59.000000Z', parts: [{ name: 'a' }], free: { anything: 1 } };
  expect(held.check('GET', url, ok(whole))).toBe('GET /api/things/{id} 200');
  expect(held.check('GET', `${url}/?a=1`, ok({ id }))).toBe('GET /api/things/{id} 200');
  expect(held.check('HEAD', url, ok(''))).toBe('GET /api/things/{id} 200');
  expect(held.check('GET', url, { status: 304, headers: headers(undefined), body: '' })).toBe(
    'GET /api/things/{id} 304',
  );
  expect(held.check('DELETE', url, { status: 204, headers: headers(undefined), body: '' })).toBe(
    'DELETE /api/things/{id} 204',
  );
  expect(held.check('GET', url, { status: 404, headers: headers(problemJson), body: { status: 404 } })).toBe(
    'GET /api/things/{id} 404',
  );
  expect(held.operations).toHaveLength(3);
});

test('a literal path is preferred to a path with a parameter', () => {
  expect(held.check('GET', 'http://h/api/things/newest', ok(null))).toBe('GET /api/things/newest 200');
});

test.each<[string, string, Parameters<typeof held.check>[2], RegExp]>([
  ['an undocumented member', 'GET', ok({ id, secret: 1 }), /must NOT have additional properties \(secret\)/],
  ['one deep inside', 'GET', ok({ id, parts: [{ name: 'a', x: 1 }] }), /\/parts\/0 .*\(x\)/],
  ['a missing member', 'GET', ok({}), /required property 'id'/],
  ['a wrong type', 'GET', ok({ id, parts: 'none' }), /\/parts must be array/],
  ['a text of the wrong form', 'GET', ok({ id: '1' }), /\/id must match format "uuid"/],
  ['a date where a time should be', 'GET', ok({ id, made: '2030-12-31' }), /\/made must match format "date-time"/],
  ['an undocumented status', 'GET', { ...ok({ id }), status: 201 }, /knows the statuses 200, 304, 404/],
  ['a missing header', 'GET', { ...ok({ id }), headers: new Headers({ 'content-type': json }) }, /X-Request-Id/],
  ['another media type', 'GET', { ...ok({ id }), headers: headers('text/html') }, /should be application\/json/],
  ['a body where there is none', 'DELETE', { status: 204, headers: headers(json), body: {} }, /no body/],
  ['a body to HEAD', 'HEAD', ok({ id }), /HEAD should have no body/],
  [
    'a problem of another status',
    'GET',
    { status: 404, headers: headers(problemJson), body: { status: 400 } },
    /another status/,
  ],
  ['a success of an unknown operation', 'PUT', ok({ id }), /no such operation/],
  ['405 without Allow', 'PUT', { status: 405, headers: headers(problemJson), body: {} }, /Allow/],
  ['a refusal that is no problem detail', 'GET', { status: 413, headers: headers(json), body: {} }, /problem detail/],
])('%s fails', (_what, method, answer, fault) => {
  expect(() => held.check(method, url, answer)).toThrow(fault);
});

test('a call that no document describes is not checked', () => {
  expect(held.check('GET', 'http://h/healthz', ok({ whatever: 1 }))).toBeUndefined();
  expect(() => held.check('GET', 'http://h/api/unknown', ok({}))).toThrow(/no such operation/);
});
