/**
 * Tries a flow's settings on the mirror, for `bridge mapping try`: which documents they make now, and why others cannot
 * be made.
 */
import {
  type DocumentKey,
  documentKeysOf,
  documentKeysOfResource,
  partsNaming,
} from '#bridge/documents/document-keys.ts';
import type { MadeDocument } from '#bridge/documents/made-document.ts';
import { type DocumentsMade, makeDocuments } from '#bridge/mirror/assemble/make-documents.ts';
import { indexReferences } from '#bridge/mirror/due/index-references.ts';
import type { FlowSettings } from '#bridge/settings/settings.ts';
import type { Document, DocumentKind } from '#connector/documents.ts';
import type { FeedName } from '#contract/feed.ts';
import type { Timestamp } from '#contract/timestamp.ts';
import type { Database } from '#platform/database/database.ts';
import type { Sql } from '#platform/database/sql.ts';

export interface TriedDocument {
  readonly kind: DocumentKind;
  readonly key: string;
  /** `withdrawn`: the document is not wanted; it would be cancelled in the ERP if it was delivered. */
  readonly result: 'document' | 'withdrawn' | 'not-yet' | 'rejected' | 'held';
  /** Why the document cannot be made, or not yet. */
  readonly reason?: string;
  readonly document?: Document;
}

const triedTable = 'pg_temp.tried_references';

/**
 * Makes at most `limit` documents of each kind that the flow takes: of these events, or of the records that changed
 * last. The flow need not be registered. Writes nothing that stays.
 */
export async function tryMapping(
  database: Database,
  flow: FlowSettings,
  { events, limit }: { events?: readonly string[]; limit: number },
): Promise<TriedDocument[]> {
  return database.transaction(async (tx) => {
    await tx.query('create temp table tried_references (like bridge.record_references including all) on commit drop');
    const tried: TriedDocument[] = [];
    for (const kind of flow.documents) {
      const keys = await findKeys(tx, flow.source, kind, { events, limit });
      await indexReferences(tx, { source: flow.source, table: triedTable }, keys.referenced);
      for (let open = keys.found; open.length > 0; ) {
        const made: DocumentsMade = await makeDocuments(tx, flow, open, { referencesTable: triedTable });
        for (const { key } of open) {
          const result = made.get(`${kind} ${key}`);
          if (result) tried.push(triedOf(kind, key, result));
        }
        open = open.filter(({ key }) => !made.has(`${kind} ${key}`));
      }
    }
    return tried;
  });
}

function triedOf(kind: DocumentKind, key: string, made: MadeDocument<Document>): TriedDocument {
  if (made.made !== 'document') return { kind, key, result: made.made, reason: made.reason };
  return made.wanted ? { kind, key, result: 'document', document: made.document } : { kind, key, result: 'withdrawn' };
}

interface FoundKeys {
  readonly found: readonly DocumentKey[];
  /** Every reference to the found keys, not only the one by which a key was found first. */
  readonly referenced: readonly DocumentKey[];
}

async function findKeys(
  sql: Sql,
  source: string,
  kind: DocumentKind,
  { events, limit }: { events: readonly string[] | undefined; limit: number },
): Promise<FoundKeys> {
  const found = new Map<string, DocumentKey>();
  const referenced: DocumentKey[] = [];
  /** Returns whether there is room for more keys. */
  const take = (keys: readonly DocumentKey[]) => {
    for (const key of keys) {
      if (key.kind !== kind) continue;
      const isNew = !found.has(key.key);
      if (isNew && found.size >= limit) continue;
      referenced.push(key);
      if (isNew && key.noteOnly !== true) found.set(key.key, key);
    }
    return found.size < limit;
  };
  const { feeds, resources } = partsNaming(kind);
  for (const resource of resources)
    if (found.size < limit && (events === undefined || resource === 'question'))
      for await (const body of resourceBodies(sql, source, resource, events))
        if (!take(documentKeysOfResource(resource, body))) break;
  for (const feed of feeds)
    if (found.size < limit)
      for await (const body of recordBodies(sql, source, feed, events)) if (!take(documentKeysOf(feed, body))) break;
  if (kind === 'supplier') referenced.push(...(await includedSuppliers(sql, source, referenced)));
  return { found: [...found.values()], referenced };
}

/**
 * Returns the references of suppliers that pages included: they say more of a supplier than the event that names it.
 */
async function includedSuppliers(sql: Sql, source: string, suppliers: readonly DocumentKey[]): Promise<DocumentKey[]> {
  const rows = await sql.query<{ body: string }>(
    `select body from bridge.resources where source = $1 and kind = 'supplier' and id = any($2)`,
    [source, suppliers.map(({ key }) => key)],
  );
  return rows.flatMap(({ body }) => documentKeysOfResource('supplier', JSON.parse(body)));
}

const pageSize = 200;

/** Yields the records of a feed, those that changed last first. */
async function* recordBodies(
  sql: Sql,
  source: string,
  feed: FeedName,
  events: readonly string[] | undefined,
): AsyncGenerator {
  let before: { modified: Timestamp; record_id: string } = { modified: '9999-12-31T00:00:00Z', record_id: '' };
  for (;;) {
    const rows = await sql.query<typeof before & { body: string }>(
      `select modified, record_id, body from bridge.mirror
       where source = $1 and feed = $2 and gone is null and (modified, record_id) < ($3, $4)
         and ($5::text[] is null or sourcing_event = any($5))
       order by modified desc, record_id desc limit ${pageSize}`,
      [source, feed, before.modified, before.record_id, events?.map((id) => id.toLowerCase()) ?? null],
    );
    for (const { body } of rows) yield JSON.parse(body);
    const last = rows.at(-1);
    if (!last || rows.length < pageSize) return;
    before = last;
  }
}

/** Yields the resources of a kind, by id. */
async function* resourceBodies(
  sql: Sql,
  source: string,
  kind: string,
  events: readonly string[] | undefined,
): AsyncGenerator {
  for (let after = ''; ; ) {
    const rows = await sql.query<{ id: string; body: string }>(
      `select id, body from bridge.resources
       where source = $1 and kind = $2 and id > $3 and ($4::text[] is null or sourcing_event = any($4))
       order by id limit ${pageSize}`,
      [source, kind, after, events?.map((id) => id.toLowerCase()) ?? null],
    );
    for (const { body } of rows) yield JSON.parse(body);
    const last = rows.at(-1);
    if (!last || rows.length < pageSize) return;
    after = last.id;
  }
}
