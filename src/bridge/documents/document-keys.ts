/**
 * Which documents a record or a resource belongs to. Pure. The version before a change counts, too, as a supplier may
 * have lost its award. Ids are compared as the contract reads them: a UUID in lower case, however the source writes it.
 */
import { z } from 'zod';
import type { DocumentKind } from '#connector/documents.ts';
import { type FeedName, feedNames, feeds } from '#contract/feed.ts';
import type { JobType } from '#contract/job.ts';
import { uuid } from '#contract/scalars.ts';
import { isStorable } from '#platform/database/storable-text.ts';

/**
 * Objects that have no feed of their own: see `mirror/store-resources.ts`. `supplier-master` is an entry of the list of
 * suppliers, by its `external_id`, `job` a job that was read by its id; the others are included in pages of feeds.
 */
export type ResourceKind = 'supplier-master' | 'sourcing-event' | 'supplier' | 'question' | 'job';

/**
 * The record or resource that references a document that belongs to no single event: a supplier or a file; or a supplier
 * that a document about a whole event shows.
 */
export interface NamedBy {
  /** The feed of the record, or the kind of the resource. */
  readonly part: FeedName | ResourceKind;
  readonly id: string;
  /** False when only the version before the current one references the document. */
  readonly current: boolean;
}

export interface DocumentKey {
  readonly kind: DocumentKind;
  readonly key: string;
  /** Null for a supplier and a job, which belong to no event. */
  readonly sourcingEvent: string | null;
  /** The service's id of the supplier that the document shows; null when it shows none. */
  readonly supplier: string | null;
  /** Only for suppliers and files, and for the suppliers of a document about a whole event. */
  readonly namedBy?: NamedBy;
  /**
   * Only the reference is indexed, and no document is marked: the id of a supplier whose external id is the key, or a
   * supplier that the document shows.
   */
  readonly noteOnly?: boolean;
  /** Stands for all documents of the event, as the record does not say which it changes. No reference is indexed. */
  readonly wholeEvent?: boolean;
}

export const idLengthMax = 255;

/** The type of a job that only makes links to files, which work for a minute: no document is made of it. */
export const linksJob: JobType = 'GENERATE_FILE_DOWNLOAD_LINKS';

/** Ids that are no UUIDs are accepted: their documents become dead letters that say what is wrong with the record. */
export const recordId = z.union([uuid, z.string().min(1).max(idLengthMax)]);

/** What the bridge makes of the records of a feed. */
interface FeedDocuments {
  /**
   * The kind of document about an event and a supplier that is made of these records, and how a record is divided among
   * the suppliers that it concerns. `bySupplier` returns undefined when the record cannot be divided: then it may
   * concern every such document of its event. Null: no such documents are made of this feed.
   */
  readonly pair: {
    readonly kind: DocumentKind;
    readonly bySupplier: (record: Fields) => readonly SupplierPart[] | undefined;
  } | null;
  /**
   * Documents of other kinds that a record names. Files are not listed here: `feeds` has the member that names them.
   */
  readonly others: {
    readonly kinds: readonly DocumentKind[];
    readonly keysOf: (record: Fields, current: boolean) => DocumentKey[];
  } | null;
}

/** The part of a record that concerns one supplier. */
export interface SupplierPart {
  readonly supplier: string;
  readonly record: unknown;
}

type Fields = Readonly<Record<string, unknown>>;

/** Which documents the bridge makes of the records of each feed. */
export const feedDocuments: Readonly<Record<FeedName, FeedDocuments>> = {
  'sourcing-events': { pair: null, others: { kinds: ['supplier', 'sourcing-event'], keysOf: keysOfEvent } },
  'latest-bids': { pair: { kind: 'quotation', bySupplier: (bid) => wholeRecord('latest-bids', bid) }, others: null },
  awards: {
    pair: { kind: 'award', bySupplier: splitAward },
    others: { kinds: ['event-awards'], keysOf: keysOfEventAwards },
  },
  'rfi-responses': {
    pair: { kind: 'rfi-answers', bySupplier: (response) => wholeRecord('rfi-responses', response) },
    others: null,
  },
};

