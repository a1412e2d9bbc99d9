/**
 * A folder on an SFTP server. What the promises of a folder need beyond the protocol's third version are extensions that
 * OpenSSH has: a rename over another file, links, a flush. A server without them is served as well as it can be, and
 * `check` says what is missing.
 */
import { randomBytes } from 'node:crypto';
import {
  type CheckResult,
  ConfigError,
  ConnectorError,
  DataError,
  TransientError,
  UnknownOutcome,
} from 'sourcing-bridge/connector';
import type { SFTPWrapper } from 'ssh2';
import { type Content, type Folder, joined, NoSuchFile } from './folder.ts';
import type { SftpConnection } from './sftp-connection.ts';

/** So long a call that is to stop may wait for what it has asked. The bridge gives 5 s. */
const stopWithinMs = 100;
/** What every server takes in one request. */
const chunkBytes = 32 * 1024;
/** Requests of one file that are under way at once: the way there and back is what costs time. */
const requestsAtOnce = 32;

type Request<T> = (sftp: SFTPWrapper, done: (error: Error | null | undefined, value?: T) => void) => void;

type AskHandle = <T>(
  request: (sftp: SFTPWrapper, handle: Buffer, done: (error: Error | null | undefined, value?: T) => void) => void,
) => Promise<T>;

const transient = (message: string): Error => new TransientError(message);

const endOfFile = 1;
const noSuchFile = 2;
const permissionDenied = 3;
const failure = 4;
const badMessage = 5;
const unsupported = 8;

