/** The service's audit log: what changes something is in it with its author, and a flood of refusals is a few rows. */
import { randomUUID } from 'node:crypto';
import { describe, expect, test } from 'vitest';
import { type ActionFilter, readActions, recordAction } from '#platform/audit-log.ts';
import { silentLogger } from '#platform/log.ts';
import { createAccessRecord } from '#service/audit/access-record.ts';
import { auditedCalls } from '#service/audit/audited-calls.ts';
import { eventually } from '../../harness/eventually.ts';
import { createManualClock } from '../../harness/manual-clock.ts';
import { request } from '../../harness/request.ts';
import { createEvent, createSuppliers, eventPayload } from '../../harness/sourcing.ts';
import { createTestDatabase } from '../../harness/test-database.ts';
import { startTestService } from '../../harness/test-service.ts';
import { operatorEndpoints, organisationEndpoints } from '../endpoint-tables.ts';

const service = await startTestService();
const read = (filter: Partial<ActionFilter> = {}) =>
  readActions(service.db.database, 'service', { limit: 1_000, ...filter });

/** Calls whose effect is kept as a row of its own, with its author and its time. */
const keptElsewhere = /^\S+ \/api\/(manage|jobs)\//;

test('every call that changes something is in the log, unless what it makes is a row of its own', () => {
  const changing = [...operatorEndpoints, ...organisationEndpoints]
    .filter(({ method }) => method !== 'GET')
    .map(({ method, path }) => `${method} ${path}`)
    .filter((route) => !keptElsewhere.test(`${route}/`));
  expect(Object.keys(auditedCalls).sort()).toEqual(changing.sort());
});

describe('an entry', () => {
  test('of the operator says what was set, on which organisation, from where, and not the key that was made', async () => {
    const { id } = (await service.operator('POST', '/admin/organisations', { name: 'Acme' })).body;
    await service.operator('PUT', `/admin/organisations/${id}/allowed-networks`, { cidrs: ['10.0.0.0/8'] });
    const made = await service.operator('POST', `/admin/organisations/${id}/api-keys`, {
      name: 'erp',
      scopes: ['feeds'],
      user: { name: 'Anna Ash', email: 'anna@example.com' },
    });
    await service.operator('DELETE', `/admin/organisations/${id}/api-keys/${made.body.id}`);
    const key = `api-key ${made.body.id}`;
    const operator = { who: { kind: 'token', name: 'operator' }, from: '127.0.0.1', outcome: 'allowed' };
    expect(await read({ object: key })).toMatchObject([
      { ...operator, what: 'api-key.revoke', details: { organisation: id } },
      { ...operator, what: 'api-key.create', details: { organisation: id, name: 'erp', scopes: ['feeds'] } },
    ]);
    expect(await read({ object: `organisation ${id}` })).toMatchObject([
      { ...operator, what: 'organisation.allowed-networks', details: { cidrs: ['10.0.0.0/8'] } },
      { ...operator, what: 'organisation.create', details: { name: 'Acme' } },
    ]);
    const text = JSON.stringify(await read());
    for (const hidden of [made.body.key, service.adminToken, 'anna@example.com', 'Anna Ash'])
      expect(text).not.toContain(hidden);
  });

  test('of the desk names the key, and is there once for a request that is repeated with its Idempotency-Key', async () => {
    const organisation = await service.organisation();
    await createSuppliers(organisation, ['S1']);
    const id = await createEvent(organisation, eventPayload({ suppliers: ['S1'] }));
    const publish = `/desk/events/${id}/publish`;
    const headers = { 'idempotency-key': randomUUID() };
    for (let times = 0; times < 2; times += 1)
      expect((await organisation.call('POST', publish, {}, headers)).status).toBe(200);
    const bid = { supplier: 'S1', lots: [{ lot: 'A', values: { Price: '3' } }] };
    expect((await organisation.call('POST', `/desk/events/${id}/bids`, bid)).status).toBe(200);
    expect(await read({ object: `event ${id}` })).toMatchObject([
      { what: 'bid.submit', details: { organisation: organisation.id, supplier: 'S1' } },
      {
        what: 'event.publish',
        who: { kind: 'key', name: expect.stringMatching(/^test \([0-9a-f-]{36}\)$/) },
        from: '127.0.0.1',
        outcome: 'allowed',
      },
    ]);
  });

  test('of a change that was rolled back is not there; the refusal is, with its reason', async () => {
    const organisation = await service.organisation();
    const id = await createEvent(organisation, eventPayload());
    const answer = await organisation.call('POST', `/desk/events/${id}/close`, {});
    expect(answer.status).toBe(409);
    const found = await eventually('the refusal is written', async () => {
      const entries = await read({ object: `event ${id}` });
      return entries.length > 0 && entries;
    });
    expect(found).toMatchObject([{ what: 'event.close', outcome: 'refused', details: { why: answer.body.detail } }]);
  });

  test('of a change that cannot be logged is not made', async () => {
    const other = await startTestService();
    const organisation = await other.organisation();
    await other.db.database.query(
      'alter table service.actions add constraint full_disk check (what <> $$event.delete$$)',
    );
    const id = await createEvent(organisation, eventPayload());
    expect((await organisation.call('POST', `/desk/events/${id}/delete`, {})).status).toBe(500);
    const [event] = await other.db.database.query('select status from service.sourcing_events where id = $1', [id]);
    expect(event).toEqual({ status: 'DRAFT' });
  });
});

