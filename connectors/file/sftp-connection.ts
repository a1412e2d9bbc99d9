/**
 * One SSH connection to an SFTP server, made when it is needed and made anew when it was lost. The server proves who it is
 * by a key that the settings name, before it gets to see a password. Each request ends: with the server's answer, or with
 * the connection, which keep-alive messages find dead within half a minute.
 */
import { createHash, createHmac, timingSafeEqual } from 'node:crypto';
import { readFile } from 'node:fs/promises';
import { isIP } from 'node:net';
import { AuthError, ConfigError, type ConnectorError, type Secret, TransientError } from 'sourcing-bridge/connector';
import ssh2, {
  type AnyAuthMethod,
  type AuthenticationType,
  type AuthHandlerMiddleware,
  type ConnectConfig,
  type ParsedKey,
  type SFTPWrapper,
} from 'ssh2';

export interface SftpLogin {
  readonly host: string;
  readonly port: number;
  readonly user: string;
  readonly password?: Secret | undefined;
  /** Opened once: what its passphrase is stretched by takes time. */
  readonly privateKey?: ParsedKey | undefined;
  /** Whether a key that the server shows is its own. */
  readonly trusts: (key: Buffer) => boolean;
  /** Kinds of keys that it may show; undefined: any. */
  readonly keyTypes: readonly string[] | undefined;
}

export interface SftpConnection {
  /** The session, connected if need be. Throws the ConnectorError that says why there is none. */
  session(): Promise<SFTPWrapper>;
  /**
   * Calls back when this session ends, at once if it has: what it was asked and has not answered it will not answer. The
   * library tells most requests, and not all. Gives what calls it off.
   */
  whenOver(session: SFTPWrapper, onOver: (why: string) => void): () => void;
  /** Ends it at once: what waits for an answer fails. The next `session` connects anew. */
  drop(): void;
  close(): Promise<void>;
}

const connectWithinMs = 20_000;
const keepAliveMs = 10_000;

export function createSftpConnection(login: SftpLogin): SftpConnection {
  let open: ReturnType<typeof connect> | undefined;
  return {
    session: () => {
      if (!open || open.isOver()) open = connect(login);
      return open.session;
    },
    whenOver: (session, onOver) => {
      const waiting = open?.isOver() === false && open.made() === session ? open.waiting : undefined;
      if (waiting) waiting.add(onOver);
      else onOver('it has ended');
      return () => void waiting?.delete(onOver);
    },
    drop: () => {
      open?.drop();
      open = undefined;
    },
    close: async () => {
      const { client, isOver = () => true } = open ?? {};
      open = undefined;
      if (!client || isOver()) return;
      const closed = new Promise<void>((resolve) => client.once('close', () => resolve()));
      const timer = setTimeout(() => client.destroy(), 1_000);
      client.end();
      await closed;
      clearTimeout(timer);
    },
  };
}

function connect(login: SftpLogin) {
  const client = new ssh2.Client();
  const { promise: session, resolve, reject } = Promise.withResolvers<SFTPWrapper>();
  // A request to a session that is over would never be answered.
  let isOver = false;
  let made: SFTPWrapper | undefined;
  const waiting = new Set<(why: string) => void>();
  let refusedKey: Buffer | undefined;
  const fail = (error: Error) => {
    reject(refusedKey ? untrusted(login, refusedKey) : errorOf(login, error));
    isOver = true;
    for (const onOver of waiting) onOver(error.message);
    waiting.clear();
    client.destroy();
  };
  client.on('error', fail);
  client.on('close', () => fail(new Error('the connection was closed')));
  // From the start: the login is a talk of many small pieces, and each would wait for the one before to be confirmed.
  client.on('connect', () => client.setNoDelay(true));
  client.on('ready', () => {
    client.sftp((error, sftp) => {
      if (error) return fail(error);
      sftp.on('close', () => fail(new Error('the session was closed')));
      made = sftp;
      resolve(sftp);
    });
  });
  const config: ConnectConfig = {
    host: login.host,
    port: login.port,
    username: login.user,
    readyTimeout: connectWithinMs,
    keepaliveInterval: keepAliveMs,
    keepaliveCountMax: 2,
    hostVerifier: (key: Buffer) => {
      if (login.trusts(key)) return true;
      refusedKey = key;
      return false;
    },
    authHandler: waysIn(login),
    ...(login.keyTypes ? { algorithms: { serverHostKey: [...login.keyTypes] as never } } : {}),
  };
  // What cannot work at all is thrown and not emitted.
  try {
    client.connect(config);
  } catch (error) {
    fail(error instanceof Error ? error : new Error(String(error)));
  }
  // Whoever asked for the session hears of it.
  session.catch(() => undefined);
  return {
    client,
    session,
    isOver: () => isOver,
    made: () => made,
    waiting,
    drop: () => fail(new Error('the connection was given up')),
  };
}

/**
 * By key first: a password that is not needed is not told. To a server that asks for it (keyboard-interactive) and takes
 * none unasked, it is told once, if it asks for one thing that is not to be shown: a second question is for something else.
 */
