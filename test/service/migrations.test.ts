import { randomUUID } from 'node:crypto';
import { cp, readdir } from 'node:fs/promises';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { migrate } from '#platform/database/migrations.ts';
import { migrateService } from '#service/create-service.ts';
import { scratchFolder } from '../harness/scratch-folder.ts';
import { createEmptyDatabase } from '../harness/test-database.ts';

test('a key for one side of the desk is revoked by the upgrade, and may never act for the other side', async () => {
  const { database } = await createEmptyDatabase();
  const earlier = await scratchFolder();
  const all = join(import.meta.dirname, '..', '..', 'src', 'service', 'migrations');
  for (const file of await readdir(all)) if (file < '019') await cp(join(all, file), join(earlier, file));
  await migrate(database, { schema: 'service', directory: earlier });
  const organisation = randomUUID();
  await database.query("insert into service.organisations (id, name, created) values ($1, 'Acme', now())", [
    organisation,
  ]);
  await database.query(
    `insert into service.api_keys (id, organisation_id, name, scopes, key_hash, created, desk_side)
     values (gen_random_uuid(), $1, 'buyer', '{desk}', '1', now(), 'buyer'),
       (gen_random_uuid(), $1, 'both', '{desk}', '2', now(), null)`,
    [organisation],
  );
  await migrateService(database);
  expect(
    await database.query('select name, revoked_at is not null as revoked from service.api_keys order by name'),
  ).toEqual([
    { name: 'both', revoked: false },
    { name: 'buyer', revoked: true },
  ]);
});
