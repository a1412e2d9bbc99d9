/**
 * Holds processes to a share of a processor, through control groups of the system: so two of them can be compared with one
 * on a machine whose processors the load and the database use, too.
 */
import { existsSync } from 'node:fs';
import { mkdir, rmdir, writeFile } from 'node:fs/promises';
import { join } from 'node:path';

/** Short, as a process that has used its share stands still for the rest of the period. */
const periodUs = 10_000;

/**
 * Each process may use `share` of one processor, until `release` is called; the processes have ended by then. Undefined
 * where this user may not make control groups.
 */
export async function holdToShare(
  pids: readonly number[],
  share: number,
): Promise<{ release(): Promise<void> } | undefined> {
  const isSecond = existsSync('/sys/fs/cgroup/cgroup.controllers');
  const parent = isSecond ? '/sys/fs/cgroup' : '/sys/fs/cgroup/cpu';
  const folders: string[] = [];
  const release = async () => {
    for (const folder of folders) await rmdir(folder).catch(() => undefined);
  };
  try {
    for (const pid of pids) {
      const folder = join(parent, `sourcing-bench-${pid}`);
      await mkdir(folder);
      folders.push(folder);
      const quotaUs = Math.round(share * periodUs);
      if (isSecond) await writeFile(join(folder, 'cpu.max'), `${quotaUs} ${periodUs}`);
      else {
        await writeFile(join(folder, 'cpu.cfs_period_us'), `${periodUs}`);
        await writeFile(join(folder, 'cpu.cfs_quota_us'), `${quotaUs}`);
      }
      await writeFile(join(folder, 'cgroup.procs'), `${pid}`);
    }
    return { release };
  } catch {
    await release();
    return undefined;
  }
}
