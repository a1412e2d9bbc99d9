/** Appends records to feeds as commands do, without events behind them. They read as the contract says. */
import { randomUUID } from 'node:crypto';
import type { FeedName } from '#contract/feed.ts';
import type { FeedRecord } from '#service/domain/feed-records.ts';
import { appendFeedRecords } from '#service/feeds/append-feed-records.ts';
import type { TestOrganisation, TestService } from './programs.ts';

export interface WrittenEvent {
  id: string;
  status: NonNullable<FeedRecord['status']>;
  tags: { name: string; value: string }[];
  requests: string[];
}

export interface WrittenRecord {
  id: string;
  event: string;
  requests: string[];
  /** What it says. */
  text?: string;
  supplier?: string;
}

const created = '2030-01-01T00:00:00.000000Z';
const somebody = { id: randomUUID() };

export function writtenEvent({ id, status, tags, requests }: WrittenEvent, name = 'event'): FeedRecord {
  const content = {
    id,
    name,
    type: 'RFQ',
    status,
    roles: [],
    created,
    created_by: somebody,
    rounds: [],
    columns: [],
    lot_count: 0,
    scenario_count: 0,
    evaluated_scenario_count: 0,
    is_test: false,
    primary_currency: 'EUR',
    secondary_currencies: [],
    suppliers: [],
    tags,
    ...(requests.length > 0 ? { sourcing_requests: requests } : {}),
  };
  return { id, status, tags, requests, content };
}

export function writtenRecord(
  feed: FeedName,
  { id, event, requests, text = 'as it is', supplier = somebody.id }: WrittenRecord,
): FeedRecord {
  const of = { id, sourcing_event: event, ...(requests[0] ? { sourcing_request: requests[0] } : {}) };
  switch (feed) {
    case 'sourcing-events':
      return writtenEvent({ id, status: 'OPEN', tags: [], requests }, text);
    case 'latest-bids':
      return {
        id,
        requests,
        content: { ...of, supplier, lot_name: text, bids: [], bid_sheet_values: [] },
      };
    case 'awards':
      return { id, requests, content: { ...of, lot_name: text, awards: [] } };
    case 'rfi-responses':
      return {
        id,
        requests,
        content: { ...of, id: Number(id), supplier, question_uuid: somebody.id, value: text },
      };
  }
}

/** Each call is one transaction. */
export function createFeedWriter(service: TestService, organisation: TestOrganisation) {
  const append = (feed: FeedName, eventId: string, record: FeedRecord) =>
    service.db.database.transaction((tx) =>
      appendFeedRecords(
        { tx, wake: () => undefined },
        {
          event: { id: eventId, organisationId: organisation.id, name: 'event', sourcingRequests: [] },
          now: created,
          changes: [{ feed, records: [record] }],
        },
      ),
    );
  return {
    event: (event: WrittenEvent) => append('sourcing-events', event.id, writtenEvent(event)),
    record: (feed: Exclude<FeedName, 'sourcing-events'>, record: WrittenRecord) =>
      append(feed, record.event, writtenRecord(feed, record)),
  };
}
