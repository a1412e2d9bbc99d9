/** Readers of the console and the program that they read from: one never takes the connections of the other. */
import { afterEach, beforeAll, expect, test } from 'vitest';
import { openReading } from '#console/reading.ts';
import type { Database } from '#platform/database/database.ts';
import { silentLogger } from '#platform/log.ts';
import { closeAtEnd } from '../harness/close-at-end.ts';
import { createTestDatabase, type TestDatabase } from '../harness/test-database.ts';
import { type ConsoleServer, startConsole } from './console-server.ts';
import { seedConsole } from './seed-console.ts';

let db: TestDatabase;
let console: ConsoleServer;
let unlock: (() => void) | undefined;

beforeAll(async () => {
  db = await createTestDatabase();
  await seedConsole(db.database, Date.now());
  const reading = openReading({ url: db.url, log: silentLogger, applicationName: 'console-readers' });
  console = await startConsole(db.database, { reading });
  closeAtEnd(() => reading.close());
});

afterEach(() => unlock?.());

/** Whatever reads attempts waits from now on, as in a database with millions of them. */
async function makeSlow(database: Database): Promise<void> {
  const { promise: locked, resolve } = Promise.withResolvers<void>();
  const { promise: held, resolve: release } = Promise.withResolvers<void>();
  unlock = release;
  void database.transaction(async (tx) => {
    await tx.query('lock table bridge.attempts in access exclusive mode');
    resolve();
    await held;
  });
  await locked;
}

const slowly = (signal?: AbortSignal) =>
  fetch(`${console.url}/api/documents?min=0`, signal ? { signal } : {}).then(({ status }) => status);

async function runningReads(): Promise<number> {
  const [found] = await db.database.query<{ count: number }>(
    `select count(*)::int as count from pg_stat_activity
     where application_name = 'console-readers' and state = 'active' and datname = current_database()`,
  );
  return found?.count ?? 0;
}

test('twenty slow lists at once leave the program every connection of its own', async () => {
  await makeSlow(db.database);
  const lists = Array.from({ length: 20 }, () => slowly());
  await expect.poll(runningReads).toBe(2);
  const mine = Array.from({ length: 9 }, () => db.database.query('select 1 as one'));
  expect(await Promise.all(mine)).toEqual(Array.from({ length: 9 }, () => [{ one: 1 }]));
  expect(await runningReads()).toBe(2);
  unlock?.();
  expect(await Promise.all(lists)).toEqual(Array.from({ length: 20 }, () => 200));
});

test('one person with many slow lists does not keep another from reading', async () => {
  await makeSlow(db.database);
  const lists = Array.from({ length: 10 }, () => slowly());
  await expect.poll(runningReads).toBe(2);
  console.viewer = { name: 'Bert', role: 'viewer', flows: 'all' };
  expect((await fetch(`${console.url}/api/suppliers`)).status).toBe(200);
  console.viewer = { name: 'Ada', role: 'operator', flows: 'all' };
  unlock?.();
  await Promise.all(lists);
});

test('forty who ask for the doctor at once get one examination', async () => {
  let examinations = 0;
  const { url } = await startConsole(db.database, {
    doctor: async () => {
      examinations += 1;
      return [{ name: 'database', level: 'ok', message: `examination ${examinations}` }];
    },
  });
  const texts = await Promise.all(Array.from({ length: 40 }, async () => (await fetch(`${url}/api/doctor`)).text()));
  expect(new Set(texts).size).toBe(1);
  expect(texts[0]).toContain('examination 1');
});

test('a list that takes too long is ended, and the answer says what to do', async () => {
  await makeSlow(db.database);
  const answer = await fetch(`${console.url}/api/documents?min=0`);
  expect(answer.status).toBe(503);
  expect(await answer.text()).toContain('Narrow it: name a flow');
});

test('a reader who goes away ends the statement', async () => {
  await makeSlow(db.database);
  const leaving = new AbortController();
  const list = slowly(leaving.signal).catch(() => 'left');
  await expect.poll(runningReads).toBe(1);
  leaving.abort();
  expect(await list).toBe('left');
  // Sooner than the database ends it for its time.
  await expect.poll(runningReads, { timeout: 4_000 }).toBe(0);
  // Beyond twenty that wait a person's calls are refused: those that have left are not counted.
  const calls = Array.from({ length: 23 }, () => slowly());
  expect(await Promise.race(calls)).toBe(429);
  unlock?.();
  const statuses = await Promise.all(calls);
  expect(statuses.filter((status) => status === 200)).toHaveLength(22);
  expect(statuses.filter((status) => status === 429)).toHaveLength(1);
});
