import type { Issue } from '#contract/issue.ts';
import { AppError, throwIssues } from '#platform/errors.ts';

/** Throws `invalid` with these issues, unless there are none. `what` opens the message: "The payload". */
export function refuse(issues: readonly Issue[], what = 'The payload'): void {
  throwIssues(issues, ({ path, message }) => `${what} is not valid: ${path}: ${message}.`);
}

/** Gives what was loaded by an id of the payload; where there is no such thing, throws `invalid` with the id's path. */
export async function found<Thing>(path: string, loading: Promise<Thing>): Promise<Thing> {
  try {
    return await loading;
  } catch (error) {
    if (!(error instanceof AppError && error.code === 'not-found')) throw error;
    throw new AppError('invalid', error.publicMessage, { issues: [{ path, message: error.publicMessage }] });
  }
}
