/** Invalid requests: the answer names the place of each fault. */
import { randomBytes } from 'node:crypto';
import { request as rawRequest } from 'node:http';
import { describe, expect, test } from 'vitest';
import { type HttpAnswer, request } from '../harness/request.ts';
import { createEvent, eventPayload } from '../harness/sourcing.ts';
import { startTestService } from '../harness/test-service.ts';

const service = await startTestService({ bodyBytesMax: 100_000 });
const organisation = await service.organisation();
const event = await createEvent(organisation, eventPayload());
const jobs = '/api/jobs/create-sourcing-events';

const paths = (answer: HttpAnswer) =>
  (answer.body.errors as { path: string }[] | undefined)?.map((error) => error.path);

/** The parts of a refusal that are checked; compare it with `refused`. */
function refusal(answer: HttpAnswer) {
  const showsInternals = / at .*\.ts|node_modules/.test(answer.body.detail);
  const type = answer.headers.get('content-type')?.split(';')[0];
  return { status: answer.status, type, paths: paths(answer), showsInternals };
}
const refused = (...expected: string[]) => ({
  status: 400,
  type: 'application/problem+json',
  paths: expected,
  showsInternals: false,
});

const sheet = (changes: object) => ({ ...eventPayload(), bid_sheet: { ...eventPayload().bid_sheet, ...changes } });
const column = { name: 'P', column_type: 'INPUT', input_by: 'SUPPLIER_INPUT', input_type: 'NUMBER' };

