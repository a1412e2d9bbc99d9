import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { closeAfterFile } from './after-file.ts';

/** Makes a scratch folder that is removed after the file. */
export async function scratchFolder(): Promise<string> {
  const folder = await mkdtemp(join(tmpdir(), 'sourcing-test-'));
  closeAfterFile(() => rm(folder, { recursive: true, force: true }));
  return folder;
}
