/** The user that an API key names, and when and from where it was last used. */
import { Client } from 'pg';
import { expect, test } from 'vitest';
import { connectionLimitsDefault } from '#platform/http/connections.ts';
import { createKeyUses, plainAddress } from '#service/key-uses.ts';
import { eventually } from '../../harness/eventually.ts';
import { createManualClock } from '../../harness/manual-clock.ts';
import { request } from '../../harness/request.ts';
import { processedSubmission } from '../../harness/sourcing.ts';
import { startRecordedService, startTestService } from '../../harness/test-service.ts';

const clock = createManualClock(Date.UTC(2030, 0, 1));
const service = await startRecordedService({ clock });
const { database } = service.db;
const una = { name: 'Una Buyer', email: 'una@buyer.example' };

async function newKey(organisation: string, body: object = {}) {
  const made = await service.operator('POST', `/admin/organisations/${organisation}/api-keys`, { name: 'k', ...body });
  expect(made.status).toBe(201);
  return made.body;
}

const listed = async (organisation: string, id: string) => {
  const { body } = await service.operator('GET', `/admin/organisations/${organisation}/api-keys?page_size=1000`);
  return body.result.find((key: { id: string }) => key.id === id);
};

async function eventBy(key: string) {
  const call = (method: string, path: string, body?: unknown) =>
    request(method, service.url + path, { key, ...(body === undefined ? {} : { body }) });
  const job = await call('POST', '/api/jobs/create-sourcing-events', { name: 'Chairs' });
  const id = await eventually(
    'the event is there',
    async () => (await call('GET', `/api/jobs/${job.body.id}`)).body.created_entity,
  );
  return (await call('GET', `/api/feeds/sourcing-events?id=${id}`)).body.data[0];
}

test('a key that names a user is created and listed with it, another with null', async () => {
  const { id } = await service.organisation();
  const made = await newKey(id, { user: una });
  expect(made.user).toEqual(una);
  expect((await listed(id, made.id)).user).toEqual(una);
  const other = await newKey(id);
  expect(other).not.toHaveProperty('user');
  expect((await listed(id, other.id)).user).toBeNull();
});

test("created_by and roles show the key's user, who is the same for every key with that address; without one the key", async () => {
  const { id } = await service.organisation();
  const first = await eventBy((await newKey(id, { user: una })).key);
  const user = {
    id: expect.stringMatching(/^[0-9a-f]{8}-[0-9a-f]{4}-8[0-9a-f]{3}-a[0-9a-f]{3}-[0-9a-f]{12}$/),
    ...una,
  };
  expect(first.created_by).toEqual(user);
  expect(first.roles).toEqual([{ role_type: 'ADMIN', user: [user] }]);
  const renamed = { name: 'Una', email: 'Una@Buyer.example' };
  const second = await eventBy((await newKey(id, { user: renamed })).key);
  expect(second.created_by).toEqual({ id: first.created_by.id, ...renamed });
  const bob = await eventBy((await newKey(id, { user: { ...una, email: 'bob@buyer.example' } })).key);
  expect(bob.created_by.id).not.toBe(first.created_by.id);
  const stranger = await service.organisation();
  const theirs = await eventBy((await newKey(stranger.id, { user: una })).key);
  expect(theirs.created_by.id).not.toBe(first.created_by.id);
  const plain = await newKey(id);
  expect((await eventBy(plain.key)).created_by).toEqual({ id: plain.id });
});

test("a submission shows the key's user in created_by and user_name", async () => {
  const organisation = await service.organisation();
  const { id: key_id, key } = await newKey(organisation.id, { user: una });
  const body = { change_data: { suppliers: [{ external_id: 'S1', name: 'One' }] } };
  const sent = await request('POST', `${service.url}/api/manage/supplier_changes`, { key, body });
  const read = await processedSubmission(organisation, sent.body.result.uuid);
  expect(read.user_name).toBe('Una Buyer');
  expect(read.created_by).toBe((await eventBy(key)).created_by.id);
  expect(read.created_by).not.toBe(key_id);
});

test('an expires_at that is now or before is refused, a moment later is taken', async () => {
  const { id } = await service.organisation();
  const create = (expires_at: string) =>
    service.operator('POST', `/admin/organisations/${id}/api-keys`, { name: 'k', expires_at });
  const now = clock.nowMs();
  for (const at of [now - 1, now]) {
    const refused = await create(new Date(at).toISOString());
    expect([refused.status, refused.body.errors]).toEqual([
      400,
      [{ path: 'expires_at', message: 'must be in the future' }],
    ]);
  }
  expect((await create(new Date(now + 1).toISOString())).status).toBe(201);
});

