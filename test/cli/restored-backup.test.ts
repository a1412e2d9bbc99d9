/** What a backup can make `restore` do, when somebody else could write into it: nothing, on a real embedded database. */
import { createHash } from 'node:crypto';
import { existsSync } from 'node:fs';
import { chmod, cp, readdir, readFile, rm, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { beforeAll, beforeEach, expect, test } from 'vitest';
import { migrateBridge } from '#bridge/migrate-bridge.ts';
import { readConfiguration } from '#cli/configuration.ts';
import { openInstallation } from '#cli/installation.ts';
import { createSecretBox } from '#platform/secrets.ts';
import { scratchFolder } from '../harness/scratch-folder.ts';
import { runHere } from './command-line.ts';

let made: string;
let backup: string;
let target: string;
let marker: string;

beforeAll(async () => {
  const folder = await scratchFolder();
  const dataDir = join(folder, 'data');
  const installation = await openInstallation(readConfiguration(undefined, { data: dataDir }, {}), {
    name: 'test',
    logLevel: 'silent',
  });
  await migrateBridge(installation.open.database);
  await installation.close();
  made = join(folder, 'backup');
  const { code, stderr } = await runHere(['backup', made, '--data', dataDir]);
  if (code !== 0) throw new Error(stderr);
});

beforeEach(async () => {
  const folder = await scratchFolder();
  // The database's user writes there.
  await chmod(folder, 0o777);
  backup = join(folder, 'backup');
  target = join(folder, 'data');
  marker = join(folder, 'was-here');
  await cp(made, backup, { recursive: true });
});

const restore = () => runHere(['restore', backup, '--data', target]);

/** Writes the list of hashes as it fits the files by now. */
async function renewSums(): Promise<void> {
  const names = await readdir(backup, { recursive: true, withFileTypes: true });
  const lines: string[] = [];
  for (const entry of names.filter((each) => each.isFile() && !each.name.startsWith('SHA256SUMS'))) {
    const path = join(entry.parentPath, entry.name);
    const sum = createHash('sha256')
      .update(await readFile(path))
      .digest('hex');
    lines.push(`${sum}  ${path.slice(backup.length + 1)}\n`);
  }
  await writeFile(join(backup, 'SHA256SUMS'), lines.join(''));
}

/** As somebody does it who has read the master key in the backup. */
async function renewMac(): Promise<void> {
  const key = Buffer.from((await readFile(join(backup, 'master-key'), 'utf8')).trim(), 'base64url');
  const sums = await readFile(join(backup, 'SHA256SUMS'));
  await writeFile(join(backup, 'SHA256SUMS.mac'), `${createSecretBox(key).mac(sums, 'backup').toString('hex')}\n`);
}

async function plantCommand(): Promise<void> {
  await writeFile(join(backup, 'postgres', 'recovery.signal'), '');
  await writeFile(join(backup, 'postgres', 'postgresql.auto.conf'), `restore_command = 'touch ${marker}; false'\n`);
}

test('a backup is restored as it was made, with a configuration of the database that is written anew', async () => {
  const { code, stdout } = await restore();
  expect(code).toBe(0);
  expect(stdout).toContain('Its master key was in the backup itself');
  expect(await readFile(join(target, 'postgres', 'postgresql.auto.conf'), 'utf8')).toBe('');
  expect((await readdir(join(made, 'postgres'))).filter((name) => /\.(conf|signal)$/.test(name))).toEqual([]);
});

test('a command that was planted with renewed hashes does not run', async () => {
  await plantCommand();
  await renewSums();
  const { code, stderr } = await restore();
  expect(existsSync(marker)).toBe(false);
  expect(code).toBe(2);
  expect(stderr).toContain('was changed since it was made');
  expect(existsSync(target)).toBe(false);
});

test('a command that was planted by somebody who knows the master key does not run', async () => {
  await plantCommand();
  await renewSums();
  await renewMac();
  const { code, stderr } = await restore();
  expect(existsSync(marker)).toBe(false);
  expect(code).toBe(2);
  expect(stderr).toContain('which no backup has');
});

test('a backup is vouched for by the master key of the settings, and not by the one in it', async () => {
  const { code, stderr } = await runHere(['restore', backup, '--data', target], {
    SOURCING_MASTER_KEY: Buffer.alloc(32, 1).toString('base64'),
  });
  expect(code).toBe(2);
  expect(stderr).toContain('or it was made under another master key');
});

test('a backup without what vouches for it is refused', async () => {
  await rm(join(backup, 'SHA256SUMS.mac'));
  const { code, stderr } = await restore();
  expect(code).toBe(2);
  expect(stderr).toContain('SHA256SUMS.mac');
});

test('a folder or a fact that was added to the backup is refused', async () => {
  const facts = JSON.parse(await readFile(join(backup, 'backup.json'), 'utf8')) as { folders: string[] };
  await writeFile(
    join(backup, 'backup.json'),
    JSON.stringify({ ...facts, folders: [...facts.folders, 'files/planted'] }),
  );
  const { code, stderr } = await restore();
  expect(code).toBe(2);
  expect(stderr).toContain('backup.json is not what was backed up');
});
