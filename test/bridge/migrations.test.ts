import { cp, readdir } from 'node:fs/promises';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { migrateBridge } from '#bridge/migrate-bridge.ts';
import { migrate } from '#platform/database/migrations.ts';
import { scratchFolder } from '../harness/scratch-folder.ts';
import { createEmptyDatabase } from '../harness/test-database.ts';

test('notifications that wait, and those that were answered, are so after the inbox has become a log', async () => {
  const { database } = await createEmptyDatabase();
  const earlier = await scratchFolder();
  const all = join(import.meta.dirname, '..', '..', 'src', 'bridge', 'migrations');
  for (const file of await readdir(all)) if (file < '008') await cp(join(all, file), join(earlier, file));
  await migrate(database, { schema: 'bridge', directory: earlier });
  await database.query(
    `insert into bridge.checkpoints (source, feed, next_pull) values
       ('main', 'awards', now()), ('main', 'latest-bids', now()), ('main', 'rfi-responses', now())`,
  );
  await database.query(
    `insert into bridge.inbox (source, body_hash, trigger, feed, body, received, processed) values
       ('main', '1', 'A', 'awards', 'answered', now(), now()),
       ('main', '2', 'A', 'awards', 'waits', now(), null),
       ('main', '3', 'B', 'latest-bids', 'answered', now(), now()),
       ('main', '4', 'TEST', null, 'concerns no feed', now(), now()),
       ('main', '5', 'A', 'awards', 'waits, too', now(), null)`,
  );
  await database.query(
    "update bridge.inbox set pull = '00000000-0000-4000-8000-000000000001' where processed is not null",
  );
  await migrateBridge(database);
  expect(
    await database.query(
      'select feed, body from bridge.inbox join bridge.checkpoints using (source, feed) where id > answered order by id',
    ),
  ).toEqual([
    { feed: 'awards', body: 'waits' },
    { feed: 'awards', body: 'waits, too' },
  ]);
  expect(await database.query('select from bridge.inbox')).toHaveLength(5);
  expect(
    await database.query(
      `select body from bridge.answers a join bridge.inbox i
         on i.source = a.source and i.feed = a.feed and i.id > a.after_id and i.id <= a.last_id
       where a.pull = '00000000-0000-4000-8000-000000000001' order by i.id`,
    ),
  ).toEqual([{ body: 'answered' }, { body: 'answered' }]);
});
