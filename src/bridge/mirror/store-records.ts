/**
 * The mirror: the newest version of every record, and the versions before it. Storing a page marks the documents of its
 * changed records as due in the same transaction, so a record is never in the mirror without its documents being due.
 */
import { type FeedName, feeds } from '#contract/feed.ts';
import type { Timestamp } from '#contract/timestamp.ts';
import { inOrder, type Sql } from '#platform/database/sql.ts';
import { documentKeysOf, namesAny } from '../documents/document-keys.ts';
import { markDocuments, markDocumentsOfEvents, readWantedKinds } from '../due/mark-documents.ts';
import { lockSources } from '../due/source-lock.ts';
import { noteSubjects, subjectsOfEvent } from '../history/subjects.ts';
import { faultOfRecord } from './documented-form.ts';
import { type PreparedVersions, prepareVersions, type Version, withoutTime } from './read-version.ts';

/** A version that a page showed, although the mirror holds a newer one. */
export interface OlderVersion {
  readonly recordId: string;
  readonly modified: Timestamp;
  readonly hash: Buffer;
  /** JSON; `storeRecords` stores it with `believeOlder`, once the version is believed. */
  readonly body: string;
}

export interface StoredPage {
  /** The stamp (`modified`) of each record, in the page's order; `withoutTime` of a record that has none. */
  readonly stamps: readonly Timestamp[];
  readonly changed: number;
  /** How many of the changed records have no time. */
  readonly changedWithoutTime: number;
  /** What is wrong with the changed records that are not as documented; they are stored all the same. */
  readonly unreadable: readonly string[];
  /** Versions that were not stored because the mirror holds newer ones. */
  readonly older: readonly OlderVersion[];
}

/** A page of a feed: its records as they came, or as `prepareVersions` prepares them. */
export type RecordsToStore = {
  readonly source: string;
  readonly feed: FeedName;
  readonly now: Timestamp;
  /** The pull that reads it: the documents that it marks as due keep its id. */
  readonly pull?: string | undefined;
} & ({ readonly records: readonly Record<string, unknown>[] } | { readonly prepared: PreparedVersions });

export interface StoreOptions {
  /** Older versions replace newer ones: the source has shown them for the lateness bound. */
  readonly believeOlder?: boolean;
  /** Called once while the database does its longest work, so what is computed there costs no time. Must not throw. */
  readonly whileWriting?: () => void;
}

/**
 * Stores a page in the caller's transaction. A version that the mirror holds already changes nothing. An older version
 * is not stored but returned, unless `believeOlder` is set. Of two versions with the same stamp and different contents,
 * the one that was read last counts. A record that was missing or gone is restored when its version is shown again.
 * Throws AppError `invalid` when a record has no id, or a time that cannot be read: such a record can neither be stored
 * nor skipped, so the feed waits until an operator acts.
 */
export async function storeRecords(tx: Sql, page: RecordsToStore, options: StoreOptions = {}): Promise<StoredPage> {
  const { written, ...stored } = await sendRecords(tx, page, options);
  await written;
  return stored;
}

/**
 * The same, but returns when all statements are sent: those that the caller sends next do not wait for this process.
 * `written` settles when the database has executed them; the caller must await it.
 */
export async function sendRecords(
  tx: Sql,
  page: RecordsToStore,
  options: StoreOptions = {},
): Promise<StoredPage & { readonly written: Promise<void> }> {
  const { source, feed, now, pull } = page;
  const { ids, versions: preparing } = 'prepared' in page ? page.prepared : prepareVersions(page.records, feed);
  if (ids.length === 0) {
    const nothing = { changed: 0, changedWithoutTime: 0, unreadable: [], older: [] };
    return { stamps: [], ...nothing, written: Promise.resolve() };
  }
  const isOfEvents = feeds[feed].event === 'id';
  // The versions are made while the database looks for what it holds of them.
  const [, held, kinds, shown] = await Promise.all([
    lockSources(tx, [source]),
    readHeld(tx, source, feed, ids),
    readWantedKinds(tx, source),
    preparing,
  ]);
  const stamps = shown.map(({ modified }) => modified);
  const { changed, restored, older } = compare(newestVersions(shown), held, options.believeOlder ?? false);
  if (restored.length > 0) await restore(tx, source, feed, restored);
  const replaced = changed.filter(({ recordId }) => held.has(recordId));
  const keeping = keepHistory(tx, source, feed, replaced, now);
  const added = changed.filter(({ recordId }) => !held.has(recordId));
  const writing = write(tx, { source, feed, now }, { replaced, added });
  // Thrown where they are awaited; until then a rejection must not count as unhandled.
  for (const sent of [keeping, writing]) sent.catch(() => undefined);
  options.whileWriting?.();
  const before = await keeping;
  const touched = [...changed, ...restored.filter(({ recordId }) => held.get(recordId)?.gone)];
  const namers = namesAny(feed, kinds) ? touched : [];
  const keys = namers.flatMap(({ recordId, record }) => {
    const version = before.get(recordId);
    return documentKeysOf(feed, record, ...(version === undefined ? [] : [version]));
  });
  const unreadable = changed.flatMap(({ recordId, record }) => {
    const fault = faultOfRecord(feed, record);
    return fault === undefined ? [] : [`${recordId}: ${fault}`];
  });
  const events = isOfEvents ? touched : [];
  // One behind the other, so that the database does not wait for this process between them.
  const written = inOrder([
    writing,
    markDocuments(tx, { source, pull, kinds }, keys, now),
    noteSubjects(
      tx,
      source,
      events.flatMap(({ record }) => subjectsOfEvent(record)),
    ),
    markDocumentsOfEvents(
      tx,
      { source, pull },
      events.map(({ recordId }) => recordId),
      now,
    ),
  ]);
  const changedWithoutTime = touched.filter(({ modified }) => modified === withoutTime).length;
  return { stamps, changed: touched.length, changedWithoutTime, unreadable, older, written };
}

