/**
 * Announcing what happened to an event: appends the changed records to the feeds that the contract's table names for
 * it, and fires their triggers, all in the caller's transaction.
 */
import type { FeedName } from '#contract/feed.ts';
import type { Timestamp } from '#contract/timestamp.ts';
import { compileBidSheet } from '../domain/bid-sheet.ts';
import { bidRecords, type FeedRecord, sourcingEventRecord } from '../domain/feed-records.ts';
import { feedUpdates, type Happening } from '../domain/lifecycle.ts';
import { appendFeedRecords } from '../feeds/append-feed-records.ts';
import type { UnitOfWork } from '../unit-of-work.ts';
import { loadBids, loadEvent } from './event-store.ts';

export interface Announcement {
  happening: Happening;
  organisationId: string;
  eventId: string;
  now: Timestamp;
  /** The records of a feed that the caller has at hand; the others are made from the event as it stands now. */
  records?: Partial<Record<FeedName, readonly FeedRecord[]>>;
}

export async function announce(unit: UnitOfWork, announcement: Announcement): Promise<void> {
  const { happening, organisationId, eventId, now } = announcement;
  const event = await loadEvent(unit.tx, organisationId, eventId, 'read');
  const made: Record<FeedName, () => Promise<readonly FeedRecord[]>> = {
    'sourcing-events': async () => [sourcingEventRecord(event)],
    'latest-bids': async () => bidRecords(event, compileBidSheet(event), await loadBids(unit.tx, eventId)),
    awards: async () => [],
  };
  const changes = [];
  for (const feed of feedUpdates[happening])
    changes.push({ feed, records: announcement.records?.[feed] ?? (await made[feed]()) });
  await appendFeedRecords(unit, {
    organisationId,
    now,
    event: { id: event.id, name: event.name, status: event.status },
    changes,
  });
}
