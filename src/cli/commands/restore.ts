/**
 * `restore`: makes a data folder of a backup. The ERPs and the sources are newer than it, so the bridge's tables get a
 * note of that (`note-lost-commits.ts`), before any program can start over the folder.
 *
 * Everything happens in a folder beside the data folder, which is renamed when it is complete. A process that dies before
 * that leaves `….restoring-…`, which no program uses and which may be deleted, and no data folder; one that dies after it
 * has done all.
 */
import { randomBytes } from 'node:crypto';
import { chown, mkdir, readdir, rename, rm, rmdir } from 'node:fs/promises';
import { dirname, join, resolve } from 'node:path';
import { noteLostCommits } from '#bridge/ledger/lost-commits/note-lost-commits.ts';
import { migrateBridge } from '#bridge/migrate-bridge.ts';
import { systemClock, timestampNow } from '#platform/clock.ts';
import { createFolderCopy } from '#platform/copied-files.ts';
import { loadMasterKey, loadPreviousKeys } from '#platform/data-dir-secret.ts';
import { writeConfiguration } from '#platform/database/base-backup.ts';
import { openDatabase } from '#platform/database/open-database.ts';
import { serverUser } from '#platform/database/system-user.ts';
import { flushDirectory, readFileIfAny } from '#platform/durable-file.ts';
import { AppError, hasErrorCode } from '#platform/errors.ts';
import { createLogger } from '#platform/log.ts';
import { createSecretBox } from '#platform/secrets.ts';
import { type BackupFacts, backupFile, readBackup } from '../backup-format.ts';
import type { BridgeCommandOptions } from '../bridge-command.ts';
import { type Configuration, readConfiguration } from '../configuration.ts';
import { createProgress, print } from '../output.ts';

/**
 * Throws an AppError `invalid` for a data folder that holds something, and for a folder that is no whole backup: the master
 * key does not vouch for it, a file is missing, or its hash is another.
 */
export async function runRestore(options: BridgeCommandOptions, from: string): Promise<number> {
  const configuration = readConfiguration(options.config, options, process.env, { withoutSecrets: true });
  if (configuration.database_url !== undefined)
    throw new AppError(
      'invalid',
      'restore makes an embedded database. For a database server use its own tools, and then: bridge restored',
    );
  process.umask(Number.parseInt(configuration.umask, 8));
  const backup = resolve(from);
  const dataDir = resolve(configuration.data_dir);
  await requireEmpty(dataDir);
  const { secrets, isOwnKey } = await openSecrets(configuration, backup);
  const { facts, sums } = await readBackup(backup, secrets);
  const building = `${dataDir}.restoring-${randomBytes(4).toString('hex')}`;
  await mkdir(building, { recursive: true, mode: 0o700 });
  try {
    await copyBack(backup, facts, sums, building);
    await noteInDatabase(building, facts);
    await rmdir(dataDir).catch((error: unknown) => {
      if (!hasErrorCode(error, 'ENOENT')) throw error;
    });
    await rename(building, dataDir);
    await flushDirectory(dirname(dataDir));
  } catch (error) {
    await rm(building, { recursive: true, force: true });
    throw error;
  }
  print(
    options,
    { dataDir, made: facts.made },
    () =>
      `${dataDir} is as it was at ${facts.made}. Start the programs: nothing is sent before the sources were read again,\n` +
      'and each document is looked up in its ERP before it is written. bridge status says how far that is.' +
      (isOwnKey ? ownKeyText : ''),
  );
  return 0;
}

const ownKeyText =
  '\nIts master key was in the backup itself: whoever could read and write the backup could have changed it. With the key in\n' +
  'the settings (SOURCING_MASTER_KEY) nobody else can.';

/** What vouches for the backup: the master key of the settings, or the one in the backup. */
async function openSecrets(configuration: Configuration, backup: string) {
  const { master_key: fromEnvironment, previous_keys: configured } = configuration;
  const isOwnKey = fromEnvironment === undefined;
  if (isOwnKey && (await readFileIfAny(join(backup, 'master-key'))) === undefined)
    throw new AppError(
      'invalid',
      `${backup} holds no master key, and the settings name none. Set the one under which it was made (SOURCING_MASTER_KEY).`,
    );
  const key = await loadMasterKey({ fromEnvironment, directory: backup });
  const previous = await loadPreviousKeys({ configured, directory: backup });
  return { secrets: createSecretBox(key, isOwnKey ? previous : previous.slice(0, configured.length)), isOwnKey };
}

async function requireEmpty(dataDir: string): Promise<void> {
  const found = await readdir(dataDir).catch((error: unknown) => {
    if (hasErrorCode(error, 'ENOENT')) return [];
    throw new AppError('invalid', `The data folder ${dataDir} cannot be read.`, { cause: error });
  });
  if (found.length > 0)
    throw new AppError(
      'invalid',
      `The data folder ${dataDir} holds something. Stop its programs and move it away, or name another with --data.`,
    );
}

/** Copies every file that the backup lists, and compares its hash. */
async function copyBack(
  backup: string,
  { folders }: BackupFacts,
  sums: ReadonlyMap<string, string>,
  building: string,
): Promise<void> {
  const copy = createFolderCopy(building);
  const progress = createProgress('files');
  for (const folder of folders) await copy.folder(folder);
  let done = 0;
  for (const [path, sum] of sums) {
    if (path === backupFile) continue;
    const found = await copy.file(join(backup, path), path, { mayVanish: true });
    if (found !== sum)
      throw new AppError(
        'invalid',
        `${join(backup, path)} is ${found === undefined ? 'missing' : 'not what was backed up'}: use another backup.`,
      );
    done += 1;
    progress.tell(done, sums.size - 1);
  }
  progress.end();
  await writeConfiguration(copy);
  await copy.flush();
  const user = await serverUser(join(building, 'no such folder'));
  if (user) await giveTo(join(building, 'postgres'), user.uid, user.gid);
}

async function giveTo(path: string, uid: number, gid: number): Promise<void> {
  for (const entry of await readdir(path, { withFileTypes: true }))
    if (entry.isDirectory()) await giveTo(join(path, entry.name), uid, gid);
    else await chown(join(path, entry.name), uid, gid);
  await chown(path, uid, gid);
}

/** Starts the database, which repairs the copy with the WAL in it, and notes the restore in the bridge's tables. */
async function noteInDatabase(building: string, { made }: BackupFacts): Promise<void> {
  const log = createLogger({ name: 'restore', level: 'error' });
  const open = await openDatabase({ url: undefined, dataDir: building, log, applicationName: 'restore', poolMax: 2 });
  try {
    const [bridge] = await open.database.query<{ there: boolean }>(
      "select to_regclass('bridge.flows') is not null as there",
    );
    if (!bridge?.there) return;
    await migrateBridge(open.database);
    await noteLostCommits(open.database, { lost: timestampNow(systemClock), why: 'restored', since: made });
  } finally {
    await open.close();
  }
}
