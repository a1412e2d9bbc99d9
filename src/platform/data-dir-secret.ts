/**
 * The secrets that an installation makes at its first start and keeps in its data directory: the master key, the
 * operator's token and the database's password. Each is one line of base64 in a file of mode 0600. Processes that start
 * at the same time end up with the same secret.
 */
import { randomBytes } from 'node:crypto';
import { join } from 'node:path';
import { createFileOnce, readFileIfAny, replaceFile } from './durable-file.ts';
import { AppError, errorText } from './errors.ts';
import { masterKeyBytes } from './secrets.ts';

const masterKeyFile = 'master-key';
const previousKeyFile = 'master-key.previous';

/**
 * Reads the secret from the file, or makes one of `bytes` random bytes there. Throws an `internal` AppError that names
 * the file when it cannot be read or written, or holds anything else. A secret is never replaced: everything made with
 * it would be lost.
 */
export async function loadOrCreateSecret(options: { file: string; bytes: number }): Promise<Buffer> {
  const { file, bytes } = options;
  const text = await readOrCreate(file, bytes);
  const secret = decodeBase64(text.trim());
  if (secret === undefined || secret.length !== bytes) {
    const found = secret === undefined ? 'something else' : `${secret.length} bytes`;
    throw internal(
      `The secret file ${file} must hold ${bytes} bytes in base64, but holds ${found}. Restore it from a backup; when it ` +
        'is deleted a new one is made, and what was made with the old one no longer works.',
    );
  }
  return secret;
}

async function readOrCreate(file: string, bytes: number): Promise<string> {
  try {
    const existing = await readFileIfAny(file);
    if (existing !== undefined) return existing;
    await createFileOnce(file, `${randomBytes(bytes).toString('base64url')}\n`, 0o600);
    // Read back from the file: when another process was first, the file holds the secret of that process.
    return (await readFileIfAny(file)) ?? '';
  } catch (error) {
    throw internal(`The secret file ${file} cannot be read or made: ${errorText(error)}.`);
  }
}

/**
 * Returns the master key: `fromEnvironment` (the value of SOURCING_MASTER_KEY, 32 bytes in base64) when it is set, else
 * the one in the file `master-key` of the data directory, made at the first start. Throws an `internal` AppError that
 * names the source and never shows the value.
 */
export async function loadMasterKey(options: {
  fromEnvironment: string | undefined;
  directory: string;
}): Promise<Buffer> {
  const text = options.fromEnvironment?.trim();
  if (text === undefined || text === '')
    return loadOrCreateSecret({ file: join(options.directory, masterKeyFile), bytes: masterKeyBytes });
  const key = decodeBase64(text);
  if (key?.length !== masterKeyBytes) {
    const found = key === undefined ? 'it is not base64' : `it has ${key.length}`;
    throw internal(
      `SOURCING_MASTER_KEY must be ${masterKeyBytes} bytes in base64, but ${found}. ` +
        `Make one with: openssl rand -base64 ${masterKeyBytes}`,
    );
  }
  return key;
}

/**
 * Returns the keys that sealed the data before the master key: those of the setting `previous_keys`, and the one that
 * `beginKeyRotation` has kept in the data directory. Throws an `internal` AppError for a key that cannot be read.
 */
export async function loadPreviousKeys(options: {
  configured: readonly string[];
  directory: string;
}): Promise<Buffer[]> {
  const keys = options.configured.map((text, index) => {
    const key = decodeBase64(text.trim());
    if (key?.length === masterKeyBytes) return key;
    throw internal(`previous_keys[${index}] must be ${masterKeyBytes} bytes in base64.`);
  });
  const file = join(options.directory, previousKeyFile);
  if ((await readFileIfAny(file)) !== undefined) keys.push(await loadOrCreateSecret({ file, bytes: masterKeyBytes }));
  return keys;
}

/**
 * Replaces the master key of the data directory by a new one, and keeps the old one beside it as the previous key. With
 * `resume` an earlier call was interrupted, or its secrets are not all sealed anew: then only what is missing is done. A
 * process that dies in between leaves both keys readable. Throws an `internal` AppError when there is no key to replace.
 */
export async function beginKeyRotation(directory: string, { resume }: { resume: boolean }): Promise<void> {
  const [file, previousFile] = [join(directory, masterKeyFile), join(directory, previousKeyFile)];
  const current = await readFileIfAny(file);
  if (current === undefined) throw internal(`There is no master key in ${file} that could be replaced.`);
  const previous = await readFileIfAny(previousFile);
  if (resume && previous !== undefined && previous !== current) return;
  await replaceFile(previousFile, current, 0o600);
  await replaceFile(file, `${randomBytes(masterKeyBytes).toString('base64url')}\n`, 0o600);
}

/**
 * Returns the operator's token for /admin: `fromEnvironment` when it is set, else the line in the file `admin-token` of
 * the data directory, made at the first start. Throws an `internal` AppError as `loadOrCreateSecret` does.
 */
export async function loadAdminToken(options: {
  fromEnvironment: string | undefined;
  directory: string;
}): Promise<string> {
  const text = options.fromEnvironment?.trim();
  if (text !== undefined && text !== '') return text;
  const secret = await loadOrCreateSecret({ file: join(options.directory, 'admin-token'), bytes: 32 });
  return secret.toString('base64url');
}

/**
 * Reads both alphabets, padded or not; undefined for anything else. Buffer.from alone would skip invalid characters.
 */
function decodeBase64(text: string): Buffer | undefined {
  const digits = text
    .replace(/={1,2}$/, '')
    .replaceAll('+', '-')
    .replaceAll('/', '_');
  const bytes = Buffer.from(digits, 'base64url');
  return digits !== '' && bytes.toString('base64url') === digits ? bytes : undefined;
}

function internal(publicMessage: string): AppError {
  return new AppError('internal', publicMessage);
}
