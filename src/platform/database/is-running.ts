import { hasErrorCode } from '../errors.ts';

/** Whether any process has this pid now, also another user's. A pid may have been given anew: it proves no identity. */
export function isRunning(pid: number): boolean {
  try {
    process.kill(pid, 0);
    return true;
  } catch (error) {
    // EPERM: it runs, as another user.
    return hasErrorCode(error, 'EPERM');
  }
}