interface Comparison {
  /** New records, and versions that replace the one in the mirror. */
  readonly changed: Version[];
  /** The version in the mirror, of a record that was missing or gone. */
  readonly restored: Version[];
  readonly older: Version[];
}

function compare(versions: readonly Version[], held: ReadonlyMap<string, Held>, believeOlder: boolean): Comparison {
  const compared: Comparison = { changed: [], restored: [], older: [] };
  for (const version of versions) {
    const known = held.get(version.recordId);
    if (!known) compared.changed.push(version);
    else if (known.content_hash.equals(version.hash)) {
      if (known.missed) compared.restored.push(version);
    } else if (believeOlder || version.modified >= known.modified) compared.changed.push(version);
    else compared.older.push(version);
  }
  return compared;
}

/** Of a record that a page shows twice, the newest version counts; of two with the same stamp, the later one. */
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

/** What the mirror holds of these records. The source's lock keeps them so until the end of the transaction. */
async function readHeld(tx: Sql, source: string, feed: FeedName, ids: readonly string[]): Promise<Map<string, Held>> {
  const rows = await tx.query<Held>(
    `select record_id, modified, content_hash, missing_since is not null or gone is not null as missed,
       gone is not null as gone
     from bridge.mirror where source = $1 and feed = $2 and record_id = any($3::text[])`,
    [source, feed, ids],
  );
  return new Map(rows.map((row) => [row.record_id, row]));
}

function idsOf(versions: readonly Version[]): string[] {
  return versions.map(({ recordId }) => recordId);
}

async function restore(tx: Sql, source: string, feed: FeedName, versions: readonly Version[]): Promise<void> {
  await tx.query(
    `update bridge.mirror set missing_since = null, gone = null
     where source = $1 and feed = $2 and record_id = any($3::text[])`,
    [source, feed, idsOf(versions)],
  );
}

/** Copies the versions that are about to be replaced into the history; returns their bodies by record. */
async function keepHistory(
  tx: Sql,
  source: string,
  feed: FeedName,
  replaced: readonly Version[],
  now: Timestamp,
): Promise<Map<string, object>> {
  if (replaced.length === 0) return new Map();
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

/** Under the source's lock no other process can add one of `added`, or change one of `replaced`, meanwhile. */
async function write(
  tx: Sql,
  { source, feed, now }: { source: string; feed: FeedName; now: Timestamp },
  { replaced, added }: { replaced: readonly Version[]; added: readonly Version[] },
): Promise<void> {
  if (replaced.length > 0) await replace(tx, source, feed, replaced, now);
  if (added.length === 0) return;
  await tx.query(
    `insert into bridge.mirror (source, feed, seen, record_id, modified, content_hash, sourcing_event, supplier, body)
     select $1, $2, $3, * from unnest($4::text[], $5::timestamptz[], $6::bytea[], $7::text[], $8::text[], $9::text[])`,
    [
      source,
      feed,
      now,
      idsOf(added),
      added.map(({ modified }) => modified),
      added.map(({ hash }) => hash),
      added.map(({ sourcingEvent }) => sourcingEvent),
      added.map(({ supplier }) => supplier),
      added.map(({ body }) => body),
    ],
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
      replaced.map(({ hash }) => hash),
      replaced.map(({ sourcingEvent }) => sourcingEvent),
      replaced.map(({ supplier }) => supplier),
      replaced.map(({ body }) => body),
    ],
  );
}
