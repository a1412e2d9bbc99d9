/**
 * Temporary folders that get their final name when they are complete, and the ones that a killed process leaves behind.
 * The name holds the process that makes the folder, so that the next start can tell a leftover from the work of another
 * process.
 */
import { randomUUID } from 'node:crypto';
import { readdir, rm, stat } from 'node:fs/promises';
import { join } from 'node:path';
import { errorText } from '#platform/errors.ts';
import type { Logger } from '#platform/log.ts';
import { isRunning } from './is-running.ts';

/** In a container every start may get the same pid: this id tells the starts apart. */
const thisProcess = randomUUID().slice(0, 8);
const abandonedAfterMs = 15 * 60_000;
let made = 0;

/** Returns a name that no other call returns: `.<purpose>.<pid>.<process>.<number>.new`. */
export function temporaryName(purpose: string): string {
  made += 1;
  return `.${purpose}.${process.pid}.${thisProcess}.${made}.new`;
}

/**
 * Removes the folders in `parent` that were named by `temporaryName(purpose)` and whose process is gone. A folder that
 * cannot be removed is logged and left for the next start.
 */
export async function removeAbandoned(parent: string, purpose: string, log: Logger): Promise<void> {
  for (const name of await readdir(parent)) {
    const path = join(parent, name);
    if (!name.startsWith(`.${purpose}.`) || !(await isAbandoned(path, name))) continue;
    await rm(path, { recursive: true, force: true, maxRetries: 3 }).catch((error: unknown) => {
      log.warn({ path, reason: errorText(error) }, 'could not remove a temporary folder');
    });
  }
}

async function isAbandoned(path: string, name: string): Promise<boolean> {
  const [, pid, maker] = /\.(\d+)\.([0-9a-f]{8})\.\d+\.new$/.exec(name) ?? [];
  if (pid === undefined || maker === thisProcess) return false;
  if (Number(pid) === process.pid || !isRunning(Number(pid))) return true;
  const made = await stat(path).catch(() => undefined);
  return made !== undefined && Date.now() - made.mtimeMs > abandonedAfterMs;
}
