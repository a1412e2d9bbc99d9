import { expect, test } from 'vitest';
import { createDatabase } from '#platform/database/database.ts';
import { createHeartbeat } from '#platform/heartbeat.ts';
import { silentLogger } from '#platform/log.ts';
import { createTestDatabase } from '../harness/test-database.ts';

async function start() {
  const db = await createTestDatabase();
  const database = createDatabase({ url: db.url, log: silentLogger, applicationName: 'heartbeat', poolMax: 2 });
  const close = async () => {
    await database.close();
    await db.drop();
  };
  return { db, database, beat: createHeartbeat(database, 'service'), close };
}

test('a database that takes writes passes, again and again, with one row', async () => {
  const { database, beat, close } = await start();
  await Promise.all([beat(), beat(), beat()]);
  await beat();
  expect(await database.query('select one from service.heartbeat')).toEqual([{ one: true }]);
  await close();
});

test('a database that became read-only does not pass, and says so', async () => {
  const { db, beat, close } = await start();
  await beat();
  const name = new URL(db.url).pathname.slice(1);
  await db.database.query(`alter database "${name}" set default_transaction_read_only = on`);
  const other = createDatabase({ url: db.url, log: silentLogger, applicationName: 'heartbeat', poolMax: 1 });
  await expect(createHeartbeat(other, 'service')()).rejects.toMatchObject({
    code: 'unavailable',
    publicMessage: 'The database is read-only.',
  });
  await other.close();
  await close();
});

test('a commit that hangs does not pass, and holds no connection afterwards', async () => {
  const { db, database, beat, close } = await start();
  await beat();
  const release = Promise.withResolvers<void>();
  const locked = Promise.withResolvers<void>();
  const holding = db.database.transaction(async (tx) => {
    await tx.query('select from service.heartbeat for update');
    locked.resolve();
    await release.promise;
  });
  await locked.promise;
  for (let n = 0; n < 3; n += 1) await expect(beat()).rejects.toMatchObject({ code: 'unavailable' });
  expect(await database.query('select 1 as one')).toEqual([{ one: 1 }]);
  release.resolve();
  await holding;
  await expect.poll(() => beat().then(() => 'passes')).toBe('passes');
  await close();
});
