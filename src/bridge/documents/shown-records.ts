/** Which bids and answers of an event count for its documents. */
import type { EventInFlow } from './event-parts.ts';

/** A record of a feed. `gone`: two full audits did not find it any more. */
export interface MirroredRecord {
  readonly record: unknown;
  readonly gone: boolean;
}

/**
 * Returns the bids and answers that count. A record that is gone does not count, except in a draft: unpublishing an
 * event hides its bids and answers until it is published again, and does not withdraw them.
 */
export function shownRecords(event: EventInFlow, records: readonly MirroredRecord[]): unknown[] {
  if (!event.wanted) return [];
  return records.filter(({ gone }) => !gone || event.isDraft).map(({ record }) => record);
}
