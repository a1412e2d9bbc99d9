import { Client, escapeIdentifier } from 'pg';
import { beforeAll, beforeEach, describe, expect, test } from 'vitest';
import type { Session } from '#connector/connector.ts';
import type { ReadPage } from '#connector/records.ts';
import { createEmptyDatabase, type TestDatabase } from '../../harness/test-database.ts';
import { never, openSession } from './sessions.ts';

let db: TestDatabase;
beforeAll(async () => {
  db = await createEmptyDatabase();
  await db.database.query('create schema erp');
});

const record = { external_id: 'number', name: 'name', archived: 'blocked' };
/** `stamp`: the type of the column that orders the rows. */
async function vendors(stamp: string, more: Record<string, unknown> = {}): Promise<Session> {
  await db.database.query(`drop table if exists erp.vendor cascade; create table erp.vendor (
    number text primary key, name text, blocked text, city text, changed ${stamp})`);
  return openSession(db.url, {
    read: { supplier: { from: 'erp.vendor', unique: 'number', changed: 'changed', record, page: 3, ...more } },
  });
}

const save = (number: string, changed: string | null, name: string | null = `Vendor ${number}`, blocked = 'no') =>
  db.database.query(
    `insert into erp.vendor (number, name, blocked, city, changed) values ($1, $2, $3, 'Rome', $4)
     on conflict (number) do update set name = $2, blocked = $3, changed = $4`,
    [number, name, blocked, changed],
  );

async function read(session: Session, checkpoint?: string) {
  const pages: ReadPage<'supplier'>[] = [];
  for await (const page of session.read?.('supplier', checkpoint, never) ?? []) pages.push(page);
  const numbers = pages.flatMap(({ records }) => records.map(({ external_id }) => external_id));
  const faults = pages.flatMap(({ faults = [] }) => faults);
  return { pages, numbers, faults, last: pages.at(-1)?.checkpoint };
}

const nowOfDatabase = async (plus = '0 s') => {
  const [row] = await db.database.query<{ at: string }>('select (clock_timestamp() + $1::interval)::text as at', [
    plus,
  ]);
  return row?.at ?? '';
};

test('more rows of one stamp than a page has are all read, in a stable order, and a kill after any page misses none', async () => {
  const session = await vendors('timestamptz');
  for (let n = 10; n < 21; n += 1) await save(`V-${n}`, '2030-01-01T12:00:00.123456Z');
  const all = Array.from({ length: 11 }, (_, index) => `V-${index + 10}`);
  const whole = await read(session);
  expect(whole.numbers).toEqual(all);
  for (const [index, { checkpoint }] of whole.pages.slice(0, 3).entries())
    expect((await read(session, checkpoint)).numbers).toEqual(all.slice(3 * (index + 1)));
});

test.each([
  ['timestamptz', '2020-01-01T12:00:00.000002Z', '2020-01-01T12:00:00.000001Z'],
  ['timestamp', '2020-01-01T12:00:00.000002', '2020-01-01T12:00:00.000001'],
  ['date', '2020-01-02', '2020-01-01'],
  ['bigint', '9007199254740993', '9007199254740992'],
])(
  'a row that is committed late, with an older stamp (%s) than the last that was read, is read',
  async (type, newest, late) => {
    const session = await vendors(type);
    await save('V-1', newest);
    const first = await read(session);
    await save('V-2', late);
    expect((await read(session, first.last)).numbers).toContain('V-2');
  },
);

test('a row that was changed after the clocks went back is read, though its stamp is older', async () => {
  const session = await vendors('timestamp', { time_zone: 'Europe/Berlin' });
  await save('V-1', '2020-10-25 02:58');
  let { last } = await read(session);
  ({ last } = await read(session, last));
  await save('V-2', '2020-10-25 02:10');
  const { numbers, last: after } = await read(session, last);
  expect(numbers).toContain('V-2');
  await save('V-3', '2020-10-25 03:30');
  const { last: later } = await read(session, after);
  await save('V-4', '2020-10-25 04:00');
  expect((await read(session, later)).numbers).not.toContain('V-2');
});

test('the lateness is over: what was read is not read again, also where a thousand rows have the newest stamp', async () => {
  for (const type of ['timestamptz', 'bigint']) {
    const session = await vendors(type, { lateness_seconds: 0.2 });
    for (let n = 0; n < 5; n += 1) await save(`V-${n}`, type === 'bigint' ? '7' : '2020-01-01');
    let { last } = await read(session);
    await db.database.query('select pg_sleep(0.25)');
    ({ last } = await read(session, last));
    const rest = await read(session, last);
    expect([rest.numbers, rest.pages.length]).toEqual([[], 1]);
    await save('V-9', type === 'bigint' ? '8' : '2020-01-02');
    expect((await read(session, rest.last)).numbers).toEqual(['V-9']);
  }
});

test('a stamp in the future, or infinity, does not hide later changes', async () => {
  const session = await vendors('timestamptz', { lateness_seconds: 0 });
  await save('V-1', 'infinity');
  await save('V-2', await nowOfDatabase('1 year'));
  const { last } = await read(session);
  await save('V-3', await nowOfDatabase());
  const again = await read(session, last);
  expect(again.numbers).toContain('V-3');
});

