/**
 * What a process leaves with its work, so that another one can tell whether it surely lives no more. A lock in the
 * database tells less: it is gone with a broken connection, too, while the process goes on.
 */
import { readFileSync, readlinkSync } from 'node:fs';
import { hostname } from 'node:os';
import { hasErrorCode } from '#platform/errors.ts';

export interface ProcessIdentity {
  /** This process, told apart from every other one on every machine. */
  readonly own: string;
  /** True when the process of this mark can do nothing any more; false when that cannot be seen from here. */
  isOver(mark: string): boolean;
}

/**
 * Of the operating system's processes. One is seen to be over only from where its number means the same: on the same
 * machine since the same start, in the same namespace of process numbers. A process of another container or machine is
 * never seen to be over.
 */
export function createProcessIdentity(pid = process.pid): ProcessIdentity {
  const place = placeOf();
  const own = [String(pid), statOf(pid).start ?? '', place].join(' ');
  return {
    own,
    isOver: (mark) => {
      if (mark === own) return false;
      const [, otherPid = '', otherStart = '', otherPlace] = /^(\d+) (\d*) (.*)$/.exec(mark) ?? [];
      if (otherPlace !== place) return false;
      if (!isRunning(Number(otherPid))) return true;
      const { state, start } = statOf(Number(otherPid));
      // It waits for its parent to look, or the number is another's by now.
      return state === 'Z' || (otherStart !== '' && start !== undefined && start !== otherStart);
    },
  };
}

function placeOf(): string {
  return [
    hostname(),
    readOr(() => readFileSync('/proc/sys/kernel/random/boot_id', 'utf8').trim()),
    readOr(() => readlinkSync('/proc/self/ns/pid')),
  ].join(' ');
}

/** `start` in ticks since the machine started; both undefined where the system does not tell (proc(5), `stat`). */
function statOf(pid: number): { state: string | undefined; start: string | undefined } {
  const stat = readOr(() => readFileSync(`/proc/${pid}/stat`, 'utf8'));
  // The name stands in parentheses and may hold anything.
  const afterName = stat === '' ? [] : stat.slice(stat.lastIndexOf(')') + 2).split(' ');
  return { state: afterName[0], start: afterName[19] };
}

function isRunning(pid: number): boolean {
  try {
    process.kill(pid, 0);
    return true;
  } catch (error) {
    return !hasErrorCode(error, 'ESRCH');
  }
}

function readOr(read: () => string): string {
  try {
    return read();
  } catch {
    return '';
  }
}
