/**
 * The mirror: the newest version of every record, and the versions before it. Storing a page marks the documents of its
 * changed records as due in the same transaction, so a record is never in the mirror without its documents being due.
 */
import { documentKeysOf, namesAny } from '#bridge/documents/document-keys.ts';
import { type FeedName, feeds } from '#contract/feed.ts';
import type { Timestamp } from '#contract/timestamp.ts';
import type { Sql } from '#platform/database/sql.ts';
import { faultOfRecord } from './documented-form.ts';
import { markDocuments, markDocumentsOfEvents, readWantedKinds } from './due/mark-documents.ts';
import { lockSources } from './due/source-lock.ts';
import { type Version, versionsOf, withoutTime } from './read-version.ts';
import { noteSubjects, subjectsOfEvent } from './subjects.ts';

export interface StoredPage {
  /** The stamp (`modified`) of each record, in the page's order; `withoutTime` of a record that has none. */
  readonly stamps: readonly Timestamp[];
  readonly changed: number;
  /** How many of the changed records have no time. */
  readonly changedWithoutTime: number;
  /** What is wrong with the changed records that are not as documented; they are stored all the same. */
  readonly unreadable: readonly string[];
}

/** A page of a feed: its records as they came. */
export interface RecordsToStore {
  readonly source: string;
  readonly feed: FeedName;
  readonly records: readonly Record<string, unknown>[];
  readonly now: Timestamp;
  /**
   * What the mirror has held since before then, the answer would show or something newer, also where it came from a
   * replica that lags: the time of the request less the lateness bound. Undefined: nothing is known of that.
   */
  readonly shownSince?: Timestamp | undefined;
  /** The pull that reads it: the documents that it marks as due keep its id. */
  readonly pull?: string | undefined;
}

/**
 * Stores a page in the caller's transaction. A version that the mirror holds already changes nothing. An older one than
 * it holds comes from a replica that lags, and is left out; unless the newer one has been held since before `shownSince`:
 * then the source was set back, for example to a backup, and its word counts. Of two versions with the same stamp and
 * different contents, the one that was read last counts. A record that was missing or gone is restored when its version is
 * shown again. Throws AppError `invalid` when a record has no id, or a time that cannot be read: such a record can neither
 * be stored nor skipped, so the feed waits until an operator acts.
 */
export async function storeRecords(
  tx: Sql,
  { source, feed, records, now, shownSince, pull }: RecordsToStore,
): Promise<StoredPage> {
  const shown = versionsOf(records, feed);
  if (shown.length === 0) return { stamps: [], changed: 0, changedWithoutTime: 0, unreadable: [] };
  await lockSources(tx, [source]);
  const held = await readHeld(tx, source, feed, shown);
  const { changed, restored } = compare(newestVersions(shown), held, shownSince);
  if (restored.length > 0) await restore(tx, source, feed, restored);
  const replaced = changed.filter(({ recordId }) => held.has(recordId));
  const added = changed.filter(({ recordId }) => !held.has(recordId));
  const before = await keepHistory(tx, source, feed, replaced, now);
  if (replaced.length > 0) await replace(tx, { source, feed, now }, replaced);
  if (added.length > 0) await add(tx, { source, feed, now }, added);

  const touched = [...changed, ...restored.filter(({ recordId }) => held.get(recordId)?.gone)];
  const kinds = await readWantedKinds(tx, source);
  const namers = namesAny(feed, kinds) ? touched : [];
  const keys = namers.flatMap(({ recordId, record }) => {
    const version = before.get(recordId);
    return documentKeysOf(feed, record, ...(version === undefined ? [] : [version]));
  });
  await markDocuments(tx, { source, pull, kinds }, keys, now);
  if (feeds[feed].event === 'id') {
    const subjects = touched.flatMap(({ record }) => subjectsOfEvent(record));
    await noteSubjects(tx, source, subjects);
    await markDocumentsOfEvents(tx, { source, pull }, idsOf(touched), now);
  }
  return {
    stamps: shown.map(({ modified }) => modified),
    changed: touched.length,
    changedWithoutTime: touched.filter(({ modified }) => modified === withoutTime).length,
    unreadable: changed.flatMap(({ recordId, record }) => {
      const fault = faultOfRecord(feed, record);
      return fault === undefined ? [] : [`${recordId}: ${fault}`];
    }),
  };
}

interface Comparison {
  /** New records, and versions that replace the one in the mirror. */
  readonly changed: Version[];
  /** The version in the mirror, of a record that was missing or gone. */
  readonly restored: Version[];
}

function compare(
  versions: readonly Version[],
  held: ReadonlyMap<string, Held>,
  shownSince: Timestamp | undefined,
): Comparison {
  const compared: Comparison = { changed: [], restored: [] };
  for (const version of versions) {
    const known = held.get(version.recordId);
    if (!known) compared.changed.push(version);
    else if (known.content_hash.equals(version.hash)) {
      if (known.missed) compared.restored.push(version);
    } else {
      const isNewer = version.modified >= known.modified;
      // A version without a time lies in no order.
      const wasSetBack = shownSince !== undefined && known.seen < shownSince && version.modified !== withoutTime;
      if (isNewer || wasSetBack) compared.changed.push(version);
    }
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
  seen: Timestamp;
  missed: boolean;
  gone: boolean;
}

/** What the mirror holds of these records. The source's lock keeps them so until the end of the transaction. */
async function readHeld(
  tx: Sql,
  source: string,
  feed: FeedName,
  shown: readonly Version[],
): Promise<Map<string, Held>> {
  const rows = await tx.query<Held>(
    `select record_id, modified, content_hash, seen, missing_since is not null or gone is not null as missed,
       gone is not null as gone
     from bridge.mirror where source = $1 and feed = $2 and record_id = any($3::text[])`,
    [source, feed, idsOf(shown)],
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

interface Place {
  readonly source: string;
  readonly feed: FeedName;
  readonly now: Timestamp;
}

/** Under the source's lock no other process can add one of them meanwhile. */
async function add(tx: Sql, { source, feed, now }: Place, added: readonly Version[]): Promise<void> {
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

async function replace(tx: Sql, { source, feed, now }: Place, replaced: readonly Version[]): Promise<void> {
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