/** Which documents each kind of resource names. */
const resourceDocuments: Readonly<Record<ResourceKind, NonNullable<FeedDocuments['others']>>> = {
  'sourcing-event': { kinds: [], keysOf: () => [] },
  'supplier-master': {
    kinds: ['supplier'],
    keysOf: (resource) => {
      const key = supplierKey(undefined, resource['external_id']);
      return key === undefined ? [] : [{ kind: 'supplier', key, sourcingEvent: null, supplier: null }];
    },
  },
  supplier: {
    kinds: ['supplier'],
    keysOf: (resource, current) => {
      const id = idOf(resource['id']);
      return id === undefined ? [] : supplierKeysOf(resource, { part: 'supplier', id, current });
    },
  },
  question: {
    kinds: ['file'],
    keysOf: (resource, current) => fileKeysOf(resource, 'attachment_file_uuids', 'question', current),
  },
  job: {
    kinds: ['job'],
    keysOf: (resource) => {
      const id = idOf(resource['id']);
      // Such a job is the bridge's own way to a file, and makes nothing.
      if (id === undefined || resource['type'] === linksJob) return [];
      return [{ kind: 'job', key: plainKey(id), sourcingEvent: null, supplier: null }];
    },
  },
};

/**
 * Returns the keys of the documents that a changed record may change, in addition to those that its event has already.
 * The current version of the record comes first.
 */
export function documentKeysOf(feed: FeedName, ...versions: readonly unknown[]): DocumentKey[] {
  return versions.flatMap((version, index) => (isObject(version) ? keysOfRecord(feed, version, index === 0) : []));
}

/**
 * Returns the same for a resource. The documents of its event, and the documents that show the supplier, are not among
 * these keys (`markDocuments` marks the latter).
 */
export function documentKeysOfResource(kind: ResourceKind, ...versions: readonly unknown[]): DocumentKey[] {
  const { keysOf } = resourceDocuments[kind];
  return versions.flatMap((version, index) => (isObject(version) ? keysOf(version, index === 0) : []));
}

/** Returns the feeds and the kinds of resources that name documents of this kind. */
export function partsNaming(kind: DocumentKind): { feeds: FeedName[]; resources: ResourceKind[] } {
  const resourceKinds = Object.keys(resourceDocuments) as ResourceKind[];
  return {
    feeds: feedNames.filter((feed) => kindsNamedBy(feed).includes(kind)),
    resources: resourceKinds.filter((resource) => resourceDocuments[resource].kinds.includes(kind)),
  };
}

/** Whether the records of the feed name documents of any of these kinds. */
export function namesAny(feed: FeedName, kinds: ReadonlySet<string>): boolean {
  return kindsNamedBy(feed).some((kind) => kinds.has(kind));
}

function kindsNamedBy(feed: FeedName): DocumentKind[] {
  const { pair, others } = feedDocuments[feed];
  return [
    ...(pair === null ? [] : [pair.kind]),
    ...(feeds[feed].files === null ? [] : ['file' as const]),
    ...(others?.kinds ?? []),
  ];
}

/** Returns the id of the supplier of a record; undefined in feeds whose records have no supplier, or several. */
export function supplierOfRecord(feed: FeedName, record: Fields): string | undefined {
  const { supplier } = feeds[feed];
  return supplier === null ? undefined : idOf(record[supplier]);
}

function keysOfRecord(feed: FeedName, record: Fields, current: boolean): DocumentKey[] {
  const { pair, others } = feedDocuments[feed];
  const { event, files } = feeds[feed];
  return [
    ...(pair === null ? [] : keysOfPairs(pair, record, record[event])),
    ...(files === null ? [] : fileKeysOf(record, files, feed, current)),
    ...(others?.keysOf(record, current) ?? []),
  ];
}

function keysOfPairs(
  { kind, bySupplier }: NonNullable<FeedDocuments['pair']>,
  record: Fields,
  event: unknown,
): DocumentKey[] {
  const sourcingEvent = idOf(event);
  if (sourcingEvent === undefined) return [];
  const parts = bySupplier(record);
  if (parts === undefined) return [{ kind, key: '', sourcingEvent, supplier: null, noteOnly: true, wholeEvent: true }];
  return parts.map(({ supplier }) => ({ kind, key: pairKey(sourcingEvent, supplier), sourcingEvent, supplier }));
}

function wholeRecord(feed: FeedName, record: Fields): SupplierPart[] {
  const supplier = supplierOfRecord(feed, record);
  return supplier === undefined ? [] : [{ supplier, record }];
}

/**
 * Returns the parts of a lot's award, each with the entries of one winner. Entries that name no supplier are left out;
 * an entry with another fault stays in the part of the supplier that it names. Undefined when `awards` is present and
 * is no list: that says nothing of the winners, and is no reason to withdraw an award.
 */
function splitAward(record: Fields): SupplierPart[] | undefined {
  const { awards } = record;
  if (awards === undefined || awards === null) return [];
  if (!Array.isArray(awards)) return undefined;
  const bySupplier = Map.groupBy(awards as unknown[], (entry) =>
    isObject(entry) ? idOf(entry['supplier']) : undefined,
  );
  return [...bySupplier].flatMap(([supplier, own]) =>
    supplier === undefined ? [] : [{ supplier, record: { ...record, awards: own } }],
  );
}