export function createSftpFolder(connection: SftpConnection, root: string, place: string): Folder {
  const at = (path: string) => joined(root, path);
  /** Folders that were there, or were made. */
  let known = new Set<string>();
  /** What is to stop connects no more. */
  let isStopping = false;

  async function session(): Promise<SFTPWrapper> {
    if (isStopping) throw new TransientError('stopped before it was sent');
    return connection.session();
  }

  /** One request. `lost`: what it means that the connection ended before the answer. */
  async function ask<T>(request: Request<T>, lost: (message: string) => Error = transient): Promise<T> {
    return askIn(await session(), request, lost);
  }

  async function askIn<T>(sftp: SFTPWrapper, request: Request<T>, lost = transient): Promise<T> {
    return new Promise((resolve, reject) => {
      const onLost = (message: string) => reject(lost(`${place}: the connection was lost (${message})`));
      const forget = connection.whenOver(sftp, onLost);
      try {
        request(sftp, (error, value) => {
          forget();
          if (!error) resolve(value as T);
          else if (statusOf(error) === undefined) onLost(error.message);
          else reject(error);
        });
      } catch (error) {
        forget();
        // An extension that the server has not.
        reject(Object.assign(new Error(String(error)), { code: unsupported }));
      }
    });
  }

  const unknownIfLost = (message: string) => new UnknownOutcome(message);
  const stat = (path: string) => ask<{ size: number; mtime: number }>((sftp, done) => sftp.stat(at(path), done));
  const exists = async (path: string) => (await absent(stat(path), undefined)) !== undefined;

  /** A handle is worth something in its own session only: in another it may be that of another file. */
  async function withHandle<T>(path: string, flags: 'r' | 'wx', work: (asked: AskHandle) => Promise<T>): Promise<T> {
    const own = await session();
    const handle = await askIn<Buffer>(own, (sftp, done) => sftp.open(at(path), flags, done));
    try {
      return await work((request) => askIn(own, (sftp, done) => request(sftp, handle, done)));
    } finally {
      await askIn(own, (sftp, done) => sftp.close(handle, done)).catch(() => undefined);
    }
  }

  async function readRange(asked: AskHandle, from: number, to: number): Promise<Uint8Array> {
    const parts: Buffer[] = [];
    let position = from;
    while (position < to) {
      const length = Math.min(8 * chunkBytes, to - position);
      const part = Buffer.alloc(length);
      const count = await asked<number>((sftp, handle, done) =>
        sftp.read(handle, part, 0, length, position, (error, bytes) =>
          statusOf(error) === endOfFile ? done(undefined, 0) : done(error, bytes),
        ),
      );
      if (count === 0) break;
      parts.push(part.subarray(0, count));
      position += count;
    }
    return Buffer.concat(parts);
  }

  async function writeContent(asked: AskHandle, content: Content, signal?: AbortSignal): Promise<void> {
    let position = 0;
    let failed: unknown;
    const underWay = new Set<Promise<void>>();
    for await (const piece of content instanceof Uint8Array ? [content] : content) {
      for (let from = 0; from < piece.length; from += chunkBytes) {
        if (signal?.aborted) throw new TransientError('stopped before it was written');
        if (failed !== undefined) throw failed;
        const chunk = Buffer.from(piece.subarray(from, from + chunkBytes));
        const offset = position;
        position += chunk.length;
        const one: Promise<void> = asked<void>((sftp, handle, done) =>
          sftp.write(handle, chunk, 0, chunk.length, offset, (error) => done(error)),
        )
          .catch((error: unknown) => {
            failed ??= error;
          })
          .finally(() => underWay.delete(one));
        underWay.add(one);
        if (underWay.size >= requestsAtOnce) await Promise.race(underWay);
      }
    }
    await Promise.all(underWay);
    if (failed !== undefined) throw failed;
    await asked<void>((sftp, handle, done) => sftp.ext_openssh_fsync(handle, (error) => done(error))).catch(
      unlessUnsupported,
    );
  }

  async function makeFolders(path: string): Promise<void> {
    const parts = path.split('/').slice(0, -1);
    for (let count = 1; count <= parts.length; count += 1) {
      const folder = parts.slice(0, count).join('/');
      if (known.has(folder)) continue;
      if (!(await exists(folder)))
        await ask<void>((sftp, done) => sftp.mkdir(at(folder), done)).catch(async (error: unknown) => {
          // Somebody else may have made it meanwhile.
          if (!(await exists(folder))) throw error;
        });
      known.add(folder);
    }
  }

  /** What needs a file's folder. One that was made may have been taken away since, as by a reader that tidies up. */
  async function inFolderOf<T>(path: string, work: () => Promise<T>): Promise<T> {
    await makeFolders(path);
    try {
      return await work();
    } catch (error) {
      if (statusOf(error) !== noSuchFile) throw error;
      known = new Set();
      await makeFolders(path);
      return work();
    }
  }

  const write = (path: string, content: Content, signal?: AbortSignal) =>
    inFolderOf(path, () => withHandle(path, 'wx', (asked) => writeContent(asked, content, signal)));

  const renameOnly = (from: string, to: string) =>
    ask<void>((sftp, done) => sftp.rename(at(from), at(to), done), unknownIfLost);

  async function renameOver(from: string, to: string): Promise<void> {
    const isMoved = await ask<void>(
      (sftp, done) => sftp.ext_openssh_rename(at(from), at(to), done),
      unknownIfLost,
    ).then(() => true, unlessUnsupported);
    if (isMoved) return;
    try {
      await renameOnly(from, to);
    } catch (error) {
      if (statusOf(error) === undefined || !(await exists(from)) || !(await exists(to))) throw error;
      // Between these two nothing has the name.
      await remove(to);
      await renameOnly(from, to);
    }
  }

  async function move(from: string, to: string): Promise<void> {
    try {
      await inFolderOf(to, () => renameOver(from, to));
    } catch (error) {
      if (statusOf(error) === undefined || (await exists(from))) throw error;
      throw new NoSuchFile(from, { cause: error });
    }
  }

  async function add(from: string, to: string): Promise<boolean> {
    try {
      const isLinked = await ask<void>(
        (sftp, done) => sftp.ext_openssh_hardlink(at(from), at(to), done),
        unknownIfLost,
      ).then(() => true, unlessUnsupported);
      if (isLinked) return true;
    } catch (error) {
      // Otherwise the name is taken, or the file system has no links.
      if (statusOf(error) === undefined || statusOf(error) === noSuchFile) throw error;
    }
    if (await exists(to)) return false;
    try {
      // As the protocol says, this fails where somebody has taken the name just now. Some servers replace what has it.
      await renameOnly(from, to);
      return true;
    } catch (error) {
      if (statusOf(error) === undefined || !(await exists(to))) throw error;
      return false;
    }
  }

  const remove = (path: string) =>
    absent(
      ask<void>((sftp, done) => sftp.unlink(at(path), done)),
      undefined,
    );

  async function telling<T>(path: string, work: () => Promise<T>): Promise<T> {
    try {
      return await work();
    } catch (error) {
      if (error instanceof ConnectorError || error instanceof NoSuchFile) throw error;
      // It may have gone, with all that was in it.
      known = new Set();
      throw sentenceOf(error, path);
    }
  }

  function sentenceOf(cause: unknown, path: string): ConnectorError {
    const said = cause instanceof Error ? cause.message : String(cause);
    switch (statusOf(cause)) {
      case noSuchFile:
        return new ConfigError(
          `There is no folder for ${path} in ${place}: make it, or correct settings.directory (${said}).`,
          {
            cause,
          },
        );
      case permissionDenied:
        return new ConfigError(
          `${path} in ${place} may not be written or read: give the user the right to (${said}).`,
          { cause },
        );
      case badMessage:
        return new DataError(`The server refuses the name ${path}: ${said}`, { cause });
      case failure:
        return new TransientError(`${place} fails at ${path} (${said}): is its disk full?`, { cause });
      default:
        return new TransientError(`${place} fails at ${path}: ${said}`, { cause });
    }
  }

  return {
    place,
    // By the server's clock, which may be off.
    leftoverMs: 24 * 3_600_000,
    read: (path, range) =>
      telling(path, () =>
        absent(
          withHandle(path, 'r', (asked) => readRange(asked, range?.from ?? 0, range?.to ?? Number.MAX_SAFE_INTEGER)),
          undefined,
        ),
      ),
    look: (path) =>
      telling(path, async () => {
        const seen = await absent(stat(path), undefined);
        return seen && { bytes: seen.size, modifiedMs: seen.mtime * 1_000 };
      }),
    list: (path) =>
      telling(path, async () => {
        const listed = await absent(
          ask<{ filename: string }[]>((sftp, done) => sftp.readdir(at(path), done)),
          [],
        );
        return listed.map(({ filename }) => filename);
      }),
    write: (path, content, signal) => telling(path, () => write(path, content, signal)),
    move: (from, to) => telling(to, () => move(from, to)),
    add: (from, to) => telling(to, () => add(from, to)),
    // The protocol has nothing for it.
    flush: async () => undefined,
    remove: (path) => telling(path, () => remove(path)),
    check: async () => {
      const results: CheckResult[] = [];
      try {
        await connection.session();
        results.push({
          name: 'server',
          ok: true,
          message: `${place} lets this user in, and its key is the one of the settings.`,
        });
        results.push(...(await telling('', tryOut)));
      } catch (error) {
        const message = error instanceof Error ? error.message : String(error);
        results.push({ name: results.length === 0 ? 'server' : 'folder', ok: false, message });
      }
      return results;
    },
    during: async (signal, work) => {
      let timer: NodeJS.Timeout | undefined;
      const stop = () => {
        timer = setTimeout(() => {
          isStopping = true;
          connection.drop();
        }, stopWithinMs);
      };
      if (signal.aborted) stop();
      else signal.addEventListener('abort', stop, { once: true });
      try {
        return await work();
      } finally {
        clearTimeout(timer);
        isStopping = false;
        signal.removeEventListener('abort', stop);
      }
    },
    close: () => connection.close(),
  };

  async function tryOut(): Promise<CheckResult[]> {
    const name = `.check_${randomBytes(8).toString('hex')}`;
    const [from, to] = [`${name}.tmp`, `${name}.renamed.tmp`];
    try {
      await write(from, Buffer.from('x'));
      await write(to, Buffer.from('y'));
      const replaces = await ask<void>((sftp, done) => sftp.ext_openssh_rename(at(from), at(to), done)).then(
        () => true,
        unlessUnsupported,
      );
      if (!replaces) await move(from, to);
      return [
        { name: 'folder', ok: true, message: `${place} can be written.` },
        {
          name: 'rename',
          ok: true,
          message: replaces
            ? 'The server replaces a file in one step.'
            : 'The server cannot replace a file in one step: while one is replaced, a reader finds none for a moment.',
        },
      ];
    } finally {
      for (const file of [from, to]) await remove(file).catch(() => undefined);
    }
  }
}

/** The server's own status; undefined for what ended without one. */
function statusOf(error: unknown): number | undefined {
  return error instanceof Error && 'code' in error && typeof error.code === 'number' ? error.code : undefined;
}

async function absent<T>(result: Promise<T>, instead: T): Promise<T>;
async function absent<T>(result: Promise<T>, instead: undefined): Promise<T | undefined>;
async function absent<T>(result: Promise<T>, instead: T | undefined): Promise<T | undefined> {
  return result.catch((error: unknown) => {
    if (statusOf(error) === noSuchFile) return instead;
    throw error;
  });
}

function unlessUnsupported(error: unknown): false {
  if (statusOf(error) === unsupported) return false;
  throw error;
}
