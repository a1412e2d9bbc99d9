import type { Timestamp } from '#contract/timestamp.ts';
import type { BidSheet } from '../domain/bid-sheet.ts';
import type { EnteredBid } from '../domain/bids.ts';
import { bidRecords } from '../domain/feed-records.ts';
import type { Bid, SourcingEvent } from '../domain/sourcing-event.ts';
import type { UnitOfWork } from '../unit-of-work.ts';
import { announce } from './announce.ts';

/**
 * Announces bids that changed. These domain events are the points at which the latest bids feed is updated. If another
 * change has altered records of bids since the last such point (`bids_behind`), all of the event's bids are compared
 * with the feed, else only these. The caller holds the event's lock since it was loaded.
 */
export async function announceBids(
  unit: UnitOfWork,
  change: {
    domainEvent: 'bid-submitted' | 'bids-withdrawn' | 'bids-edited';
    event: SourcingEvent;
    sheet: BidSheet;
    bids: readonly Bid[];
    /** How the bids were entered, where they were. */
    entered?: readonly EnteredBid[];
    now: Timestamp;
  },
): Promise<void> {
  const { domainEvent, event, sheet, bids, entered, now } = change;
  if (event.bidsBehind)
    await unit.tx.query('update service.sourcing_events set bids_behind = false where id = $1', [event.id]);
  const records = event.bidsBehind ? {} : { 'latest-bids': bidRecords(event, sheet, bids, entered) };
  await announce(unit, { domainEvent, event, now, records });
}
