/** Appends records to feeds as commands do, without events behind them. The records have the form of the contract. */
import { randomUUID } from 'node:crypto';
import type { FeedName } from '#contract/feed.ts';
import type { EventStatus } from '#contract/sourcing-event.ts';
import type { FeedRecord } from '#service/domain/feed-records.ts';
import { appendFeedRecords, type FeedChange } from '#service/feeds/append-feed-records.ts';
import type { TestOrganisation } from './test-organisation.ts';
import type { TestService } from './test-service.ts';

export interface WrittenEvent {
  id: string;
  status: EventStatus;
  tags: { name: string; value: string }[];
  requests: string[];
  isTest?: boolean;
}

export interface WrittenRecord {
  id: string;
  event: string;
  requests: string[];
  /** The content that differs between versions. */
  text?: string;
  supplier?: string;
}

const created = '2030-01-01T00:00:00.000000Z';
const someUser = { id: randomUUID() };
const defaults = { text: 'as it is', supplier: someUser.id };

export function writtenEvent(
  { id, status, tags, requests, isTest = false }: WrittenEvent,
  name = 'event',
): FeedRecord<'sourcing-events'> {
  const summary = {
    id,
    name,
    type: 'RFQ',
    status,
    primary_currency: 'EUR',
    secondary_currencies: [],
    tags,
    ...(requests.length > 0 ? { sourcing_requests: requests } : {}),
  };
  const content = {
    ...summary,
    roles: [],
    created,
    created_by: someUser,
    rounds: [],
    columns: [],
    lot_count: 0,
    scenario_count: 0,
    evaluated_scenario_count: 0,
    is_test: isTest,
    suppliers: [],
  };
  return { id, status, tags, isTest, requests, summary, content };
}

const made: { [Feed in FeedName]: (record: Required<WrittenRecord>) => FeedRecord<Feed> } = {
  'sourcing-events': ({ id, requests, text }) => writtenEvent({ id, status: 'OPEN', tags: [], requests }, text),
  'latest-bids': ({ id, requests, supplier, text, ...of }) => ({
    id,
    requests,
    content: { id, ...ofEvent(of.event, requests), supplier, lot_name: text, bids: [], bid_sheet_values: [] },
  }),
  awards: ({ id, requests, text, ...of }) => ({
    id,
    requests,
    content: { id, ...ofEvent(of.event, requests), lot_name: text, awards: [] },
  }),
  'rfi-responses': ({ id, requests, supplier, text, ...of }) => ({
    id,
    requests,
    content: {
      ...ofEvent(of.event, requests),
      id: Number(id),
      supplier,
      question_uuid: someUser.id,
      value: text,
    },
  }),
};

function ofEvent(event: string, requests: readonly string[]) {
  return { sourcing_event: event, ...(requests[0] ? { sourcing_request: requests[0] } : {}) };
}

/** A feed, and records to append to it. */
export function writtenChange<Feed extends FeedName>(feed: Feed, records: readonly WrittenRecord[]): FeedChange<Feed> {
  return { feed, records: records.map((record) => made[feed]({ ...defaults, ...record })) };
}

/** Returns functions that append a record, each in one transaction. */
export function createFeedWriter(service: TestService, organisation: TestOrganisation) {
  const append = (eventId: string, change: FeedChange) =>
    service.db.database.transaction((tx) =>
      appendFeedRecords(
        { tx, wake: () => undefined },
        {
          event: { id: eventId, organisationId: organisation.id, name: 'event', sourcingRequests: [] },
          now: created,
          changes: [change],
        },
      ),
    );
  return {
    event: (event: WrittenEvent) => append(event.id, { feed: 'sourcing-events', records: [writtenEvent(event)] }),
    record: (feed: Exclude<FeedName, 'sourcing-events'>, record: WrittenRecord) =>
      append(record.event, writtenChange(feed, [record])),
  };
}
