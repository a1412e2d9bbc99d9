/**
 * Announcing what happened to an event: appends the changed records to the feeds that the contract's table names for
 * it, and fires their triggers, all in the caller's transaction.
 */
import type { FeedName } from '#contract/feed.ts';
import type { Timestamp } from '#contract/timestamp.ts';
import { compileBidSheet } from '../domain/bid-sheet.ts';
import { bidRecords, type FeedRecord, makeSourcingEventRecord, rfiRecords } from '../domain/feed-records.ts';
import { type DomainEvent, feedUpdates } from '../domain/lifecycle.ts';
import type { SourcingEvent } from '../domain/sourcing-event.ts';
import { appendFeedRecords } from '../feeds/append-feed-records.ts';
import { loadResponses } from '../rfi/rfi-store.ts';
import type { UnitOfWork } from '../unit-of-work.ts';
import { loadBids, loadEvent } from './event-store.ts';

export interface Announcement {
  domainEvent: DomainEvent;
  event: Pick<SourcingEvent, 'id' | 'organisationId' | 'name' | 'sourcingRequests'>;
  now: Timestamp;
  /** The records of a feed that the caller has at hand; the others are made from the event as it stands now. */
  records?: Partial<Record<FeedName, readonly FeedRecord[]>>;
}

/** Call it last in a transaction: from here on every other command of the organisation waits for the commit. */
export async function announce(unit: UnitOfWork, announcement: Announcement): Promise<void> {
  const { domainEvent, event, now } = announcement;
  let loaded: Promise<SourcingEvent> | undefined;
  const current = () => {
    loaded ??= loadEvent(unit.tx, event.organisationId, event.id, 'read');
    return loaded;
  };
  const made: Record<FeedName, () => Promise<readonly FeedRecord[]>> = {
    'sourcing-events': async () => [makeSourcingEventRecord(await current())],
    'latest-bids': async () => {
      const bids = await loadBids(unit.tx, event.id);
      if (bids.length === 0) return [];
      const standing = await current();
      return bidRecords(standing, compileBidSheet(standing), bids);
    },
    // Awards are computed by what closes the event.
    awards: async () => [],
    'rfi-responses': async () => {
      const responses = await loadResponses(unit.tx, event.id);
      return responses.length === 0 ? [] : rfiRecords(await current(), responses);
    },
  };
  const changes = [];
  for (const feed of feedUpdates[domainEvent])
    changes.push({ feed, records: announcement.records?.[feed] ?? (await made[feed]()) });
  await appendFeedRecords(unit, { event, now, changes });
}
