/**
 * One organisation sends bodies that are expensive to refuse. They are refused with few faults, away from the thread
 * that serves the others, and where a limit is reached before a byte of them is read.
 */
import { afterEach, describe, expect, test, vi } from 'vitest';
import { connectRaw } from '../harness/raw-connection.ts';
import { request } from '../harness/request.ts';
import { createEvent, createSuppliers, eventPayload } from '../harness/sourcing.ts';
import { startTestService } from '../harness/test-service.ts';

const service = await startTestService();
const attacker = await service.organisation();
await createSuppliers(attacker, ['S1']);
const event = await createEvent(attacker, eventPayload({ suppliers: ['S1'] }));
await attacker.call('POST', `/desk/events/${event}/publish`, {});
const bids = `/desk/events/${event}/bids`;
const port = Number(new URL(service.url).port);

afterEach(() => vi.restoreAllMocks());

const many = (count: number, piece: (index: number) => string) => Array.from({ length: count }, (_, at) => piece(at));
const object = (members: readonly string[]) => `{${members.join(',')}}`;
const bid = (lots: string, global = '{}') => `{"supplier":"S1","lots":[${lots}],"global":${global}}`;
const changes = (suppliers: string) => `{"change_data":{"suppliers":[${suppliers}]}}`;

/** The length of the longest text that this thread, which is the service's, has parsed as JSON. */
function longestParsed(): () => number {
  const parse = vi.spyOn(JSON, 'parse');
  return () => Math.max(0, ...parse.mock.calls.map(([text]) => text.length));
}

describe('600,000 wrong values', () => {
  const names = (value: string) => object(many(600_000, (at) => `"c${at}":${value}`));
  test.each<[string, string, string, string]>([
    ['in one lot of a bid', 'POST', bids, bid(`{"lot":"A","values":${names('1')}}`)],
    ['that are texts of unknown columns', 'POST', bids, bid(`{"lot":"A","values":${names('"1"')}}`)],
    ['for the event, in an edit', 'PATCH', bids, bid('{"lot":"A"}', names('1'))],
    [
      'in 20,000 lots',
      'POST',
      bids,
      bid(many(20_000, (lot) => `{"lot":"L${lot}","values":${object(many(30, (at) => `"c${at}":1`))}}`).join()),
    ],
    [
      'that are texts of unknown columns in 20,000 lots',
      'POST',
      bids,
      bid(many(20_000, (lot) => `{"lot":"L${lot}","values":${object(many(30, (at) => `"c${at}":""`))}}`).join()),
    ],
    ['as members that are not known', 'POST', bids, names('1')],
  ])('%s are refused with a hundred faults at most', async (_where, method, path, body) => {
    const parsed = longestParsed();
    const answer = await attacker.call(method, path, body);
    expect(answer.status).toBe(400);
    expect(answer.body.errors.length).toBeGreaterThan(0);
    expect(answer.body.errors.length).toBeLessThanOrEqual(100);
    // Only a body that its schema accepts is brought back into the service's thread.
    const isAccepted = body.includes(':""');
    expect(parsed() > 65_536).toBe(isAccepted);
  });
});

describe('submissions of suppliers', () => {
  test.each([
    [
      '300,000 contacts without a name',
      changes(`{"external_id":"S","contacts":[${many(300_000, () => '{}').join()}]}`),
    ],
    [
      '300,000 contacts without a name, of 300 suppliers',
      changes(many(300, (at) => `{"external_id":"S${at}","contacts":[${many(1_000, () => '{}').join()}]}`).join()),
    ],
    ['suppliers of 5 MB without an identifier', changes(many(1_600_000, () => '{}').join())],
    ['400,000 attributes', changes(`{"external_id":"S","fields":${object(many(400_000, (at) => `"f${at}":1`))}}`)],
  ])('with %s are refused with a hundred faults at most', async (_what, body) => {
    const parsed = longestParsed();
    const answer = await attacker.call('POST', '/api/manage/supplier_changes', body);
    expect([answer.status, answer.body.errors.length <= 100]).toEqual([400, true]);
    expect(parsed()).toBeLessThan(65_536);
  });
});

