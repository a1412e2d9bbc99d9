/**
 * A real cluster that does not take what is written: read-only, with a full disk, or with commits that hang. The doctor
 * names each within seconds and ends, and `/readyz` answers 503 with the reason.
 */
import { execFileSync, spawnSync } from 'node:child_process';
import { chmodSync, chownSync, statSync } from 'node:fs';
import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { migrateBridge } from '#bridge/migrate-bridge.ts';
import { createDatabase } from '#platform/database/database.ts';
import { startHeartbeat } from '#platform/heartbeat.ts';
import { silentLogger } from '#platform/log.ts';
import { closeAtEnd } from '../harness/close-at-end.ts';
import { type Cluster, hasClusters, startCluster } from '../harness/postgres-cluster.ts';
import { request } from '../harness/request.ts';
import { scratchFolder } from '../harness/scratch-folder.ts';
import { createInstallation, lineOf, until } from './program-process.ts';

const isThere = hasClusters();

const source = { name: 'main', base_url: 'https://localhost:1', api_key: 'key', signing_keys: ['key'] };
const configuration = { bridge: { port: 0, console_port: 0, sources: [source] } };

/** The lines of the doctor about the database's writes and the source. */
async function doctor(databaseUrl: string): Promise<Record<string, string>> {
  const installation = await createInstallation({ databaseUrl, configuration });
  const program = installation.start(['bridge', 'doctor', '--json']);
  expect(await program.end).toMatchObject({ code: 1 });
  const { findings } = JSON.parse(program.lines.join('\n')) as { findings: { name: string; message: string }[] };
  return Object.fromEntries(findings.map(({ name, message }) => [name, message]));
}

/** Starts a puller, changes the cluster, and returns what `/readyz` says then. */
async function readiness(cluster: Cluster, change: () => Promise<unknown>): Promise<unknown> {
  const installation = await createInstallation({ databaseUrl: cluster.url('bridge'), configuration });
  const program = installation.start(['bridge', '--role', 'pull']);
  const url = /http[^\s)]+/.exec(await lineOf(program, /ready/))?.[0] ?? '';
  expect((await request('GET', `${url}/readyz`)).status).toBe(200);
  await change();
  return until('it is not ready', async () => {
    const { status, body } = await request('GET', `${url}/readyz`);
    return status === 503 && body;
  });
}

async function bridgeCluster(settings: readonly string[] = []): Promise<Cluster> {
  const cluster = await startCluster(settings);
  await cluster.query('create database bridge');
  return cluster;
}

async function change(cluster: Cluster, setting: string): Promise<void> {
  await cluster.query(`alter system set ${setting}`);
  await cluster.query('select pg_reload_conf()');
}

test.runIf(isThere)('a database that became read-only is named', async () => {
  const cluster = await bridgeCluster();
  expect(await readiness(cluster, () => change(cluster, 'default_transaction_read_only = on'))).toMatchObject({
    checks: { database: 'failed' },
    reasons: { database: 'The database is read-only.' },
  });
  expect(await doctor(cluster.url('bridge'))).toMatchObject({
    'database: writes': expect.stringContaining('read-only (25006'),
  });
});

test.runIf(isThere)('commits that hang are named, and the doctor ends', async () => {
  const cluster = await bridgeCluster();
  expect(await readiness(cluster, () => change(cluster, "synchronous_standby_names = 'nobody'"))).toMatchObject({
    checks: { database: 'failed' },
  });
  expect(await doctor(cluster.url('bridge'))).toMatchObject({
    'database: writes': expect.stringContaining('commits hang'),
  });
});

/** A file system of a few megabytes; undefined where this user may mount none. */
async function smallDisk(): Promise<string | undefined> {
  const folder = await scratchFolder();
  const isMounted = spawnSync('mount', ['-t', 'tmpfs', '-o', 'size=32m', 'tmpfs', folder]).status === 0;
  if (!isMounted) return undefined;
  closeAtEnd(() => execFileSync('umount', ['--lazy', folder]));
  return folder;
}

test.runIf(isThere)('a full disk is named', async ({ skip }) => {
  const disk = await smallDisk();
  if (disk === undefined) {
    skip('no file system could be mounted here: a full disk is not tried');
    return;
  }
  const cluster = await startCluster();
  const { uid, gid } = statSync(cluster.folder);
  chmodSync(disk, 0o700);
  chownSync(disk, uid, gid);
  await cluster.query(`create tablespace small location '${disk}'`);
  await cluster.query('create database bridge tablespace small');
  const url = cluster.url('bridge');
  const database = createDatabase({ url, log: silentLogger, applicationName: 'test' });
  closeAtEnd(() => database.close());
  await migrateBridge(database);
  const fill = spawnSync('dd', ['if=/dev/zero', `of=${join(disk, 'fill')}`, 'bs=64k'], { stdio: 'ignore' });
  await writeFile(join(disk, 'fill-rest'), Buffer.alloc(64 * 1024)).catch(() => undefined);
  expect(fill.status).not.toBe(0);
  // A process that starts now.
  await expect(startHeartbeat({ database, schema: 'bridge', identity: 'test', log: silentLogger })).rejects.toThrow(
    /space|disk|full|53100/i,
  );
  expect(await doctor(url)).toMatchObject({ 'database: writes': expect.stringContaining('disk is full (53100') });
});
