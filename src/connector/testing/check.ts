import type { Stage } from './stage.ts';

/** One thing that every connector must do. */
export interface Check {
  /** Short: it names the check in the table of results and in `notApplicable`. */
  readonly name: string;
  /** What holds when it passes. */
  readonly guarantee: string;
  /** Rejects with what is wrong, or NotApplicable. */
  readonly run: (stage: Stage) => Promise<void>;
}
