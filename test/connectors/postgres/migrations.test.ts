import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { escapeIdentifier } from 'pg';
import { afterEach, beforeEach, describe, expect, inject, test } from 'vitest';
import { closeAtEnd } from '../../harness/close-at-end.ts';
import { createEmptyDatabase, type TestDatabase } from '../../harness/test-database.ts';
import { award, messageOf, never, openSession, operationOf, statuses } from './sessions.ts';

let db: TestDatabase;
beforeEach(async () => {
  db = await createEmptyDatabase();
});
afterEach(() => db.drop());

const role = `reader_${Math.random().toString(36).slice(2)}`;
const password = 'p@ss/w:rd % "quoted"';
closeAtEnd(async () => {
  const admin = await createEmptyDatabase();
  await admin.database.query(`drop role if exists ${role}`);
  await admin.drop();
});

/** The URL of a user without rights. */
async function urlOfUser(): Promise<string> {
  await db.database.query(`do $$ begin
    if not exists (select from pg_roles where rolname = '${role}') then
      create role ${role} login password '${password}'; end if; end $$`);
  const url = new URL(db.url);
  url.username = role;
  url.password = encodeURIComponent(password);
  return url.href;
}

const checked = async (url: string, more: Record<string, unknown> = {}) => {
  const session = await openSession(url, more);
  const results = await session.check();
  await session.close();
  return results;
};

const sqlFile = (name: string) =>
  readFile(join(import.meta.dirname, '../../../connectors/postgres/migrations', name), 'utf8');

/** Runs migrations as an administrator does by hand, in one transaction. */
async function runAsAdministrator(statement: string, ...files: string[]): Promise<void> {
  const texts = await Promise.all(files.map(sqlFile));
  const all = ['begin', statement, 'set local search_path to sourcing', ...texts, 'commit'];
  await db.database.query(all.join('; '));
}

