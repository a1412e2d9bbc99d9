/** What a backup folder holds beside the copied files: when and of what it was made, and what vouches for it. */
import { createHash } from 'node:crypto';
import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { z } from 'zod';
import { parseTimestamp } from '#contract/timestamp.ts';
import { leadsOut, parseSums, sumsFile } from '#platform/copied-files.ts';
import { isServerFile } from '#platform/database/base-backup.ts';
import { AppError } from '#platform/errors.ts';
import type { SecretBox } from '#platform/secrets.ts';

export const backupFile = 'backup.json';
/** A MAC over the list of the hashes, under the master key. */
export const macFile = `${sumsFile}.mac`;
const macContext = 'backup';

/** What the data folder holds beside the database and the files: without it the database cannot be opened or read. */
export const keyFiles = [
  'postgres.secret',
  'master-key',
  'master-key.previous',
  'admin-token',
  'local-setup.json',
] as const;

const backupFormat = z.object({
  format: z.literal(2),
  made: z.string().refine((text) => parseTimestamp(text) !== undefined),
  /** The version of sourcing-bridge that made it. */
  version: z.string(),
  /** Every folder: the database has some that are empty. */
  folders: z.array(z.string().refine((path) => !leadsOut(path) && /^(postgres|files|tls)(\/|$)/.test(path))),
});

export type BackupFacts = z.infer<typeof backupFormat>;

/** The text of `macFile` for this list of hashes. */
export function macOfList(secrets: Pick<SecretBox, 'mac'>, list: Buffer): string {
  return `${secrets.mac(list, macContext).toString('hex')}\n`;
}

/**
 * Reads the backup's facts and the hash of each file. Throws an AppError `invalid` for a folder that is no backup, or one of
 * another version; that was changed since it was made, or was made under another master key; or that lists a file which no
 * backup has.
 */
export async function readBackup(
  folder: string,
  secrets: Pick<SecretBox, 'verifiesMac'>,
): Promise<{ facts: BackupFacts; sums: ReadonlyMap<string, string> }> {
  const [list, mac] = [await readPart(folder, sumsFile), await readPart(folder, macFile)];
  if (!secrets.verifiesMac(Buffer.from(mac.toString().trim(), 'hex'), list, macContext))
    throw new AppError(
      'invalid',
      `${folder} was changed since it was made, or it was made under another master key: nothing of it was taken. Set the ` +
        'key of that time (SOURCING_MASTER_KEY), or use another backup.',
    );
  const sums = parseSums(list);
  for (const path of sums.keys())
    if (!isOfBackup(path))
      throw new AppError('invalid', `${folder} lists ${path}, which no backup has: nothing of it was taken.`);
  const facts = await readPart(folder, backupFile);
  if (createHash('sha256').update(facts).digest('hex') !== sums.get(backupFile))
    throw new AppError('invalid', `${join(folder, backupFile)} is not what was backed up: use another backup.`);
  try {
    return { facts: backupFormat.parse(JSON.parse(facts.toString())), sums };
  } catch (cause) {
    throw new AppError('invalid', `${folder} is no backup that this version can read (${backupFile}).`, { cause });
  }
}

async function readPart(folder: string, name: string): Promise<Buffer> {
  return readFile(join(folder, name)).catch((cause: unknown) => {
    throw new AppError(
      'invalid',
      `${folder} is no backup that this version can read: it has no ${name}. Restore an older one with the version that made it.`,
      { cause },
    );
  });
}

function isOfBackup(path: string): boolean {
  const [first = '', ...rest] = path.split('/');
  if (rest.length === 0) return path === backupFile || keyFiles.some((name) => name === path);
  return first === 'postgres' ? isServerFile(rest.join('/')) : first === 'files' || first === 'tls';
}
