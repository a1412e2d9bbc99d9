/**
 * After an erasure a dump of all tables of the service does not hold the address, whatever the person was in; feeds are
 * else what they were, and whoever reads them learns of it.
 */
import { beforeAll, describe, expect, test } from 'vitest';
import { readActions, recordAction } from '#platform/audit-log.ts';
import type { Database } from '#platform/database/database.ts';
import { createPerson } from '#platform/person-data/person.ts';
import { findTextTables } from '#platform/person-data/stored-text.ts';
import { erasePerson } from '#service/erasure/erase-person.ts';
import { createManualClock } from '../../harness/manual-clock.ts';
import { request } from '../../harness/request.ts';
import { changeSuppliers, createEvent, createRequest, desk, eventPayload } from '../../harness/sourcing.ts';
import type { TestOrganisation } from '../../harness/test-organisation.ts';
import { startTestService } from '../../harness/test-service.ts';

const clock = createManualClock();
const service = await startTestService({ clock });
const { database } = service.db;
const address = 'Ann.Ash@example.com';
const person = createPerson(address, '00112233aabb');
const bob = { name: 'Bob', email: 'bob.ann.ash@example.com' };

/** All that the schema has, as text. */
async function dump(sql: Database): Promise<string> {
  const tables = await sql.query<{ name: string }>(
    `select oid::regclass::text as name from pg_class
     where relnamespace = 'service'::regnamespace and relkind = 'r' order by 1`,
  );
  const texts: string[] = [];
  for (const { name } of tables)
    for (const { row } of await sql.query<{ row: string }>(`select t::text as row from ${name} t`))
      texts.push(`${name} ${row}`);
  return texts.join('\n');
}

let organisation: TestOrganisation;
let ownKey: { id: string; key: string };
let event: string;
let draft: string;

async function feed(name: string): Promise<{ id: string; modified: string }[]> {
  const answer = await organisation.call('GET', `/api/feeds/${name}?page_size=100`);
  expect(answer.status).toBe(200);
  return answer.body.data;
}
const feeds = ['sourcing-events', 'latest-bids', 'awards', 'rfi-responses'];
const withoutStamps = (records: readonly { modified: string }[]) =>
  records.map(({ modified: _modified, ...rest }) => rest);

beforeAll(async () => {
  organisation = await service.organisation();
  const admin = `/admin/organisations/${organisation.id}`;
  ownKey = (
    await service.operator('POST', `${admin}/api-keys`, {
      name: 'ann',
      scopes: ['manage', 'jobs', 'desk', 'feeds'],
      user: { name: 'Ann Ash', email: address },
    })
  ).body;
  // With a user of her own, and with her among the contacts, in texts, in tags and as the event's contact.
  const byAnn: TestOrganisation = {
    ...organisation,
    call: (method, path, body, headers) =>
      request(method, service.url + path, {
        key: ownKey.key,
        ...(body !== undefined && { body }),
        ...(headers && { headers }),
      }),
  };
  await service.operator('POST', `${admin}/supplier-attributes`, { name: 'Mail' });
  await changeSuppliers(
    byAnn,
    {
      external_id: 'S1',
      name: 'Acme',
      fields: { Mail: `office, or ${address}` },
      contacts: [{ name: 'Ann Ash', email: address }, bob],
    },
    { external_id: 'S2', name: 'Beta', contacts: [{ name: 'Ann Ash', email: address.toUpperCase() }] },
  );
  const named = {
    ...eventPayload({ suppliers: ['S1', 'S2'], lots: ['A', `B for ${address}`] }),
    description: `Questions to ${address}.`,
    event_contact: { name: 'Ann Ash', email: address },
    suppliers: [{ external_id: 'S1', contacts: [address, bob.email] }, { external_id: 'S2' }],
    tags: [{ name: 'Owner', value: address }],
  };
  event = await createEvent(byAnn, named);
  draft = await createEvent(byAnn, { ...named, name: `Draft of ${address}` });
  await createRequest(byAnn, { requested_by: address, description: `for ${address}` });
  await desk(byAnn, 'POST', `${event}/publish`);
  await desk(byAnn, 'POST', `${draft}/publish`);
  await desk(byAnn, 'POST', `${draft}/unpublish`);
  await desk(byAnn, 'POST', `${event}/bids`, { supplier: 'S1', lots: [{ lot: 'A', values: { Price: '3' } }] });
  await desk(byAnn, 'PUT', `${event}/scenarios/${encodeURIComponent(`of ${address}`)}`, {
    awards: [{ lot: 'A', supplier: 'S1', share_awarded: '1' }],
  });
  await desk(byAnn, 'POST', `${event}/award`, { scenario: `of ${address}` });
  await desk(byAnn, 'POST', `${event}/close`);
  await recordAction(database, 'service', {
    who: { kind: 'key', name: `key of ${address}` },
    what: 'api.login',
    object: `user ${address}`,
    from: null,
    details: { said: address },
    when: '2030-01-01T00:00:00.000000Z',
    outcome: 'refused',
  });
});

