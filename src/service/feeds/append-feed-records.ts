/**
 * Appending to feeds: the one place that gives `modified`. It takes the lock of the organisation's feed heads, so that
 * the order of `modified` is the order of commits; appends the records whose content differs from what the feed shows;
 * and writes the notifications, all in the caller's transaction.
 */
import { createHash } from 'node:crypto';
import type { FeedName } from '#contract/feed.ts';
import { addMicros, laterOf, type Timestamp } from '#contract/timestamp.ts';
import { feedTriggers } from '#contract/webhook.ts';
import type { FeedRecord } from '../domain/feed-records.ts';
import type { UnitOfWork } from '../unit-of-work.ts';
import { enqueueNotifications } from '../webhooks/enqueue-notifications.ts';
import { storedBody } from './stored-body.ts';

export interface FeedChange {
  feed: FeedName;
  records: readonly FeedRecord[];
}

/** Appends what changed, and fires each feed's trigger even where nothing did: the contract's table is the law. */
export async function appendFeedRecords(
  unit: UnitOfWork,
  request: {
    event: { id: string; organisationId: string; name: string };
    now: Timestamp;
    changes: readonly FeedChange[];
  },
): Promise<void> {
  const { now, event, changes } = request;
  const { organisationId } = event;
  const heads = await lockHeads(
    unit,
    organisationId,
    changes.map(({ feed }) => feed),
  );
  for (const { feed, records } of changes) {
    const head = heads.get(feed);
    const last = await append(unit, { organisationId, feed, eventId: event.id, now, head, records });
    await enqueueNotifications(unit, {
      organisationId,
      trigger: feedTriggers[feed],
      coalesces: true,
      now,
      payload: { sourcing_event: event.id, sourcing_event_name: event.name, feed_modified: last ?? head },
    });
  }
}

/** Locks the heads in one order, so that two commands never wait for each other. */
async function lockHeads(
  unit: UnitOfWork,
  organisationId: string,
  feeds: readonly string[],
): Promise<Map<string, Timestamp | undefined>> {
  const rows = await unit.tx.query<{ feed: string; last_modified: Timestamp | null }>(
    `select feed, last_modified from service.feed_heads
     where organisation_id = $1 and feed = any($2) order by feed for update`,
    [organisationId, feeds],
  );
  return new Map(rows.map((row) => [row.feed, row.last_modified ?? undefined]));
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
    records: readonly FeedRecord[];
  },
): Promise<Timestamp | undefined> {
  const { organisationId, feed, eventId, records } = request;
  const drafts = records.map(({ id, status, content }) => {
    const json = JSON.stringify(content);
    return { id, status, json, hash: createHash('sha256').update(json).digest() };
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
       (organisation_id, feed, id, modified, sourcing_event, status, visible, content_hash, body)
     select $1, $2, id, modified, $3, status, true, content_hash, body
     from unnest($4::text[], $5::text[], $6::timestamptz[], $7::bytea[], $8::text[])
       as record (id, status, modified, content_hash, body)
     on conflict (organisation_id, feed, id) do update
       set modified = excluded.modified, status = excluded.status, visible = true,
           content_hash = excluded.content_hash, body = excluded.body`,
    [
      organisationId,
      feed,
      eventId,
      changed.map(({ id }) => id),
      changed.map(({ status }) => status ?? null),
      stamps,
      changed.map(({ hash }) => hash),
      changed.map(({ json }, index) => storedBody(json, stamps[index] ?? first)),
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
