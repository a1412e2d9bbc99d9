/**
 * Announces a domain event: appends the changed records to the feeds that the contract's table names for it, and
 * enqueues their notifications, all in the caller's transaction.
 */
import type { FeedName } from '#contract/feed.ts';
import type { Timestamp } from '#contract/timestamp.ts';
import { compileBidSheet } from '../domain/bid-sheet.ts';
import {
  bidRecords,
  type FeedRecord,
  type FeedRecords,
  makeSourcingEventRecord,
  rfiRecords,
} from '../domain/feed-records.ts';
import { type DomainEvent, feedUpdates } from '../domain/lifecycle.ts';
import type { SourcingEvent } from '../domain/sourcing-event.ts';
import { appendFeedRecords, type FeedChange } from '../feeds/append-feed-records.ts';
import { loadResponses } from '../rfi/response-store.ts';
import type { UnitOfWork } from '../unit-of-work.ts';
import { loadBids, loadEvent } from './event-store.ts';

export interface Announcement {
  domainEvent: DomainEvent;
  event: Pick<SourcingEvent, 'id' | 'organisationId' | 'name' | 'sourcingRequests'>;
  now: Timestamp;
  /** The records that the caller has made already, by feed. Other feeds' records are made from the stored event. */
  records?: FeedRecords;
}

/**
 * Announces in the unit's transaction. Call it last: it locks the organisation's feeds, so every other command of the
 * organisation that updates one of them waits for the commit.
 */
export async function announce(unit: UnitOfWork, announcement: Announcement): Promise<void> {
  const { domainEvent, event, now } = announcement;
  let loaded: Promise<SourcingEvent> | undefined;
  const current = () => {
    loaded ??= loadEvent(unit.tx, event.organisationId, event.id, 'read');
    return loaded;
  };
  const makers: { readonly [Feed in FeedName]: () => Promise<readonly FeedRecord<Feed>[]> } = {
    'sourcing-events': async () => [makeSourcingEventRecord(await current())],
    'latest-bids': async () => {
      const bids = await loadBids(unit.tx, event.id);
      if (bids.length === 0) return [];
      const standing = await current();
      return bidRecords(standing, compileBidSheet(standing), bids);
    },
    // Awards are made only when an event closes, by the caller.
    awards: async () => [],
    'rfi-responses': async () => {
      const responses = await loadResponses(unit.tx, event.id);
      return responses.length === 0 ? [] : rfiRecords(await current(), responses);
    },
  };
  const changeOf = async <Feed extends FeedName>(feed: Feed): Promise<FeedChange<Feed>> => ({
    feed,
    records: announcement.records?.[feed] ?? (await makers[feed]()),
  });
  const changes = await Promise.all(feedUpdates[domainEvent].map((feed): Promise<FeedChange> => changeOf(feed)));
  await appendFeedRecords(unit, { event, now, changes });
}
