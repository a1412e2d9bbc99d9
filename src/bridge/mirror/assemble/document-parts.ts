/**
 * Reads the parts that documents are made of. The number of statements does not grow with the number of documents. The
 * records of an event are read in pages, and only those that the documents need are kept.
 */
import type { Arrival, AwardsHeld } from '#bridge/documents/awards-complete.ts';
import { feedDocuments, idOf, pairKey, readPairKey } from '#bridge/documents/document-keys.ts';
import type { EventSources } from '#bridge/documents/event-parts.ts';
import type { FileReference } from '#bridge/documents/file-document.ts';
import type { HeldJob } from '#bridge/documents/job-document.ts';
import type { MirroredRecord } from '#bridge/documents/shown-records.ts';
import type { SupplierSources } from '#bridge/documents/supplier-document.ts';
import type { DocumentKind } from '#connector/documents.ts';
import { type FeedName, feedNames, feeds } from '#contract/feed.ts';
import type { Timestamp } from '#contract/timestamp.ts';
import type { Sql } from '#platform/database/sql.ts';
import { loadAwardsOfEvents, stampOf } from './awards-of-events.ts';
import { loadJobs } from './jobs.ts';
import { loadRequisitions, type MadeOfRequisitions } from './lots-of-events.ts';

export interface KindAndKey {
  readonly kind: DocumentKind;
  readonly key: string;
}

/** The feed of each kind of document that is about one supplier in one event (a pair). */
export const pairFeeds: ReadonlyMap<DocumentKind, FeedName> = new Map(
  feedNames.flatMap((feed) => {
    const { pair } = feedDocuments[feed];
    return pair === null ? [] : [[pair.kind, feed] as const];
  }),
);

/** An event, and when its record came; without `arrival` no record has been read. */
export type HeldEvent = EventSources & { readonly arrival?: Arrival };

export interface Parts {
  readonly events: ReadonlyMap<string, HeldEvent>;
  /** All awards of an event, by the event's id: only those of the documents of whole events. */
  readonly awardsOfEvents: ReadonlyMap<string, AwardsHeld>;
  /** Suppliers as pages of the feeds included them, by id. */
  readonly suppliers: ReadonlyMap<string, unknown>;
  readonly questions: ReadonlyMap<string, unknown>;
  /** The records of the documents about a pair, by `<kind> <key>`. */
  readonly records: ReadonlyMap<string, readonly MirroredRecord[]>;
  /** By the key of the `supplier` document. */
  readonly supplierSources: ReadonlyMap<string, SupplierSources>;
  /** What lots were made of, by the ids of events and requests that intakes have made. */
  readonly requisitions: ReadonlyMap<string, MadeOfRequisitions>;
  /** By the key of the `file` document. */
  readonly fileReferences: ReadonlyMap<string, readonly FileReference[]>;
  /** By the key of the `job` document. */
  readonly jobs: ReadonlyMap<string, HeldJob>;
}

/** Which references of each file are read, as a half-open range: any number of records may reference a file. */
export interface ReferenceWindow {
  readonly from: number;
  readonly to: number;
}

/** Reads the parts of these documents. `referencesTable` has the records that reference a supplier or a file. */
export async function loadParts(
  sql: Sql,
  source: string,
  keys: readonly KindAndKey[],
  { window, referencesTable }: { window: ReferenceWindow; referencesTable: string },
): Promise<Parts> {
  const keysOf = (kind: DocumentKind) => keys.flatMap((entry) => (entry.kind === kind ? [entry.key] : []));
  const pairs = keys.flatMap(({ kind, key }) => {
    const feed = pairFeeds.get(kind);
    return feed === undefined ? [] : [{ kind, key, feed, ...readPairKey(key) }];
  });
  const fileReferences = await loadFileReferences(sql, source, keysOf('file'), referencesTable, window);
  const references = [...fileReferences.values()].flat();
  const referencing = references.map(({ record }) => record as Fields);
  const wholeEvents = keysOf('event-awards');
  // Before the records of events, which must not be older than what is known of the feed.
  const awardsOfEvents = await loadAwardsOfEvents(sql, source, wholeEvents);
  const allAwards = [...awardsOfEvents.values()].flatMap(({ awards }) => awards.map(({ record }) => record as Fields));
  const eventIds = [
    ...keysOf('sourcing-event'),
    ...wholeEvents,
    ...pairs.map(({ event }) => event),
    ...references.map(({ event }) => event),
  ];
  const supplierIds = [
    ...pairs.map(({ supplier }) => supplier),
    ...idsIn(referencing, 'supplier'),
    ...allAwards.flatMap(suppliersInAward),
  ];
  // At once, so that the database does not wait for this process between them.
  const awardedEvents = [...pairs.flatMap(({ kind, event }) => (kind === 'award' ? [event] : [])), ...wholeEvents];
  const [records, ofEvents, events, suppliers, supplierSources, jobs] = await Promise.all([
    loadRecords(sql, source, pairs),
    loadRequisitions(sql, source, awardedEvents),
    loadEvents(sql, source, eventIds),
    loadResources(sql, source, 'supplier', supplierIds),
    loadSupplierSources(sql, source, keysOf('supplier'), referencesTable),
    loadJobs(sql, source, keysOf('job')),
  ]);
  const answers = [...records].flatMap(([id, list]) => (id.startsWith('rfi-answers ') ? list : []));
  const awards = [...records].flatMap(([id, list]) => (id.startsWith('award ') ? list : []));
  const requests = idsIn([...awards.map(({ record }) => record as Fields), ...allAwards], 'sourcing_request');
  const questionIds = [
    ...idsIn(referencing, 'id'),
    ...idsIn(referencing, 'question_uuid'),
    ...idsIn(
      answers.map(({ record }) => record as Fields),
      'question_uuid',
    ),
  ];
  const [ofRequests, questions] = await Promise.all([
    loadRequisitions(sql, source, requests),
    loadResources(sql, source, 'question', questionIds),
  ]);
  const requisitions = new Map([...ofEvents, ...ofRequests]);
  return { awardsOfEvents, fileReferences, jobs, records, requisitions, events, suppliers, questions, supplierSources };
}