function waysIn({ user: username, password, privateKey }: SftpLogin): AuthHandlerMiddleware {
  const ways: AnyAuthMethod[] = [
    ...(privateKey ? [{ type: 'publickey' as const, username, key: privateKey }] : []),
    ...(password ? [{ type: 'password' as const, username, password: password.reveal() }] : []),
  ];
  let answers = password ? [password.reveal()] : [];
  const asked: AnyAuthMethod = {
    type: 'keyboard-interactive',
    username,
    prompt: (_name, _instructions, _language, prompts, answer) => {
      const isForPassword = prompts.length === 1 && prompts[0]?.echo !== true;
      answer(isForPassword ? answers : []);
      answers = [];
    },
  };
  /** `offered`: null before the server has said it. */
  const next = (offered: readonly AuthenticationType[] | null): AnyAuthMethod | undefined => {
    const isAsked = offered?.includes('keyboard-interactive') && !offered.includes('password');
    if (!isAsked || answers.length === 0) return ways.shift();
    ways.length = 0;
    return asked;
  };
  // `false` ends the login; the types do not know of it.
  return (offered, _isPartOfIt, go) => go(next(offered) ?? (false as never));
}

function errorOf({ host, port, user }: SftpLogin, cause: Error & { level?: string }): ConnectorError {
  const server = `The SFTP server ${host}:${port}`;
  if (cause.level === 'client-authentication')
    return new AuthError(
      `${server} does not let ${user} in (${cause.message}). Check the user, and the key or password.`,
      {
        cause,
      },
    );
  if (/subsystem|no matching/i.test(cause.message))
    return new ConfigError(`${server} cannot be used: ${cause.message}`, { cause });
  return new TransientError(`${server} cannot be reached: ${cause.message}`, { cause });
}

function untrusted({ host, port }: SftpLogin, key: Buffer): ConnectorError {
  return new ConfigError(
    `The SFTP server ${host}:${port} shows another key than the settings name: ${keyTypeOf(key)} ${fingerprintOf(key)}. ` +
      'Nothing was sent to it. Ask who runs it whether that is its key, and only then put it into the settings.',
  );
}

/** As `ssh-keygen -l` shows it. */
export function fingerprintOf(key: Buffer): string {
  return `SHA256:${createHash('sha256').update(key).digest('base64').replaceAll('=', '')}`;
}

function keyTypeOf(key: Buffer): string {
  return key.subarray(4, 4 + key.readUInt32BE(0)).toString('latin1');
}

/** Trust by fingerprints. */
export function trustFingerprints(fingerprints: readonly string[]): Pick<SftpLogin, 'trusts' | 'keyTypes'> {
  const known = new Set(fingerprints.map((one) => one.replace(/=+$/, '')));
  return { trusts: (key) => known.has(fingerprintOf(key)), keyTypes: undefined };
}

/** Trust by a `known_hosts` file of OpenSSH. Throws ConfigError when it does not name the server. */
export async function trustKnownHosts(
  file: string,
  host: string,
  port: number,
): Promise<Pick<SftpLogin, 'trusts' | 'keyTypes'>> {
  const text = await readFile(file, 'utf8').catch((cause: unknown) => {
    throw new ConfigError(`The file ${file} (settings.sftp.known_hosts_file) cannot be read: ${String(cause)}`, {
      cause,
    });
  });
  const names = port === 22 ? [host] : [`[${host}]:${port}`];
  const keys: Buffer[] = [];
  const revoked: Buffer[] = [];
  for (const line of text.split('\n')) {
    const parts = line.trim().split(/\s+/);
    const marker = parts[0]?.startsWith('@') ? parts.shift() : undefined;
    const [patterns = '', , key = ''] = parts;
    if (patterns.startsWith('#') || key === '' || !names.some((name) => isNamed(patterns, name))) continue;
    if (marker === undefined) keys.push(Buffer.from(key, 'base64'));
    if (marker === '@revoked') revoked.push(Buffer.from(key, 'base64'));
  }
  const trusted = keys.filter((key) => !revoked.some((one) => one.equals(key)));
  if (trusted.length === 0)
    throw new ConfigError(
      `The file ${file} (settings.sftp.known_hosts_file) has no key of ${names.join()}. Put it there, as ssh-keyscan shows it, when ` +
        'you have compared it with the one that the server has.',
    );
  const types = [...new Set(trusted.map(keyTypeOf))];
  return {
    trusts: (key) => trusted.some((one) => one.equals(key)),
    keyTypes: types.flatMap((type) => (type === 'ssh-rsa' ? ['rsa-sha2-512', 'rsa-sha2-256'] : [type])),
  };
}

/** Whether a line's list of host names has this one: as it stands, by a hash of it, or by a pattern. */
function isNamed(patterns: string, name: string): boolean {
  if (patterns.startsWith('|1|')) {
    const [, , salt = '', hash = ''] = patterns.split('|');
    const made = createHmac('sha1', Buffer.from(salt, 'base64')).update(name).digest();
    const given = Buffer.from(hash, 'base64');
    return given.length === made.length && timingSafeEqual(given, made);
  }
  let named = false;
  for (const pattern of patterns.split(',')) {
    const isNot = pattern.startsWith('!');
    if (!matches(isNot ? pattern.slice(1) : pattern, name)) continue;
    if (isNot) return false;
    named = true;
  }
  return named;
}

function matches(pattern: string, name: string): boolean {
  if (!/[*?]/.test(pattern)) return isIP(name) === 0 ? pattern.toLowerCase() === name.toLowerCase() : pattern === name;
  const escaped = pattern
    .replaceAll(/[.+^${}()|[\]\\]/g, '\\$&')
    .replaceAll('*', '.*')
    .replaceAll('?', '.');
  return new RegExp(`^${escaped}$`, 'i').test(name);
}
