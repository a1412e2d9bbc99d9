/**
 * The one error class of the project. It carries two texts: `message` for the log, which may name internals, and
 * `publicMessage` for the caller, which may not; and the recovery, so that nobody has to guess it from the text.
 */
import type { Issue } from '#contract/issue.ts';

/** What went wrong, in the words of the API; `http/problem.ts` maps each to a status. */
export type ErrorCode =
  | 'invalid'
  | 'unauthorized'
  | 'forbidden'
  | 'not-found'
  | 'method-not-allowed'
  | 'conflict'
  | 'too-large'
  | 'unsupported-media'
  | 'too-many'
  | 'unavailable'
  | 'internal';

/** What the one who caught it should do: try again (not before `afterMs`), put this item aside, or stop and call a person. */
export type Recovery = { do: 'retry'; afterMs?: number } | { do: 'skip' } | { do: 'halt' };

export class AppError extends Error {
  readonly code: ErrorCode;
  /** Safe to show to the caller: says what was wrong, where, and what to do. */
  readonly publicMessage: string;
  readonly issues: readonly Issue[];
  readonly recovery: Recovery;

  constructor(
    code: ErrorCode,
    publicMessage: string,
    options: { message?: string; cause?: unknown; issues?: readonly Issue[]; recovery?: Recovery } = {},
  ) {
    super(options.message ?? publicMessage, options.cause === undefined ? {} : { cause: options.cause });
    this.name = 'AppError';
    this.code = code;
    this.publicMessage = publicMessage;
    this.issues = options.issues ?? [];
    this.recovery = options.recovery ?? { do: code === 'unavailable' || code === 'too-many' ? 'retry' : 'halt' };
  }
}

/** Whether what was thrown carries this code, as Node's own errors do: `ENOENT`. */
export function hasErrorCode(error: unknown, code: string): boolean {
  return error instanceof Error && 'code' in error && error.code === code;
}

/** Throws with these issues, unless there are none; `text` makes the message of the first of them. */
export function throwIssues(
  issues: readonly Issue[],
  text: (first: Issue) => string,
  code: ErrorCode = 'invalid',
): void {
  const [first] = issues;
  if (first) throw new AppError(code, text(first), { issues });
}

/** How long whoever refused asks to be left alone, in milliseconds; 0 when it says nothing of that. */
export function askedToWaitMs(error: unknown): number {
  return error instanceof AppError && error.recovery.do === 'retry' ? (error.recovery.afterMs ?? 0) : 0;
}

/** The text of anything that was thrown. Never throws itself: code of others may throw anything. */
export function errorText(error: unknown): string {
  try {
    return String(error instanceof Error ? error.message || error.name : error);
  } catch {
    return 'an error that has no text';
  }
}
