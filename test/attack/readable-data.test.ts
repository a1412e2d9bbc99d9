/** Another user of the machine looks into the data folder of a running program. */
import { mkdir, readdir, stat } from 'node:fs/promises';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { createInstallation, lineOf } from '../faults/program-process.ts';
import { scratchFolder } from '../harness/scratch-folder.ts';

const freePorts = {
  SOURCING__SERVICE__PORT: '0',
  SOURCING__BRIDGE__PORT: '0',
  SOURCING__BRIDGE__CONSOLE_PORT: '0',
};

/** What others than the owner may do with the folder and with anything in it, by path; nothing for most. */
async function openToOthers(folder: string): Promise<Record<string, string>> {
  const open: Record<string, string> = {};
  const names = await readdir(folder, { recursive: true });
  for (const name of ['.', ...names]) {
    // The database removes files of its own at any time.
    const found = await stat(join(folder, name)).catch(() => undefined);
    if (found && (found.mode & 0o077) !== 0) open[name] = (found.mode & 0o777).toString(8);
  }
  return open;
}

test('nothing in it can be read by others: database, keys, certificates, documents', async () => {
  const dataDir = join(await scratchFolder(), 'parent', 'data');
  const program = (await createInstallation({ dataDir })).start(['start', '--no-demo'], freePorts);
  await lineOf(program, /ready/);
  expect(await openToOthers(dataDir)).toEqual({});
  expect(await readdir(dataDir)).toEqual(
    expect.arrayContaining(['admin-token', 'erp-inbox', 'local-setup.json', 'master-key', 'postgres', 'tls']),
  );
  await program.terminate();
});

test('by setting, the group may read what holds no secret; keys and database stay closed', async () => {
  const folder = await scratchFolder();
  await mkdir(join(folder, 'own'), { mode: 0o750 });
  const dataDir = join(folder, 'own', 'data');
  const program = (await createInstallation({ dataDir, configuration: { umask: '027' } })).start(
    ['start', '--no-demo'],
    freePorts,
  );
  await lineOf(program, /ready/);
  const open = Object.keys(await openToOthers(dataDir));
  expect(open).toEqual(expect.arrayContaining(['.', 'tls', 'tls/ca.pem']));
  expect(open).not.toEqual(
    expect.arrayContaining([expect.stringMatching(/secret|master|token|setup|server|ca-1|postgres\//)]),
  );
  await program.terminate();
});
