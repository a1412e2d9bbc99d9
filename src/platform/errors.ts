/**
 * The one error class of the project. It carries two texts: `message` for the log, which may name internals, and
 * `publicMessage` for the caller, which may not. It also carries the recovery, so that no caller guesses it from the
 * text.
 */
import type { Issue } from '#contract/issue.ts';
import type { Problem } from '#contract/problem.ts';

/** What went wrong, in the words of the API; `http/problem.ts` maps each to a status. */
export type ErrorCode =
  | 'invalid'
  | 'unauthorized'
  | 'forbidden'
  | 'not-found'
  | 'method-not-allowed'
  | 'conflict'
  | 'too-slow'
  | 'too-large'
  | 'no-space'
  | 'unsupported-media'
  | 'no-such-range'
  | 'too-many'
  | 'unavailable'
  | 'internal';

/**
 * What the code that catches the error should do: try again (not before `afterMs`), skip this item, or stop and halt.
 */
export type Recovery = { do: 'retry'; afterMs?: number } | { do: 'skip' } | { do: 'halt' };

type ProblemFigures = Pick<Problem, 'limit_bytes' | 'used_bytes' | 'left_bytes'>;

export class AppError extends Error {
  readonly code: ErrorCode;
  /** Safe to show to the caller: says what was wrong, where, and what to do. */
  readonly publicMessage: string;
  readonly issues: readonly Issue[];
  readonly recovery: Recovery;
  /** Figures that the answer shows beside its text. */
  readonly figures: ProblemFigures;

  constructor(
    code: ErrorCode,
    publicMessage: string,
    options: {
      message?: string;
      cause?: unknown;
      issues?: readonly Issue[];
      recovery?: Recovery;
      figures?: ProblemFigures;
    } = {},
  ) {
    super(options.message ?? publicMessage, options.cause === undefined ? {} : { cause: options.cause });
    this.name = 'AppError';
    this.code = code;
    this.publicMessage = publicMessage;
    this.issues = options.issues ?? [];
    this.figures = options.figures ?? {};
    this.recovery = options.recovery ?? { do: code === 'unavailable' || code === 'too-many' ? 'retry' : 'halt' };
  }
}

/** Whether what was thrown carries this code, as Node's own errors do: `ENOENT`. */
export function hasErrorCode(error: unknown, code: string): boolean {
  return error instanceof Error && 'code' in error && error.code === code;
}

/** Throws an AppError with these issues, unless there are none. `text` makes the message from the first of them. */
export function throwIssues(
  issues: readonly Issue[],
  text: (first: Issue) => string,
  code: ErrorCode = 'invalid',
): void {
  const [first] = issues;
  if (first) throw new AppError(code, text(first), { issues });
}

/** How long the other side asks to wait before the next try, in milliseconds; 0 when the error does not say. */
export function askedToWaitMs(error: unknown): number {
  return error instanceof AppError && error.recovery.do === 'retry' ? (error.recovery.afterMs ?? 0) : 0;
}

/** The text of anything that was thrown. Never throws itself: foreign code may throw any value. */
export function errorText(error: unknown): string {
  try {
    return String(error instanceof Error ? error.message || error.name : error);
  } catch {
    return 'an error that has no text';
  }
}