type Fields = Readonly<Record<string, unknown>>;

function suppliersInAward(award: Fields): string[] {
  return (feedDocuments.awards.pair?.bySupplier(award) ?? []).map(({ supplier }) => supplier);
}

function idsIn(records: readonly Fields[], member: string): string[] {
  return records.flatMap((record) => idOf(record[member]) ?? []);
}

async function loadEvents(sql: Sql, source: string, ids: readonly string[]): Promise<Map<string, HeldEvent>> {
  if (ids.length === 0) return new Map();
  const rows = await sql.query<{ id: string; body: string; gone: boolean } & (RecordTimes | IncludedTimes)>(
    `select record_id as id, body, gone is not null as gone, modified, seen from bridge.mirror
     where source = $1 and feed = 'sourcing-events' and record_id = any($2)
     union all
     select id, body, false, null, null from bridge.resources
     where source = $1 and kind = 'sourcing-event' and id = any($2)`,
    [source, [...new Set(ids)]],
  );
  const events = new Map<string, HeldEvent>();
  for (const { id, body, gone, modified, seen } of rows) {
    const object = JSON.parse(body) as unknown;
    const read =
      seen === null ? { included: object } : { record: object, gone, arrival: { modified: stampOf(modified), seen } };
    events.set(id, { ...events.get(id), ...read });
  }
  return events;
}

interface RecordTimes {
  readonly modified: Timestamp;
  readonly seen: Timestamp;
}

/** An event that a page included has neither. */
interface IncludedTimes {
  readonly modified: null;
  readonly seen: null;
}

async function loadResources(
  sql: Sql,
  source: string,
  kind: string,
  ids: readonly string[],
): Promise<Map<string, unknown>> {
  if (ids.length === 0) return new Map();
  const rows = await sql.query<{ id: string; body: string }>(
    'select id, body from bridge.resources where source = $1 and kind = $2 and id = any($3)',
    [source, kind, [...new Set(ids)]],
  );
  return new Map(rows.map(({ id, body }) => [id, JSON.parse(body) as unknown]));
}

const pageSize = 1_000;

interface Pair {
  readonly kind: DocumentKind;
  readonly key: string;
  readonly feed: FeedName;
  readonly event: string;
  readonly supplier: string;
}

/**
 * Reads the records of these pairs, in pages. The supplier column of a row is empty when its record names several
 * suppliers, or when the row is older than the column: then the suppliers are read from the record itself.
 */
async function loadRecords(sql: Sql, source: string, pairs: readonly Pair[]): Promise<Map<string, MirroredRecord[]>> {
  const records = new Map(pairs.map(({ kind, key }) => [`${kind} ${key}`, [] as MirroredRecord[]]));
  const kinds = new Map(pairs.map(({ kind, feed }) => [feed, kind]));
  const places = placesOf(pairs);
  let after = { feed: '', record_id: '' };
  while (places.length > 0) {
    const rows = await sql.query<{ feed: FeedName; record_id: string; body: string; gone: boolean }>(
      `select m.feed, m.record_id, m.body, m.gone is not null as gone
       from unnest($2::text[], $3::text[], $4::text[]) as k (feed, sourcing_event, supplier)
       join bridge.mirror m on m.source = $1 and m.feed = k.feed and m.sourcing_event = k.sourcing_event
         and m.supplier = k.supplier
       where (m.feed, m.record_id) > ($5, $6)
       order by m.feed, m.record_id limit ${pageSize}`,
      [
        source,
        places.map(({ feed }) => feed),
        places.map(({ event }) => event),
        places.map(({ supplier }) => supplier),
        after.feed,
        after.record_id,
      ],
    );
    for (const { feed, body, gone } of rows)
      for (const { key, record } of recordsByKey(feed, JSON.parse(body) as Fields, pairs))
        records.get(`${kinds.get(feed)} ${key}`)?.push({ record, gone });
    const last = rows.at(-1);
    if (!last || rows.length < pageSize) break;
    after = last;
  }
  return records;
}

