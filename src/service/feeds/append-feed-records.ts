/**
 * Appending to feeds: the one place that gives `modified`. It takes the lock of the organisation's feed heads, so that
 * the order of `modified` is the order of commits; appends the records whose content differs from what the feed shows;
 * and writes the notifications, all in the caller's transaction.
 */
import { createHash } from 'node:crypto';
import { type FeedName, feedNames } from '#contract/feed.ts';
import { addMicros, laterOf, type Timestamp } from '#contract/timestamp.ts';
import { feedTriggers } from '#contract/webhook.ts';
import type { FeedRecord } from '../domain/feed-records.ts';
import type { SourcingEvent } from '../domain/sourcing-event.ts';
import type { UnitOfWork } from '../unit-of-work.ts';
import { enqueueNotifications } from '../webhooks/enqueue-notifications.ts';
import { storedBody, tagText } from './stored-record.ts';

/** A feed, and the records to append to it. */
export type FeedChange<Feed extends FeedName = FeedName> = {
  [Each in Feed]: { readonly feed: Each; readonly records: readonly FeedRecord<Each>[] };
}[Feed];

/** Appends what changed, and fires each feed's trigger even where nothing did: the contract's table is the law. */
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

/** Locks all of them in one order: a transaction that announces twice never waits for one that waits for it. */
async function lockHeads(unit: UnitOfWork, organisationId: string): Promise<Map<string, Timestamp | undefined>> {
  const rows = await unit.tx.query<{ feed: string; last_modified: Timestamp | null }>(
    `select feed, last_modified from service.feed_heads
     where organisation_id = $1 and feed = any($2) order by feed for update`,
    [organisationId, feedNames],
  );
  return new Map(rows.map((row) => [row.feed, row.last_modified ?? undefined]));
}

/**
 * Takes an event's records out of these feeds until they are appended again: those of a draft or a deleted event are not
 * served. Touches no `modified`, and announces nothing; what vanished is counted as changes, as a feed shows it.
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

/** Gives the newest `modified`, or undefined when no record had changed. */
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
       (organisation_id, feed, id, modified, sourcing_event, status, tags, requests, visible, content_hash, body, summary)
     select $1, $2, id, modified, $3, status,
       (select array_agg(value) from jsonb_array_elements_text(tags) as value),
       (select array_agg(value::uuid) from jsonb_array_elements_text(requests) as value), true, content_hash, body, summary
     from unnest($4::text[], $5::text[], $6::jsonb[], $7::jsonb[], $8::timestamptz[], $9::bytea[], $10::text[], $11::text[])
       as record (id, status, tags, requests, modified, content_hash, body, summary)
     on conflict (organisation_id, feed, id) do update
       set modified = excluded.modified, status = excluded.status, tags = excluded.tags, requests = excluded.requests,
           visible = true, content_hash = excluded.content_hash, body = excluded.body, summary = excluded.summary`,
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
