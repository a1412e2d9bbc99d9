/**
 * The mirror: the newest version of every record, with the versions before it. Storing a page also marks the documents
 * that its changed records belong to, in the same transaction: a record is never here without its documents being due.
 */
import type { FeedName } from '#contract/feed.ts';
import type { Timestamp } from '#contract/timestamp.ts';
import { byteaArray, textArray } from '#platform/database/binary-array.ts';
import { copyRows } from '#platform/database/copy-in.ts';
import type { Sql } from '#platform/database/database.ts';
import { documentKeysOf } from '../documents/document-keys.ts';
import { markDocuments, markDocumentsOfEvents } from '../due/mark-documents.ts';
import { lockSources } from '../due/source-lock.ts';
import { faultOfRecord } from './documented-form.ts';
import { type Version, versionsOf } from './read-version.ts';

/** A version that a page showed although the mirror holds a newer one. */
export interface OlderVersion {
  readonly recordId: string;
  readonly modified: Timestamp;
  readonly hash: Buffer;
  /** JSON, as `storeRecords` takes it again when it is to be believed. */
  readonly body: string;
}

export interface StoredPage {
  /** The `modified` of each record, in the page's order; 1970 of one that has none. */
  readonly times: readonly Timestamp[];
  readonly changed: number;
  /** What is wrong with the changed records that do not read as the contract says; they are kept all the same. */
  readonly unreadable: readonly string[];
  /** Versions older than the one held, which were not stored. */
  readonly older: readonly OlderVersion[];
}

/** A page of a feed, as it came or as `versionsOf` has read it. */
export type RecordsToStore = {
  readonly source: string;
  readonly feed: FeedName;
  readonly now: Timestamp;
} & ({ readonly records: readonly Record<string, unknown>[] } | { readonly versions: readonly Version[] });

export interface StoreOptions {
  /** Versions older than those held replace them: they have been shown for long enough. */
  readonly believeOlder?: boolean;
  /** Called once when the database has got its longest work: what is computed in it costs no time. Must not throw. */
  readonly whileWriting?: () => void;
}

/**
 * Stores a page in the caller's transaction. A version that is already held changes nothing; an older one than the one
 * held is not taken but given back, unless `believeOlder` says that it counts. Of two with the same time and another
 * content the one read last counts. A record that was missed, or counted as gone, is back when its version is shown.
 * Throws AppError `invalid` when a record has no id or a time that cannot be read: it can neither be kept nor be passed
 * over, so the feed waits for a person.
 */
export async function storeRecords(tx: Sql, page: RecordsToStore, options: StoreOptions = {}): Promise<StoredPage> {
  const { source, feed, now } = page;
  const shown = 'versions' in page ? page.versions : versionsOf(page.records, feed);
  const times = shown.map(({ modified }) => modified);
  const versions = newestVersions(shown);
  if (versions.length === 0) return { times, changed: 0, unreadable: [], older: [] };
  await lockSources(tx, [source]);
  const held = await readHeld(tx, source, feed, versions);
  const { changed, back, older } = compare(versions, held, options.believeOlder ?? false);
  if (back.length > 0) await takeBack(tx, source, feed, back);
  const replaced = changed.filter(({ recordId }) => held.has(recordId));
  const before = replaced.length > 0 ? await keepHistory(tx, source, feed, replaced, now) : new Map<string, object>();
  const added = changed.filter(({ recordId }) => !held.has(recordId));
  const writing = write(tx, { source, feed, now }, { replaced, added });
  options.whileWriting?.();
  const touched = [...changed, ...back.filter(({ recordId }) => held.get(recordId)?.gone)];
  const keys = touched.flatMap(({ recordId, record }) => {
    const version = before.get(recordId);
    return documentKeysOf(feed, record, ...(version === undefined ? [] : [version]));
  });
  const unreadable = changed.flatMap(({ recordId, record }) => {
    const fault = faultOfRecord(feed, record);
    return fault === undefined ? [] : [`${recordId}: ${fault}`];
  });
  await writing;
  if (touched.length > 0) {
    await markDocuments(tx, { source }, keys, now);
    const events = touched.map(({ recordId }) => recordId);
    if (feed === 'sourcing-events') await markDocumentsOfEvents(tx, source, events, now);
  }
  return { times, changed: touched.length, unreadable, older };
}

interface Comparison {
  /** New, or to replace what is held. */
  readonly changed: Version[];
  /** As held, but not expected any more. */
  readonly back: Version[];
  readonly older: Version[];
}

