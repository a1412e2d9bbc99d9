import { randomBytes } from 'node:crypto';
import { mkdtemp, rename, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, expect, it } from 'vitest';
import { createDatabase, type Database } from '#platform/database/database.ts';
import { migrate } from '#platform/database/migrations.ts';
import { silentLogger } from '#platform/log.ts';
import { createEmptyDatabase, type TestDatabase } from '../../harness/test-database.ts';

let test: TestDatabase;
let database: Database;
let directory: string;
beforeEach(async () => {
  test = await createEmptyDatabase();
  database = test.database;
  directory = await mkdtemp(join(tmpdir(), 'migrations-'));
  await write('001_first.sql', 'create table shop.a (x int);\ninsert into shop.a values (1);');
  await write('002_second.sql', 'insert into shop.a select x + 1 from shop.a;');
});
afterEach(async () => {
  await test.drop();
  await rm(directory, { recursive: true });
});

const write = (name: string, sql: string) => writeFile(join(directory, name), sql);
const run = (on = database) => migrate(on, { schema: 'shop', directory });
const rows = async () => (await database.query<{ x: number }>('select x from shop.a order by x')).map(({ x }) => x);
const recorded = async () =>
  (await database.query<{ name: string }>('select name from shop.migrations order by number')).map(({ name }) => name);

it('applies each file once, in order, and returns which', async () => {
  expect(await run()).toEqual(['001_first.sql', '002_second.sql']);
  expect(await run()).toEqual([]);
  await write('003_third.sql', 'insert into shop.a values (10);');
  expect(await run()).toEqual(['003_third.sql']);
  expect(await rows()).toEqual([1, 2, 10]);
  expect(await recorded()).toEqual(['001_first.sql', '002_second.sql', '003_third.sql']);
});

it('applies each file once when eight start at the same time', async () => {
  const all = Array.from({ length: 8 }, () =>
    createDatabase({ url: test.url, log: silentLogger, applicationName: 'migrating', poolMax: 1 }),
  );
  const applied = await Promise.all(all.map(run));
  expect(applied.flat().sort()).toEqual(['001_first.sql', '002_second.sql']);
  expect(await rows()).toEqual([1, 2]);
  await Promise.all(all.map((each) => each.close()));
});

it('leaves nothing of a file that fails, names it and its line, and continues with it once it is fixed', async () => {
  await write('003_third.sql', 'insert into shop.a values (10);\n\ninsert into shop.nowhere values (1);');
  await expect(run()).rejects.toThrow(/003_third\.sql failed at line 3: .*shop\.nowhere/);
  expect(await rows()).toEqual([1, 2]);
  await write('003_third.sql', 'insert into shop.a values (10);');
  expect(await run()).toEqual(['003_third.sql']);
});

it('refuses a file that was changed after it was applied', async () => {
  await run();
  await write('001_first.sql', 'create table shop.a (x bigint);');
  await expect(run()).rejects.toThrow(/001_first\.sql was changed .* in a new file/);
});

it('does not treat the line ends of another system as a change', async () => {
  await run();
  await write('001_first.sql', 'create table shop.a (x int);\r\ninsert into shop.a values (1);');
  expect(await run()).toEqual([]);
});

it('works on what newer code has added, and refuses what newer code says that it cannot work with', async () => {
  await write('003_newer.sql', 'alter table shop.a add column y int');
  await run();
  await rm(join(directory, '003_newer.sql'));
  expect(await run()).toEqual([]);
  expect(await recorded()).toHaveLength(3);

  await write('003_newer.sql', 'alter table shop.a add column y int');
  await write('004_newest.sql', '-- breaking: x is gone\nalter table shop.a drop column x');
  expect(await run()).toEqual(['004_newest.sql']);
  await rm(join(directory, '003_newer.sql'));
  await rm(join(directory, '004_newest.sql'));
  await expect(run()).rejects.toThrow(/newer code: it holds 004_newest\.sql.*Start the newer version/);
});

it('applies a breaking file only when no program of before runs, and names those that do', async () => {
  await write(
    '003_processes.sql',
    'create table shop.processes (name text, beat timestamptz default clock_timestamp())',
  );
  await run();
  await database.query("insert into shop.processes (name) values ('shop host 17')");
  await write('004_newest.sql', '-- breaking: x is gone\nalter table shop.a drop column x');
  await expect(run()).rejects.toThrow(/004_newest\.sql.*Stop them first: shop host 17\./);
  expect(await rows()).toEqual([1, 2]);
  await database.query("update shop.processes set beat = clock_timestamp() - interval '31 s'");
  expect(await run()).toEqual(['004_newest.sql']);
});

it('takes the record of a version that did not say what is breaking', async () => {
  await run();
  await database.query('alter table shop.migrations drop column breaking');
  expect(await run()).toEqual([]);
  await write('003_third.sql', 'insert into shop.a values (10);');
  expect(await run()).toEqual(['003_third.sql']);
});

it('refuses the tables of an earlier, unreleased version, and says what to start with instead', async () => {
  await run();
  await rename(join(directory, '001_first.sql'), join(directory, '001_theme.sql'));
  await expect(run()).rejects.toThrow(/earlier, unreleased version \(001_first\.sql\).*an empty database.*DATA_DIR/);
});

it.each([
  [
    'a gap',
    () => rename(join(directory, '002_second.sql'), join(directory, '003_second.sql')),
    /003_second\.sql .*no migration number 2/,
  ],
  ['a number given twice', () => write('002_other.sql', 'select 1'), /002_second\.sql .*same number as 002_other\.sql/],
  ['a name without a number', () => write('extra.sql', 'select 1'), /extra\.sql must be named like 001_name\.sql/],
])('refuses %s before it touches the database', async (_, prepare, message) => {
  await prepare();
  await expect(run()).rejects.toThrow(message);
  expect(await database.query("select 1 from pg_namespace where nspname = 'shop'")).toEqual([]);
});

it('refuses a schema whose record misses a file', async () => {
  await run();
  await database.query('delete from shop.migrations where number = 1');
  await expect(run()).rejects.toThrow(/holds 002_second\.sql without the migration before it \(number 1\)/);
});

it('keeps the migrations of two schemas apart', async () => {
  await run();
  const other = await mkdtemp(join(tmpdir(), 'migrations-'));
  await writeFile(join(other, '001_other.sql'), 'create table stall.b (x int)');
  expect(await migrate(database, { schema: 'stall', directory: other })).toEqual(['001_other.sql']);
  expect(await run()).toEqual([]);
  await rm(other, { recursive: true });
});

it('needs no CREATE on the database where the role owns the schema already', async () => {
  const role = `schema_owner_${randomBytes(4).toString('hex')}`;
  await database.query(`create role ${role} login password 'p'; create schema shop authorization ${role};
    revoke create on database "${new URL(test.url).pathname.slice(1)}" from public`);
  const url = new URL(test.url);
  url.username = role;
  url.password = 'p';
  const own = createDatabase({ url: url.href, log: silentLogger, applicationName: 'owner', poolMax: 1 });
  try {
    await expect(own.query('create schema other')).rejects.toMatchObject({ code: '42501' });
    expect(await run(own)).toEqual(['001_first.sql', '002_second.sql']);
  } finally {
    await own.close();
    await database.query(`drop owned by ${role}; drop role ${role}`);
  }
});
