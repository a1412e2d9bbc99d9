import { expect, test } from 'vitest';
import { createDatabase } from '#platform/database/database.ts';
import { startHeartbeat } from '#platform/heartbeat.ts';
import { createLogger, type Logger, silentLogger } from '#platform/log.ts';
import { createTestDatabase } from '../harness/test-database.ts';

async function start(log: Logger = silentLogger) {
  const db = await createTestDatabase();
  const database = createDatabase({ url: db.url, log: silentLogger, applicationName: 'beating', poolMax: 2 });
  const heartbeat = await startHeartbeat({ database, schema: 'service', log, beatEveryMs: 5 });
  const close = async () => {
    await heartbeat.close();
    await database.close();
    await db.drop();
  };
  return { db, database, heartbeat, close };
}

test('a database that takes writes passes; the process has one row under its name, until it stops', async () => {
  const { db, heartbeat, close } = await start();
  const rows = () => db.database.query<{ id: number; name: string }>('select id, name from service.processes');
  await heartbeat.check();
  expect(await rows()).toEqual([{ id: heartbeat.id, name: 'beating' }]);
  await heartbeat.close();
  expect(await rows()).toEqual([]);
  await close();
});

test('a database that became read-only does not pass, and says so; it passes when it is writable again', async () => {
  const lines: string[] = [];
  const destination = { write: (line: string) => void lines.push(line) };
  const { db, heartbeat, close } = await start(createLogger({ level: 'info', name: 'beating', destination }));
  const name = new URL(db.url).pathname.slice(1);
  const readOnly = async (state: 'on' | 'off') => {
    // Not for this session: the setting is for those that begin later.
    await db.database.query(`alter database "${name}" set default_transaction_read_only = ${state}`);
    await db.database.query(
      `select pg_terminate_backend(pid, 10000) from pg_stat_activity where application_name = 'beating'
       and datname = current_database()`,
    );
  };
  await readOnly('on');
  const check = () =>
    heartbeat.check().then(
      () => 'passes',
      (error: { publicMessage: string }) => error.publicMessage,
    );
  await expect.poll(check, { timeout: 10_000 }).toBe('The database is read-only.');
  await readOnly('off');
  await expect.poll(check, { timeout: 10_000 }).toBe('passes');
  expect(await check()).toBe('passes');
  await close();
  // One line for it and one for its end, without a stack.
  expect(lines.map((line) => JSON.parse(line).msg)).toEqual([
    'a heartbeat was not committed',
    'heartbeats are committed again',
  ]);
  expect(lines.join('\n')).not.toMatch(/\bat .*:\d+/);
});

test('a commit that hangs does not pass, and holds no connection afterwards', async () => {
  const { db, database, heartbeat, close } = await start();
  const release = Promise.withResolvers<void>();
  const locked = Promise.withResolvers<void>();
  const holding = db.database.transaction(async (tx) => {
    await tx.query('select from service.processes for update');
    locked.resolve();
    await release.promise;
  });
  await locked.promise;
  const passes = () =>
    heartbeat.check().then(
      () => true,
      () => false,
    );
  await expect.poll(passes, { timeout: 10_000 }).toBe(false);
  await expect(heartbeat.check()).rejects.toMatchObject({ code: 'unavailable' });
  expect(await database.query('select 1 as one')).toEqual([{ one: 1 }]);
  release.resolve();
  await holding;
  await expect.poll(passes, { timeout: 10_000 }).toBe(true);
  await close();
});