describe('a body', () => {
  test.each<[string, string, string, unknown, string[]]>([
    ['an unknown field', 'POST', jobs, { name: 'x', nmae: 'y' }, ['nmae']],
    ['unknown fields inside', 'POST', jobs, { name: 'x', settings: { test: true } }, ['settings.test']],
    ['a missing field', 'POST', jobs, {}, ['name']],
    ['a wrong type', 'POST', jobs, { name: 7 }, ['name']],
    ['a list for an object', 'POST', jobs, [], ['']],
    ['null', 'POST', jobs, 'null', ['']],
    ['a text too long', 'POST', jobs, { name: 'x'.repeat(121) }, ['name']],
    ['an empty name', 'POST', jobs, { name: '' }, ['name']],
    [
      'a wrong precision',
      'POST',
      jobs,
      sheet({ columns: [{ ...column, precision: -1 }] }),
      ['bid_sheet.columns[0].precision'],
    ],
    [
      'half a precision',
      'POST',
      jobs,
      sheet({ columns: [{ ...column, precision: 1.5 }] }),
      ['bid_sheet.columns[0].precision'],
    ],
    [
      'an unknown column type',
      'POST',
      jobs,
      sheet({ columns: [{ ...column, column_type: 'OUTPUT' }] }),
      ['bid_sheet.columns[0].column_type'],
    ],
    ['an invalid currency', 'POST', jobs, { name: 'x', primary_currency: 'euro' }, ['primary_currency']],
    [
      'numbers for decimals',
      'POST',
      jobs,
      { name: 'x', secondary_currencies: [{ code: 'USD', exchange_rate: 1.1 }] },
      ['secondary_currencies[0].exchange_rate'],
    ],
    [
      'a contact without a name',
      'POST',
      '/api/manage/supplier_changes',
      { change_data: { suppliers: [{ external_id: 'S', name: 'n', contacts: [{ email: 'a@b.c' }] }] } },
      ['change_data.suppliers[0].contacts[0].name'],
    ],
    [
      'a contact without an e-mail',
      'POST',
      '/api/manage/supplier_changes',
      { change_data: { suppliers: [{ external_id: 'S', name: 'n', contacts: [{ name: 'Ann' }] }] } },
      ['change_data.suppliers[0].contacts[0].email'],
    ],
    [
      'a supplier twice',
      'POST',
      '/api/manage/supplier_changes',
      {
        change_data: {
          suppliers: [
            { external_id: 'S', name: 'n' },
            { external_id: 'S', name: 'm' },
          ],
        },
      },
      ['change_data.suppliers[1].external_id'],
    ],
    [
      'no suppliers',
      'POST',
      '/api/manage/supplier_changes',
      { change_data: { suppliers: [] } },
      ['change_data.suppliers'],
    ],
    ['no body', 'POST', '/api/manage/supplier_changes', undefined, ['']],
    [
      'a share above 1',
      'PUT',
      `/desk/events/${event}/scenarios/x`,
      { awards: [{ lot: 'A', supplier: 'S', share_awarded: '1.1' }] },
      ['awards[0].share_awarded'],
    ],
    ['a field where there are none', 'POST', `/desk/events/${event}/publish`, { force: true }, ['force']],
  ])('with %s is refused with the path of the fault', async (_what, method, path, body, expected) => {
    expect(refusal(await organisation.call(method, path, body))).toEqual(refused(...expected));
  });

  test('with several faults is refused with all of them', async () => {
    const answer = await organisation.call('POST', jobs, { description: 1, foo: 1, tags: [{ name: 't' }] });
    expect(new Set(paths(answer))).toEqual(new Set(['name', 'description', 'foo', 'tags[0].value']));
  });

  test.each([
    ['a NUL', '{"name":"a\\u0000b"}', ['name']],
    ['half of a surrogate pair', '{"name":"a\\ud800b"}', ['name']],
    ['a field called __proto__', '{"name":"x","__proto__":{"a":1}}', ['__proto__']],
    ['a field called constructor', '{"name":"x","constructor":{"a":1}}', ['constructor']],
  ])('with %s is refused', async (_what, body, expected) => {
    expect(refusal(await organisation.call('POST', jobs, body))).toEqual(refused(...expected));
  });

  test('with a value named __proto__ is refused, because it would be lost', async () => {
    const bid = '{"supplier":"S1","lots":[{"lot":"A","values":{"__proto__":"1"}}]}';
    const refusedBid = await organisation.call('POST', `/desk/events/${event}/bids`, bid);
    expect(refusal(refusedBid)).toEqual(refused('lots[0].values.__proto__'));
    const change = '{"change_data":{"suppliers":[{"external_id":"S1","fields":{"__proto__":"1"}}]}}';
    const refusedChange = await organisation.call('POST', '/api/manage/supplier_changes', change);
    expect(refusal(refusedChange)).toEqual(refused('change_data.suppliers[0].fields.__proto__'));
  });

  test.each([
    ['not JSON', '{"name":'],
    ['JavaScript', "{name:'x'}"],
    ['two values', '{}{}'],
    ['not UTF-8', Buffer.from('7b226e616d65223a22ff227d', 'hex')],
  ])('that is %s is refused', async (_what, body) => {
    const answer = await organisation.call('POST', jobs, body);
    expect(answer.status).toBe(400);
    expect(answer.body.detail).toMatch(/not valid (JSON|UTF-8)/);
  });

  test('may be at most 64 levels deep', async () => {
    const nested = (levels: number) => `{"name":"x","deep":${'['.repeat(levels - 1)}${']'.repeat(levels - 1)}}`;
    const fits = await organisation.call('POST', jobs, nested(64));
    expect(paths(fits)).toEqual(['deep']);
    expect(fits.body.errors[0].message).toBe('is not a known field');
    const tooDeep = await organisation.call('POST', jobs, nested(65));
    expect(tooDeep.status).toBe(400);
    expect(tooDeep.body.errors[0].message).toContain('deeper than 64');
    expect((await organisation.call('POST', jobs, nested(40_000))).status).toBe(400);
  });

  test('of another media type is 415', async () => {
    for (const type of [
      'text/plain',
      'application/x-www-form-urlencoded',
      'application/xml',
      'multipart/form-data; boundary=x',
    ])
      expect((await organisation.call('POST', jobs, '{"name":"x"}', { 'content-type': type })).status).toBe(415);
    expect(
      (await organisation.call('POST', jobs, '{"name":"x"}', { 'content-type': 'application/json; charset=utf-8' }))
        .status,
    ).toBe(202);
  });

  test('over the limit is 413, also without a Content-Length', async () => {
    const big = JSON.stringify({ name: 'x'.repeat(100_001) });
    expect((await organisation.call('POST', jobs, big)).status).toBe(413);
    const chunked = await new Promise<number | undefined>((resolve, reject) => {
      const sent = rawRequest(
        service.url + jobs,
        {
          method: 'POST',
          headers: {
            authorization: `Bearer ${organisation.key}`,
            'content-type': 'application/json',
            'transfer-encoding': 'chunked',
          },
        },
        (response) => {
          response.resume();
          resolve(response.statusCode);
        },
      );
      sent.on('error', reject);
      sent.end(big);
    });
    expect(chunked).toBe(413);
  });

  test('of exactly the limit is accepted', async () => {
    const empty = JSON.stringify({ name: '' }).length;
    const answer = await organisation.call('POST', jobs, { name: 'x'.repeat(100_000 - empty) });
    expect(refusal(answer)).toEqual(refused('name'));
  });

  test('with a fault is refused without repeating its values', async () => {
    const secret = 'hunter2-hunter2';
    const answer = await organisation.call('POST', jobs, {
      name: 7,
      primary_currency: secret,
      settings: secret,
      reference_id: [secret],
    });
    expect(JSON.stringify(answer.body)).not.toContain(secret);
  });
});

