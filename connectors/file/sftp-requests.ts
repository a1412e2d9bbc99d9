/**
 * Single requests to an SFTP server. Each ends with the server's answer or with the end of the connection; none is
 * repeated. File contents are read and written with several requests at once, because the round trip is what takes
 * time.
 */
import { TransientError } from 'sourcing-bridge/connector';
import type { SFTPWrapper } from 'ssh2';
import type { Content } from './folder.ts';
import type { SftpConnection } from './sftp-connection.ts';
import { endOfFile, statusOf, unlessUnsupported, unsupported } from './sftp-status.ts';

/** How long an aborted call may still wait for answers. The bridge allows 5 s. */
const stopWithinMs = 100;
/** Every server accepts this much in one request. */
const chunkBytes = 32 * 1024;
/** The number of requests for one file that run at once. */
const requestsAtOnce = 32;

type Done<T> = (error: Error | null | undefined, value?: T) => void;
type Request<T> = (sftp: SFTPWrapper, done: Done<T>) => void;

/** Sends a request for an open file. */
export type SendForHandle = <T>(request: (sftp: SFTPWrapper, handle: Buffer, done: Done<T>) => void) => Promise<T>;

export interface SftpRequests {
  /**
   * Sends one request. Rejects with the server's error, or, when the connection ended before the answer, with the error
   * that `lost` makes (by default a TransientError).
   */
  readonly send: <T>(request: Request<T>, lost?: (message: string) => Error) => Promise<T>;
  /** Opens a file, runs `work` and closes the file. A new file gets `mode`, if given. */
  withHandle<T>(file: string, flags: 'r' | 'wx', work: (send: SendForHandle) => Promise<T>, mode?: number): Promise<T>;
  /** Runs `work`; soon after `signal` aborts it drops the connection, so that waiting requests fail. */
  readonly during: <T>(signal: AbortSignal, work: () => Promise<T>) => Promise<T>;
}

const transient = (message: string): Error => new TransientError(message);

/** Requests over one connection; `place` names the folder in messages. */
export function createSftpRequests(connection: SftpConnection, place: string): SftpRequests {
  /** Set after an abort: a call that is stopping must not connect again. */
  let isStopping = false;

  async function session(): Promise<SFTPWrapper> {
    if (isStopping) throw new TransientError('stopped before it was sent');
    return connection.session();
  }

  async function sendIn<T>(sftp: SFTPWrapper, request: Request<T>, lost = transient): Promise<T> {
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
        // The library throws for an extension that the server does not have.
        reject(Object.assign(new Error(String(error)), { code: unsupported }));
      }
    });
  }

  return {
    send: async (request, lost) => sendIn(await session(), request, lost),
    withHandle: async (file, flags, work, mode) => {
      // A handle is valid in its own session only: in another session it may belong to another file.
      const own = await session();
      const handle = await sendIn<Buffer>(own, (sftp, done) =>
        sftp.open(file, flags, mode === undefined ? {} : { mode }, done),
      );
      try {
        return await work((request) => sendIn(own, (sftp, done) => request(sftp, handle, done)));
      } finally {
        await sendIn(own, (sftp, done) => sftp.close(handle, done)).catch(() => undefined);
      }
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
  };
}

/** The bytes of an open file from `from` up to (without) `to`, or up to its end. */
export async function readRange(send: SendForHandle, from: number, to: number): Promise<Uint8Array> {
  const parts: Buffer[] = [];
  let position = from;
  while (position < to) {
    const length = Math.min(8 * chunkBytes, to - position);
    const part = Buffer.alloc(length);
    const count = await send<number>((sftp, handle, done) =>
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

/**
 * Writes the content of an open file and flushes it, where the server can. Throws TransientError once `signal` aborts.
 */
export async function writeContent(send: SendForHandle, content: Content, signal?: AbortSignal): Promise<void> {
  let position = 0;
  let failed: unknown;
  const running = new Set<Promise<void>>();
  for await (const part of content instanceof Uint8Array ? [content] : content) {
    for (let from = 0; from < part.length; from += chunkBytes) {
      if (signal?.aborted) throw new TransientError('stopped before it was written');
      if (failed !== undefined) throw failed;
      const chunk = Buffer.from(part.subarray(from, from + chunkBytes));
      const offset = position;
      position += chunk.length;
      const writing: Promise<void> = send<void>((sftp, handle, done) =>
        sftp.write(handle, chunk, 0, chunk.length, offset, (error) => done(error)),
      )
        .catch((error: unknown) => {
          failed ??= error;
        })
        .finally(() => running.delete(writing));
      running.add(writing);
      if (running.size >= requestsAtOnce) await Promise.race(running);
    }
  }
  await Promise.all(running);
  if (failed !== undefined) throw failed;
  await send<void>((sftp, handle, done) => sftp.ext_openssh_fsync(handle, (error) => done(error))).catch(
    unlessUnsupported,
  );
}
