import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { beforeEach, expect, test } from 'vitest';
import { readProcesses, startLiveness } from '#bridge/ledger/leases/liveness.ts';
import { createProcessIdentity } from '#bridge/settings/process-identity.ts';
import { silentLogger } from '#platform/log.ts';
import { createTestDatabase, type TestDatabase } from '../../../harness/test-database.ts';
import { startProcess } from '../../parts.ts';

let db: TestDatabase;
beforeEach(async () => {
  db = await createTestDatabase();
  return () => db.drop();
});

/** Moves the last heartbeat of a process; its own next one undoes that. */
const moveBeat = (id: number, by: string) =>
  db.database.query('update bridge.processes set beat = clock_timestamp() + $2::interval where id = $1', [id, by]);

test('a process is alive for itself and for others; one that never existed is not', async () => {
  const [a, b] = await Promise.all([startProcess(db), startProcess(db)]);
  expect(await a.liveness.isAlive(a.liveness.id)).toBe(true);
  expect(await a.liveness.isAlive(b.liveness.id)).toBe(true);
  expect(await b.liveness.isAlive(a.liveness.id)).toBe(true);
  // The numbers of processes end at 2^31 - 2.
  expect(await a.liveness.isAlive(2 ** 31 - 1)).toBe(false);
});

test('a process that stops deletes its row, and is dead at once', async () => {
  const [a, b] = await Promise.all([startProcess(db), startProcess(db)]);
  await b.liveness.close();
  expect(await a.liveness.isAlive(b.liveness.id)).toBe(false);
  expect((await readProcesses(db.database)).map(({ id }) => id)).toEqual([a.liveness.id]);
});

test('a process that was killed on this machine is dead at once, long before its heartbeats are old', async () => {
  const child = spawn(process.execPath, ['-e', 'setInterval(() => {}, 1000)'], { stdio: 'ignore' });
  await once(child, 'spawn');
  const watcher = await startProcess(db);
  const processIdentity = createProcessIdentity(child.pid);
  const liveness = await startLiveness({ database: db.database, log: silentLogger, processIdentity });
  expect(await watcher.liveness.isAlive(liveness.id)).toBe(true);
  expect(await readProcesses(db.database)).toHaveLength(2);
  const ended = once(child, 'exit');
  child.kill('SIGKILL');
  await ended;
  expect(await watcher.liveness.isAlive(liveness.id)).toBe(false);
  expect(await readProcesses(db.database)).toHaveLength(1);
  await liveness.close();
});

test('a process is dead when its last heartbeat is old, or lies in the future, and alive again with the next one', async () => {
  const watcher = await startProcess(db);
  const liveness = await startLiveness({ database: db.database, log: silentLogger, beatEveryMs: 1_000_000 });
  await moveBeat(liveness.id, '-31 s');
  expect(await watcher.liveness.isAlive(liveness.id)).toBe(false);
  await moveBeat(liveness.id, '1 day');
  expect(await watcher.liveness.isAlive(liveness.id)).toBe(false);
  await moveBeat(liveness.id, '-20 s');
  expect(await watcher.liveness.isAlive(liveness.id)).toBe(true);
  await liveness.close();
});

test('a process whose connections broke, or whose row was removed, goes on beating', async () => {
  const [watcher, other] = await Promise.all([startProcess(db), startProcess(db)]);
  const liveness = await startLiveness({ database: other.database, log: silentLogger, beatEveryMs: 5 });
  await moveBeat(liveness.id, '-31 s');
  await db.database.query(
    `select pg_terminate_backend(pid, 10000) from pg_stat_activity
     where application_name = (select name from bridge.processes where id = $1)`,
    [liveness.id],
  );
  await expect.poll(() => watcher.liveness.isAlive(liveness.id), { timeout: 5_000 }).toBe(true);
  await db.database.query('delete from bridge.processes where id = $1', [liveness.id]);
  await expect.poll(() => watcher.liveness.isAlive(liveness.id), { timeout: 5_000 }).toBe(true);
  await liveness.close();
});

test('the rows of processes that ended over an hour ago are removed when another starts', async () => {
  await db.database.query(
    `insert into bridge.processes (id, name, identity, beat) values
     (1, 'long ago', '', clock_timestamp() - interval '61 min'), (2, 'lately', '', clock_timestamp() - interval '59 min')`,
  );
  const a = await startProcess(db);
  const rows = await db.database.query<{ id: number }>('select id from bridge.processes order by id');
  expect(rows.map(({ id }) => id)).toEqual([2, a.liveness.id]);
});
