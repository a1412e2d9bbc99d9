/** What a backup folder holds beside the copied files: when and of what it was made. */
import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { z } from 'zod';
import { parseTimestamp } from '#contract/timestamp.ts';
import { leadsOut } from '#platform/copied-files.ts';
import { AppError } from '#platform/errors.ts';

export const backupFile = 'backup.json';

/** What the data folder holds beside the database and the files: without it the database cannot be opened or read. */
export const keyFiles = [
  'postgres.secret',
  'master-key',
  'master-key.previous',
  'admin-token',
  'local-setup.json',
] as const;

const backupFormat = z.object({
  format: z.literal(1),
  made: z.string().refine((text) => parseTimestamp(text) !== undefined),
  /** The version of sourcing-bridge that made it. */
  version: z.string(),
  /** Every folder: the database has some that are empty. */
  folders: z.array(z.string().refine((path) => !leadsOut(path))),
});

export type BackupFacts = z.infer<typeof backupFormat>;

/** Throws an AppError `invalid` for a folder that is no backup, or one of a newer program. */
export async function readBackupFacts(folder: string): Promise<BackupFacts> {
  try {
    return backupFormat.parse(JSON.parse(await readFile(join(folder, backupFile), 'utf8')));
  } catch (cause) {
    throw new AppError('invalid', `${folder} is no backup that this version can read (${backupFile}).`, { cause });
  }
}
