/**
 * Takes a person out of the records that the bridge holds of the sources, and keeps the ledger in step: of a document that
 * was delivered, the ledger then has what was delivered, without the person. Example: supplier S1 with the contacts Ann and
 * Bob was delivered as partner 4711 with the content hash 9c; Ann is erased.
 *
 *     before    the mirror makes S1 with Ann and Bob, hash 9c; the ledger has 9c: nothing is to be done
 *     one       S1 is written without Ann; the mirror makes it with Bob, hash e1; the ledger gets e1 for 9c
 *     after     the ledger has e1: nothing is to be done. The ERP keeps Ann until somebody takes her out there
 *
 * The second line is one transaction under the source's lock, so a process that is killed leaves the one or the other. A
 * document that differed from what was delivered before goes on to differ, and is sent.
 */
import type { Document, DocumentKind } from '#connector/documents.ts';
import type { Database } from '#platform/database/database.ts';
import type { Sql } from '#platform/database/sql.ts';
import type { Person } from '#platform/person-data/person.ts';
import { type FoundRow, takeOutOfRow } from '#platform/person-data/stored-text.ts';
import type { RecordVersion } from '../assemble/made-of.ts';
import { documentHash, makeDocuments } from '../assemble/make-documents.ts';
import { type DocumentKey, documentKeysOf, documentKeysOfResource } from '../documents/document-keys.ts';
import { lockSources } from '../due/source-lock.ts';
import type { FlowSettings } from '../settings.ts';

/** The tables with what the sources show. */
export const recordTables = ['bridge.mirror', 'bridge.resources', 'bridge.suspect_versions'] as const;

interface Place {
  readonly source: string;
  readonly feed?: string;
  readonly record_id?: string;
  readonly kind?: string;
  readonly id?: string;
}

/**
 * Takes the person out of one row of these tables. `flows` are those that are configured here: the others' documents are
 * compared with what their last version says without the person. Returns false when the row was changed since it was found.
 */
export function eraseFromRecord(
  database: Database,
  flows: readonly FlowSettings[],
  row: FoundRow,
  { person, mark }: { person: Person; mark: string },
): Promise<boolean> {
  const place = row.key as unknown as Place;
  return database.transaction(async (tx) => {
    await lockSources(tx, [place.source]);
    const documents = await deliveredDocuments(tx, flows, row, person);
    const before = await makeAll(tx, documents);
    const [old] = await tx.query<{ hash: Buffer }>(
      `select content_hash as hash from ${row.table.table} where ${whereKey(row.key, 1)}`,
      Object.values(row.key),
    );
    if (!(await takeOutOfRow(tx, row, person))) return false;
    const key = keyAfter(row.key, person);
    await tx.query(
      `update ${row.table.table} set content_hash = sha256(convert_to(body, 'UTF8')) where ${whereKey(key, 1)}`,
      Object.values(key),
    );
    // A supplier that was compared with this entry counts as compared with what it has become.
    if (place.kind === 'supplier-master' && old)
      await tx.query(
        `update bridge.intake_records r set compared_hash = m.content_hash from bridge.resources m
         where m.source = $1 and m.kind = $2 and m.id = $3 and r.source = $1 and r.key = m.id and r.compared_hash = $4`,
        [place.source, place.kind, key['id'], old.hash],
      );
    await followInLedger(tx, documents, before, mark);
    return true;
  });
}

/** The primary key that the row has afterwards. */
export function keyAfter(key: FoundRow['key'], person: Person): Record<string, unknown> {
  return Object.fromEntries(
    Object.entries(key).map(([name, value]) => [name, typeof value === 'string' ? person.takeOutOfText(value) : value]),
  );
}

/** A condition on the text of the key's columns; its parameters begin with this number. */
export function whereKey(key: FoundRow['key'], first: number): string {
  return Object.keys(key)
    .map((name, index) => `"${name}"::text = $${first + index}`)
    .join(' and ');
}

interface DeliveredDocument {
  readonly flow: FlowSettings;
  readonly kind: DocumentKind;
  readonly key: string;
  readonly hash: string;
}

/**
 * The documents that may be made of the row and were delivered with the person: only their content changes with it. A
 * version that was too long to be kept may name anyone.
 */
