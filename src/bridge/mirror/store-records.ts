/**
 * The mirror: the newest version of every record, with the versions before it. Storing a page also marks the documents
 * that its changed records belong to, in the same transaction: a record is never here without its documents being due.
 */
import { createHash } from 'node:crypto';
import { z } from 'zod';
import { lotAward } from '#contract/award.ts';
import type { FeedName } from '#contract/feed.ts';
import { timestamp, uuid } from '#contract/scalars.ts';
import { sourcingEventEssentials } from '#contract/sourcing-event.ts';
import type { Timestamp } from '#contract/timestamp.ts';
import type { Sql } from '#platform/database/database.ts';
import { parseInput, pathText } from '#platform/input.ts';
import { documentKeysOf, recordId } from '../documents/document-keys.ts';
import { markDocuments, markDocumentsOfEvents } from '../push/mark-documents.ts';
import { lockSources } from '../source-lock.ts';

const isStorable = (text: string) => !text.includes('\0') && text.isWellFormed();

/** What every record must have to be kept at all; the rest is read when its documents are made. */
const keyed = z.looseObject({
  id: z.union([uuid, z.string().min(1), z.int().transform(String)]).refine(isStorable, 'cannot be stored as text'),
  modified: timestamp,
  sourcing_event: recordId.refine(isStorable).optional().catch(undefined),
});

/** The feeds that documents are made of. */
const documented: Partial<Record<FeedName, z.ZodType>> = {
  'sourcing-events': sourcingEventEssentials,
  awards: lotAward,
};

interface Version {
  recordId: string;
  modified: Timestamp;
  hash: Buffer;
  sourcingEvent: string | null;
  body: string;
  record: Record<string, unknown>;
}

export interface StoredPage {
  /** The `modified` of each record, in the page's order. */
  readonly times: readonly Timestamp[];
  readonly changed: number;
  /** What is wrong with the changed records that do not read as the contract says; they are kept all the same. */
  readonly unreadable: readonly string[];
}

/**
 * Stores a page in the caller's transaction. A version that is already held changes nothing; an older one than the one
 * held is not taken. Throws AppError `invalid` when a record has no id or time: it can neither be kept nor be passed
 * over, so the feed waits for a person.
 */
export async function storeRecords(
  tx: Sql,
  page: { source: string; feed: FeedName; records: readonly Record<string, unknown>[]; now: Timestamp },
): Promise<StoredPage> {
  const { source, feed, now } = page;
  const shown = page.records.map((record, index) => versionOf(record, feed, index));
  const times = shown.map(({ modified }) => modified);
  const versions = newestVersions(shown);
  if (versions.length === 0) return { times, changed: 0, unreadable: [] };
  await lockSources(tx, [source]);
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
      return documentKeysOf(feed, record, ...(before ? [JSON.parse(before.body) as unknown] : []));
    });
    await markDocuments(tx, { source }, keys, now);
    const events = changed.map(({ recordId }) => recordId);
    if (feed === 'sourcing-events') await markDocumentsOfEvents(tx, source, events, now);
  }
  return { times, changed: changed.length, unreadable: changed.flatMap((version) => faultOf(version, feed)) };
}

/** The id and the time of a record as it came; throws AppError `invalid` that says which record has none. */
export function readVersionKey(record: Record<string, unknown>, feed: string, index: number) {
  const named = typeof record['id'] === 'string' ? ` (${record['id'].slice(0, 100)})` : '';
  return parseInput(keyed, record, `Record ${index}${named} on a page of the ${feed} feed`);
}

function versionOf(record: Record<string, unknown>, feed: FeedName, index: number): Version {
  const read = readVersionKey(record, feed, index);
  const body = JSON.stringify(record);
  return {
    recordId: read.id,
    modified: read.modified,
    hash: createHash('sha256').update(body).digest(),
    sourcingEvent: feed === 'sourcing-events' ? read.id : (read.sourcing_event ?? null),
    body,
    record,
  };
}

function faultOf({ recordId, record }: Version, feed: FeedName): string[] {
  const [issue] = documented[feed]?.safeParse(record).error?.issues ?? [];
  return issue ? [`${recordId}: ${pathText(issue.path)} ${issue.message}`] : [];
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
