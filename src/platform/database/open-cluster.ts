/**
 * What belongs to one data directory of the embedded server: its files, its password, its system user, its programs.
 */
import { mkdir, stat } from 'node:fs/promises';
import { join, sep } from 'node:path';
import { loadOrCreateSecret } from '#platform/data-dir-secret.ts';
import { AppError } from '#platform/errors.ts';
import type { Logger } from '#platform/log.ts';
import { createClusterOnce } from './create-cluster.ts';
import { findBinaries, type PostgresBinaries } from './postgres-binaries.ts';
import { clusterNameOf } from './postmaster.ts';
import { type SystemUser, serverUser } from './system-user.ts';

export interface Cluster {
  readonly directory: string;
  readonly logFile: string;
  /** The server's `cluster_name`, by which its process is recognised. */
  readonly name: string;
  readonly password: string;
  readonly user: SystemUser | undefined;
  readonly scratch: boolean;
  readonly log: Logger;
  /** Called only when the server has to be started: attaching needs no programs. */
  binaries(): Promise<PostgresBinaries>;
}

/**
 * Opens `<dataDir>/postgres`, and makes it at the first start. Throws an `internal` AppError that says what to do when
 * the password file is missing, when the directory cannot be made or served, and for `scratch` outside of `.test`.
 */
export async function openCluster(options: { dataDir: string; log: Logger; scratch: boolean }): Promise<Cluster> {
  const { dataDir, scratch, log } = options;
  if (scratch && !dataDir.split(sep).includes('.test'))
    throw new AppError('internal', `A scratch server is for tests, in a folder named .test; ${dataDir} is not in one.`);
  const directory = join(dataDir, 'postgres');
  await mkdir(dataDir, { recursive: true, mode: 0o700 });
  const exists = await pathExists(directory);
  const secretFile = join(dataDir, 'postgres.secret');
  // Every process makes the password before the directory: where there is a directory, its password has been written.
  if (exists && !(await pathExists(secretFile)))
    throw new AppError(
      'internal',
      `${secretFile}, the password of the database in ${directory}, is missing. Restore it from a backup.`,
    );
  const password = (await loadOrCreateSecret({ file: secretFile, bytes: 32 })).toString('base64url');
  const user = await serverUser(directory);
  const binaries = () => findBinaries(user, log);
  if (!exists)
    await createClusterOnce({ dataDir, directory, binaries: await binaries(), user, password, scratch, log });
  const name = await clusterNameOf(directory);
  return { directory, logFile: join(dataDir, 'postgres.log'), name, password, user, scratch, log, binaries };
}

async function pathExists(path: string): Promise<boolean> {
  return (await stat(path).catch(() => undefined)) !== undefined;
}
