import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { closeAtEnd } from './close-at-end.ts';

/** Makes a scratch folder that is removed after the file. */
export async function scratchFolder(): Promise<string> {
  const folder = await mkdtemp(join(tmpdir(), 'sourcing-test-'));
  closeAtEnd(() => rm(folder, { recursive: true, force: true }));
  return folder;
}
