import { hasErrorCode } from '#platform/errors.ts';

/** Whether any process has this pid now, also another user's. The system reuses pids, so this proves no identity. */
export function isRunning(pid: number): boolean {
  try {
    process.kill(pid, 0);
    return true;
  } catch (error) {
    // EPERM: the process runs as another user.
    return hasErrorCode(error, 'EPERM');
  }
}
