/** What `check` has learned of a feed, kept in its checkpoint. Every part is optional: the pull is safe without any. */

export interface SourceProfile {
  /** What stamps and bounds are cut or rounded to. */
  readonly granularityMicros?: number;
  /** What the service shows beside the records when it is asked to; empty where it refuses to be asked. */
  readonly includes?: readonly string[];
  readonly bounds?: 'inclusive' | 'exclusive';
  readonly paging?: 'cursor' | 'page number' | 'offset' | 'unknown';
  /** The most records that a page holds. */
  readonly pageSize?: number;
  readonly order?: 'ascending' | 'descending' | 'none';
  readonly commitOrdered?: boolean;
  /** How much the source's clock is ahead of ours; it is known to a second or two. */
  readonly clockAheadMs?: number;
  readonly learned?: string;
}