describe('an erasure', () => {
  test('leaves the address in no table; what it was not in is as it was; readers of the feeds learn of it', async () => {
    const before = new Map<string, { id: string; modified: string }[]>();
    for (const name of feeds) before.set(name, await feed(name));
    expect(person.isIn(await dump(database))).toBe(true);
    expect(JSON.stringify(before.get('sourcing-events'))).toContain(address);
    clock.advance(60_000);

    const told: number[][] = [];
    const erased = await erasePerson({ database, clock }, person, (...figures) => told.push(figures));
    const [tables, of, rows] = told.at(-1) ?? [];
    expect([tables, rows]).toEqual([of, [...erased.values()].reduce((sum, each) => sum + each, 0)]);

    const after = await dump(database);
    expect(after.split('\n').filter((line) => person.isIn(line))).toEqual([]);
    expect(after).not.toContain('Ann Ash');
    // The other contact, whose address ends like hers, stays.
    expect(after).toContain(bob.email);
    expect(Object.fromEntries(erased)).toMatchObject({
      'service.api_keys': 1,
      'service.supplier_contacts': 2,
      'service.actions': expect.any(Number),
      'service.feed_records': expect.any(Number),
    });
    for (const name of feeds) {
      const [old, now] = [before.get(name) ?? [], await feed(name)];
      const expected = old.map((record) => expectedAfter(record));
      const byId = (one: { id: string }, other: { id: string }) => (one.id < other.id ? -1 : 1);
      expect(withoutStamps(now).sort(byId as never)).toEqual(withoutStamps(expected).sort(byId as never));
      // A changed record stands behind all that a reader has seen, an unchanged one where it stood.
      const last =
        old
          .map(({ modified }) => modified)
          .sort()
          .at(-1) ?? '';
      const named = new Set(old.filter((record) => person.isIn(JSON.stringify(record))).map(({ id }) => id));
      const places = (records: typeof old) =>
        records.filter(({ id }) => !named.has(id)).map(({ id, modified }) => [id, modified]);
      expect(places(now)).toEqual(places(old));
      expect(now.filter(({ id, modified }) => named.has(id) && modified <= last)).toEqual([]);
    }
  });

  /** What the record must be now: without the contact, by the key, with the mark in texts. */
  function expectedAfter(record: Record<string, unknown> & { id: string; modified: string }) {
    const creator = { id: ownKey.id };
    const isEvent = 'created_by' in record;
    const { event_contact: _contact, ...rest } = record;
    const text = JSON.stringify(
      isEvent ? { ...rest, created_by: creator, roles: [{ role_type: 'ADMIN', user: [creator] }] } : rest,
    );
    const expected = JSON.parse(text.replaceAll(address, person.placeholder)) as typeof record;
    if (!isEvent) return expected;
    const suppliers = expected['suppliers'] as { contacts: { email: string }[] }[];
    return {
      ...expected,
      suppliers: suppliers.map((supplier) => ({
        ...supplier,
        contacts: supplier.contacts.filter((contact) => contact.email === bob.email),
      })),
    };
  }

  test('announces the feeds, and leaves the event as able to work as it was', async () => {
    const [head] = await database.query<{ last: string }>(
      `select last_modified as last from service.feed_heads where organisation_id = $1 and feed = 'sourcing-events'`,
      [organisation.id],
    );
    expect(
      (await feed('sourcing-events'))
        .map(({ modified }) => modified)
        .sort()
        .at(-1),
    ).toBe(head?.last);
    await desk(organisation, 'POST', `${draft}/publish`);
    const [shown] = (await feed('sourcing-events')).filter(({ id }) => id === draft);
    expect(person.isIn(JSON.stringify(shown))).toBe(false);
    await desk(organisation, 'POST', `${event}/reopen`);
    await desk(organisation, 'POST', `${event}/close`);
    expect(person.isIn(await dump(database))).toBe(false);
  });

  test('that was done before changes nothing more', async () => {
    expect([...(await erasePerson({ database, clock }, person))]).toEqual([]);
  });

  test('keeps the audit log: each entry is there, with the mark in the place of the address', async () => {
    const [entry] = await readActions(database, 'service', { what: 'api.login', outcome: 'refused', limit: 10 });
    expect(entry).toMatchObject({
      who: { kind: 'key', name: `key of ${person.placeholder}` },
      object: `user ${person.placeholder}`,
      details: { said: person.placeholder },
    });
  });
});

