/**
 * Objects that have no feed of their own: the entries of the supplier list, jobs, and the related objects that feed pages
 * include. Most of them have no time of change, so of two pages the one that was requested later counts. A question
 * has a time, so there the newer version counts. An unchanged object is not written again.
 * The documents that depend on a changed object are marked as due in the same transaction.
 */
import { z } from 'zod';
import { documentKeysOfResource, idLengthMax, type ResourceKind, recordId } from '#bridge/documents/document-keys.ts';
import type { IncludeName } from '#contract/feed.ts';
import { parseTimestamp, type Timestamp } from '#contract/timestamp.ts';
import type { Sql } from '#platform/database/sql.ts';
import { isStorable } from '#platform/database/storable-text.ts';
import { sha256 } from '#platform/sha256.ts';
import { markDocuments, markDocumentsOfEvents } from './due/mark-documents.ts';
import { lockSources } from './due/source-lock.ts';
import { type NamedSubject, noteSubjects, subjectsOfEvent, subjectsOfSupplier } from './subjects.ts';

/** The kind of each object that a page can include, by its name; null: the mirror does not store it. */
export const includedKinds: Readonly<Record<IncludeName, ResourceKind | null>> = {
  sourcing_events: 'sourcing-event',
  suppliers: 'supplier',
  columns: null,
  questions: 'question',
};

export interface StoredResources {
  readonly changed: number;
  /** How many objects have no id that can be stored; they are skipped, as nothing could refer to them. */
  readonly unreadable: number;
}

/**
 * One process at a time reads these of a source, under a lease, so the answer that is stored later is the newer one. Its
 * clock is not asked: that of another process, which has read before, may be ahead.
 */
const readUnderLease: ReadonlySet<ResourceKind> = new Set(['job', 'supplier-master']);

interface Resource {
  readonly id: string;
  readonly sourcingEvent: string | null;
  readonly hash: Buffer;
  readonly body: string;
  readonly object: Readonly<Record<string, unknown>>;
}

interface ResourcesToStore {
  readonly source: string;
  readonly kind: ResourceKind;
  readonly objects: readonly Readonly<Record<string, unknown>>[];
  readonly observed: Timestamp;
  readonly now: Timestamp;
  /** The pull that reads them: the documents that they mark as due keep its id. */
  readonly pull?: string | undefined;
}

/**
 * Stores objects of one kind in the caller's transaction. `observed` is when they were requested, before the request
 * was sent. Of an object that is listed twice, the later entry counts.
 */
export async function storeResources(tx: Sql, given: ResourcesToStore): Promise<StoredResources> {
  const { subjects, ...stored } = await storeNameless(tx, given);
  await noteSubjects(tx, given.source, subjects);
  return stored;
}

/** Stores the objects that a page includes, of all kinds. Returns how many have changed. */
export async function storeIncludes(
  tx: Sql,
  {
    includes,
    ...given
  }: Omit<ResourcesToStore, 'kind' | 'objects'> & {
    readonly includes: Readonly<Record<string, ResourcesToStore['objects']>>;
  },
): Promise<number> {
  let changed = 0;
  const subjects: NamedSubject[] = [];
  for (const [name, kind] of Object.entries(includedKinds)) {
    if (kind === null) continue;
    const stored = await storeNameless(tx, { ...given, kind, objects: includes[name] ?? [] });
    changed += stored.changed;
    subjects.push(...stored.subjects);
  }
  await noteSubjects(tx, given.source, subjects);
  return changed;
}

/** Stores all but the names of events and suppliers, which are returned. */
async function storeNameless(
  tx: Sql,
  given: ResourcesToStore,
): Promise<StoredResources & { readonly subjects: readonly NamedSubject[] }> {
  const { source, kind, objects, observed, now, pull } = given;
  const read = objects.map((object) => resourceOf(kind, object));
  const resources = newestResources(kind, read);
  const unreadable = read.filter((resource) => resource === undefined).length;
  const nothing = { changed: 0, unreadable, subjects: [] };
  if (resources.length === 0) return nothing;
  await lockSources(tx, [source]);
  const held = await readHeld(tx, source, kind, resources);
  const confirmed: Resource[] = [];
  const differing: Resource[] = [];
  for (const resource of resources) {
    const known = held.get(resource.id);
    // An answer that was requested before this one, but arrives after it, must not undo it. A question has its own time.
    const isOvertaken = known !== undefined && known.observed > observed;
    if (isOvertaken && kind !== 'question' && !readUnderLease.has(kind)) continue;
    if (known?.content_hash.equals(resource.hash)) {
      if (known.observed < observed) confirmed.push(resource);
    } else differing.push(resource);
  }
  const replaced = differing.filter(({ id }) => held.has(id));
  const before = await readBodies(tx, source, kind, replaced);
  if (confirmed.length > 0) await confirm(tx, source, kind, confirmed, observed);
  const changed = differing.filter(({ id, object }) => {
    const version = before.get(id);
    return version === undefined || kind !== 'question' || isNewer(object, version, held.get(id)?.observed, observed);
  });
  if (changed.length === 0) return nothing;
  const keys = changed.flatMap(({ id, object }) => {
    const version = before.get(id);
    return documentKeysOfResource(kind, object, ...(version === undefined ? [] : [version]));
  });
  // The event that a question belonged to before is marked, too.
  const shown = changed.flatMap((resource) => {
    const version = before.get(resource.id);
    return version === undefined ? [resource] : [resource, resourceOf(kind, version)];
  });
  const events = new Set(shown.flatMap((resource) => resource?.sourcingEvent ?? []));
  await upsert(tx, source, kind, changed, observed);
  await markDocuments(tx, { source, pull }, keys, now);
  await markDocumentsOfEvents(tx, { source, pull }, [...events], now);
  const subjects = changed.flatMap(({ object }) => namedBy[kind](object));
  return { changed: changed.length, unreadable, subjects };
}

