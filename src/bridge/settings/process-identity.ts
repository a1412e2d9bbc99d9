/**
 * The identity that a process stores with its work, so that another process can tell whether it has certainly ended. An
 * old heartbeat proves less: a process that cannot reach the database may go on.
 */
import { randomUUID } from 'node:crypto';
import { readFileSync, readlinkSync } from 'node:fs';
import { hostname } from 'node:os';
import { hasErrorCode } from '#platform/errors.ts';

export interface ProcessIdentity {
  /** This bridge in this process: a text that no other process on any machine has, nor the bridge before in this one. */
  readonly own: string;
  /** True when the process with this identity has ended for certain; false when that cannot be seen from here. */
  isOver(identity: string): boolean;
}

/**
 * Creates the identity of an operating system's process. A process number means the same only on the same machine,
 * since the same boot, and in the same namespace of process numbers: only there is a process seen to have ended. A
 * process of another container or machine is never seen to have ended. Each call makes another identity: a changed
 * configuration starts the bridge anew in its process, and a call of a connector that does not stop goes on there.
 */
export function createProcessIdentity(pid = process.pid): ProcessIdentity {
  const place = placeOf();
  const own = [String(pid), statOf(pid).start ?? '', randomUUID(), place].join(' ');
  return {
    own,
    isOver: (identity) => {
      const [, otherPid = '', otherStart = '', otherPlace] = /^(\d+) (\d*) \S+ (.*)$/.exec(identity) ?? [];
      if (otherPlace !== place) return false;
      if (!isRunning(Number(otherPid))) return true;
      const { state, start } = statOf(Number(otherPid));
      // Either it is a zombie, or another process has its number by now.
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

/** `start` in ticks since the machine booted; both are undefined where the system has no /proc (proc(5), `stat`). */
function statOf(pid: number): { state: string | undefined; start: string | undefined } {
  const stat = readOr(() => readFileSync(`/proc/${pid}/stat`, 'utf8'));
  // The process name stands in parentheses and may contain any character.
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
