import { beforeEach, expect, test } from 'vitest';
import { createLivenessLock } from '#bridge/leases/liveness-lock.ts';
import { silentLogger } from '#platform/log.ts';
import { createTestDatabase, type TestDatabase } from '../../harness/test-database.ts';
import { startProcess } from '../parts.ts';

let db: TestDatabase;
beforeEach(async () => {
  db = await createTestDatabase();
  return () => db.drop();
});

const advisoryLocks = () =>
  db.database.query(
    `select from pg_locks where locktype = 'advisory'
     and database = (select oid from pg_database where datname = current_database())`,
  );

test('a process is alive for itself and for others; one that never existed is not', async () => {
  const [a, b] = await Promise.all([startProcess(db), startProcess(db)]);
  expect(await a.liveness.isAlive(a.liveness.id)).toBe(true);
  expect(await a.liveness.isAlive(b.liveness.id)).toBe(true);
  expect(await b.liveness.isAlive(a.liveness.id)).toBe(true);
  // The numbers of processes end at 2^31 - 2.
  expect(await a.liveness.isAlive(2 ** 31 - 1)).toBe(false);
});

test('many queries at once do not make a dead process look alive', async () => {
  const a = await startProcess(db);
  const answers = await Promise.all(Array.from({ length: 20 }, () => a.liveness.isAlive(7)));
  expect(new Set(answers)).toEqual(new Set([false]));
});

test('closing leaves no lock on the connection that returns to the pool', async () => {
  const liveness = await createLivenessLock({ database: db.database, log: silentLogger });
  const others = await startProcess(db);
  expect(await others.liveness.isAlive(liveness.id)).toBe(true);
  await others.liveness.close();
  await liveness.close();
  expect(await advisoryLocks()).toEqual([]);
  expect(await others.liveness.isAlive(liveness.id)).toBe(false);
});

test('a broken connection releases the lock at once, and it is taken again', async () => {
  const watcher = await startProcess(db);
  const liveness = await createLivenessLock({ database: db.database, log: silentLogger, heartbeatMs: 5 });
  // pg_locks shows the whole server, so the query names this database and this number.
  const holder = async () =>
    (
      await watcher.database.query<{ pid: number }>(
        `select pid from pg_locks where locktype = 'advisory' and granted and mode = 'ExclusiveLock' and objid = $1
         and database = (select oid from pg_database where datname = current_database())`,
        [liveness.id],
      )
    )[0]?.pid;
  const before = await holder();
  expect(await watcher.liveness.isAlive(liveness.id)).toBe(true);
  await watcher.database.query('select pg_terminate_backend($1, 10000)', [before]);
  await expect.poll(holder, { timeout: 5_000 }).toSatisfy((pid) => pid !== undefined && pid !== before);
  expect(await watcher.liveness.isAlive(liveness.id)).toBe(true);
  await liveness.close();
});
