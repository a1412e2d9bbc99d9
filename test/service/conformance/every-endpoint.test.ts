/** The rules of the documents for every call, tested with every endpoint of the two tables. */
import { randomUUID } from 'node:crypto';
import { request as rawRequest } from 'node:http';
import { describe, expect, test } from 'vitest';
import { jobTypes } from '#contract/job.ts';
import type { Endpoint } from '#platform/http/endpoint.ts';
import { request } from '../../harness/request.ts';
import { createEvent, createSuppliers } from '../../harness/sourcing.ts';
import { startTestService } from '../../harness/test-service.ts';
import { operatorEndpoints, organisationEndpoints } from '../endpoint-tables.ts';
import { fullBodies } from './examples.ts';

const service = await startTestService();
const organisation = await service.organisation();

interface Listed {
  name: string;
  endpoint: Endpoint<never>;
  key: string;
}

const listed = (endpoints: readonly Endpoint<never>[], key: string): Listed[] =>
  endpoints.map((endpoint) => ({ name: `${endpoint.method} ${endpoint.path}`, endpoint, key }));
const all = [...listed(organisationEndpoints, organisation.key), ...listed(operatorEndpoints, service.adminToken)];

/** A path with unknown ids, except for the organisation's own id. */
const pathOf = (template: string) =>
  template
    .replace('/organisations/:id', `/organisations/${organisation.id}`)
    .replace(/:(\w+)/g, (_match, name: string) => (name === 'number' ? '1' : randomUUID()));

const send = (
  { endpoint, key }: Listed,
  options: { body?: unknown; suffix?: string; headers?: Record<string, string> } = {},
) => {
  const { body, suffix = '', headers } = options;
  return request(endpoint.method, service.url + pathOf(endpoint.path) + suffix, {
    key,
    ...(body === undefined ? {} : { body }),
    ...(headers ? { headers } : {}),
  });
};

/** The endpoints with their names, for the titles. */
const named = (list: readonly Listed[]) => list.map((entry) => [entry.name, entry] as const);

const paths = (body: { errors?: { path: string }[] }) => body.errors?.map(({ path }) => path);

test('every endpoint that takes a body with members has a full example', () => {
  const taking = all.filter(({ endpoint }) => endpoint.body && !endpoint.body.safeParse(undefined).success);
  expect(taking.map(({ name }) => name).filter((name) => !(name in fullBodies))).toEqual([]);
  const names = new Set(all.map(({ name }) => name));
  expect(Object.keys(fullBodies).filter((name) => !names.has(name))).toEqual([]);
});

test.each(named(all.filter(({ endpoint }) => endpoint.body)))(
  '%s: a body that is not JSON is 415 or 400',
  async (_name, entry) => {
    for (const type of ['text/plain', 'application/x-www-form-urlencoded', 'application/xml'])
      expect((await send(entry, { body: '{}', headers: { 'content-type': type } })).status).toBe(415);
    const broken = await send(entry, { body: '{"a":' });
    expect([broken.status, broken.headers.get('content-type')]).toEqual([
      400,
      'application/problem+json; charset=utf-8',
    ]);
  },
);

test.each(named(all))('%s: an unknown query parameter is 400 with its name', async (_name, entry) => {
  const answer = await send(entry, { suffix: '?zzz=1' });
  expect([answer.status, paths(answer.body)]).toEqual([400, ['zzz']]);
});

/** Members that are objects with names that the client chooses. */
const maps = new Set(['fields', 'values', 'global']);

/** Copies of a body, each with an unknown member in another one of its objects, and the path of that member. */
function withUnknownMember(value: unknown, path = '', isMap = false): { body: unknown; path: string }[] {
  if (Array.isArray(value))
    return value.flatMap((item, index) =>
      withUnknownMember(item, `${path}[${index}]`).map((inner) => ({ ...inner, body: value.with(index, inner.body) })),
    );
  if (typeof value !== 'object' || value === null) return [];
  const inside = Object.entries(value).flatMap(([name, member]) =>
    withUnknownMember(member, path === '' ? name : `${path}.${name}`, maps.has(name) && !Array.isArray(member)).map(
      (inner) => ({
        ...inner,
        body: { ...value, [name]: inner.body },
      }),
    ),
  );
  return isMap ? inside : [{ body: { ...value, zzz: 1 }, path: path === '' ? 'zzz' : `${path}.zzz` }, ...inside];
}

const withExamples = all.filter(({ name }) => name in fullBodies);

test.each(named(withExamples))('%s: an unknown member at any place is 400 with its path', async (_name, entry) => {
  const bodies = withUnknownMember(fullBodies[entry.name]);
  expect(bodies.length).toBeGreaterThan(0);
  for (const { body, path } of bodies) {
    const answer = await send(entry, { body });
    expect([path, answer.status, paths(answer.body)]).toEqual([path, 400, expect.arrayContaining([path])]);
  }
});

test.each(named(all))('%s: the answer is the same with and without a final slash', async (_name, entry) => {
  const fixed = { ...entry, endpoint: { ...entry.endpoint, path: pathOf(entry.endpoint.path) } };
  const bare = await send(fixed, { body: entry.endpoint.method === 'GET' ? undefined : { zzz: 1 } });
  const slashed = await send(fixed, { suffix: '/', body: entry.endpoint.method === 'GET' ? undefined : { zzz: 1 } });
  expect([slashed.status, slashed.body]).toEqual([bare.status, bare.body]);
});

