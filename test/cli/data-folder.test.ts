/** The data folder of a program that runs: deleted, moved, missing, used twice. */
import { readFile, rename, rm, stat, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { createInstallation, lineOf, until } from '../faults/program-process.ts';
import { isRunning } from '../harness/is-running.ts';
import { scratchFolder } from '../harness/scratch-folder.ts';
import { createTestDatabase } from '../harness/test-database.ts';
import { runHere } from './command-line.ts';

const freePorts = {
  SOURCING__SERVICE__PORT: '0',
  SOURCING__BRIDGE__PORT: '0',
  SOURCING__BRIDGE__CONSOLE_PORT: '0',
};
const exists = (path: string) =>
  stat(path).then(
    () => true,
    () => false,
  );

test('that is deleted stops the program and its database, which say so and make no new one', async () => {
  const { dataDir, start } = await bound();
  const program = start(['start', '--demo'], freePorts);
  await lineOf(program, /ready/);
  const pid = Number((await readFile(join(dataDir, 'postgres', 'postmaster.pid'), 'utf8')).split('\n')[0]);
  // The database may write into the folder while it is being deleted.
  await until('the folder is deleted', () =>
    rm(dataDir, { recursive: true, force: true }).then(
      () => true,
      () => false,
    ),
  );
  expect(await program.end).toMatchObject({ code: 1 });
  expect(program.errors.join('\n')).toContain(`${dataDir} was deleted or moved while the program was running`);
  await until('the database has ended', () => !isRunning(pid));
  expect(await exists(join(dataDir, 'postgres', 'PG_VERSION'))).toBe(false);
});

test.each(['service', 'bridge'])(
  'that is moved away stops the %s, also with a database of its own',
  async (command) => {
    const { dataDir, start } = await bound((await createTestDatabase()).url);
    const program = start([command], freePorts);
    await lineOf(program, /ready/);
    await rename(dataDir, `${dataDir}-moved`);
    expect(await program.end).toMatchObject({ code: 1 });
    expect(program.errors.at(-1)).toContain(`The data folder ${dataDir} was deleted or moved`);
  },
);

test('that holds no database gets none from a command: it says so in one sentence, and exits with 2', async () => {
  const folder = await scratchFolder();
  const config = join(folder, 'bridge.yaml');
  const source = { name: 'main', base_url: 'http://127.0.0.1:1', api_key: 'k' };
  await writeFile(config, JSON.stringify({ bridge: { sources: [source] } }));
  const dataDir = join(folder, 'data');
  const { code, stderr } = await runHere(['bridge', 'status', '--config', config, '--data', dataDir]);
  expect([code, stderr]).toEqual([
    2,
    `There is no database in the data folder ${dataDir}, and this command makes none. Name the folder of the running program with --data or DATA_DIR, or start the program first.\n`,
  ]);
  expect(await exists(dataDir)).toBe(false);
});

test('that a start uses is refused to a second start in one sentence, and is free after a kill of the first', async () => {
  const { dataDir, start } = await bound((await createTestDatabase()).url);
  const first = start(['start', '--no-demo'], freePorts);
  await lineOf(first, /ready/);
  const second = start(['start', '--no-demo'], freePorts);
  expect(await second.end).toMatchObject({ code: 2 });
  expect(second.errors).toEqual([
    `Another npm start or demo runs on the data folder ${dataDir}: stop it first, or name another folder with --data.`,
  ]);
  await first.kill();
  await lineOf(start(['start', '--no-demo'], freePorts), /ready/);
});

/** The installation with its start as a plain function. */
async function bound(databaseUrl?: string) {
  const installation = await createInstallation(databaseUrl === undefined ? {} : { databaseUrl });
  return {
    dataDir: installation.dataDir,
    start: (...args: Parameters<typeof installation.start>) => installation.start(...args),
  };
}