describe('a query', () => {
  test.each([
    ['/api/feeds/awards?sort=x', ['sort']],
    ['/api/feeds/awards?page_number=1', ['page_number']],
    ['/api/feeds/sourcing-events?sourcing_event=0b4f5c3e-1f0a-4a4e-9df0-1f2e3d4c5b6a', ['sourcing_event']],
    ['/api/feeds/awards?page_size=0', ['page_size']],
    ['/api/feeds/awards?page_size=1001', ['page_size']],
    ['/api/feeds/awards?page_size=ten', ['page_size']],
    ['/api/feeds/awards?page_size=1&page_size=2', ['page_size']],
    ['/api/feeds/awards?sourcing_event=1', ['sourcing_event']],
    ['/api/feeds/awards?modified_after=yesterday', ['modified_after']],
    ['/api/feeds/awards?modified_before=2030-02-30', ['modified_before']],
    ['/api/feeds/sourcing-events?status=open', ['status']],
    ['/api/manage/suppliers?page_size=1&name=M%FCller', ['name']],
    ['/api/manage/suppliers?name=%ED%A0%80', ['name']],
    ['/api/manage/suppliers?name=100%', ['name']],
    ['/api/feeds/sourcing-events?filter[tags.%FF]=x', ['filter[tags.%FF]']],
    ['/api/webhooks?page_number=0', ['page_number']],
    ['/api/webhooks?page_size=1001', ['page_size']],
    ['/api/webhooks?name=x', ['name']],
    ['/desk/events?q=x', ['q']],
    [`/api/jobs/${event}?full=1`, ['full']],
  ])('%s is refused with the name of the parameter', async (path, expected) => {
    expect(refusal(await organisation.call('GET', path))).toEqual(refused(...expected));
  });
});

describe('a path', () => {
  test('is the same with and without a final slash', async () => {
    for (const path of ['/api/feeds/awards', '/api/webhooks', '/desk/events', `/desk/events/${event}`])
      expect((await organisation.call('GET', `${path}/`)).status).toBe(200);
    expect((await organisation.call('POST', `${jobs}/`, { name: 'x' })).status).toBe(202);
  });

  test('that has only other methods is 405 with those methods', async () => {
    const allowed: [string, string, string][] = [
      ['POST', '/api/feeds/awards', 'GET, HEAD'],
      ['PUT', '/api/webhooks', 'POST, GET, HEAD'],
      ['PUT', `/api/webhooks/${event}`, 'GET, HEAD, PATCH, DELETE'],
      ['DELETE', '/admin/organisations', 'POST'],
    ];
    for (const [method, path, allow] of allowed) {
      const answer = await organisation.call(method, path);
      expect(answer.status).toBe(405);
      expect(answer.headers.get('allow')?.split(', ').sort()).toEqual(allow.split(', ').sort());
    }
  });

  test('that is unknown or malformed is answered as a problem', async () => {
    expect((await organisation.call('GET', '/api/nothing')).status).toBe(404);
    expect((await organisation.call('GET', '/API/webhooks')).status).toBe(404);
    expect((await organisation.call('GET', '/api/jobs/%ff')).status).toBe(400);
    for (const id of ['%00', '1', `${event}0`, `%20${event}`, "'"])
      expect([400, 404]).toContain((await organisation.call('GET', `/api/jobs/${id}`)).status);
    expect((await organisation.call('PUT', `/desk/events/${event}/scenarios/a%00b`, { awards: [] })).status).toBe(400);
    expect(
      (await organisation.call('PUT', `/desk/events/${event}/scenarios/${'x'.repeat(256)}`, { awards: [] })).status,
    ).not.toBe(200);
  });

  test('of the maximum length is 404, also with an Idempotency-Key', async () => {
    const long = randomBytes(12_000).toString('hex');
    for (const path of [`/api/webhooks/${long}/test`, `/api/jobs/${long}`, `/api/${long}`]) {
      const answer = await organisation.call('POST', path, {}, { 'idempotency-key': 'long' });
      expect([404, 405]).toContain(answer.status);
    }
  });

  test('an id may have upper-case letters', async () => {
    expect((await organisation.call('GET', `/desk/events/${event.toUpperCase()}`)).status).toBe(200);
  });

  test('HEAD answers as GET, without the body', async () => {
    const head = await request('HEAD', `${service.url}/api/feeds/awards`, { key: organisation.key });
    expect([head.status, head.body, head.headers.get('feed-order')]).toEqual([200, '', 'commit']);
  });

  test('a DELETE refuses a body', async () => {
    expect((await organisation.call('DELETE', `/api/webhooks/${event}`, { a: 1 })).status).toBe(400);
  });
});
