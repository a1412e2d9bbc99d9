import type { Timestamp } from '#contract/timestamp.ts';

/** What was done with one record of an intake. */
export interface IntakeHistoryEntry {
  readonly at: Timestamp;
  readonly step: 'read' | 'sent' | 'taken' | 'refused' | 'released' | 'held' | 'made' | 'delivered';
  readonly text: string;
}
