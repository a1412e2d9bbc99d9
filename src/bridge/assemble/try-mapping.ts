/** A flow's settings tried on what the bridge holds: the documents that they make now, and why others cannot be made. */
import type { Document, DocumentKind } from '#connector/documents.ts';
import type { FeedName } from '#contract/feed.ts';
import type { Timestamp } from '#contract/timestamp.ts';
import type { Database, Sql } from '#platform/database/database.ts';
import { type DocumentKey, documentKeysOf, documentKeysOfResource, keyParts } from '../documents/document-keys.ts';
import type { MadeDocument } from '../documents/made-document.ts';
import { indexReferences } from '../due/index-references.ts';
import type { FlowSettings } from '../settings.ts';
import { type DocumentsMade, makeDocuments } from './make-documents.ts';

export interface TriedDocument {
  readonly kind: DocumentKind;
  readonly key: string;
  /** `withdrawn`: it would be taken back, if it was delivered. */
  readonly result: 'document' | 'withdrawn' | 'not-yet' | 'rejected' | 'held';
  /** Why it cannot be made, or not now. */
  readonly reason?: string;
  readonly document?: Document;
}

const table = 'pg_temp.tried_references';

/**
 * Makes at most `limit` documents of each kind that the flow takes, of these events or of what changed last, whether the
 * flow is known or not. Changes nothing.
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
      await indexReferences(tx, { source: flow.source, table }, keys.named);
      for (let open = keys.found; open.length > 0; ) {
        const made: DocumentsMade = await makeDocuments(tx, flow, open, { references: table });
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
  /** Also what names them beside what was found first. */
  readonly named: readonly DocumentKey[];
}

async function findKeys(
  sql: Sql,
  source: string,
  kind: DocumentKind,
  { events, limit }: { events: readonly string[] | undefined; limit: number },
): Promise<FoundKeys> {
  const found = new Map<string, DocumentKey>();
  const named: DocumentKey[] = [];
  const take = (keys: readonly DocumentKey[]) => {
    for (const key of keys) {
      if (key.kind !== kind) continue;
      const isNew = !found.has(key.key);
      if (isNew && found.size >= limit) continue;
      named.push(key);
      if (isNew && key.noteOnly !== true) found.set(key.key, key);
    }
    return found.size < limit;
  };
  const { feeds, resources } = keyParts[kind];
  for (const resource of resources)
    if (found.size < limit && (events === undefined || resource === 'question'))
      for await (const body of resourceBodies(sql, source, resource, events))
        if (!take(documentKeysOfResource(resource, body))) break;
  for (const feed of feeds)
    if (found.size < limit)
      for await (const body of recordBodies(sql, source, feed, events)) if (!take(documentKeysOf(feed, body))) break;
  if (kind === 'supplier') named.push(...(await includedSuppliers(sql, source, named)));
  return { found: [...found.values()], named };
}

/** A supplier that an event names may be known better from a page that included it. */
async function includedSuppliers(sql: Sql, source: string, named: readonly DocumentKey[]): Promise<DocumentKey[]> {
  const rows = await sql.query<{ body: string }>(
    `select body from bridge.resources where source = $1 and kind = 'supplier' and id = any($2)`,
    [source, named.map(({ key }) => key)],
  );
  return rows.flatMap(({ body }) => documentKeysOfResource('supplier', JSON.parse(body)));
}

const pageSize = 200;

/** Those that changed last come first. */
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
