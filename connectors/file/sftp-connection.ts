/**
 * One connection to an SFTP server. It is opened when it is needed, and opened again after it was lost. Each request ends
 * with the server's answer or with the connection; none is repeated.
 */
import { type EventEmitter, setMaxListeners } from 'node:events';
import { connect as connectSocket, type Socket } from 'node:net';
import { ConnectorError, TransientError } from 'sourcing-bridge/connector';
import type { SFTPWrapper } from 'ssh2';
import type SftpClient from 'ssh2-sftp-client';
import { codeOf } from './folder.ts';
import { loadSftp, type SftpLogin } from './sftp-login.ts';

/** How long an aborted call may still wait for answers. The bridge allows 5 s. */
const stopWithinMs = 100;
/** A status code of SFTP (draft-ietf-secsh-filexfer-02, section 7). */
const unsupported = 8;

interface Connection {
  readonly client: SftpClient;
  readonly sftp: SFTPWrapper;
  readonly socket: Socket;
  /** Called when the connection is lost: the library tells only one of several waiting requests. */
  readonly waiting: Set<() => void>;
}

/** A connection; `place` names the folder in messages. */
export function createSftpConnection(login: SftpLogin, place: string) {
  let opened: Promise<Connection> | undefined;
  let socket: Socket | undefined;
  /** Set after an abort: a call that is stopping must not connect again. */
  let isStopping = false;

  async function connect(): Promise<Connection> {
    const silent = () => undefined;
    const client = new (loadSftp().Client)('file', { error: silent, end: silent, close: silent });
    const own = connectSocket({ host: login.host, port: login.port, noDelay: true });
    // The library listens too; before it does, and after it has ended, an error would end the process.
    own.on('error', silent);
    socket = own;
    // Each waiting request listens to the connection.
    setMaxListeners(0, (client as unknown as { client: EventEmitter }).client);
    const waiting = new Set<() => void>();
    own.once('close', () => {
      if (socket === own) opened = undefined;
      for (const isLost of waiting) isLost();
    });
    try {
      const sftp = await client.connect({ ...login.config(), sock: own });
      sftp.once('close', () => own.destroy());
      return { client, sftp, socket: own, waiting };
    } catch (error) {
      own.destroy();
      throw login.errorOf(error);
    }
  }

  /**
   * Runs requests. Rejects with the server's error, or, when the connection ended before the answer, with the error that
   * `lost` makes.
   */
  async function run<T>(
    work: (connection: Connection) => Promise<T>,
    lost: (message: string) => Error = (message) => new TransientError(message),
  ): Promise<T> {
    if (isStopping) throw new TransientError('stopped before it was sent');
    opened ??= connect().catch((error: unknown) => {
      opened = undefined;
      throw error;
    });
    const connection = await opened;
    if (connection.socket.destroyed) throw new TransientError(`${place}: the connection was lost`);
    const lostNow = (why: string) => lost(`${place}: the connection was lost (${why})`);
    const { promise: over, reject } = Promise.withResolvers<never>();
    const isLost = () => reject(lostNow('it has ended'));
    connection.waiting.add(isLost);
    try {
      return await Promise.race([work(connection), over]);
    } catch (error) {
      if (error instanceof ConnectorError || typeof codeOf(error) === 'number' || isUnsupported(error)) throw error;
      throw lostNow(error instanceof Error ? error.message : String(error));
    } finally {
      connection.waiting.delete(isLost);
    }
  }

  /** Runs `work`; soon after `signal` aborts it drops the connection, so that waiting requests fail. */
  async function during<T>(signal: AbortSignal, work: () => Promise<T>): Promise<T> {
    let timer: NodeJS.Timeout | undefined;
    const stop = () => {
      timer = setTimeout(() => {
        isStopping = true;
        socket?.destroy();
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
  }

  return { run, during, close: async () => closeConnection(await opened?.catch(() => undefined)) };
}

async function closeConnection(connection: Connection | undefined): Promise<void> {
  if (!connection || connection.socket.destroyed) return;
  const timer = setTimeout(() => connection.socket.destroy(), 1_000);
  await connection.client.end().catch(() => undefined);
  clearTimeout(timer);
  connection.socket.destroy();
}

/** The library throws for an extension that the server does not have. */
export function isUnsupported(error: unknown): boolean {
  return codeOf(error) === unsupported || (error instanceof Error && error.message.includes('does not support'));
}
