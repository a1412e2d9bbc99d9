/**
 * One SSH connection to an SFTP server. It is opened when it is needed, and opened again after it was lost. The server
 * has to prove its identity by a key that the settings name, before the password is sent. Each request ends with the
 * server's answer, or with the connection; keep-alive messages detect a dead connection within half a minute.
 */
import { createHash, createHmac, timingSafeEqual } from 'node:crypto';
import { readFile } from 'node:fs/promises';
import { isIP } from 'node:net';
import { AuthError, ConfigError, type ConnectorError, type Secret, TransientError } from 'sourcing-bridge/connector';
import type {
  AnyAuthMethod,
  AuthenticationType,
  AuthHandlerMiddleware,
  ConnectConfig,
  ParsedKey,
  SFTPWrapper,
} from 'ssh2';
import { loadSsh2 } from './load-ssh2.ts';

export interface SftpLogin {
  readonly host: string;
  readonly port: number;
  readonly user: string;
  readonly password?: Secret | undefined;
  /** Parsed once, because decrypting it with its passphrase takes time. */
  readonly privateKey?: ParsedKey | undefined;
  /** Whether a key that the server shows is one that the settings name. */
  readonly trusts: (key: Buffer) => boolean;
  /** The key types that the server may use; undefined: any. */
  readonly keyTypes: readonly string[] | undefined;
}

export interface SftpConnection {
  /** The session; connects if necessary. Throws a ConnectorError when it cannot connect. */
  session(): Promise<SFTPWrapper>;
  /**
   * Calls `onOver` when this session ends, at once if it has ended: requests without an answer will get none. The
   * library reports that to most requests, but not to all. Returns a function that cancels the call.
   */
  whenOver(session: SFTPWrapper, onOver: (why: string) => void): () => void;
  /** Ends the connection at once: waiting requests fail. The next `session` connects again. */
  drop(): void;
  close(): Promise<void>;
}

const connectWithinMs = 20_000;
const keepAliveMs = 10_000;

/** A connection that is opened at the first use. */
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
  const client = new (loadSsh2().Client)();
  const { promise: session, resolve, reject } = Promise.withResolvers<SFTPWrapper>();
  // A request to a session that has ended would never be answered.
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
  // Without this, each of the login's many small messages would wait for the acknowledgement of the one before.
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
    authHandler: authHandlerOf(login),
    ...(login.keyTypes ? { algorithms: { serverHostKey: [...login.keyTypes] as never } } : {}),
  };
  // The library throws for settings that cannot work, and emits other errors.
  try {
    client.connect(config);
  } catch (error) {
    fail(error instanceof Error ? error : new Error(String(error)));
  }
  // The callers of `session` see the failure; without this it would count as unhandled as well.
  session.catch(() => undefined);
  return {
    client,
    session,
    isOver: () => isOver,
    made: () => made,
    waiting,
    drop: () => fail(new Error('the connection was dropped')),
  };
}

/**
 * Tries the key first, so that a password that is not needed is not sent. A server that accepts the password only by
 * keyboard-interactive gets it once, and only if it asks a single question with a hidden answer: further questions ask
 * for something else.
 */
function authHandlerOf({ user: username, password, privateKey }: SftpLogin): AuthHandlerMiddleware {
  const methods: AnyAuthMethod[] = [
    ...(privateKey ? [{ type: 'publickey' as const, username, key: privateKey }] : []),
    ...(password ? [{ type: 'password' as const, username, password: password.reveal() }] : []),
  ];
  let answers = password ? [password.reveal()] : [];
  const interactive: AnyAuthMethod = {
    type: 'keyboard-interactive',
    username,
    prompt: (_name, _instructions, _language, prompts, answer) => {
      const isForPassword = prompts.length === 1 && prompts[0]?.echo !== true;
      answer(isForPassword ? answers : []);
      answers = [];
    },
  };
  /** `offered` is null until the server has sent its methods. */
  const next = (offered: readonly AuthenticationType[] | null): AnyAuthMethod | undefined => {
    const isInteractiveOnly = offered?.includes('keyboard-interactive') && !offered.includes('password');
    if (!isInteractiveOnly || answers.length === 0) return methods.shift();
    methods.length = 0;
    return interactive;
  };
  // `false` ends the login; the library's types do not have it.
  return (offered, _isPartOfIt, go) => go(next(offered) ?? (false as never));
}

function errorOf({ host, port, user }: SftpLogin, cause: Error & { level?: string }): ConnectorError {
  const server = `The SFTP server ${host}:${port}`;
  if (cause.level === 'client-authentication')
    return new AuthError(
      `${server} refuses the login of ${user} (${cause.message}). Check the user, and the key or password.`,
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
      'Nothing was sent to it. Ask the operator of the server whether this is its key before you put it into the settings.',
  );
}

/** The fingerprint of a key, as `ssh-keygen -l` shows it. */
export function fingerprintOf(key: Buffer): string {
  return `SHA256:${createHash('sha256').update(key).digest('base64').replaceAll('=', '')}`;
}

function keyTypeOf(key: Buffer): string {
  return key.subarray(4, 4 + key.readUInt32BE(0)).toString('latin1');
}

/** Trusts the keys with these fingerprints. */
export function trustFingerprints(fingerprints: readonly string[]): Pick<SftpLogin, 'trusts' | 'keyTypes'> {
  const known = new Set(fingerprints.map((fingerprint) => fingerprint.replace(/(?<!=)=+$/, '')));
  return { trusts: (key) => known.has(fingerprintOf(key)), keyTypes: undefined };
}

/** Trusts the keys of the server in a `known_hosts` file of OpenSSH. Throws ConfigError when it has none. */
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
  const trusted = keys.filter((key) => !revoked.some((other) => other.equals(key)));
  if (trusted.length === 0)
    throw new ConfigError(
      `The file ${file} (settings.sftp.known_hosts_file) has no key of ${names.join()}. Compare the key that ssh-keyscan ` +
        'shows with the one of the server, and add it.',
    );
  const types = [...new Set(trusted.map(keyTypeOf))];
  return {
    trusts: (key) => trusted.some((other) => other.equals(key)),
    keyTypes: types.flatMap((type) => (type === 'ssh-rsa' ? ['rsa-sha2-512', 'rsa-sha2-256'] : [type])),
  };
}

/** Whether a line's host names include this one: in plain text, as a hash, or by a pattern. */
function isNamed(patterns: string, name: string): boolean {
  if (patterns.startsWith('|1|')) {
    const [, , salt = '', hash = ''] = patterns.split('|');
    const expected = createHmac('sha1', Buffer.from(salt, 'base64')).update(name).digest();
    const given = Buffer.from(hash, 'base64');
    return given.length === expected.length && timingSafeEqual(given, expected);
  }
  let named = false;
  for (const pattern of patterns.split(',')) {
    const isNegated = pattern.startsWith('!');
    if (!matches(isNegated ? pattern.slice(1) : pattern, name)) continue;
    if (isNegated) return false;
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
