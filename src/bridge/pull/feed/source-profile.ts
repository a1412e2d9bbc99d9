/**
 * What the pulls and the audits have found out about a feed; it is kept in the feed's checkpoint. Every
 * member is optional: reading is safe without any of them, and cheaper with them.
 */
import type { Timestamp } from '#contract/timestamp.ts';

export interface SourceProfile {
  /** The step that the source rounds stamps and bounds to, or truncates them to. */
  readonly granularityMicros?: number;
  /** The related objects that the service shows when it is asked for them; empty where it refuses to be asked. */
  readonly includes?: readonly string[];
  /** A page of at least so many records, without a next page, may have been cut off (`page-cap.ts`). */
  readonly pageSize?: number;
  /** The lateness bound, where an audit has raised it above the setting. */
  readonly latenessMs?: number;
  /** When the declared order of commits was proved. */
  readonly orderProved?: Timestamp;
  /** When the feed broke it, or its declaration was refuted, with what was seen. From then on it is read in windows. */
  readonly orderBroken?: Timestamp;
  readonly orderBrokenWhy?: string;
}
