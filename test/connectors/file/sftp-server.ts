/**
 * An SFTP server in this process, made with the library `ssh2`, for what OpenSSH cannot do in tests: to accept a
 * password, which needs accounts of the machine, and to support nothing beyond version 3 of the protocol.
 */
import { createHash, generateKeyPairSync } from 'node:crypto';
import { type FileHandle, link, lstat, mkdir, open, readdir, rename, rm, stat } from 'node:fs/promises';
import { join } from 'node:path';
import ssh2, { type AuthContext, type SFTPWrapper } from 'ssh2';
import { closeAtEnd } from '../../harness/close-at-end.ts';
import { scratchFolder } from '../../harness/scratch-folder.ts';

const { OPEN_MODE, STATUS_CODE, flagsToString } = ssh2.utils.sftp;

export interface PlainSftpServer {
  readonly port: number;
  readonly fingerprint: string;
  /** Paths are relative to it. */
  readonly folder: string;
  /** The login attempts in their order, with the passwords that were sent. */
  readonly attempts: readonly string[];
}

interface Options {
  /** The methods by which it accepts the password. */
  readonly accepts: readonly ('password' | 'keyboard-interactive')[];
  readonly password: string;
  /** Its questions by keyboard-interactive, all asked at once. */
  readonly prompts?: readonly { prompt: string; echo: boolean }[];
  /** What its rename does when a file has the new name. */
  readonly rename: 'refuses' | 'replaces';
}

/** Starts the server on a free port; closed after the test file. */
export async function startPlainSftpServer({
  accepts,
  password,
  prompts = [{ prompt: 'Password:', echo: false }],
  rename: renames,
}: Options): Promise<PlainSftpServer> {
  const folder = await scratchFolder();
  const { privateKey } = generateKeyPairSync('ec', { namedCurve: 'prime256v1' });
  const hostKey = privateKey.export({ type: 'sec1', format: 'pem' });
  const attempts: string[] = [];
  const clients = new Set<{ end(): void }>();
  const server = new ssh2.Server({ hostKeys: [hostKey] }, (client) => {
    clients.add(client);
    client.on('close', () => clients.delete(client));
    client.on('error', () => undefined);
    // Only the client's type has it. Without it each small answer waits for the acknowledgement of the one before.
    (client as unknown as ssh2.Client).setNoDelay(true);
    client.on('authentication', (login: AuthContext) => {
      const refuse = () => login.reject([...accepts]);
      if (!(accepts as readonly string[]).includes(login.method)) {
        attempts.push(login.method);
        return refuse();
      }
      if (login.method === 'password') {
        attempts.push(`password ${login.password}`);
        return login.password === password ? login.accept() : refuse();
      }
      if (login.method !== 'keyboard-interactive') return refuse();
      login.prompt([...prompts], (answers) => {
        attempts.push(['asked', ...answers].join(' '));
        return answers.join() === password ? login.accept() : refuse();
      });
    });
    client.on('session', (accept) => accept().on('sftp', (acceptSftp) => serve(acceptSftp(), folder, renames)));
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  closeAtEnd(async () => {
    for (const client of clients) client.end();
    await new Promise<void>((resolve) => server.close(() => resolve()));
  });
  const key = ssh2.utils.parseKey(hostKey);
  if (key instanceof Error) throw key;
  return {
    port: (server.address() as { port: number }).port,
    fingerprint: `SHA256:${createHash('sha256').update(key.getPublicSSH()).digest('base64').replaceAll('=', '')}`,
    folder,
    attempts,
  };
}

function serve(sftp: SFTPWrapper, folder: string, renames: Options['rename']): void {
  const at = (path: string) => join(folder, path);
  const files = new Map<number, FileHandle>();
  const listed = new Map<number, string[]>();
  let handles = 0;
  const handleOf = (bytes: Buffer) => bytes.readUInt32BE(0);
  const newHandle = () => {
    handles += 1;
    const bytes = Buffer.alloc(4);
    bytes.writeUInt32BE(handles);
    return bytes;
  };
  const attributes = async (path: string, look = stat) => {
    const { mode, uid, gid, size, atimeMs, mtimeMs } = await look(path);
    return { mode, uid, gid, size, atime: Math.floor(atimeMs / 1_000), mtime: Math.floor(mtimeMs / 1_000) };
  };
  const answer = (id: number, work: () => Promise<void>) =>
    void work().then(
      () => undefined,
      (error: NodeJS.ErrnoException) =>
        sftp.status(id, error.code === 'ENOENT' ? STATUS_CODE.NO_SUCH_FILE : STATUS_CODE.FAILURE, error.message),
    );
  const done = (id: number, work: () => Promise<unknown>) =>
    answer(id, async () => {
      await work();
      sftp.status(id, STATUS_CODE.OK);
    });
  sftp.on('OPEN', (id, path, flags) =>
    answer(id, async () => {
      const bytes = newHandle();
      files.set(handleOf(bytes), await open(at(path), flags & OPEN_MODE.EXCL ? 'wx' : (flagsToString(flags) ?? 'r')));
      sftp.handle(id, bytes);
    }),
  );
  sftp.on('READ', (id, handle, offset, length) =>
    answer(id, async () => {
      const part = Buffer.alloc(length);
      const read = await files.get(handleOf(handle))?.read(part, 0, length, offset);
      if (read && read.bytesRead > 0) sftp.data(id, part.subarray(0, read.bytesRead));
      else sftp.status(id, STATUS_CODE.EOF);
    }),
  );
  sftp.on('WRITE', (id, handle, offset, data) =>
    done(id, async () => files.get(handleOf(handle))?.write(data, 0, data.length, offset)),
  );
  sftp.on('CLOSE', (id, handle) =>
    done(id, async () => {
      await files.get(handleOf(handle))?.close();
      files.delete(handleOf(handle));
    }),
  );
  sftp.on('OPENDIR', (id, path) =>
    answer(id, async () => {
      const bytes = newHandle();
      const names = await readdir(at(path));
      listed.set(
        handleOf(bytes),
        names.map((name) => join(at(path), name)),
      );
      sftp.handle(id, bytes);
    }),
  );
  sftp.on('READDIR', (id, handle) =>
    answer(id, async () => {
      const paths = listed.get(handleOf(handle)) ?? [];
      listed.delete(handleOf(handle));
      if (paths.length === 0) {
        sftp.status(id, STATUS_CODE.EOF);
        return;
      }
      const names = paths.map(async (path) => ({
        filename: path.slice(path.lastIndexOf('/') + 1),
        longname: path,
        attrs: await attributes(path),
      }));
      sftp.name(id, await Promise.all(names));
    }),
  );
  sftp.on('LSTAT', (id, path) => answer(id, async () => sftp.attrs(id, await attributes(at(path), lstat))));
  sftp.on('STAT', (id, path) => answer(id, async () => sftp.attrs(id, await attributes(at(path)))));
  sftp.on('MKDIR', (id, path) => done(id, () => mkdir(at(path))));
  sftp.on('REMOVE', (id, path) => done(id, () => rm(at(path))));
  sftp.on('RENAME', (id, from, to) =>
    done(id, async () => {
      if (renames === 'replaces') await rename(at(from), at(to));
      else {
        // As OpenSSH does it: of several clients that want the name one succeeds.
        await link(at(from), at(to));
        await rm(at(from));
      }
    }),
  );
}
