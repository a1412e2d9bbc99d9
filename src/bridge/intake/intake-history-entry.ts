import type { Timestamp } from '#contract/timestamp.ts';

/** What was done with one record of an intake. */
export interface IntakeHistoryEntry {
  readonly at: Timestamp;
  readonly step:
    | 'read'
    | 'sent'
    | 'taken'
    | 'refused'
    | 'released'
    | 'held'
    | 'made'
    | 'delivered'
    | 'told'
    | 'not told';
  readonly text: string;
}