describe('the tables', () => {
  test('are created once by the first write, however many processes start at once', async () => {
    const sessions = await Promise.all(Array.from({ length: 6 }, () => openSession(db.url)));
    const outcomes = await Promise.all(
      sessions.map((session, number) => session.write([operationOf(award(number))], never)),
    );
    expect(statuses(outcomes.flat())).toEqual(sessions.map(() => 'created'));
    expect(await db.database.query('select part, number, name from sourcing.migration')).toEqual([
      { part: 'tables', number: 1, name: '001_documents.sql' },
      { part: 'tables', number: 2, name: '002_archived_unknown.sql' },
      { part: 'tables', number: 3, name: '003_requisitions.sql' },
      { part: 'tables', number: 4, name: '004_event_awards.sql' },
      { part: 'tables', number: 5, name: '005_jobs.sql' },
    ]);
    for (const session of sessions) await session.close();
  });

  test('are not created by check, plan or lookup', async () => {
    const session = await openSession(db.url);
    await session.check();
    await session.plan?.([operationOf(award(1))], never);
    expect(await session.lookup([award(1)], never)).toEqual([]);
    expect(await db.database.query(`select nspname from pg_namespace where nspname = 'sourcing'`)).toEqual([]);
    await session.close();
  });

  test('of an older version get the missing migrations', async () => {
    await runAsAdministrator('create schema sourcing', 'tables/001_documents.sql');
    const session = await openSession(db.url);
    const named = { kind: 'supplier', key: 'V-1', name: 'Named by a feed' } as const;
    const [outcome] = await session.write([operationOf({ ...named, attributes: [], contacts: [] })], never);
    expect(outcome?.status).toBe('created');
    expect(await db.database.query('select key, archived from sourcing.supplier')).toEqual([
      { key: 'V-1', archived: null },
    ]);
    await session.close();
  });

  test('of a newer version are not touched, and the error names that version', async () => {
    const session = await openSession(db.url);
    await session.write([operationOf(award(1))], never);
    await session.close();
    await db.database.query(
      `insert into sourcing.migration (part, number, name) values ('tables', 99, '099_future.sql')`,
    );
    const next = await openSession(db.url);
    const [outcome] = await next.write([operationOf(award(2))], never);
    expect(statuses(outcome ? [outcome] : [])).toEqual(['config']);
    expect(messageOf(outcome)).toMatch(/newer version.*099_future\.sql/);
    expect((await next.check()).filter(({ ok }) => !ok)).toMatchObject([
      { name: 'schema', message: messageOf(outcome) },
    ]);
    await next.close();
  });

  test('of another owner under the same name are never touched', async () => {
    await db.database.query(
      'create schema sourcing; create table sourcing.award_line (mine int); insert into sourcing.award_line values (1)',
    );
    const session = await openSession(db.url);
    const [outcome] = await session.write([operationOf(award(1))], never);
    expect(messageOf(outcome)).toMatch(/object of another owner.*award_line.*Set another schema/);
    expect(await db.database.query('select * from sourcing.award_line')).toEqual([{ mine: 1 }]);
    expect(await db.database.query(`select tablename from pg_tables where schemaname = 'sourcing'`)).toHaveLength(1);
    await session.close();
  });

  test('can be created by an administrator with the files; a user without rights is told what to run and to grant', async () => {
    const url = await urlOfUser();
    const [, schema] = await checked(url);
    expect(schema).toMatchObject({
      ok: false,
      message: expect.stringMatching(/may not create them.*migrations\/tables/),
    });
    const session = await openSession(url);
    expect(messageOf((await session.write([operationOf(award(1))], never))[0])).toMatch(
      /cannot be created: permission denied.*GRANT CREATE/,
    );
    await session.close();
    await runAsAdministrator(
      'create schema sourcing',
      'tables/001_documents.sql',
      'tables/002_archived_unknown.sql',
      'tables/003_requisitions.sql',
      'tables/004_event_awards.sql',
      'tables/005_jobs.sql',
    );
    const [, unusable] = await checked(url);
    expect(unusable).toMatchObject({ ok: false, message: expect.stringContaining('GRANT USAGE ON SCHEMA "sourcing"') });
    await db.database.query(
      `grant usage on schema sourcing to ${role}; grant select on all tables in schema sourcing to ${role}`,
    );
    const [, unwritable] = await checked(url);
    expect(unwritable).toMatchObject({ ok: false, message: expect.stringContaining('insert on award') });
    await db.database.query(`grant insert, update, delete on all tables in schema sourcing to ${role}`);
    expect((await checked(url)).map(({ ok }) => ok)).toEqual([true, true]);
    const allowed = await openSession(url);
    expect(statuses(await allowed.write([operationOf(award(1))], never))).toEqual(['created']);
    await allowed.close();
    await db.database.query(`drop owned by ${role}`);
  });

  test('are created in the schema of the settings, whatever its name', async () => {
    const session = await openSession(db.url, { schema: 'Odd$Name' });
    expect(statuses(await session.write([operationOf(award(1))], never))).toEqual(['created']);
    expect(await db.database.query(`select key from ${escapeIdentifier('Odd$Name')}.award_line`)).toHaveLength(1);
    await session.close();
  });
});

describe('a session that cannot connect', () => {
  const outcomeAt = async (change: (url: URL) => void, more: Record<string, unknown> = {}) => {
    const url = new URL(db.url);
    change(url);
    const session = await openSession(url.href, more);
    const [outcome] = await session.write([operationOf(award(1))], never);
    const [check] = await session.check();
    await session.close();
    expect(check?.ok).toBe(false);
    for (const text of [messageOf(outcome), check?.message ?? '']) {
      expect(text).not.toContain('wrong-secret');
      expect(text).not.toContain(decodeURIComponent(new URL(inject('databaseUrl')).password));
    }
    return [statuses(outcome ? [outcome] : [])[0], messageOf(outcome)];
  };

  test('reports whether an operator has to act, and never its password', async () => {
    expect(await outcomeAt((url) => (url.password = 'wrong-secret'))).toEqual([
      'auth',
      expect.stringContaining('28P01'),
    ]);
    expect(await outcomeAt((url) => (url.password = ''))).toEqual(['auth', expect.stringContaining('password')]);
    expect(await outcomeAt((url) => (url.pathname = '/nowhere'))).toEqual(['config', expect.stringContaining('3D000')]);
    expect(await outcomeAt((url) => (url.port = '1'))).toEqual(['transient', expect.stringContaining('ECONNREFUSED')]);
    expect(await outcomeAt(() => undefined, { ssl: 'verify-full' })).toEqual([
      'config',
      expect.stringContaining('SSL'),
    ]);
  });
});
