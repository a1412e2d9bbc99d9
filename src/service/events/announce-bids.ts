import type { Timestamp } from '#contract/timestamp.ts';
import type { BidSheet, ComputedRow } from '../domain/bid-sheet.ts';
import { bidRecords } from '../domain/feed-records.ts';
import type { Bid, SourcingEvent } from '../domain/sourcing-event.ts';
import type { UnitOfWork } from '../unit-of-work.ts';
import { announce } from './announce.ts';

/**
 * Announces bids that changed. These domain events are the points at which the latest bids feed is updated. If another
 * change has altered records of bids since the last such point (`bids_behind`), all of the event's bids are compared
 * with the feed, else only these.
 */
export async function announceBids(
  unit: UnitOfWork,
  change: {
    domainEvent: 'bid-submitted' | 'bids-withdrawn' | 'bids-edited';
    event: SourcingEvent;
    sheet: BidSheet;
    bids: readonly Bid[];
    /** The rows that the caller has computed already, by the bid's id. */
    rows?: ReadonlyMap<string, ComputedRow>;
    now: Timestamp;
  },
): Promise<void> {
  const { domainEvent, event, sheet, bids, rows, now } = change;
  const behind = await unit.tx.query(
    'update service.sourcing_events set bids_behind = false where id = $1 and bids_behind returning id',
    [event.id],
  );
  const records = behind.length > 0 ? {} : { 'latest-bids': bidRecords(event, sheet, bids, rows) };
  await announce(unit, { domainEvent, event, now, records });
}
