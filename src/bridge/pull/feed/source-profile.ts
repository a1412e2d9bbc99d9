/**
 * What `bridge check` and the pull have found out about a feed; it is kept in the feed's checkpoint. Every member is optional:
 * reading is safe without any of them, and cheaper with them.
 */

export interface SourceProfile {
  /** The step that the source rounds stamps and bounds to, or truncates them to. */
  readonly granularityMicros?: number;
  /** The related objects that the service shows when it is asked for them; empty where it refuses to be asked. */
  readonly includes?: readonly string[];
  readonly bounds?: 'inclusive' | 'exclusive';
  readonly paging?: 'cursor' | 'page number' | 'offset' | 'unknown';
  /** A page of at least so many records, without a next page, may have been cut off (`page-cap.ts`). */
  readonly pageSize?: number;
  readonly order?: 'ascending' | 'descending' | 'none';
  readonly commitOrdered?: boolean;
  /** How far the source's clock is ahead of ours; it is known to within a second or two. */
  readonly clockAheadMs?: number;
  /** When the profile was made. */
  readonly learned?: string;
}
