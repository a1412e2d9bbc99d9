/**
 * A folder on an SFTP server. The guarantees of a folder need extensions of OpenSSH beyond version 3 of the protocol: a
 * rename over another file, links and a flush. Without them the connector does what the server allows, and `check`
 * names what is missing.
 */
import { randomBytes } from 'node:crypto';
import { type CheckResult, ConnectorError } from 'sourcing-bridge/connector';
import { type Content, type Folder, joinPath, NoSuchFile } from './folder.ts';
import type { SftpConnection } from './sftp-connection.ts';
import { createSftpNames, type SftpNames } from './sftp-names.ts';
import { createSftpRequests, readRange, type SftpRequests, writeContent } from './sftp-requests.ts';
import { connectorErrorOf, unlessMissing } from './sftp-status.ts';

/** The server's clock decides about leftovers, and may be wrong by hours. */
const leftoverMs = 24 * 3_600_000;

/** The rights of what the connector makes; undefined: the server decides. */
export interface SftpModes {
  readonly file?: number | undefined;
  readonly folder?: number | undefined;
}

/** The folder `root` of the login; `place` is its name in messages. */
export function createSftpFolder(
  connection: SftpConnection,
  root: string,
  place: string,
  modes: SftpModes = {},
): Folder {
  const at = (path: string) => joinPath(root, path);
  const requests = createSftpRequests(connection, place);
  const names = createSftpNames(requests, at, modes.folder);
  const write = (path: string, content: Content, signal?: AbortSignal) =>
    names.inFolderOf(path, () =>
      requests.withHandle(at(path), 'wx', (send) => writeContent(send, content, signal), modes.file),
    );

  async function withConnectorErrors<T>(path: string, work: () => Promise<T>): Promise<T> {
    try {
      return await work();
    } catch (error) {
      if (error instanceof ConnectorError || error instanceof NoSuchFile) throw error;
      names.forgetFolders();
      throw connectorErrorOf(error, path, place);
    }
  }

  return {
    place,
    leftoverMs,
    read: (path, range) => withConnectorErrors(path, () => readFile(requests, at(path), range)),
    stat: (path) =>
      withConnectorErrors(path, async () => {
        const found = await names.stat(path);
        return found && { bytes: found.size, modifiedMs: found.mtime * 1_000 };
      }),
    list: (path) => withConnectorErrors(path, () => listNames(requests, at(path))),
    write: (path, content, signal) => withConnectorErrors(path, () => write(path, content, signal)),
    move: (from, to) => withConnectorErrors(to, () => names.move(from, to)),
    moveIfFree: (from, to) => withConnectorErrors(to, () => names.moveIfFree(from, to)),
    // The protocol has no request that flushes names.
    flush: async () => undefined,
    remove: (path) => withConnectorErrors(path, () => names.remove(path)),
    check: async () => {
      const results: CheckResult[] = [];
      try {
        await connection.session();
        const message = `${place} accepts the login, and its key is the one of the settings.`;
        results.push({ name: 'server', ok: true, message });
        results.push(...(await withConnectorErrors('', () => checkWriting(place, names, write))));
      } catch (error) {
        const message = error instanceof Error ? error.message : String(error);
        results.push({ name: results.length === 0 ? 'server' : 'folder', ok: false, message });
      }
      return results;
    },
    during: requests.during,
    close: () => connection.close(),
  };
}

function readFile(requests: SftpRequests, file: string, range?: { from: number; to: number }) {
  const { from, to } = range ?? { from: 0, to: Number.MAX_SAFE_INTEGER };
  return unlessMissing(
    requests.withHandle(file, 'r', (send) => readRange(send, from, to)),
    undefined,
  );
}

async function listNames(requests: SftpRequests, folder: string): Promise<string[]> {
  const listed = await unlessMissing(
    requests.send<{ filename: string }[]>((sftp, done) => sftp.readdir(folder, done)),
    [],
  );
  return listed.map(({ filename }) => filename);
}

/** Writes two files and renames one over the other; removes both. */
async function checkWriting(
  place: string,
  names: SftpNames,
  write: (path: string, content: Content) => Promise<void>,
): Promise<CheckResult[]> {
  const name = `.check_${randomBytes(8).toString('hex')}`;
  const [from, to] = [`${name}.tmp`, `${name}.renamed.tmp`];
  try {
    await write(from, Buffer.from('x'));
    await write(to, Buffer.from('y'));
    const replaces = await names.replaceAtOnce(from, to);
    if (!replaces) await names.move(from, to);
    return [
      { name: 'folder', ok: true, message: `${place} can be written.` },
      {
        name: 'rename',
        ok: true,
        message: replaces
          ? 'The server replaces a file in one step.'
          : 'The server cannot replace a file in one step: while a file is replaced, a reader does not find it for a moment.',
      },
    ];
  } finally {
    for (const file of [from, to]) await names.remove(file).catch(() => undefined);
  }
}