test('rows without a stamp are read with everything, and a row that gets a stamp is read as changed', async () => {
  const session = await vendors('timestamptz');
  for (let n = 1; n < 6; n += 1) await save(`V-${n}`, n > 4 ? await nowOfDatabase() : null);
  const first = await read(session);
  expect(first.numbers).toEqual(['V-1', 'V-2', 'V-3', 'V-4', 'V-5']);
  await save('V-2', await nowOfDatabase());
  expect((await read(session, first.last)).numbers).toContain('V-2');
});

test('a poll without a change is one query of the table', async () => {
  const session = await vendors('timestamptz', { lateness_seconds: 0 });
  // By a connection that ends: an open one may report what it has scanned seconds later.
  const writer = new Client({ connectionString: db.url });
  await writer.connect();
  await writer.query(
    `insert into erp.vendor (number, name, blocked, changed)
     select 'V-' || n, 'Vendor', 'no', '2020-01-01' from generate_series(1, 8) as n`,
  );
  await writer.end();
  const { last } = await read(session);
  const { last: rest } = await read(session, last);
  const scans = async () => {
    await db.database.query('select pg_stat_clear_snapshot()');
    const [row] = await db.database.query<{ scans: string }>(
      `select sum(seq_scan + coalesce(idx_scan, 0)) as scans from pg_stat_user_tables where relname = 'vendor'`,
    );
    return Number(row?.scans);
  };
  // A server process reports what it has scanned before it is gone.
  const sessions = () =>
    db.database.query(
      `select application_name from pg_stat_activity where datname = current_database()
         and backend_type = 'client backend' and application_name is distinct from
           (select application_name from pg_stat_activity where pid = pg_backend_pid())`,
    );
  expect(await sessions()).not.toEqual([]);
  await session.close();
  await expect.poll(sessions, { timeout: 10_000 }).toEqual([]);
  const before = await scans();
  expect(before).toBeGreaterThan(2);
  const next = await openSession(db.url, {
    read: { supplier: { from: 'erp.vendor', unique: 'number', changed: 'changed', record, lateness_seconds: 0 } },
  });
  expect((await read(next, rest)).numbers).toEqual([]);
  await next.close();
  await expect.poll(sessions, { timeout: 10_000 }).toEqual([]);
  expect(await scans()).toBe(before + 1);
});

test('a row without a name or with an unexplained block is named, and the others are read', async () => {
  const session = await vendors('timestamptz');
  await save('V-1', '2030-01-01', null);
  await save('V-2', '2030-01-01', 'Two', 'perhaps');
  await save('V-3', '2030-01-01', 'Three', 'Yes');
  const { pages, faults } = await read(session);
  expect(pages.flatMap(({ records }) => records)).toEqual([
    { external_id: 'V-3', name: 'Three', archived: true, fields: { city: 'Rome' }, contacts: [] },
  ]);
  expect(faults).toEqual([
    { where: 'erp.vendor, number V-1', key: 'V-1', why: 'it has no name' },
    { where: 'erp.vendor, number V-2', key: 'V-2', why: expect.stringContaining('neither yes nor no') },
  ]);
});

test('a view with other columns, a contact and numbers is read by settings', async () => {
  await vendors('timestamptz');
  await save('V-1', '2030-01-01', 'One', 'B');
  const view = escapeIdentifier('My View');
  await db.database.query(`create view erp.${view} as select number, name as "Name 1", blocked as status, city,
    'ann@example.com' as mail, 12.50::numeric as rating, changed from erp.vendor`);
  const session = await openSession(db.url, {
    read: {
      supplier: {
        from: 'erp.My View',
        unique: 'number',
        changed: 'changed',
        record: {
          external_id: 'number',
          name: 'Name 1',
          archived: { at: 'status', is: ['B', 'D'] },
          contacts: { email: 'mail' },
          fields: { Rating: 'rating' },
        },
      },
    },
  });
  const { pages } = await read(session);
  expect(pages[0]?.records).toEqual([
    {
      external_id: 'V-1',
      name: 'One',
      archived: true,
      fields: { Rating: '12.50' },
      contacts: [{ name: 'ann@example.com', email: 'ann@example.com' }],
    },
  ]);
});

describe('check', () => {
  beforeEach(() => vendors('timestamptz'));
  const checks = async (more: Record<string, unknown>) =>
    (
      await (
        await openSession(db.url, {
          read: { supplier: { from: 'erp.vendor', unique: 'number', changed: 'changed', record, ...more } },
        })
      ).check()
    )
      .map(({ ok, message }) => `${ok} ${message}`)
      .join('\n');

  test.each([
    [{}, 'true erp.vendor can be read.'],
    [{ from: 'erp.nothing' }, 'false There is no table or view erp.nothing'],
    [{ changed: 'then' }, 'false erp.vendor has no column "then"'],
    [{ changed: 'name' }, 'the type text: it must be a timestamp'],
    [{ record: { ...record, name: 'label' } }, 'has no column "label"'],
  ])('says what is wrong: %j', async (more, words) => {
    expect(await checks(more)).toContain(words);
  });

  test('names rows that would be missed', async () => {
    await save('V-1', '2030-01-01');
    await save('V-2', null);
    expect(await checks({})).toContain('Rows without changed are read only when everything is read');
    expect(await checks({ unique: 'city' })).toContain('several rows with city Rome');
  });
});
