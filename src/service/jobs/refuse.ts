import type { Issue } from '#contract/issue.ts';
import { AppError, throwIssues } from '#platform/errors.ts';

/** Throws `invalid` with these issues, unless there are none. `what` begins the message: "The payload". */
export function refuse(issues: readonly Issue[], what = 'The payload'): void {
  throwIssues(issues, ({ path, message }) => `${what} is not valid: ${path}: ${message}.`);
}

/** Returns what `loading` resolves to. When it rejects with `not-found`, throws `invalid` with the path of the id. */
export async function found<Thing>(path: string, loading: Promise<Thing>): Promise<Thing> {
  try {
    return await loading;
  } catch (error) {
    if (!(error instanceof AppError && error.code === 'not-found')) throw error;
    throw new AppError('invalid', error.publicMessage, { issues: [{ path, message: error.publicMessage }] });
  }
}
