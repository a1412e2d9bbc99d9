import { once } from 'node:events';
import { mkdtemp, readdir, rm } from 'node:fs/promises';
import { type AddressInfo, connect, createServer, type Socket } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { escapeIdentifier } from 'pg';
import { afterAll, beforeAll, expect, it } from 'vitest';
import { openDatabase } from '#platform/database/open-database.ts';
import { AppError } from '#platform/errors.ts';
import { silentLogger } from '#platform/log.ts';
import { createEmptyDatabase, type TestDatabase } from '../../harness/test-database.ts';

let test: TestDatabase;
let dataDir: string;
beforeAll(async () => {
  test = await createEmptyDatabase();
  dataDir = await mkdtemp(join(tmpdir(), 'open-database-'));
});
afterAll(() => rm(dataDir, { recursive: true }));

const open = (url: string | undefined) =>
  openDatabase({ url, dataDir, log: silentLogger, applicationName: 'open-database test', poolMax: 2 });

it('uses the server that is named, and touches no data directory', async () => {
  const opened = await open(test.url);
  expect({ kind: opened.kind, url: opened.url }).toEqual({ kind: 'server', url: test.url });
  expect(await opened.database.query("select current_setting('application_name') as name")).toEqual([
    { name: 'open-database test' },
  ]);
  await opened.close();
  expect(await readdir(dataDir)).toEqual([]);
});

it('starts the embedded server when none is named, and stops it on close', async () => {
  const opened = await open(undefined);
  expect(opened.kind).toBe('embedded');
  await opened.database.query('create table kept (x int)');
  await opened.close();
  expect(await readdir(join(dataDir, 'postgres'))).not.toContain('postmaster.pid');
  const again = await open(undefined);
  expect(await again.database.query('select x from kept')).toEqual([]);
  await again.close();
});

it('waits for a server that is still starting', async () => {
  const target = new URL(test.url);
  const sockets: Socket[] = [];
  const server = createServer((client) => {
    const upstream = connect(Number(target.port || 5432), target.hostname);
    sockets.push(client, upstream);
    for (const socket of [client, upstream]) socket.on('error', () => undefined);
    client.pipe(upstream).pipe(client);
  });
  const refusals = createServer((client) => client.destroy()).listen(0, '127.0.0.1');
  await once(refusals, 'listening');
  const { port } = refusals.address() as AddressInfo;
  const url = new URL(test.url);
  url.host = `127.0.0.1:${port}`;
  const opening = open(url.href);
  await once(refusals, 'connection');
  refusals.close();
  await once(refusals, 'close');
  server.listen(port, '127.0.0.1');
  const opened = await opening;
  expect(await opened.database.query('select 1 as one')).toEqual([{ one: 1 }]);
  await opened.close();
  for (const socket of sockets) socket.destroy();
  server.close();
  await once(server, 'close');
});

it('says at once when the database does not exist', async () => {
  const url = new URL(test.url);
  url.pathname = '/not_there';
  const error = await open(url.href).then(
    () => undefined,
    (thrown: unknown) => thrown,
  );
  expect(error).toBeInstanceOf(AppError);
  expect(error).toMatchObject({ code: 'unavailable', message: expect.stringContaining('not_there') });
});

it('refuses a database that cannot hold every letter', async () => {
  const url = new URL(test.url);
  const name = `${url.pathname.slice(1)}_ascii`;
  await test.database.query(
    `create database ${escapeIdentifier(name)} template template0 encoding 'SQL_ASCII' locale 'C'`,
  );
  url.pathname = `/${name}`;
  await expect(open(url.href)).rejects.toThrow(/encoding is SQL_ASCII; UTF8 is needed/);
  await test.database.query(`drop database ${escapeIdentifier(name)} with (force)`);
});