/** Returns the places in the mirror's index where the rows of these pairs can be, each place once. */
export function placesOf(
  pairs: readonly Pick<Pair, 'feed' | 'event' | 'supplier'>[],
): { feed: FeedName; event: string; supplier: string }[] {
  const places = pairs.flatMap(({ feed, event, supplier }) => [
    ...(feeds[feed].supplier === null ? [] : [{ feed, event, supplier }]),
    { feed, event, supplier: '' },
  ]);
  return [...new Map(places.map((place) => [JSON.stringify(Object.values(place)), place])).values()];
}

function recordsByKey(
  feed: FeedName,
  record: Fields,
  pairs: readonly Pair[],
): readonly { key: string; record: unknown }[] {
  const event = idOf(record[feeds[feed].event]);
  if (event === undefined) return [];
  const parts = feedDocuments[feed].pair?.bySupplier(record);
  // It is unknown whose record it is. All these documents get it and are rejected, so that nothing is withdrawn.
  if (parts === undefined)
    return pairs.flatMap((pair) => (pair.feed === feed && pair.event === event ? [{ key: pair.key, record }] : []));
  return parts.map(({ supplier, record: own }) => ({ key: pairKey(event, supplier), record: own }));
}

/**
 * Reads what is known of these suppliers: from the supplier list and from what pages included. The newest event that
 * names a supplier is only read when the supplier is in neither.
 */
async function loadSupplierSources(
  sql: Sql,
  source: string,
  keys: readonly string[],
  referencesTable: string,
): Promise<Map<string, SupplierSources>> {
  if (keys.length === 0) return new Map();
  const masters = await loadResources(sql, source, 'supplier-master', keys);
  const rows = await sql.query<{ key: string; body: string }>(
    `select t.key, r.body from ${referencesTable} t
     join bridge.resources r on r.source = t.source and r.kind = t.part and r.id = t.record_id
     where t.source = $1 and t.kind = 'supplier' and t.key = any($2) and t.part = 'supplier' and t.current
     order by t.key, t.record_id`,
    [source, keys],
  );
  const included = Map.groupBy(rows, ({ key }) => key);
  const others = keys.filter((key) => !masters.has(key) && !included.has(key));
  const events = new Map(
    (others.length === 0
      ? []
      : await sql.query<{ key: string; body: string }>(
          `select k.key, e.body from unnest($2::text[]) as k (key)
           cross join lateral (
             select m.body from ${referencesTable} t
             join bridge.mirror m on m.source = t.source and m.feed = t.part and m.record_id = t.record_id
             where t.source = $1 and t.kind = 'supplier' and t.key = k.key and t.part = 'sourcing-events' and t.current
               and m.gone is null
             order by m.modified desc, m.record_id limit 1
           ) as e`,
          [source, others],
        )
    ).map(({ key, body }) => [key, JSON.parse(body) as unknown]),
  );
  return new Map(
    keys.map((key) => [
      key,
      {
        master: masters.get(key),
        included: (included.get(key) ?? []).map(({ body }) => JSON.parse(body) as unknown),
        event: events.get(key),
      },
    ]),
  );
}

/** Reads the records that reference these files; records that reference a file now come before those that once did. */
async function loadFileReferences(
  sql: Sql,
  source: string,
  keys: readonly string[],
  referencesTable: string,
  { from, to }: ReferenceWindow,
): Promise<Map<string, FileReference[]>> {
  if (keys.length === 0) return new Map();
  const rows = await sql.query<{
    key: string;
    part: FileReference['part'];
    event: string;
    body: string;
    gone: boolean;
  }>(
    `select k.key, t.part, t.sourcing_event as event, coalesce(m.body, r.body) as body, m.gone is not null as gone
     from unnest($2::text[]) as k (key)
     cross join lateral (
       select * from ${referencesTable} t where t.source = $1 and t.kind = 'file' and t.key = k.key
       order by t.current desc, t.sourcing_event collate "C", t.part, t.record_id collate "C"
       offset $3 limit $4
     ) as t
     left join bridge.mirror m on m.source = t.source and m.feed = t.part and m.record_id = t.record_id
     left join bridge.resources r on r.source = t.source and r.kind = t.part and r.id = t.record_id
     where m.body is not null or r.body is not null`,
    [source, keys, from, to - from],
  );
  const found = new Map<string, FileReference[]>();
  for (const { key, part, event, body, gone } of rows) {
    const reference = { part, event, record: JSON.parse(body) as unknown, gone };
    const references = found.get(key);
    if (references) references.push(reference);
    else found.set(key, [reference]);
  }
  return found;
}
