/**
 * The mirror: the newest version of every record, with the versions before it. Storing a page also marks the documents
 * that its changed records belong to, in the same transaction: a record is never here without its documents being due.
 */
import { createHash } from 'node:crypto';
import { z } from 'zod';
import type { FeedName } from '#contract/feed.ts';
import { timestamp } from '#contract/scalars.ts';
import type { Timestamp } from '#contract/timestamp.ts';
import type { Sql } from '#platform/database/database.ts';
import { AppError } from '#platform/errors.ts';
import { parseInput } from '#platform/input.ts';
import { type DocumentKey, documentKeysOf } from '../documents/document-keys.ts';
import { markDocuments } from '../push/mark-documents.ts';

/** What every record must have to be kept at all; the rest is read when its documents are made. */
const keyed = z.looseObject({
  id: z.union([z.string().min(1), z.int()]).transform(String),
  modified: timestamp,
  sourcing_event: z.string().optional(),
});

interface Version {
  recordId: string;
  modified: Timestamp;
  hash: Buffer;
  sourcingEvent: string | null;
  body: string;
  record: Record<string, unknown>;
}

/**
 * Stores a page in the caller's transaction and gives the newest `modified` in it. A version that is already held
 * changes nothing; an older one than the one held is not taken.
 */
export async function storeRecords(
  tx: Sql,
  page: { source: string; feed: FeedName; records: readonly Record<string, unknown>[]; now: Timestamp },
): Promise<{ newest: Timestamp | undefined; changed: number }> {
  const { source, feed, now } = page;
  const versions = newestVersions(page.records.map((record, index) => versionOf(record, feed, index)));
  if (versions.length === 0) return { newest: undefined, changed: 0 };
  const held = new Map(
    (
      await tx.query<{ record_id: string; modified: Timestamp; content_hash: Buffer; body: string }>(
        `select record_id, modified, content_hash, body from bridge.mirror
         where source = $1 and feed = $2 and record_id = any($3) for update`,
        [source, feed, versions.map(({ recordId }) => recordId)],
      )
    ).map((row) => [row.record_id, row]),
  );
  const changed = versions.filter(({ recordId, modified, hash }) => {
    const known = held.get(recordId);
    return !known || (modified >= known.modified && !known.content_hash.equals(hash));
  });
  if (changed.length > 0) {
    await keepHistory(tx, source, feed, changed, now);
    await upsert(tx, source, feed, changed, now);
    const keys = changed.flatMap(({ recordId, record }) => {
      const before = held.get(recordId);
      return documentKeysOf(feed, record, before ? (JSON.parse(before.body) as Record<string, unknown>) : undefined);
    });
    await markDocuments(tx, source, distinct(keys), now);
    if (feed === 'sourcing-events') await markDocuments(tx, source, await keysOfEvents(tx, source, changed), now);
  }
  const newest = versions.reduce<Timestamp | undefined>(
    (latest, { modified }) => (latest === undefined || modified > latest ? modified : latest),
    undefined,
  );
  return { newest, changed: changed.length };
}

function versionOf(record: Record<string, unknown>, feed: FeedName, index: number): Version {
  try {
    const { id, modified, sourcing_event: sourcingEvent } = parseInput(keyed, record, `Record ${index} of the page`);
    const body = JSON.stringify(record);
    return {
      recordId: id,
      modified,
      hash: createHash('sha256').update(body).digest(),
      sourcingEvent: feed === 'sourcing-events' ? id : (sourcingEvent ?? null),
      body,
      record,
    };
  } catch (error) {
    // Without id and time it can neither be kept nor be passed over: the feed waits for a person.
    throw error instanceof AppError
      ? new AppError('invalid', error.publicMessage, { cause: error, recovery: { do: 'halt' } })
      : error;
  }
}

/** A record that stands twice in a page counts with its newest version, the later of equals. */
function newestVersions(versions: readonly Version[]): Version[] {
  const newest = new Map<string, Version>();
  for (const version of versions) {
    const known = newest.get(version.recordId);
    if (!known || version.modified >= known.modified) newest.set(version.recordId, version);
  }
  return [...newest.values()];
}

function distinct(keys: readonly DocumentKey[]): DocumentKey[] {
  return [...new Map(keys.map((key) => [`${key.kind} ${key.key}`, key])).values()];
}

/** What is already made of an event's other records, and shows something of the event itself. */
async function keysOfEvents(tx: Sql, source: string, events: readonly Version[]): Promise<DocumentKey[]> {
  return tx.query<DocumentKey>(
    `select distinct d.kind, d.key, d.sourcing_event as "sourcingEvent" from bridge.flow_documents d
     join bridge.flows f on f.name = d.flow
     where f.source = $1 and d.sourcing_event = any($2)`,
    [source, events.map(({ recordId }) => recordId)],
  );
}

async function keepHistory(tx: Sql, source: string, feed: FeedName, changed: readonly Version[], now: Timestamp) {
  await tx.query(
    `insert into bridge.mirror_history (source, feed, record_id, modified, content_hash, body, seen, replaced)
     select source, feed, record_id, modified, content_hash, body, seen, $4 from bridge.mirror
     where source = $1 and feed = $2 and record_id = any($3) on conflict do nothing`,
    [source, feed, changed.map(({ recordId }) => recordId), now],
  );
}

async function upsert(tx: Sql, source: string, feed: FeedName, changed: readonly Version[], now: Timestamp) {
  await tx.query(
    `insert into bridge.mirror (source, feed, seen, record_id, modified, content_hash, sourcing_event, body)
     select $1, $2, $3, * from unnest($4::text[], $5::timestamptz[], $6::bytea[], $7::text[], $8::text[])
     on conflict (source, feed, record_id) do update
       set modified = excluded.modified, content_hash = excluded.content_hash,
           sourcing_event = excluded.sourcing_event, body = excluded.body, seen = excluded.seen`,
    [
      source,
      feed,
      now,
      changed.map(({ recordId }) => recordId),
      changed.map(({ modified }) => modified),
      changed.map(({ hash }) => hash),
      changed.map(({ sourcingEvent }) => sourcingEvent),
      changed.map(({ body }) => body),
    ],
  );
}