test('the first use of a key from an address is an entry, and each scope that it lacks', async () => {
  const organisation = await service.organisation();
  const { body } = await service.operator('POST', `/admin/organisations/${organisation.id}/api-keys`, {
    name: 'reader',
    scopes: ['feeds'],
  });
  for (let times = 0; times < 3; times += 1) {
    expect((await request('GET', `${service.url}/api/feeds/awards`, { key: body.key })).status).toBe(200);
    expect((await request('GET', `${service.url}/desk/events`, { key: body.key })).status).toBe(403);
  }
  const name = `reader (${body.id})`;
  const found = await eventually('both are written', async () => {
    const entries = await read({ name });
    return entries.length >= 2 && entries;
  });
  expect(found.map(({ what, object, outcome }) => `${what} ${object} ${outcome}`).sort()).toEqual([
    'api.call scope desk refused',
    'api.login null allowed',
  ]);
});

describe('a flood', () => {
  const stranger = (address: string) => ({ who: { kind: 'key', name: 'unknown' }, from: address }) as const;
  const login = { what: 'api.login', object: null };

  async function startRecord() {
    const { database } = await createTestDatabase();
    const clock = createManualClock();
    const record = createAccessRecord({ database, clock, log: silentLogger });
    const counts = async () => {
      const entries = await readActions(database, 'service', { limit: 1_000 });
      return entries.map(({ from, details }) => [from, details['more']]);
    };
    return { clock, record, counts };
  }

  test('of the same refusal is one row at once, and one with the count when ten minutes are over', async () => {
    const { clock, record, counts } = await startRecord();
    for (let times = 0; times < 5_000; times += 1) record.refused(stranger('192.0.2.7'), login);
    await eventually('the first is written', async () => (await counts()).length === 1);
    clock.advance(10 * 60_000);
    await eventually('the count is written', async () => (await counts()).length === 2);
    expect(await counts()).toEqual([
      ['192.0.2.7', 4_999],
      ['192.0.2.7', undefined],
    ]);
    await record.close();
    expect(await counts()).toHaveLength(2);
  });

  test('from many addresses is twenty rows and one count of all others, which a stop writes, too', async () => {
    const { record, counts } = await startRecord();
    for (let address = 0; address < 500; address += 1)
      record.refused(stranger(`2001:db8::${address.toString(16)}`), login);
    await record.close();
    const rows = await counts();
    expect(rows).toHaveLength(21);
    expect(rows.filter(([from]) => from === null)).toEqual([[null, 480]]);
  });

  test('of wrong tokens at the service is counted by its address and by what they would have been', async () => {
    const before = (await read({ what: 'api.login', outcome: 'refused' })).length;
    for (let times = 0; times < 20; times += 1) {
      expect((await request('GET', `${service.url}/desk/events`, { key: `sb_${times}` })).status).toBe(401);
      expect((await request('GET', `${service.url}/admin/organisations/x/api-keys`, { key: `t${times}` })).status).toBe(
        401,
      );
    }
    await eventually(
      'both are written',
      async () => (await read({ what: 'api.login', outcome: 'refused' })).length > before + 1,
    );
    const names = (await read({ what: 'api.login', outcome: 'refused' })).map(({ who }) => `${who.kind} ${who.name}`);
    expect(names.sort()).toEqual(['key unknown', 'token operator']);
  });
});

describe('the log of the service', () => {
  test.each(["update service.actions set name = 'x'", 'delete from service.actions', 'truncate service.actions'])(
    'is only appended to: the database refuses "%s"',
    async (statement) => {
      await service.organisation();
      await expect(service.db.database.query(statement)).rejects.toThrow(/only appended to/);
    },
  );

  test('loses what is older than the setting says with the sweep', async () => {
    const when = '2020-01-01T00:00:00.000000Z';
    const by = { who: { kind: 'token', name: 'operator' }, from: null } as const;
    await recordAction(service.db.database, 'service', { ...by, ...login('old'), when, outcome: 'allowed' });
    const other = await startTestService({ db: service.db });
    await other.service.sweep();
    expect(await read({ object: 'old' })).toEqual([]);
    expect((await read()).length).toBeGreaterThan(0);
  });

  const login = (object: string) => ({ what: 'api.login', object });
});