async function deliveredDocuments(
  tx: Sql,
  flows: readonly FlowSettings[],
  { table, key, found }: FoundRow,
  person: Person,
): Promise<DeliveredDocument[]> {
  const { source, feed, kind } = key as unknown as Place;
  const ofSource = flows.filter((flow) => flow.source === source);
  const body = found['body'];
  if (ofSource.length === 0 || body === undefined || table.table === 'bridge.suspect_versions') return [];
  const object: unknown = JSON.parse(body);
  const keys: DocumentKey[] =
    feed === undefined
      ? documentKeysOfResource(kind as Parameters<typeof documentKeysOfResource>[0], object)
      : documentKeysOf(feed as Parameters<typeof documentKeysOf>[0], object);
  const { id, sourcing_event: event } = object as { id?: unknown; sourcing_event?: unknown };
  const ids = [id, event, ...keys.flatMap(({ sourcingEvent, supplier }) => [sourcingEvent, supplier])].flatMap(
    (each) => (typeof each === 'string' ? [each, each.toLowerCase()] : []),
  );
  const rows = await tx.query<{ flow: string; kind: DocumentKind; key: string; hash: string }>(
    `select d.flow, d.kind, d.key, d.delivered_hash as hash from bridge.flow_documents d
     left join bridge.document_versions v
       on v.flow = d.flow and v.kind = d.kind and v.key = d.key and v.content_hash = d.delivered_hash
     where d.flow = any($1) and d.delivered_hash is not null and (v.body is null or v.body ~* $2)
       and (d.sourcing_event = any($3) or d.supplier = any($3)
         or (d.kind, d.key) in (select * from unnest($4::text[], $5::text[])))
     order by d.flow, d.kind, d.key`,
    [
      ofSource.map(({ name }) => name),
      person.pattern,
      ids,
      keys.map((each) => each.kind),
      keys.map((each) => each.key),
    ],
  );
  return rows.flatMap(({ flow: name, ...row }) => {
    const flow = ofSource.find((each) => each.name === name);
    return flow ? [{ ...row, flow }] : [];
  });
}

interface Made {
  readonly hash: string;
  readonly body: string;
  readonly madeOf: readonly RecordVersion[];
}

function placeOf({ flow, kind, key }: DeliveredDocument): string {
  return `${flow.name} ${kind} ${key}`;
}

async function makeAll(tx: Sql, documents: readonly DeliveredDocument[]): Promise<Map<string, Made>> {
  const all = new Map<string, Made>();
  for (const [flow, own] of Map.groupBy(documents, (document) => document.flow))
    for (let open = own; open.length > 0; ) {
      const made = await makeDocuments(tx, flow, open);
      for (const document of open) {
        const result = made.get(`${document.kind} ${document.key}`);
        if (result?.made === 'document' && result.wanted)
          all.set(placeOf(document), madeOf(result.document, result.madeOf));
      }
      // Those that there was no room for.
      open = open.filter(({ kind, key }) => !made.has(`${kind} ${key}`));
    }
  return all;
}

function madeOf(document: Document, records: readonly RecordVersion[]): Made {
  return { hash: documentHash(document), body: JSON.stringify(document), madeOf: records };
}

/** Where the ledger had what the records made, it has what they make now. */
async function followInLedger(
  tx: Sql,
  documents: readonly DeliveredDocument[],
  before: ReadonlyMap<string, Made>,
  mark: string,
): Promise<void> {
  const inStep = documents.filter((document) => before.get(placeOf(document))?.hash === document.hash);
  const after = await makeAll(tx, inStep);
  for (const document of inStep) {
    const made = after.get(placeOf(document));
    if (made === undefined || made.hash === document.hash) continue;
    const { flow, kind, key, hash } = document;
    const place = [flow.name, kind, key];
    await noteDelivery(tx, mark, place);
    await tx.query(
      `insert into bridge.document_versions (flow, kind, key, content_hash, body, made_of, sent)
       select flow, kind, key, $5, case when body is null then null else $6 end, made_of, sent from bridge.document_versions
       where flow = $1 and kind = $2 and key = $3 and content_hash = $4 on conflict do nothing`,
      [...place, hash, made.hash, made.body],
    );
    await renameVersion(tx, place, hash, made.hash);
    await tx.query(
      'delete from bridge.document_versions where flow = $1 and kind = $2 and key = $3 and content_hash = $4',
      [...place, hash],
    );
  }
}

/** All that names a version of a document by its hash names it by the other one. */
export async function renameVersion(tx: Sql, place: readonly unknown[], hash: string, newHash: string): Promise<void> {
  await tx.query(
    'update bridge.attempts set content_hash = $5 where flow = $1 and kind = $2 and key = $3 and content_hash = $4',
    [...place, hash, newHash],
  );
  await tx.query(
    `update bridge.flow_documents set delivered_hash = $5 where flow = $1 and kind = $2 and key = $3
       and delivered_hash = $4`,
    [...place, hash, newHash],
  );
}

/** Keeps that the document named the person when it was sent. `place`: flow, kind and key. */
export async function noteDelivery(tx: Sql, mark: string, place: readonly unknown[]): Promise<void> {
  await tx.query(
    'insert into bridge.erasure_deliveries (mark, flow, kind, key) values ($1, $2, $3, $4) on conflict do nothing',
    [mark, ...place],
  );
}
