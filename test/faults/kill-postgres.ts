import { execFile } from 'node:child_process';
import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { promisify } from 'node:util';

/** Kills the embedded server of a data folder and all its child processes with -9, as when memory runs out. */
export async function killPostgres(dataDir: string): Promise<void> {
  const main = Number((await readFile(join(dataDir, 'postgres', 'postmaster.pid'), 'utf8')).split('\n')[0]);
  const { stdout } = await promisify(execFile)('ps', ['-A', '-o', 'pid=,ppid=']);
  const children = stdout
    .trim()
    .split('\n')
    .map((line) => line.trim().split(/\s+/).map(Number))
    .flatMap(([pid, parent]) => (parent === main && pid !== undefined ? [pid] : []));
  for (const pid of [main, ...children])
    try {
      process.kill(pid, 'SIGKILL');
    } catch {
      // A child may have ended meanwhile.
    }
}
