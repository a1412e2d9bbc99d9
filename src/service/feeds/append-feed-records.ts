/**
 * Appending to feeds: the only place that sets `modified`. All in the caller's transaction, it locks the organisation's
 * feed heads, so that the order of `modified` is the order of commits; appends the records whose content differs from
 * what the feed shows; and writes the notifications.
 */
import { createHash } from 'node:crypto';
import { type FeedName, feedNames } from '#contract/feed.ts';
import { addMicros, laterOf, type Timestamp } from '#contract/timestamp.ts';
import { feedTriggers } from '#contract/webhook.ts';
import type { Sql } from '#platform/database/sql.ts';
import type { FeedRecord } from '../domain/feed-records.ts';
import type { SourcingEvent } from '../domain/sourcing-event.ts';
import type { UnitOfWork } from '../unit-of-work.ts';
import { enqueueNotifications } from '../webhooks/enqueue-notifications.ts';
import { storedBody, tagText } from './stored-record.ts';

/** A feed, and the records to append to it. */
export type FeedChange<Feed extends FeedName = FeedName> = {
  [Each in Feed]: { readonly feed: Each; readonly records: readonly FeedRecord<Each>[] };
}[Feed];

/**
 * Appends the records that changed, and fires the trigger of each feed, also of a feed without a changed record: the
 * contract's table "Feed update conditions" demands it.
 */
export async function appendFeedRecords(
  unit: UnitOfWork,
  request: {
    event: Pick<SourcingEvent, 'id' | 'organisationId' | 'name' | 'sourcingRequests'>;
    now: Timestamp;
    changes: readonly FeedChange[];
  },
): Promise<void> {
  const { now, event, changes } = request;
  const { organisationId } = event;
  const heads = await lockHeads(unit, organisationId);
  const onlyRequest = event.sourcingRequests.length === 1 ? { sourcing_request: event.sourcingRequests[0] } : {};
  for (const { feed, records } of changes) {
    const head = heads.get(feed);
    const last = await append(unit, { organisationId, feed, eventId: event.id, now, head, records });
    await enqueueNotifications(unit, {
      organisationId,
      trigger: feedTriggers[feed],
      coalesces: true,
      now,
      payload: {
        sourcing_event: event.id,
        sourcing_event_name: event.name,
        ...onlyRequest,
        feed_modified: last ?? head,
      },
    });
  }
}

/** The newest `modified` of each feed; undefined for a feed that never had a record. */
type Heads = ReadonlyMap<string, Timestamp | undefined>;

/**
 * Locks the heads of all feeds until the end of the transaction, and makes those that are missing because the
 * organisation is older than the feed.
 */
async function lockHeads({ tx }: UnitOfWork, organisationId: string): Promise<Heads> {
  const heads = await lockExistingHeads(tx, organisationId);
  if (heads.size === feedNames.length) return heads;
  // Where another transaction makes the same row, the insert waits for its end: so does the first append to a feed.
  await tx.query(
    `insert into service.feed_heads (organisation_id, feed) select $1, feed from unnest($2::text[]) as feed order by feed
     on conflict do nothing`,
    [organisationId, feedNames],
  );
  // A new statement, because the first one does not see a row that another transaction has made since.
  return lockExistingHeads(tx, organisationId);
}

/** Always in the same order, and all feeds at once: two transactions that append cannot wait for each other. */
async function lockExistingHeads(tx: Sql, organisationId: string): Promise<Heads> {
  const rows = await tx.query<{ feed: string; last_modified: Timestamp | null }>(
    `select feed, last_modified from service.feed_heads
     where organisation_id = $1 and feed = any($2) order by feed for update`,
    [organisationId, feedNames],
  );
  return new Map(rows.map((row) => [row.feed, row.last_modified ?? undefined]));
}

/**
 * Hides an event's records in these feeds until they are appended again: the records of a draft or of a deleted event
 * are not served. Changes no `modified`, and announces nothing. Each hidden record counts as a change of the feed.
 */
