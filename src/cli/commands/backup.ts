/**
 * `backup`: copies what an installation with the embedded database consists of into a new folder, while its programs run:
 * the database, the files of the service, the keys, the local authority. What connectors have written into the data
 * folder is an ERP's, and is left out.
 *
 * The database is copied as of the end of its copy. Files are copied before and after it: one that the database knows was
 * there before or has come since. Keys are copied last: whatever sealed a secret in the database is among them. The
 * folder gets its name when all of it is on the disk, so a process that dies leaves a folder `….part-…` that `restore`
 * refuses, and no backup that lacks something.
 */
import { randomBytes } from 'node:crypto';
import { mkdir, readdir, readFile, rename, rm, stat } from 'node:fs/promises';
import { dirname, join, resolve } from 'node:path';
import { systemClock, timestampNow } from '#platform/clock.ts';
import { createFolderCopy, type FolderCopy } from '#platform/copied-files.ts';
import { backUpServer } from '#platform/database/base-backup.ts';
import { flushDirectory } from '#platform/durable-file.ts';
import { AppError, errorText, hasErrorCode } from '#platform/errors.ts';
import { type BackupFacts, backupFile, keyFiles, macFile, macOfList } from '../backup-format.ts';
import type { BridgeCommandOptions } from '../bridge-command.ts';
import type { Configuration } from '../configuration.ts';
import { readConfiguration } from '../configuration.ts';
import { type Installation, openInstallation } from '../installation.ts';
import { createProgress, print } from '../output.ts';

/** Throws an AppError `invalid` for a database server, a data folder without a database, and a target that exists. */
export async function runBackup(options: BridgeCommandOptions, target: string): Promise<number> {
  const configuration = readConfiguration(options.config, options, process.env, { withoutSecrets: true });
  if (configuration.database_url !== undefined)
    throw new AppError(
      'invalid',
      'backup copies the embedded database. For a database server use its own tools: docs/backup.md says which.',
    );
  const folder = resolve(target);
  if (await stat(folder).catch(() => undefined))
    throw new AppError('invalid', `${folder} exists already: name a folder that does not.`);
  await using opened = new AsyncDisposableStack();
  const installation = await openInstallation(configuration, { name: 'backup', logLevel: 'error', existing: true });
  opened.defer(() => installation.close());
  const part = `${folder}.part-${randomBytes(4).toString('hex')}`;
  await mkdir(part, { recursive: true, mode: 0o700 }).catch((cause: unknown) => {
    throw new AppError('invalid', `${part} cannot be made: ${errorText(cause)}.`, { cause });
  });
  try {
    const copied = await copyAll(installation, part);
    await rename(part, folder);
    await flushDirectory(dirname(folder));
    print(options, { folder, ...copied }, () => textOf(configuration, folder, copied));
    return 0;
  } catch (error) {
    await rm(part, { recursive: true, force: true });
    throw error;
  }
}

async function copyAll({ configuration, dataDir, open, secrets }: Installation, part: string) {
  const { files } = configuration.service;
  const ofFiles = files.store === 'local' ? resolve(files.directory ?? join(dataDir, 'files')) : undefined;
  const total = megabytes(
    (await bytesIn(join(dataDir, 'postgres'))) + (ofFiles === undefined ? 0 : await bytesIn(ofFiles)),
  );
  const progress = createProgress('MB copied');
  const copy = createFolderCopy(part, (bytes) => progress.tell(megabytes(bytes), total));
  if (ofFiles !== undefined) await copyFolder(ofFiles, 'files', copy);
  await backUpServer(join(dataDir, 'postgres'), open.url, copy);
  const made = timestampNow(systemClock);
  if (ofFiles !== undefined) await copyFolder(ofFiles, 'files', copy);
  for (const name of keyFiles) await copy.file(join(dataDir, name), name, { mayVanish: true });
  await copyFolder(join(dataDir, 'tls'), 'tls', copy);
  const { version } = JSON.parse(await readFile(new URL('../../../package.json', import.meta.url), 'utf8')) as {
    version: string;
  };
  const facts: BackupFacts = { format: 2, made, version, folders: copy.folders() };
  await copy.text(`${JSON.stringify(facts, null, 2)}\n`, backupFile);
  await copy.text(macOfList(secrets, await copy.list()), macFile);
  progress.end();
  return { made, ...(await copy.flush()) };
}

const megabytes = (bytes: number) => Math.round(bytes / 1e6);

/** About how much a folder holds, as its files come and go; 0 without it. */
async function bytesIn(folder: string): Promise<number> {
  const entries = await readdir(folder, { withFileTypes: true, recursive: true }).catch(() => []);
  let bytes = 0;
  for (const entry of entries)
    if (entry.isFile()) bytes += (await stat(join(entry.parentPath, entry.name)).catch(() => undefined))?.size ?? 0;
  return bytes;
}

/** Copies what is not copied yet; a folder that does not exist is empty. */
async function copyFolder(from: string, path: string, copy: FolderCopy): Promise<void> {
  const entries = await readdir(from, { withFileTypes: true }).catch((error: unknown) => {
    if (hasErrorCode(error, 'ENOENT')) return [];
    throw error;
  });
  for (const entry of entries) {
    const [source, target] = [join(from, entry.name), join(path, entry.name)];
    if (entry.isDirectory()) await copyFolder(source, target, copy);
    // Unfinished uploads, and what is being replaced.
    else if (entry.isFile() && !/\.(part|tmp)$/.test(entry.name))
      await copy.file(source, target, { mayVanish: true, once: true });
  }
}

function textOf(
  { master_key, service }: Configuration,
  folder: string,
  copied: { files: number; bytes: number },
): string {
  const lines = [
    `${copied.files} files, ${(copied.bytes / 1e6).toFixed(1)} MB, are in ${folder}. It holds keys: whoever reads it reads everything.`,
  ];
  if (master_key !== undefined)
    lines.push('The master key is in the settings and not in the backup: keep a copy of it.');
  if (service.files.store === 's3') lines.push('The files are in the bucket and not in the backup.');
  return lines.join('\n');
}
