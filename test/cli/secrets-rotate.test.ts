/** The master key: a wrong one stops the start, and a new one replaces the old one, whatever is killed meanwhile. */
import { randomBytes, randomUUID } from 'node:crypto';
import { readFile, stat, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { migrateBridge } from '#bridge/migrate-bridge.ts';
import { bridgeSealedColumns } from '#bridge/sealed-bridge-columns.ts';
import { createSecretBox, type SecretBox } from '#platform/secrets.ts';
import { migrateService } from '#service/create-service.ts';
import { serviceSealedColumns } from '#service/webhooks/sealed-webhook-columns.ts';
import { createInstallation, lineOf, until } from '../faults/program-process.ts';
import { scratchFolder } from '../harness/scratch-folder.ts';
import { createTestDatabase, type TestDatabase } from '../harness/test-database.ts';
import { runHere } from './command-line.ts';

const columns = [...serviceSealedColumns, ...bridgeSealedColumns];
const base64 = (key: Buffer) => key.toString('base64');
const freePorts = { SOURCING__SERVICE__PORT: '0', SOURCING__BRIDGE__PORT: '0', SOURCING__BRIDGE__CONSOLE_PORT: '0' };

/** A database with this many webhooks of the bridge and one of the service, sealed under the key. */
async function sealedDatabase(key: Buffer, count: number): Promise<TestDatabase> {
  const db = await createTestDatabase();
  await migrateService(db.database);
  await migrateBridge(db.database);
  const secrets = createSecretBox(key);
  const ids = Array.from({ length: count }, () => randomUUID());
  await db.database.query(
    `insert into bridge.webhooks (id, source, name, url, secret, created)
     select id, 'main', 'w', 'https://x', secret, now() from unnest($1::uuid[], $2::bytea[]) as w (id, secret)`,
    [ids, ids.map((id) => secrets.seal(`bridge ${id}`, contextOf('bridge.webhooks', 'secret')(id)))],
  );
  const [organisation, webhook] = [randomUUID(), randomUUID()];
  await db.database.query("insert into service.organisations (id, name, created) values ($1, 'o', now())", [
    organisation,
  ]);
  await db.database.query(
    `insert into service.webhooks
       (id, organisation_id, name, description, url, triggers, signing_alg, signing_key, authentication, created)
     values ($1, $2, 'w', '', 'https://x', '{}', 'hmac-sha256', $3, $4, now())`,
    [
      webhook,
      organisation,
      secrets.seal(`service ${webhook}`, contextOf('service.webhooks', 'signing_key')(webhook)),
      secrets.seal(`service ${webhook}`, contextOf('service.webhooks', 'authentication')(webhook)),
    ],
  );
  return db;
}

function contextOf(table: string, column: string): (id: string) => string {
  const found = columns.find((each) => each.table === table && each.column === column);
  if (!found) throw new Error(`${table}.${column} is not among the sealed columns`);
  return found.context;
}

/** How many secrets the box opens; fails for one that it does not open, or that is another secret. */
async function opened({ database }: TestDatabase, box: SecretBox): Promise<number> {
  let count = 0;
  for (const { table, column, context } of columns)
    for (const { id, sealed } of await database.query<{ id: string; sealed: Buffer }>(
      `select id::text, ${column} as sealed from ${table} where ${column} is not null`,
    )) {
      expect(box.open(sealed, context(id))).toBe(`${table.split('.')[0]} ${id}`);
      count += 1;
    }
  return count;
}

async function countUnder({ database }: TestDatabase, key: Buffer): Promise<number> {
  const [row] = await database.query<{ count: number }>(
    'select count(*)::int as count from bridge.webhooks where substring(secret from 2 for 4) = $1',
    [createSecretBox(key).keyId],
  );
  return row?.count ?? 0;
}

test.each(['service', 'bridge'])(
  'another key than the one that sealed the data stops the %s, which says so',
  async (command) => {
    const db = await sealedDatabase(randomBytes(32), 1);
    const installation = await createInstallation({ databaseUrl: db.url });
    const program = installation.start([command], {
      ...freePorts,
      SOURCING_MASTER_KEY: base64(randomBytes(32)),
      LOG_LEVEL: 'fatal',
    });
    expect(await program.end).toMatchObject({ code: 1 });
    expect(program.lines).toEqual([]);
    expect(program.errors).toEqual([
      `The master key is not the one that sealed 1 secrets in ${command}.webhooks. Start with that key (SOURCING_MASTER_KEY, or the file master-key in the data folder), or name it in previous_keys.`,
    ]);
  },
);

test('with the old key among the previous ones the programs start, and a rotation seals everything under the new one', async () => {
  const [old, now] = [randomBytes(32), randomBytes(32)];
  const db = await sealedDatabase(old, 3);
  const installation = await createInstallation({
    databaseUrl: db.url,
    configuration: { master_key: base64(now), previous_keys: [base64(old)] },
  });
  const program = installation.start(['service'], freePorts);
  await lineOf(program, /ready/);
  const rotation = installation.start(['secrets', 'rotate']);
  expect(await rotation.end).toMatchObject({ code: 0 });
  expect(rotation.lines).toEqual([
    expect.stringMatching(/^5 secrets were sealed anew .* previous_keys can be removed/),
  ]);
  expect(await opened(db, createSecretBox(now))).toBe(5);
  expect(program.ended).toBeUndefined();
});

test('a rotation that is killed again and again loses no secret at any moment, and a later one ends it', async () => {
  const [old, now] = [randomBytes(32), randomBytes(32)];
  const db = await sealedDatabase(old, 2_500);
  const both = createSecretBox(now, [old]);
  const installation = await createInstallation({
    databaseUrl: db.url,
    configuration: { master_key: base64(now), previous_keys: [base64(old)] },
  });
  for (const share of [1, 600, 1_500, 2_000]) {
    const rotation = installation.start(['secrets', 'rotate']);
    await until(
      `${share} secrets are sealed anew`,
      async () => (await countUnder(db, now)) >= share,
      () => (rotation.ended?.code === 0 ? undefined : rotation.ended && rotation.report()),
    );
    await rotation.kill();
    expect(await opened(db, both)).toBe(2_502);
  }
  expect(await installation.start(['secrets', 'rotate']).end).toMatchObject({ code: 0 });
  expect(await opened(db, createSecretBox(now))).toBe(2_502);
});

test('the key of a data folder is replaced by a new one only while no program runs, and again after a kill', async () => {
  const dataDir = join(await scratchFolder(), 'data');
  const old = randomBytes(32);
  const db = await sealedDatabase(old, 300);
  const installation = await createInstallation({ databaseUrl: db.url, dataDir });
  // A first start makes the folder; the key is that of the data.
  await runHere(['bridge', 'status', '--data', dataDir], { DATABASE_URL: db.url });
  await writeFile(join(dataDir, 'master-key'), `${old.toString('base64url')}\n`, { mode: 0o600 });
  const keyIn = async (name: string) => Buffer.from((await readFile(join(dataDir, name), 'utf8')).trim(), 'base64url');

  const program = installation.start(['service'], freePorts);
  await lineOf(program, /ready/);
  const refused = installation.start(['secrets', 'rotate']);
  expect(await refused.end).toMatchObject({ code: 1 });
  expect(refused.errors.join('\n')).toMatch(
    /A program of this installation is running \(service .*\), which would not/,
  );
  expect(await keyIn('master-key')).toEqual(old);
  await program.terminate();

  const killed = installation.start(['secrets', 'rotate']);
  await until(
    'the new key is there',
    async () => !(await keyIn('master-key')).equals(old),
    () => (killed.ended?.code === 0 ? undefined : killed.ended && killed.report()),
  );
  await killed.kill();
  expect(await keyIn('master-key.previous')).toEqual(old);
  expect(await opened(db, createSecretBox(await keyIn('master-key'), [old]))).toBe(302);
  const rotation = installation.start(['secrets', 'rotate']);
  expect(await rotation.end).toMatchObject({ code: 0 });
  const now = await keyIn('master-key');
  expect(await opened(db, createSecretBox(now))).toBe(302);
  for (const name of ['master-key', 'master-key.previous'])
    expect((await stat(join(dataDir, name))).mode & 0o777).toBe(0o600);
  await lineOf(installation.start(['service'], freePorts), /ready/);
});
