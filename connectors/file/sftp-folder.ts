/**
 * A folder on an SFTP server, by the library ssh2-sftp-client. OpenSSH's extensions replace a file in one step and flush
 * it; without them the connector does what the server allows, and `check` names what is missing.
 */
import { type CheckResult, ConnectorError, DataError, UnknownOutcome } from 'sourcing-bridge/connector';
import type { SFTPWrapper, Stats } from 'ssh2';
import type SftpClient from 'ssh2-sftp-client';
import { createFolder, type FileInfo, type Folder, joinPath } from './folder.ts';
import { createSftpConnection, isUnsupported } from './sftp-connection.ts';
import type { SftpLogin } from './sftp-login.ts';

/** The folder `root` of the login; `place` is its name in messages. */
export function createSftpFolder(login: SftpLogin, root: string, place: string): Folder {
  const { run, during, close } = createSftpConnection(login, place);
  const at = (path: string) => joinPath(root, path);
  const unknownIfLost = (message: string) => new UnknownOutcome(message);
  let replacesAtOnce = false;

  async function infoOf(path: string): Promise<FileInfo> {
    // The library takes a failure of the server for a missing file.
    const found = await run(({ sftp }) => promised<Stats>((done) => sftp.lstat(at(path), done)));
    const type = found.isFile() ? 'file' : found.isDirectory() ? 'folder' : 'other';
    return { bytes: found.size, modifiedMs: found.mtime * 1_000, type };
  }

  async function read(path: string, range?: { from: number; to: number }): Promise<Uint8Array> {
    const { type, bytes } = await infoOf(path);
    if (type !== 'file') throw new DataError(`${path} in ${place} is no regular file: it is not read`);
    if (bytes <= (range?.from ?? 0)) return new Uint8Array(0);
    const readStreamOptions = range ? { start: range.from, end: range.to - 1 } : {};
    const options = { readStreamOptions } as SftpClient.TransferOptions;
    return (await run(({ client }) => client.get(at(path), undefined, options))) as Buffer;
  }

  /** Replaces `to` in one step; returns false, and does nothing, when the server cannot. */
  async function replaceAtOnce(from: string, to: string): Promise<boolean> {
    try {
      await run(({ client }) => client.posixRename(at(from), at(to)), unknownIfLost);
      return true;
    } catch (error) {
      if (isUnsupported(error)) return false;
      throw error;
    }
  }

  async function replace(from: string, to: string): Promise<void> {
    const rename = () => run(({ client }) => client.rename(at(from), at(to)), unknownIfLost);
    const isThere = (path: string) =>
      infoOf(path).then(
        () => true,
        () => false,
      );
    replacesAtOnce = await replaceAtOnce(from, to);
    if (replacesAtOnce) return;
    try {
      await rename();
    } catch (error) {
      if (error instanceof ConnectorError || !(await isThere(from)) || !(await isThere(to))) throw error;
      // Between these two steps no file has the name.
      await run(({ client }) => client.delete(at(to)));
      await rename();
    }
  }

  return createFolder({
    place,
    read,
    stat: infoOf,
    list: async (path) => (await run(({ client }) => client.list(at(path) || '.'))).map(({ name }) => name),
    create: (path, content) => run(({ sftp }) => createFile(sftp, at(path), content)),
    replace,
    makeFolder: (path) => run(({ sftp }) => promised<void>((done) => sftp.mkdir(at(path), {}, done))),
    remove: async (path) => {
      await run(({ client }) => client.delete(at(path)));
    },
    checkLogin: async () => {
      await run(async () => undefined);
      return {
        name: 'server',
        ok: true,
        message: `${place} accepts the login, and its key is the one of the settings.`,
      };
    },
    checkReplace: () => replaceResult(replacesAtOnce),
    during,
    close,
  });
}

function replaceResult(isAtOnce: boolean): CheckResult {
  const message = isAtOnce
    ? 'The server replaces a file in one step.'
    : 'The server cannot replace a file in one step: while a file is replaced, a reader does not find it for a moment.';
  return { name: 'rename', ok: true, message };
}

/** The library's own upload cannot flush, and makes files that everybody may write. */
async function createFile(sftp: SFTPWrapper, path: string, content: Uint8Array) {
  const bytes = Buffer.from(content);
  const handle = await promised<Buffer>((done) => sftp.open(path, 'wx', {}, done));
  try {
    await promised((done) => sftp.write(handle, bytes, 0, bytes.length, 0, (error) => done(error)));
    await promised((done) => sftp.ext_openssh_fsync(handle, (error) => done(error))).catch((error: unknown) => {
      if (!isUnsupported(error)) throw error;
    });
  } finally {
    await promised((done) => sftp.close(handle, (error) => done(error)));
  }
}

function promised<T = unknown>(send: (done: (error?: Error | null, value?: T) => void) => void): Promise<T> {
  return new Promise((resolve, reject) => {
    send((error, value) => (error ? reject(error) : resolve(value as T)));
  });
}