export async function hideFeedRecords(
  unit: UnitOfWork,
  event: Pick<SourcingEvent, 'id' | 'organisationId'>,
  feeds: readonly FeedName[],
): Promise<void> {
  await lockHeads(unit, event.organisationId);
  await unit.tx.query(
    `with hidden as (
       update service.feed_records set visible = false
       where organisation_id = $1 and feed = any($2) and sourcing_event = $3 and visible
       returning feed)
     update service.feed_heads as head set changes = changes + counted.records
     from (select feed, count(*) as records from hidden group by feed) as counted
     where head.organisation_id = $1 and head.feed = counted.feed`,
    [event.organisationId, feeds, event.id],
  );
}

/** Returns the newest `modified`, or undefined when no record had changed. */
async function append(
  unit: UnitOfWork,
  request: {
    organisationId: string;
    feed: FeedName;
    eventId: string;
    now: Timestamp;
    head: Timestamp | undefined;
    records: readonly FeedRecord<FeedName>[];
  },
): Promise<Timestamp | undefined> {
  const { organisationId, feed, eventId, records } = request;
  if (records.length === 0) return undefined;
  const drafts = records.map((record) => {
    const json = JSON.stringify(record.content);
    const compared = record.compared === undefined ? json : JSON.stringify(record.compared);
    return { record, id: record.id, json, hash: createHash('sha256').update(compared).digest() };
  });
  const shown = await unit.tx.query<{ id: string; content_hash: Buffer }>(
    `select id, content_hash from service.feed_records
     where organisation_id = $1 and feed = $2 and id = any($3) and visible`,
    [organisationId, feed, drafts.map(({ id }) => id)],
  );
  const shownHash = new Map(shown.map((row) => [row.id, row.content_hash]));
  const changed = drafts.filter(({ id, hash }) => shownHash.get(id)?.equals(hash) !== true);
  if (changed.length === 0) return undefined;
  const first = laterOf(request.now, request.head && addMicros(request.head, 1)) ?? request.now;
  const stamps = changed.map((_record, index) => addMicros(first, index));
  await unit.tx.query(
    `insert into service.feed_records
       (organisation_id, feed, id, modified, sourcing_event, status, tags, requests, visible, content_hash, body, summary,
        is_test)
     select $1, $2, id, modified, $3, status,
       (select array_agg(value) from jsonb_array_elements_text(tags) as value),
       (select array_agg(value::uuid) from jsonb_array_elements_text(requests) as value), true, content_hash, body, summary,
       is_test
     from unnest($4::text[], $5::text[], $6::jsonb[], $7::jsonb[], $8::timestamptz[], $9::bytea[], $10::text[], $11::text[],
         $12::boolean[])
       as record (id, status, tags, requests, modified, content_hash, body, summary, is_test)
     on conflict (organisation_id, feed, id) do update
       set modified = excluded.modified, status = excluded.status, tags = excluded.tags, requests = excluded.requests,
           visible = true, content_hash = excluded.content_hash, body = excluded.body, summary = excluded.summary,
           is_test = excluded.is_test`,
    [
      organisationId,
      feed,
      eventId,
      changed.map(({ id }) => id),
      changed.map(({ record }) => record.status ?? null),
      changed.map(({ record }) => (record.tags ? JSON.stringify(record.tags.map(tagText)) : null)),
      changed.map(({ record }) => (record.requests.length > 0 ? JSON.stringify(record.requests) : null)),
      stamps,
      changed.map(({ hash }) => hash),
      changed.map(({ json }, index) => storedBody(json, stamps[index] ?? first)),
      changed.map(({ record }) => (record.summary ? JSON.stringify(record.summary) : null)),
      changed.map(({ record }) => record.isTest ?? null),
    ],
  );
  const last = stamps.at(-1);
  await unit.tx.query(
    `update service.feed_heads set last_modified = $3, changes = changes + $4
     where organisation_id = $1 and feed = $2`,
    [organisationId, feed, last, changed.length],
  );
  return last;
}
