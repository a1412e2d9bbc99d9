import type { Stage } from './stage.ts';

/** One requirement that every connector has to meet. */
export interface Check {
  /** A short name: it identifies the check in the table of results and in `notApplicable`. */
  readonly name: string;
  /** What is proven when the check passes. */
  readonly guarantee: string;
  /** Rejects with CheckFailure, or with NotApplicable. */
  readonly run: (stage: Stage) => Promise<void>;
}