function keysOfEvent(record: Fields, current: boolean): DocumentKey[] {
  const event = idOf(record['id']);
  if (event === undefined) return [];
  const namedBy = { part: 'sourcing-events' as const, id: event, current };
  return [
    { kind: 'sourcing-event', key: plainKey(event), sourcingEvent: event, supplier: null },
    ...objectsIn(record['suppliers']).flatMap((entry) => supplierKeysOf(entry, namedBy)),
  ];
}

/** The document of the event's awards. It shows suppliers as pages include them, so each is indexed as a part of it. */
function keysOfEventAwards(award: Fields): DocumentKey[] {
  const sourcingEvent = idOf(award['sourcing_event']);
  if (sourcingEvent === undefined) return [];
  const document = { kind: 'event-awards' as const, key: plainKey(sourcingEvent), sourcingEvent };
  const winners = (splitAward(award) ?? []).map(({ supplier }): DocumentKey => {
    const namedBy = { part: 'supplier' as const, id: supplier, current: true };
    return { ...document, supplier, namedBy, noteOnly: true };
  });
  return [{ ...document, supplier: null }, ...winners];
}

function supplierKeysOf(entry: Fields, namedBy: NamedBy): DocumentKey[] {
  const id = idOf(entry['id']);
  const key = supplierKey(id, entry['external_id']);
  if (key === undefined) return [];
  const document = { kind: 'supplier' as const, key, sourcingEvent: null, supplier: null, namedBy };
  const ownKey = id === undefined ? key : plainKey(id);
  return ownKey === key ? [document] : [document, { ...document, key: ownKey, noteOnly: true }];
}

function fileKeysOf(record: Fields, member: string, part: NamedBy['part'], current: boolean): DocumentKey[] {
  const id = typeof record['id'] === 'number' ? String(record['id']) : idOf(record['id']);
  const sourcingEvent = idOf(record['sourcing_event']);
  const supplier = idOf(record['supplier']) ?? null;
  const files = record[member];
  if (id === undefined || sourcingEvent === undefined || !Array.isArray(files)) return [];
  return files.flatMap((file: unknown) => {
    const key = idOf(file);
    const namedBy = { part, id, current };
    return key === undefined ? [] : [{ kind: 'file' as const, key: plainKey(key), sourcingEvent, supplier, namedBy }];
  });
}

/** An external id in an answer of the service. An empty one counts as left out, as the contract has it. */
export const externalIdText = z.string().transform((text) => (text === '' ? undefined : text));

/** Returns the key of a supplier: its external id, else its id; undefined when neither can be a key. */
export function supplierKey(id: string | undefined, externalId: unknown): string | undefined {
  if (typeof externalId === 'string' && externalId !== '' && externalId.length <= idLengthMax)
    return plainKey(externalId);
  return id === undefined ? undefined : plainKey(id);
}

/** Returns the key of a document about one thing: its id. Characters that a database cannot store are replaced. */
export function plainKey(id: string): string {
  // Nearly all can be stored as they are.
  return isStorable(id) ? id : id.toWellFormed().replaceAll('\0', '\ufffd');
}

/**
 * Returns the key of a document about an event and a supplier: both ids, joined by a slash. A slash, or a character
 * that cannot be stored, is escaped in an id that is no UUID.
 */
export function pairKey(event: string, supplier: string): string {
  return `${encodeURIComponent(event.toWellFormed())}/${encodeURIComponent(supplier.toWellFormed())}`;
}

/** Returns the event and the supplier of such a key. */
export function readPairKey(key: string): { event: string; supplier: string } {
  const [event = '', supplier = ''] = key.split('/').map(decodeURIComponent);
  return { event, supplier };
}

const uuidForm = /^[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$/i;

/**
 * Returns an id as `recordId` reads it; undefined for anything else. It is faster, as it is called for every record of
 * every page. Undefined also for text that a database cannot store, as no row could be found by it.
 */
export function idOf(value: unknown): string | undefined {
  if (typeof value !== 'string' || value === '' || value.length > idLengthMax) return undefined;
  if (uuidForm.test(value)) return value.toLowerCase();
  return isStorable(value) ? value : undefined;
}

function objectsIn(list: unknown): Fields[] {
  return Array.isArray(list) ? list.filter(isObject) : [];
}

function isObject(value: unknown): value is Fields {
  return typeof value === 'object' && value !== null;
}
