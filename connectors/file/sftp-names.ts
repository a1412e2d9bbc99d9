/**
 * Names of files on an SFTP server: subfolders, renames and removals. Renames over an existing file and links need
 * extensions of OpenSSH. Without them a rename over an existing file takes two steps, between which the name does not
 * exist.
 */
import { UnknownOutcome } from 'sourcing-bridge/connector';
import { NoSuchFile } from './folder.ts';
import type { SftpRequests } from './sftp-requests.ts';
import { noSuchFile, statusOf, unlessMissing, unlessUnsupported } from './sftp-status.ts';

export interface SftpNames {
  stat(path: string): Promise<{ size: number; mtime: number } | undefined>;
  /** Runs `work`, which needs the subfolder of `path`; creates the subfolder if it is missing. */
  inFolderOf<T>(path: string, work: () => Promise<T>): Promise<T>;
  /** See `Folder.move`. */
  move(from: string, to: string): Promise<void>;
  /** See `Folder.moveIfFree`. */
  moveIfFree(from: string, to: string): Promise<boolean>;
  remove(path: string): Promise<void>;
  /** Replaces `to` in one step; returns false, and does nothing, when the server cannot. */
  replaceAtOnce(from: string, to: string): Promise<boolean>;
  /** Forgets which subfolders exist: after an error they may be gone. */
  forgetFolders(): void;
}

const unknownIfLost = (message: string) => new UnknownOutcome(message);

/** Operations on names; `at` turns a path in the folder into the server's path. New folders get `folderMode`, if given. */
export function createSftpNames({ send }: SftpRequests, at: (path: string) => string, folderMode?: number): SftpNames {
  const attributes = folderMode === undefined ? {} : { mode: folderMode };
  /** Subfolders that existed, or were created, when they were last used. */
  let known = new Set<string>();

  const stat = (path: string) =>
    unlessMissing(
      send<{ size: number; mtime: number }>((sftp, done) => sftp.stat(at(path), done)),
      undefined,
    );
  const exists = async (path: string) => (await stat(path)) !== undefined;

  async function createFolders(path: string): Promise<void> {
    const parts = path.split('/').slice(0, -1);
    for (let count = 1; count <= parts.length; count += 1) {
      const folder = parts.slice(0, count).join('/');
      if (known.has(folder)) continue;
      if (!(await exists(folder)))
        await send<void>((sftp, done) => sftp.mkdir(at(folder), attributes, done)).catch(async (error: unknown) => {
          // Another process may have created it meanwhile.
          if (!(await exists(folder))) throw error;
        });
      known.add(folder);
    }
  }

  async function inFolderOf<T>(path: string, work: () => Promise<T>): Promise<T> {
    await createFolders(path);
    try {
      return await work();
    } catch (error) {
      if (statusOf(error) !== noSuchFile) throw error;
      // A reader that removes empty folders may have removed a known one.
      known = new Set();
      await createFolders(path);
      return work();
    }
  }

  const remove = (path: string) =>
    unlessMissing(
      send<void>((sftp, done) => sftp.unlink(at(path), done)),
      undefined,
    );

  const renameOnly = (from: string, to: string) =>
    send<void>((sftp, done) => sftp.rename(at(from), at(to), done), unknownIfLost);

  const replaceAtOnce = (from: string, to: string) =>
    send<void>((sftp, done) => sftp.ext_openssh_rename(at(from), at(to), done), unknownIfLost).then(
      () => true,
      unlessUnsupported,
    );

  async function renameOver(from: string, to: string): Promise<void> {
    if (await replaceAtOnce(from, to)) return;
    try {
      await renameOnly(from, to);
    } catch (error) {
      if (statusOf(error) === undefined || !(await exists(from)) || !(await exists(to))) throw error;
      // Between these two steps no file has the name.
      await remove(to);
      await renameOnly(from, to);
    }
  }

  return {
    stat,
    inFolderOf,
    remove,
    replaceAtOnce,
    move: async (from, to) => {
      try {
        await inFolderOf(to, () => renameOver(from, to));
      } catch (error) {
        if (statusOf(error) === undefined || (await exists(from))) throw error;
        throw new NoSuchFile(from, { cause: error });
      }
    },
    moveIfFree: async (from, to) => {
      try {
        const isLinked = await send<void>(
          (sftp, done) => sftp.ext_openssh_hardlink(at(from), at(to), done),
          unknownIfLost,
        ).then(() => true, unlessUnsupported);
        if (isLinked) return true;
      } catch (error) {
        // With another status the name is taken, or the file system has no links.
        if (statusOf(error) === undefined || statusOf(error) === noSuchFile) throw error;
      }
      if (await exists(to)) return false;
      try {
        // By the protocol this fails when another process has just taken the name. Some servers replace the file
        // instead.
        await renameOnly(from, to);
        return true;
      } catch (error) {
        if (statusOf(error) === undefined || !(await exists(to))) throw error;
        return false;
      }
    },
    forgetFolders: () => {
      known = new Set();
    },
  };
}
