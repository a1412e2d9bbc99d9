/** The programs behind a real PgBouncer, with the settings that Debian ships, in each of its modes. */
import { expect, test } from 'vitest';
import { openDatabase } from '#platform/database/open-database.ts';
import { silentLogger } from '#platform/log.ts';
import { hasPooler, startPooler } from '../harness/pooler.ts';
import { scratchFolder } from '../harness/scratch-folder.ts';
import { createTestDatabase } from '../harness/test-database.ts';
import { deliverByRoles } from './each-role.ts';

const isPoolerThere = hasPooler();

test.runIf(isPoolerThere)('a pooler in transaction mode is refused at the start, with what to set', async () => {
  const db = await createTestDatabase();
  const url = await startPooler(db.url, 'transaction');
  const dataDir = await scratchFolder();
  const opening = openDatabase({ url, dataDir, log: silentLogger, applicationName: 'test' });
  await expect(opening).rejects.toThrow(/pool_mode transaction .* Set pool_mode = session/);
});

test.runIf(isPoolerThere)('over a pooler in session mode every role works, without Redis', async () => {
  const db = await createTestDatabase();
  const doubled = await deliverByRoles({
    db,
    databaseUrl: await startPooler(db.url, 'session'),
    roles: ['receive', 'pull', 'push'],
    story: { events: 2, suppliers: 3, lots: 4 },
  });
  expect(doubled).toEqual([]);
});
