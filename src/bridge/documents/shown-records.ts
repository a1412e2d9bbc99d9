/** Which records of an event's bids and answers count. */
import type { EventInFlow } from './event-parts.ts';

/** A record of a feed, and whether two complete sweeps did not show it any more. */
export interface MirroredRecord {
  readonly record: unknown;
  readonly gone: boolean;
}

/**
 * Bids and answers that count. A record that is gone does not, except in a draft: unpublishing hides an event's bids and
 * answers until it is published again, and says nothing against them.
 */
export function shownRecords(event: EventInFlow, records: readonly MirroredRecord[]): unknown[] {
  if (!event.wanted) return [];
  return records.filter(({ gone }) => !gone || event.isDraft).map(({ record }) => record);
}