test('every path answers 405 with Allow to a method that it does not have', async () => {
  for (const [path, ones] of Map.groupBy(all, ({ endpoint }) => endpoint.path)) {
    const methods = new Set(ones.map(({ endpoint }) => endpoint.method as string));
    if (methods.has('GET')) methods.add('HEAD');
    const [{ key } = { key: '' }] = ones;
    for (const method of ['GET', 'POST', 'PUT', 'PATCH', 'DELETE'].filter((entry) => !methods.has(entry))) {
      const answer = await request(method, service.url + pathOf(path), { key });
      expect([method, path, answer.status]).toEqual([method, path, 405]);
      expect(new Set(answer.headers.get('allow')?.split(', '))).toEqual(methods);
    }
  }
});

describe('Idempotency-Key on every POST under /api', () => {
  const posts = all.filter(({ endpoint }) => endpoint.method === 'POST' && endpoint.path.startsWith('/api/'));
  const bodyOf = (name: string) => {
    if (name === 'POST /api/webhooks') return { name: 'hook', url: 'https://localhost:1/', triggers: ['TEST'] };
    return name.endsWith('/test') || name.endsWith('/resend') ? undefined : fullBodies[name];
  };

  test.each(named(posts))('%s: the same body returns the first answer, another body is 409', async (_name, entry) => {
    const hook = await organisation.call('POST', '/api/webhooks', bodyOf('POST /api/webhooks'));
    const at = `/api/webhooks/${hook.body.uuid}`;
    await organisation.call('POST', `${at}/test`);
    const [delivery] = (await organisation.call('GET', `${at}/deliveries`)).body.result;
    const url = service.url + entry.endpoint.path.replace(':uuid', hook.body.uuid).replace(':id', delivery.id);
    const headers = { 'idempotency-key': randomUUID() };
    const body = bodyOf(entry.name);
    const post = (sent: unknown) =>
      request('POST', url, { key: entry.key, headers, ...(sent === undefined ? {} : { body: sent }) });
    const [first, second] = [await post(body), await post(body)];
    const { signing_key: _shownOnce, ...shown } = first.body;
    expect([second.status, second.body]).toEqual([first.status, shown]);
    expect(first.status).toBeLessThan(300);
    const other = body === undefined ? {} : another(body);
    expect(JSON.stringify(other)).not.toBe(JSON.stringify(body));
    expect((await post(other)).status).toBe(409);
  });
});

/** Another valid body than the example. */
function another(body: object): unknown {
  const text = JSON.stringify(body).replaceAll('"00000000-', '"10000000-');
  return JSON.parse(text.replaceAll(/"(One|Chairs|hook)"/g, '"Other"'));
}

describe('GET under /api', () => {
  test('has an ETag, answers If-None-Match with 304, and is compressed when the client asks', async () => {
    const own = await service.organisation();
    await createSuppliers(
      own,
      Array.from({ length: 30 }, (_none, index) => `S${index}`),
    );
    for (let number = 0; number < 5; number += 1) await createEvent(own, { name: 'x'.repeat(120) });
    const job = (await own.call('GET', '/api/jobs')).body.result[0].id;
    const hook = (
      await own.call('POST', '/api/webhooks', { name: 'h', url: 'https://localhost:1/', triggers: ['TEST'] })
    ).body.uuid;
    const submission = (await own.call('GET', '/api/manage/supplier_changes')).body.result[0].uuid;
    const ids: Record<string, string> = {
      '/api/manage/suppliers/:external_id': 'S0',
      '/api/manage/supplier_changes/:uuid': submission,
      '/api/jobs/:id': job,
      [`/api/jobs/${jobTypes.CREATE_SOURCING_EVENT.path}/:id`]: job,
      '/api/webhooks/:uuid': hook,
      '/api/webhooks/:uuid/deliveries': hook,
    };
    const reads = organisationEndpoints.filter(({ method, path }) => method === 'GET' && path.startsWith('/api/'));
    const readable = reads.filter(({ path }) => !path.includes(':') || path in ids);
    expect(readable.length).toBeGreaterThanOrEqual(12);
    const encodings: string[] = [];
    for (const { path } of readable) {
      const url = service.url + path.replace(/:\w+/, ids[path] ?? '');
      const first = await request('GET', url, { key: own.key });
      const etag = first.headers.get('etag') ?? '';
      expect([path, first.status, etag]).toEqual([path, 200, expect.stringMatching(/^(W\/)?".+"$/)]);
      const again = await request('GET', url, { key: own.key, headers: { 'if-none-match': etag } });
      expect([path, again.status, again.body]).toEqual([path, 304, '']);
      const { encoding, bytes } = await compressed(url, own.key);
      const { length } = JSON.stringify(first.body);
      // Short answers are not compressed.
      expect([path, length >= 1_000 ? ['gzip'] : ['gzip', 'none']]).toEqual([path, expect.arrayContaining([encoding])]);
      expect(bytes).toBeLessThanOrEqual(length);
      encodings.push(encoding);
    }
    expect(encodings).toContain('gzip');
  });
});

/** The answer as it is sent: fetch would decompress it. */
function compressed(url: string, key: string): Promise<{ encoding: string; bytes: number }> {
  return new Promise((resolve, reject) => {
    const headers = { authorization: `Bearer ${key}`, 'accept-encoding': 'gzip' };
    rawRequest(url, { headers }, (response) => {
      let bytes = 0;
      response.on('data', (chunk: Buffer) => {
        bytes += chunk.length;
      });
      response.on('end', () => resolve({ encoding: response.headers['content-encoding'] ?? 'none', bytes }));
    })
      .on('error', reject)
      .end();
  });
}