/** The events and suppliers whose names an object shows. */
const namedBy: Readonly<Record<ResourceKind, (object: Resource['object']) => NamedSubject[]>> = {
  'sourcing-event': subjectsOfEvent,
  supplier: subjectsOfSupplier,
  'supplier-master': subjectsOfSupplier,
  question: () => [],
  job: () => [],
};

const storableId = recordId.refine((id) => id !== '' && isStorable(id));
const masterId = z.string().min(1).max(idLengthMax).refine(isStorable);

/** Undefined for an object without an id that can be stored. */
function resourceOf(kind: ResourceKind, object: Readonly<Record<string, unknown>>): Resource | undefined {
  const id = (
    kind === 'supplier-master' ? masterId.safeParse(object['external_id']) : storableId.safeParse(object['id'])
  ).data;
  if (id === undefined) return undefined;
  const kept = kind === 'supplier' ? withoutContactsOfPage(object) : object;
  const body = JSON.stringify(kept);
  const sourcingEvent =
    kind === 'sourcing-event' ? id : kind === 'question' ? storableId.safeParse(object['sourcing_event']).data : null;
  return { id, sourcingEvent: sourcingEvent ?? null, hash: sha256(body), body, object: kept };
}

/** `bidder_contacts` lists the contacts for the events of one page: with each page the supplier would look changed. */
function withoutContactsOfPage({ bidder_contacts: _ofPage, ...supplier }: Readonly<Record<string, unknown>>) {
  return supplier;
}

function newestResources(kind: ResourceKind, read: readonly (Resource | undefined)[]): Resource[] {
  const newest = new Map<string, Resource>();
  for (const resource of read) {
    if (resource === undefined) continue;
    const known = newest.get(resource.id);
    if (known && kind === 'question' && modifiedOf(resource.object) < modifiedOf(known.object)) continue;
    newest.set(resource.id, resource);
  }
  return [...newest.values()];
}

/** Of equal times, the answer that was requested later counts. */
function isNewer(object: object, held: object, heldObserved: Timestamp | undefined, observed: Timestamp): boolean {
  const [shown, known] = [modifiedOf(object), modifiedOf(held)];
  return shown > known || (shown === known && observed >= (heldObserved ?? ''));
}

/** An object without a time is older than any other. */
function modifiedOf(object: object): Timestamp {
  const { modified } = object as { modified?: unknown };
  return (typeof modified === 'string' ? parseTimestamp(modified) : undefined) ?? '';
}

function idsOf(resources: readonly Resource[]): string[] {
  return resources.map(({ id }) => id);
}

interface Held {
  id: string;
  content_hash: Buffer;
  observed: Timestamp;
}

async function readHeld(tx: Sql, source: string, kind: ResourceKind, resources: readonly Resource[]) {
  const rows = await tx.query<Held>(
    'select id, content_hash, observed from bridge.resources where source = $1 and kind = $2 and id = any($3::text[])',
    [source, kind, idsOf(resources)],
  );
  return new Map(rows.map((row) => [row.id, row]));
}

async function readBodies(tx: Sql, source: string, kind: ResourceKind, resources: readonly Resource[]) {
  if (resources.length === 0) return new Map<string, Record<string, unknown>>();
  const rows = await tx.query<{ id: string; body: string }>(
    'select id, body from bridge.resources where source = $1 and kind = $2 and id = any($3::text[])',
    [source, kind, idsOf(resources)],
  );
  return new Map(rows.map(({ id, body }) => [id, JSON.parse(body) as Record<string, unknown>]));
}

async function confirm(tx: Sql, source: string, kind: ResourceKind, seen: readonly Resource[], observed: Timestamp) {
  await tx.query(
    `update bridge.resources set observed = greatest(observed, $4)
     where source = $1 and kind = $2 and id = any($3::text[])`,
    [source, kind, idsOf(seen), observed],
  );
}

async function upsert(
  tx: Sql,
  source: string,
  kind: ResourceKind,
  changed: readonly Resource[],
  observed: Timestamp,
): Promise<void> {
  await tx.query(
    `insert into bridge.resources (source, kind, observed, id, sourcing_event, content_hash, body)
     select $1, $2, $3, * from unnest($4::text[], $5::text[], $6::bytea[], $7::text[])
     on conflict (source, kind, id) do update
       set observed = greatest(bridge.resources.observed, excluded.observed), sourcing_event = excluded.sourcing_event,
           content_hash = excluded.content_hash, body = excluded.body`,
    [
      source,
      kind,
      observed,
      idsOf(changed),
      changed.map(({ sourcingEvent }) => sourcingEvent),
      changed.map(({ hash: contentHash }) => contentHash),
      changed.map(({ body }) => body),
    ],
  );
}