test('a body of more than two million values is refused before it is parsed', async () => {
  const answer = await attacker.call('POST', '/api/jobs', `[${'{},'.repeat(2_500_000)}{}]`);
  expect([answer.status, answer.body.detail]).toEqual([
    400,
    expect.stringMatching(/^The body has more than 2000000 values \(at character \d+\)\.$/),
  ]);
});

test('a large body that is right is taken, and a repetition with its Idempotency-Key is known', async () => {
  const lots = many(3_000, (at) => `Lot ${at}`);
  const payload = { type: 'CREATE_SOURCING_EVENT', ...eventPayload({ lots, suppliers: ['S1'] }) };
  const headers = { 'idempotency-key': 'large' };
  expect(JSON.stringify(payload).length).toBeGreaterThan(65_536);
  const first = await attacker.call('POST', '/api/jobs', payload, headers);
  const again = await attacker.call('POST', '/api/jobs', payload, headers);
  const other = await attacker.call('POST', '/api/jobs', { ...payload, name: 'Another' }, headers);
  expect([first.status, again.body.id, other.status]).toEqual([202, first.body.id, 409]);
});

describe('a limit that is reached', () => {
  const head = (key: string, path: string, ...more: string[]) =>
    [`POST ${path} HTTP/1.1`, 'Host: test', `Authorization: Bearer ${key}`, 'Content-Type: application/json', ...more]
      .join('\r\n')
      .concat('\r\n\r\n');

  async function limited(limits: object) {
    const organisation = await service.organisation();
    await service.operator('PUT', `/admin/organisations/${organisation.id}/limits`, limits);
    return organisation;
  }

  test.each([
    ['/api/jobs', { jobs_write: { burst: 1, sustained: 10 } }, 'Content-Length: 9000000'],
    ['/api/jobs/create-sourcing-events', { jobs_write: { burst: 1, sustained: 10 } }, 'Content-Length: 9000000'],
    [
      '/api/manage/supplier_changes',
      { supplier_changes_write: { burst: 1, sustained: 10 } },
      'Content-Length: 9000000',
    ],
    ['/desk/events/x/bids', { desk: { burst: 1, sustained: 10 } }, 'Transfer-Encoding: chunked'],
  ])('refuses POST %s before a byte of its body is read', async (path, limits, length) => {
    const { key, ...organisation } = await limited(limits);
    await organisation.call('POST', path, {});
    const connection = await connectRaw(port);
    connection.send(head(key, path, length));
    expect(await connection.until('"status":429')).toMatch(/^HTTP\/1\.1 429 /);
  });

  test('of POST /api/jobs counts a long body in chunks when its beginning has come', async () => {
    const { key, ...organisation } = await limited({ jobs_write: { burst: 1, sustained: 10 } });
    await organisation.call('POST', '/api/jobs', {});
    const connection = await connectRaw(port);
    connection.send(head(key, '/api/jobs', 'Transfer-Encoding: chunked'));
    connection.send(`5000\r\n${' '.repeat(0x5000)}\r\n`);
    expect(await connection.until('"status":429')).toMatch(/^HTTP\/1\.1 429 /);
  });

  test('of bytes refuses a large body before it is read, and no small one', async () => {
    const own = await startTestService({ largeBodyBytesPerMinute: 1_000_000 });
    const { id, key } = await own.organisation();
    await own.operator('PUT', `/admin/organisations/${id}/limits`, {});
    const body = JSON.stringify({ name: 'x'.repeat(900_000) });
    const post = (sent: unknown) => request('POST', `${own.url}/api/jobs/create-sourcing-events`, { key, body: sent });
    expect((await post(body)).status).toBe(400);
    const connection = await connectRaw(Number(new URL(own.url).port));
    connection.send(head(key, '/api/jobs/create-sourcing-events', 'Content-Length: 900000'));
    const refused = await connection.until('"status":429');
    expect(refused).toMatch(/\r\nRetry-After: \d+\r\n/i);
    expect(refused).toContain('1000000 bytes a minute');
    expect((await post({ name: 'small' })).status).toBe(202);
  });
});
