/**
 * The login to an SFTP server. The server has to prove its identity by a key that the settings name, before the password
 * is sent to it.
 */
import { createHash } from 'node:crypto';
import { readFile } from 'node:fs/promises';
import { createRequire } from 'node:module';
import { resolve } from 'node:path';
import { AuthError, ConfigError, type ConnectorError, TransientError } from 'sourcing-bridge/connector';
import type ssh2 from 'ssh2';
import type SftpClient from 'ssh2-sftp-client';
import type { FileSettings } from './settings.ts';

type SftpSettings = NonNullable<FileSettings['sftp']>;

/** What `connect` of the library needs, and the reason why it failed. */
export interface SftpLogin {
  readonly host: string;
  readonly port: number;
  readonly config: () => SftpClient.ConnectOptions;
  readonly errorOf: (error: unknown) => ConnectorError;
}

const library = 'ssh2-sftp-client';

/** Loads the library for SFTP: the installed package comes without it. Throws ConfigError with the command. */
export function loadSftp(): { Client: typeof SftpClient; ssh2: typeof ssh2 } {
  const require = createRequire(import.meta.url);
  try {
    const Client = require(library) as typeof SftpClient;
    return { Client, ssh2: createRequire(require.resolve(library))('ssh2') as typeof ssh2 };
  } catch (cause) {
    if ((cause as NodeJS.ErrnoException).code !== 'MODULE_NOT_FOUND') throw cause;
    const message = `SFTP (settings.sftp) needs a package that is not installed: npm install ${library}`;
    throw new ConfigError(message, { cause });
  }
}

/** Throws ConfigError when the private key cannot be read, or its passphrase is wrong. */
export async function sftpLogin(settings: SftpSettings, dataDir: string): Promise<SftpLogin> {
  const { host, port, user, fingerprint } = settings;
  const privateKey = await readPrivateKey(settings, dataDir);
  const known = new Set(fingerprint.map((given) => given.replace(/=$/, '')));
  let refusedKey: string | undefined;
  return {
    host,
    port,
    config: () => ({
      username: user,
      readyTimeout: 20_000,
      // Detects a dead connection within half a minute.
      keepaliveInterval: 10_000,
      keepaliveCountMax: 2,
      hostVerifier: (key: Buffer) => {
        const shown = `SHA256:${createHash('sha256').update(key).digest('base64').replaceAll('=', '')}`;
        refusedKey = known.has(shown) ? undefined : shown;
        return refusedKey === undefined;
      },
      authHandler: authHandlerOf(settings, privateKey),
    }),
    errorOf: (error) => loginErrorOf(settings, refusedKey, error),
  };
}

async function readPrivateKey(settings: SftpSettings, dataDir: string): Promise<ssh2.ParsedKey | undefined> {
  if (settings.private_key_file === undefined) return undefined;
  const file = resolve(dataDir, settings.private_key_file);
  const refuse = (reason: string, cause: unknown) =>
    new ConfigError(`The private key ${file} (settings.sftp.private_key_file) cannot be used: ${reason}`, { cause });
  const text = await readFile(file, 'utf8').catch((cause: unknown) => {
    throw refuse(String(cause), cause);
  });
  const parsed = loadSftp().ssh2.utils.parseKey(text, settings.passphrase?.reveal());
  if (parsed instanceof Error) throw refuse(parsed.message, parsed);
  return parsed;
}

/**
 * Tries the key first, so that a password that is not needed is not sent. A server that accepts the password only by
 * keyboard-interactive gets it once, and only if it asks a single question with a hidden answer: further questions ask
 * for something else.
 */
function authHandlerOf(
  { user: username, password }: SftpSettings,
  key: ssh2.ParsedKey | undefined,
): ssh2.AuthHandlerMiddleware {
  const methods: ssh2.AnyAuthMethod[] = [];
  if (key) methods.push({ type: 'publickey', username, key });
  if (password) methods.push({ type: 'password', username, password: password.reveal() });
  let answers = password ? [password.reveal()] : [];
  const interactive: ssh2.AnyAuthMethod = {
    type: 'keyboard-interactive',
    username,
    prompt: (_name, _instructions, _language, prompts, answer) => {
      const isForPassword = prompts.length === 1 && prompts[0]?.echo !== true;
      answer(isForPassword ? answers : []);
      answers = [];
    },
  };
  return (offered, _isPartOfIt, go) => {
    // `offered` is null until the server has sent its methods.
    const isInteractiveOnly = offered?.includes('keyboard-interactive') && !offered.includes('password');
    if (isInteractiveOnly && answers.length > 0) {
      methods.length = 0;
      return go(interactive);
    }
    // A wrong password is sent once: many servers lock a user after some failures. `false` ends the login.
    return go(methods.shift() ?? (false as never));
  };
}

function loginErrorOf({ host, port, user }: SftpSettings, refusedKey: string | undefined, cause: unknown) {
  const server = `The SFTP server ${host}:${port}`;
  const message = cause instanceof Error ? cause.message : String(cause);
  if (refusedKey !== undefined)
    return new ConfigError(
      `${server} shows another key than the settings name: ${refusedKey}. Nothing was sent to it. Ask the operator of ` +
        'the server whether this is its key before you put it into the settings.',
      { cause },
    );
  if (/authentication methods failed/i.test(message))
    return new AuthError(
      `${server} refuses the login of ${user} (${message}). Check the user, and the key or password.`,
      { cause },
    );
  if (/subsystem|no matching/i.test(message)) return new ConfigError(`${server} cannot be used: ${message}`, { cause });
  return new TransientError(`${server} cannot be reached: ${message}`, { cause });
}