function compare(versions: readonly Version[], held: ReadonlyMap<string, Held>, believeOlder: boolean): Comparison {
  const compared: Comparison = { changed: [], back: [], older: [] };
  for (const version of versions) {
    const known = held.get(version.recordId);
    if (!known) compared.changed.push(version);
    else if (known.content_hash.equals(version.hash)) {
      if (known.missed) compared.back.push(version);
    } else if (believeOlder || version.modified >= known.modified) compared.changed.push(version);
    else compared.older.push(version);
  }
  return compared;
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

interface Held {
  record_id: string;
  modified: Timestamp;
  content_hash: Buffer;
  missed: boolean;
  gone: boolean;
}

/** What is held of these records. The lock of the source keeps it so until the end of the transaction. */
async function readHeld(
  tx: Sql,
  source: string,
  feed: FeedName,
  versions: readonly Version[],
): Promise<Map<string, Held>> {
  const rows = await tx.query<Held>(
    `select record_id, modified, content_hash, missing_since is not null or gone is not null as missed,
       gone is not null as gone
     from bridge.mirror where source = $1 and feed = $2 and record_id = any($3::text[])`,
    [source, feed, idsOf(versions)],
  );
  return new Map(rows.map((row) => [row.record_id, row]));
}

function idsOf(versions: readonly Version[]): Buffer {
  return textArray(versions.map(({ recordId }) => recordId));
}

async function takeBack(tx: Sql, source: string, feed: FeedName, back: readonly Version[]): Promise<void> {
  await tx.query(
    `update bridge.mirror set missing_since = null, gone = null
     where source = $1 and feed = $2 and record_id = any($3::text[])`,
    [source, feed, idsOf(back)],
  );
}

/** Keeps the versions that are about to be replaced; gives them by record. */
async function keepHistory(
  tx: Sql,
  source: string,
  feed: FeedName,
  replaced: readonly Version[],
  now: Timestamp,
): Promise<Map<string, object>> {
  const rows = await tx.query<{ record_id: string; body: string }>(
    `with before as (
       select * from bridge.mirror where source = $1 and feed = $2 and record_id = any($3::text[])
     ), kept as (
       insert into bridge.mirror_history (source, feed, record_id, modified, content_hash, body, seen, replaced)
       select source, feed, record_id, modified, content_hash, body, seen, $4 from before on conflict do nothing
     )
     select record_id, body from before`,
    [source, feed, idsOf(replaced), now],
  );
  return new Map(rows.map(({ record_id, body }) => [record_id, JSON.parse(body) as object]));
}

/** The lock of the source keeps it so that those are held, and these are not. */
async function write(
  tx: Sql,
  { source, feed, now }: { source: string; feed: FeedName; now: Timestamp },
  { replaced, added }: { replaced: readonly Version[]; added: readonly Version[] },
): Promise<void> {
  if (replaced.length > 0) await replace(tx, source, feed, replaced, now);
  if (added.length === 0) return;
  await tx.copy(
    'bridge.mirror (source, feed, seen, record_id, modified, content_hash, sourcing_event, supplier, body)',
    copyRows(added.length, [
      { type: 'text', values: source },
      { type: 'text', values: feed },
      { type: 'timestamptz', values: now },
      { type: 'text', values: added.map(({ recordId }) => recordId) },
      { type: 'timestamptz', values: added.map(({ modified }) => modified) },
      { type: 'bytea', values: added.map(({ hash }) => hash) },
      { type: 'text', values: added.map(({ sourcingEvent }) => sourcingEvent) },
      { type: 'text', values: added.map(({ supplier }) => supplier) },
      { type: 'text', values: added.map(({ body }) => body) },
    ]),
  );
}

async function replace(tx: Sql, source: string, feed: FeedName, replaced: readonly Version[], now: Timestamp) {
  await tx.query(
    `update bridge.mirror m
     set modified = n.modified, content_hash = n.content_hash, sourcing_event = n.sourcing_event, supplier = n.supplier,
       body = n.body, seen = $3, missing_since = null, gone = null
     from unnest($4::text[], $5::timestamptz[], $6::bytea[], $7::text[], $8::text[], $9::text[])
       as n (record_id, modified, content_hash, sourcing_event, supplier, body)
     where m.source = $1 and m.feed = $2 and m.record_id = any($4::text[]) and m.record_id = n.record_id`,
    [
      source,
      feed,
      now,
      idsOf(replaced),
      replaced.map(({ modified }) => modified),
      byteaArray(replaced.map(({ hash }) => hash)),
      textArray(replaced.map(({ sourcingEvent }) => sourcingEvent)),
      textArray(replaced.map(({ supplier }) => supplier)),
      textArray(replaced.map(({ body }) => body)),
    ],
  );
}
