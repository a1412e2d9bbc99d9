/**
 * Passwords of the console's accounts: argon2id of Node's own crypto, with the parameters that OWASP's password storage
 * page recommends (19 MiB, 2 passes). The hash has its parameters in it (PHC string format), so that others can follow.
 */
import { argon2, randomBytes, timingSafeEqual } from 'node:crypto';
import { promisify } from 'node:util';
import { AppError } from '#platform/errors.ts';
import { createFairSlots } from '#platform/fair-slots.ts';

const memoryKib = 19_456;
const passes = 2;
const saltBytes = 16;
const tagBytes = 32;

export const passwordCharactersMin = 12;
export const passwordCharactersMax = 512;

/** Each check takes 19 MiB and a thread: so many at a time, and one at a time for an address. */
const slots = createFairSlots({ slots: 2, slotsEach: 1, waitingEach: 8 });

/** Returns the hash. Throws `invalid` for a password that is too short, too long, or the name of its account. */
export async function hashPassword(password: string, account: string): Promise<string> {
  const { length } = password;
  if (length < passwordCharactersMin || length > passwordCharactersMax)
    throw new AppError(
      'invalid',
      `A password must have ${passwordCharactersMin} to ${passwordCharactersMax} characters; this one has ${length}.`,
    );
  if (password.toLowerCase() === account) throw new AppError('invalid', 'The password must not be the name.');
  const salt = randomBytes(saltBytes);
  const tag = await tagOf(password, { salt, memory: memoryKib, passes, parallelism: 1 });
  return `$argon2id$v=19$m=${memoryKib},t=${passes},p=1$${base64(salt)}$${base64(tag)}`;
}

/**
 * Whether the password belongs to the hash. Without a hash it is false, after the same work: the time does not tell
 * whether there is such an account. `address` is who waits. Rejects with `too-many` when too many checks of it wait.
 */
export async function isPassword(password: string, stored: string | undefined, address: string): Promise<boolean> {
  const free = await slots.enter(address);
  try {
    const match = /^\$argon2id\$v=19\$m=(\d+),t=(\d+),p=(\d+)\$([A-Za-z0-9+/]+)\$([A-Za-z0-9+/]+)$/.exec(stored ?? '');
    const [, memory = memoryKib, times = passes, parallelism = 1, salt = '', tag = ''] = match ?? [];
    const expected = Buffer.from(tag, 'base64');
    const found = await tagOf(password.slice(0, 2 * passwordCharactersMax), {
      salt: match ? Buffer.from(salt, 'base64') : Buffer.alloc(saltBytes),
      memory: Number(memory),
      passes: Number(times),
      parallelism: Number(parallelism),
    });
    return expected.length === found.length && timingSafeEqual(expected, found);
  } finally {
    free();
  }
}

async function tagOf(
  password: string,
  { salt, memory, passes: times, parallelism }: { salt: Buffer; memory: number; passes: number; parallelism: number },
): Promise<Buffer> {
  // The same characters in another composition are the same password (RFC 8265).
  const message = Buffer.from(password.normalize('NFC'), 'utf8');
  return promisify(argon2)('argon2id', {
    message,
    nonce: salt,
    parallelism,
    tagLength: tagBytes,
    memory,
    passes: times,
  });
}

function base64(bytes: Buffer): string {
  return bytes.toString('base64').replace(/(?<!=)=+$/, '');
}