test('last_used is null before the first call, and then its time and address, written once a minute', async () => {
  const { id } = await service.organisation();
  const made = await newKey(id);
  const lastUsed = async () => (await listed(id, made.id)).last_used;
  expect(await lastUsed()).toBeNull();
  const call = () =>
    request('GET', `${service.url}/api/feeds/awards`, { key: made.key, headers: { 'x-forwarded-for': '203.0.113.9' } });
  const start = clock.nowMs();
  const at = (ms: number) => ({ time: new Date(ms).toISOString().replace('Z', '000Z'), address: '127.0.0.1' });
  await call();
  await eventually('it is written', async () => (await lastUsed()) !== null);
  expect(await lastUsed()).toEqual(at(start));
  clock.advance(59_999);
  await call();
  clock.advance(1);
  await call();
  await eventually('it is written again', async () => (await lastUsed()).time !== at(start).time);
  expect(await lastUsed()).toEqual(at(start + 60_000));
  // A refused key is not used, and a scope that it lacks does not hide its use.
  const silent = await newKey(id, { scopes: ['feeds'] });
  expect((await request('GET', `${service.url}/desk/events`, { key: silent.key })).status).toBe(403);
  await eventually('it is written', async () => (await listed(id, silent.id)).last_used !== null);
});

test('behind a trusted proxy the address is that of its client, and a client cannot name another one', async () => {
  const proxied = await startTestService({
    connections: { ...connectionLimitsDefault, isTrustedProxy: (address) => plainAddress(address) === '127.0.0.1' },
  });
  const { id } = await proxied.organisation();
  const created = await proxied.operator('POST', `/admin/organisations/${id}/api-keys`, {
    name: 'k',
    scopes: ['feeds'],
  });
  // A proxy adds the address from which it was called behind what the client has sent.
  const headers = { 'x-forwarded-for': '198.51.100.1, 203.0.113.9' };
  await request('GET', `${proxied.url}/api/feeds/awards`, { key: created.body.key, headers });
  const used = async () =>
    (await proxied.operator('GET', `/admin/organisations/${id}/api-keys`)).body.result.find(
      (key: { id: string }) => key.id === created.body.id,
    ).last_used;
  await eventually('it is written', async () => (await used()) !== null);
  expect((await used()).address).toBe('203.0.113.9');
});

test('a request does not wait for its use to be written', async () => {
  const { id } = await service.organisation();
  const made = await newKey(id);
  const blocker = new Client({ connectionString: service.db.url });
  await blocker.connect();
  try {
    await blocker.query('begin');
    await blocker.query('select from service.api_keys where id = $1 for update', [made.id]);
    expect((await request('GET', `${service.url}/api/feeds/awards`, { key: made.key })).status).toBe(200);
    expect((await listed(id, made.id)).last_used).toBeNull();
  } finally {
    await blocker.end();
  }
  await eventually('it is written', async () => (await listed(id, made.id)).last_used !== null);
});

test('many uses at once are one statement; an older use of another process, and a failure, change nothing', async () => {
  const { id } = await service.organisation();
  const made = await newKey(id);
  let statements = 0;
  let fails = false;
  const counted = {
    ...database,
    query: (async (...args: Parameters<typeof database.query>) => {
      statements += 1;
      if (fails) throw new Error('away');
      return database.query(...args);
    }) as typeof database.query,
  };
  const own = createManualClock(Date.UTC(2031, 0, 1));
  const log = { debug: () => undefined } as never;
  const uses = createKeyUses({ database: counted, clock: own, log });
  for (let time = 0; time < 100; time += 1) uses.used(made.id, '192.0.2.1');
  await uses.close();
  expect(statements).toBe(1);
  const older = createKeyUses({ database: counted, clock: createManualClock(Date.UTC(2030, 5, 1)), log });
  older.used(made.id, '192.0.2.2');
  await older.close();
  own.advance(60_000);
  fails = true;
  uses.used(made.id, '192.0.2.3');
  await uses.close();
  expect((await listed(id, made.id)).last_used).toEqual({ time: '2031-01-01T00:00:00.000000Z', address: '192.0.2.1' });
});

test.each([
  ['::ffff:192.0.2.1', '192.0.2.1'],
  ['2001:db8::1', '2001:db8::1'],
  ['::1', '::1'],
  [undefined, undefined],
])('the address %s is shown as %s', (address, shown) => {
  expect(plainAddress(address)).toBe(shown);
});