test.each([
  ["update service.actions set name = 'x'"],
  [
    `select set_config('sourcing.erased_address', 'a@b', false), set_config('sourcing.erased_mark', 'erased-00112233aabb@erased.invalid', false);
     update service.actions set name = 'x'`,
  ],
  [
    `select set_config('sourcing.erased_address', 'operator', false), set_config('sourcing.erased_mark', 'erased-00112233aabb@erased.invalid', false);
     update service.actions set name = service.without_address(name, 'operator', 'erased-00112233aabb@erased.invalid')`,
  ],
])('the log takes no other change than an address for its mark: %s', async (statements) => {
  await expect(database.transaction((tx) => tx.query(statements))).rejects.toThrow(/only appended to/);
});

test('killed after any statement, it goes on', async () => {
  const other = await startTestService({ clock });
  const own = await other.organisation();
  const contact = { name: 'Ann Ash', email: address };
  await changeSuppliers(own, { external_id: 'S1', name: 'Acme', contacts: [contact] });
  const id = await createEvent(own, { ...eventPayload({ suppliers: ['S1'] }), event_contact: contact });
  await desk(own, 'POST', `${id}/publish`);
  let left = 0;
  const killed = (sql: Database): Database => ({
    ...sql,
    query: (...args) => {
      left -= 1;
      if (left < 0) return Promise.reject(new Error('killed'));
      return sql.query(...args);
    },
    transaction: (work) => {
      left -= 1;
      if (left < 0) return Promise.reject(new Error('killed'));
      return sql.transaction(work);
    },
  });
  let kills = 0;
  for (let statements = 1; ; statements += 3) {
    left = statements;
    const outcome = await erasePerson({ database: killed(other.db.database), clock }, person).catch(
      (error: unknown) => error,
    );
    if (outcome instanceof Map) break;
    expect(outcome).toEqual(new Error('killed'));
    kills += 1;
  }
  expect(kills).toBeGreaterThan(5);
  expect(person.isIn(await dump(other.db.database))).toBe(false);
});

test('every column with text is searched, and none of another kind could hold an address', async () => {
  const tables = await findTextTables(database, 'service');
  const searched = new Set(tables.flatMap(({ table, columns }) => columns.map(({ name }) => `${table}.${name}`)));
  const columns = await database.query<{ name: string; type: string }>(
    `select n.nspname || '.' || c.relname || '.' || a.attname as name, format_type(a.atttypid, null) as type
     from pg_class c join pg_namespace n on n.oid = c.relnamespace join pg_attribute a on a.attrelid = c.oid
     where n.nspname in ('service') and c.relkind = 'r' and c.relname <> 'migrations' and a.attnum > 0 and not a.attisdropped`,
  );
  const others = columns.filter(({ name }) => !searched.has(name)).map(({ type }) => type);
  expect([...new Set(others)].sort()).toEqual([
    'bigint',
    'boolean',
    'bytea',
    'integer',
    'timestamp with time zone',
    'uuid',
    'uuid[]',
  ]);
});
