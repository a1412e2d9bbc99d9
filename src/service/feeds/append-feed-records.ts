/**
 * Appending to feeds: the only place that sets `modified`. All in the caller's transaction, it locks the organisation's
 * feed heads, so that the order of `modified` is the order of commits; appends the records whose content differs from
 * what the feed shows; and writes the notifications.
 */

import { type FeedName, feedNames } from '#contract/feed.ts';
import { addMicros, laterOf, type Timestamp } from '#contract/timestamp.ts';
import { feedTriggers } from '#contract/webhook.ts';
import type { Sql } from '#platform/database/sql.ts';
import { sha256 } from '#platform/sha256.ts';
import type { FeedRecord } from '../domain/feed-records.ts';
import type { SourcingEvent } from '../domain/sourcing-event.ts';
import type { UnitOfWork } from '../unit-of-work.ts';
import { enqueueNotifications, type Notification } from '../webhooks/enqueue-notifications.ts';
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
    /** Appends also what `compared` finds equal: an award whose scenario has another name. */
    evenIfEqual?: boolean;
  },
): Promise<void> {
  const { now, event, changes, evenIfEqual = false } = request;
  const { organisationId } = event;
  const locking = lockHeads(unit, organisationId);
  // Thrown where it is awaited; until then a rejection must not count as unhandled.
  locking.catch(() => undefined);
  // Made while the server locks, and does what the caller has sent before.
  const drafted = changes.map(({ feed, records }) => ({ feed, drafts: records.map(draftOf) }));
  const heads = await locking;
  const appended = await Promise.all(
    drafted.map(async ({ feed, drafts }) => {
      const head = heads.get(feed);
      const versions = await versionsOf(unit.tx, { organisationId, feed, now, head, drafts, evenIfEqual });
      return { feed, ...versions, newest: versions.last ?? head };
    }),
  );
  const onlyRequest = event.sourcingRequests.length === 1 ? { sourcing_request: event.sourcingRequests[0] } : {};
  const notifications = appended.map(
    ({ feed, newest }): Notification => ({
      trigger: feedTriggers[feed],
      coalesces: true,
      payload: { sourcing_event: event.id, sourcing_event_name: event.name, ...onlyRequest, feed_modified: newest },
    }),
  );
  // All are sent at once, in this order.
  await Promise.all([
    ...appended.map((versions) => append(unit.tx, { organisationId, eventId: event.id }, versions)),
    enqueueNotifications(unit, { organisationId, now }, notifications),
  ]);
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

/** A record before it has its `modified`. */
interface Draft {
  readonly record: FeedRecord<FeedName>;
  readonly id: string;
  readonly json: string;
  readonly hash: Buffer;
}

function draftOf(record: FeedRecord<FeedName>): Draft {
  const json = JSON.stringify(record.content);
  const compared = record.compared === undefined ? json : JSON.stringify(record.compared);
  return { record, id: record.id, json, hash: sha256(compared) };
}

/** What is to be written of a feed's records: those that have changed, and nothing of the others. */
interface Versions {
  readonly added: readonly Version[];
  readonly replaced: readonly Version[];
  /** The newest `modified`; undefined when no record has changed. */
  readonly last: Timestamp | undefined;
}

/** Compares the records with the feed, whose head is locked, and gives those that have changed their `modified`. */
async function versionsOf(
  tx: Sql,
  request: {
    organisationId: string;
    feed: FeedName;
    now: Timestamp;
    head: Timestamp | undefined;
    drafts: readonly Draft[];
    evenIfEqual: boolean;
  },
): Promise<Versions> {
  const { organisationId, feed, drafts } = request;
  const compared = drafts.filter(({ record }) => record.isNew !== true);
  const rows =
    compared.length > 0
      ? await tx.query<{ id: string; visible: boolean; content_hash: Buffer }>(
          `select id, visible, content_hash from service.feed_records
           where organisation_id = $1 and feed = $2 and id = any($3::text[])`,
          [organisationId, feed, compared.map(({ id }) => id)],
        )
      : [];
  const stored = new Map(rows.map((row) => [row.id, row]));
  const isShown = ({ id, hash }: Draft) => {
    const row = stored.get(id);
    return row?.visible === true && row.content_hash.equals(hash);
  };
  const changed = request.evenIfEqual ? drafts : drafts.filter((draft) => !isShown(draft));
  const first = laterOf(request.now, request.head && addMicros(request.head, 1)) ?? request.now;
  const versions = changed.map(({ record, id, json, hash }, index): Version => {
    const modified = addMicros(first, index);
    return { record, id, modified, hash, body: storedBody(json, modified) };
  });
  return {
    added: versions.filter(({ id }) => !stored.has(id)),
    replaced: versions.filter(({ id }) => stored.has(id)),
    last: versions.at(-1)?.modified,
  };
}

/** Writes the versions. The heads are locked: nobody else can add one of them meanwhile. */
async function append(
  tx: Sql,
  { organisationId, eventId }: Omit<Place, 'feed'>,
  { feed, added, replaced, last }: Versions & { readonly feed: FeedName },
): Promise<void> {
  if (last === undefined) return;
  const place = { organisationId, feed, eventId };
  await Promise.all([
    added.length > 0 ? add(tx, place, added) : undefined,
    replaced.length > 0 ? replace(tx, place, replaced) : undefined,
    tx.query(
      `update service.feed_heads set last_modified = $3, changes = changes + $4
       where organisation_id = $1 and feed = $2`,
      [organisationId, feed, last, added.length + replaced.length],
    ),
  ]);
}

/** A record as it is stored. */
interface Version {
  readonly record: FeedRecord<FeedName>;
  readonly id: string;
  readonly modified: Timestamp;
  readonly hash: Buffer;
  readonly body: string;
}

interface Place {
  readonly organisationId: string;
  readonly feed: FeedName;
  readonly eventId: string;
}

/** Tags as the filters compare them; null for none. */
function tagTexts({ tags }: FeedRecord<FeedName>): string[] | null {
  return tags && tags.length > 0 ? tags.map(tagText) : null;
}

function summaryText({ summary }: FeedRecord<FeedName>): string | null {
  return summary ? JSON.stringify(summary) : null;
}

/** Records that the feed never had. */
async function add(tx: Sql, { organisationId, feed, eventId }: Place, added: readonly Version[]): Promise<void> {
  const records = added.map(({ record }) => record);
  await tx.query(
    `insert into service.feed_records (organisation_id, feed, sourcing_event, visible, id, modified, content_hash, body,
       status, tags, requests, summary, is_test)
     select $1, $2, $3, true, id, modified, content_hash, body, status,
       (select array_agg(value) from jsonb_array_elements_text(tags) as value),
       (select array_agg(value::uuid) from jsonb_array_elements_text(requests) as value), summary, is_test
     from unnest($4::text[], $5::timestamptz[], $6::bytea[], $7::text[], $8::text[], $9::jsonb[], $10::jsonb[],
         $11::text[], $12::boolean[])
       as new (id, modified, content_hash, body, status, tags, requests, summary, is_test)`,
    [
      organisationId,
      feed,
      eventId,
      added.map(({ id }) => id),
      added.map(({ modified }) => modified),
      added.map(({ hash }) => hash),
      added.map(({ body }) => body),
      records.map(({ status }) => status ?? null),
      records.map(tagTexts).map((tags) => tags && JSON.stringify(tags)),
      records.map(({ requests }) => (requests.length > 0 ? JSON.stringify(requests) : null)),
      records.map(summaryText),
      records.map(({ isTest }) => isTest ?? null),
    ],
  );
}

/** Records that are stored already, shown or hidden. */
async function replace(tx: Sql, { organisationId, feed }: Place, replaced: readonly Version[]): Promise<void> {
  const records = replaced.map(({ record }) => record);
  await tx.query(
    `update service.feed_records as stored
     set modified = new.modified, status = new.status, visible = true, content_hash = new.content_hash, body = new.body,
       summary = new.summary, is_test = new.is_test,
       tags = (select array_agg(value) from jsonb_array_elements_text(new.tags) as value),
       requests = (select array_agg(value::uuid) from jsonb_array_elements_text(new.requests) as value)
     from unnest($3::text[], $4::timestamptz[], $5::bytea[], $6::text[], $7::text[], $8::jsonb[], $9::jsonb[], $10::text[],
         $11::boolean[])
       as new (id, modified, content_hash, body, status, tags, requests, summary, is_test)
     where stored.organisation_id = $1 and stored.feed = $2 and stored.id = any($3) and stored.id = new.id`,
    [
      organisationId,
      feed,
      replaced.map(({ id }) => id),
      replaced.map(({ modified }) => modified),
      replaced.map(({ hash }) => hash),
      replaced.map(({ body }) => body),
      records.map(({ status }) => status ?? null),
      records.map(tagTexts).map((tags) => tags && JSON.stringify(tags)),
      records.map(({ requests }) => (requests.length > 0 ? JSON.stringify(requests) : null)),
      records.map(summaryText),
      records.map(({ isTest }) => isTest ?? null),
    ],
  );
}
