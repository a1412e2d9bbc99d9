/**
 * Finds documents by what a person knows of them: words of an event's name, its reference, a supplier's name or external
 * id, the ERP's reference, any id. Each word must fit the document: "4711 meyer" finds what is about RFQ 4711 and Meyer.
 *
 * Of ten million attempts none is read for a name: names are in `bridge.subjects`, one row for each event and supplier.
 * That table is a hundredth of the documents, so a word is looked for anywhere in a name by reading all of it (a
 * hundred thousand rows take 30 ms), and no extension for trigrams is needed, which a database may not have. What a word
 * names leads over indexes to the documents; the other words filter those.
 */
import { documentKeysOf } from '#bridge/documents/document-keys.ts';
import { isNamedLike, readDocuments, type ShownDocument } from '#bridge/ledger/attempts/document-rows.ts';
import { foldText, type NamedSubject } from '#bridge/mirror/subjects.ts';
import type { FeedName } from '#contract/feed.ts';
import { feedNames } from '#contract/feed.ts';
import type { Timestamp } from '#contract/timestamp.ts';
import type { Sql } from '#platform/database/sql.ts';
import { escapeLike, wordsOf } from './search-words.ts';

export interface FoundDocuments {
  readonly documents: readonly ShownDocument[];
  /** Whether there are more than the page shows. */
  readonly hasMore: boolean;
  /** The events and suppliers that the words name, at most ten: for an answer when no document is about all of them. */
  readonly subjects: readonly (NamedSubject & { readonly source: string })[];
}

export interface FindPage {
  readonly now: Timestamp;
  readonly limit: number;
  readonly skip?: number;
  readonly flow?: string | undefined;
  /** Only documents of these flows, and the events and suppliers of their sources. */
  readonly flows?: readonly string[] | undefined;
  readonly kinds?: readonly string[] | undefined;
}

/** Upper bound of the events and suppliers that one word leads to; the other words filter what they lead to. */
const subjectsMax = 2_000;
/** Upper bound of the documents that a word leads to by references and ids. */
const directMax = 500;
const shownSubjectsMax = 10;

/** What a word leads to. */
interface WordHits {
  readonly word: string;
  readonly events: readonly string[];
  readonly suppliers: readonly string[];
  /** Documents by reference or id, as `<flow> <kind> <key>`. */
  readonly direct: readonly string[];
}

/** Throws AppError `invalid` for a search without a word. */
export async function findDocuments(
  sql: Sql,
  search: string | readonly string[],
  options: FindPage,
): Promise<FoundDocuments> {
  const words = wordsOf(search);
  const hits: WordHits[] = [];
  for (const word of words) hits.push(await readHits(sql, word));
  const subjects = await readSubjects(sql, words, options.flows);
  const leading = leadingOf(hits);
  if (!leading) return { documents: [], hasMore: false, subjects };
  const params: unknown[] = [leading.events, leading.suppliers, leading.direct];
  const param = (value: unknown) => {
    params.push(value);
    return `$${params.length}`;
  };
  const conditions = hits.filter((hit) => hit !== leading).map((hit) => conditionOf(hit, param));
  if (options.flow !== undefined) conditions.push(`d.flow = ${param(options.flow)}`);
  if (options.flows !== undefined) conditions.push(`d.flow = any(${param(options.flows)})`);
  if (options.kinds !== undefined) conditions.push(`d.kind = any(${param(options.kinds)})`);
  const { limit } = options;
  const found = await readDocuments(
    sql,
    {
      with: `with led as materialized (
        select flow, kind, key from bridge.flow_documents where sourcing_event = any($1)
        union select flow, kind, key from bridge.flow_documents where supplier = any($2)
        union select d.flow, d.kind, d.key from bridge.flows f
          join bridge.flow_documents d on d.flow = f.name and d.kind = 'supplier' and d.key = any($2)
        union select d.flow, d.kind, d.key from bridge.subjects s
          join bridge.flows f on f.source = s.source
          join bridge.flow_documents d on d.flow = f.name and d.kind = 'supplier' and d.key = s.reference
          where s.kind = 'supplier' and s.id = any($2) and s.reference <> ''
        union select split_part(l, ' ', 1), split_part(l, ' ', 2), substr(l, length(split_part(l, ' ', 1)) + length(split_part(l, ' ', 2)) + 3)
          from unnest($3::text[]) as l)`,
      condition: ['(d.flow, d.kind, d.key) in (select flow, kind, key from led)', ...conditions].join(' and '),
      params,
    },
    { ...options, limit: limit + 1 },
  );
  return { documents: found.slice(0, limit), hasMore: found.length > limit, subjects };
}

/**
 * Returns the word that leads to the fewest documents, as far as that can be told: ids and events before suppliers, who
 * take part in many events.
 */
function leadingOf(hits: readonly WordHits[]): WordHits | undefined {
  const weightOf = ({ events, suppliers, direct }: WordHits) =>
    direct.length + events.length * 10 + suppliers.length * 1_000;
  return hits.filter((hit) => weightOf(hit) > 0).toSorted((a, b) => weightOf(a) - weightOf(b))[0];
}

/** The condition that a document must meet for a word that does not lead. */
function conditionOf({ word, direct }: WordHits, param: (value: unknown) => string): string {
  const folded = param(`%${escapeLike(foldText(word))}%`);
  const plain = param(`%${escapeLike(word)}%`);
  const direct_ = param(direct);
  return `(${isNamedLike(folded)} or d.kind like ${folded} or d.flow like ${folded}
    or d.reference like ${plain} or d.key like ${folded}
    or d.flow || ' ' || d.kind || ' ' || d.key = any(${direct_}))`;
}

async function readHits(sql: Sql, word: string): Promise<WordHits> {
  const named = await sql.query<{ kind: string; id: string }>(
    `select kind, id from bridge.subjects where folded like $1 or id = $2 limit ${subjectsMax}`,
    [`%${escapeLike(foldText(word))}%`, word.toLowerCase()],
  );
  const direct = new Set<string>();
  for (const { place } of await sql.query<{ place: string }>(
    `(select flow || ' ' || kind || ' ' || key as place from bridge.flow_documents
      where reference like $1 limit ${directMax})
     union (select flow || ' ' || kind || ' ' || key from bridge.attempts
      where outcome = 'created' and reference like $2 limit ${directMax})
     union (select d.flow || ' ' || d.kind || ' ' || d.key from bridge.flows f
      cross join unnest(f.kinds) as k (kind)
      join bridge.flow_documents d on d.flow = f.name and d.kind = k.kind and d.key in ($3, $4) limit ${directMax})`,
    [word.length < 3 ? escapeLike(word) : `%${escapeLike(word)}%`, `${escapeLike(word)}%`, word, word.toLowerCase()],
  ))
    direct.add(place);
  if (uuidForm.test(word))
    for (const { place } of await sql.query<{ place: string }>(
      `select flow || ' ' || kind || ' ' || key as place from bridge.attempts where request_id = $1 or id = $1`,
      [word],
    ))
      direct.add(place);
  for (const place of await placesOfRecord(sql, word)) direct.add(place);
  return {
    word,
    events: named.flatMap(({ kind, id }) => (kind === 'event' ? [id] : [])),
    suppliers: named.flatMap(({ kind, id }) => (kind === 'supplier' ? [id] : [])),
    direct: [...direct],
  };
}

const uuidForm = /^[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$/i;

/** The documents that a feed's record of this id is part of, in all flows of its source. */
async function placesOfRecord(sql: Sql, id: string): Promise<string[]> {
  const records = await sql.query<{ source: string; feed: FeedName; body: string }>(
    `select m.source, m.feed, m.body from (select distinct source from bridge.flows) f
     cross join unnest($1::text[]) as n (feed)
     join bridge.mirror m on m.source = f.source and m.feed = n.feed and m.record_id in ($2, $3)`,
    [feedNames, id, id.toLowerCase()],
  );
  const places: string[] = [];
  for (const { source, feed, body } of records) {
    const keys = documentKeysOf(feed, JSON.parse(body)).filter(({ noteOnly }) => noteOnly !== true);
    const rows = await sql.query<{ place: string }>(
      `select d.flow || ' ' || d.kind || ' ' || d.key as place from unnest($2::text[], $3::text[]) as k (kind, key)
       join bridge.flows f on f.source = $1
       join bridge.flow_documents d on d.flow = f.name and d.kind = k.kind and d.key = k.key limit ${directMax}`,
      [source, keys.map(({ kind }) => kind), keys.map(({ key }) => key)],
    );
    places.push(...rows.map(({ place }) => place));
  }
  return places;
}

/** The events and suppliers that fit any of the words; those that fit most of them first. */
async function readSubjects(
  sql: Sql,
  words: readonly string[],
  flows: readonly string[] | undefined,
): Promise<FoundDocuments['subjects']> {
  const patterns = words.map((word) => `%${escapeLike(foldText(word))}%`);
  return sql.query<NamedSubject & { source: string }>(
    `select source, kind, id, name, reference from bridge.subjects s where (folded like any($1) or id = any($2))
       and ($3::text[] is null or source in (select source from bridge.flows where name = any($3)))
     order by (select count(*) from unnest($1::text[]) as p where s.folded like p) desc, kind, name, id
     limit ${shownSubjectsMax}`,
    [patterns, words.map((word) => word.toLowerCase()), flows ?? null],
  );
}

/**
 * Returns the ids of the events or suppliers that a person means by an id, a reference or a name: those with this id or
 * reference, else those whose name contains it.
 */
export async function findSubjects(
  sql: Sql,
  { source, kind, text }: { source: string; kind: NamedSubject['kind']; text: string },
): Promise<NamedSubject[]> {
  const rows = await sql.query<NamedSubject & { isExact: boolean }>(
    `select kind, id, name, reference, (id = $3 or reference = $4) as "isExact" from bridge.subjects
     where source = $1 and kind = $2 and (id = $3 or reference = $4 or folded like $5)
     order by (id = $3 or reference = $4) desc, name, id limit ${subjectsMax}`,
    [source, kind, text.toLowerCase(), text, `%${escapeLike(foldText(text))}%`],
  );
  const exact = rows.filter(({ isExact }) => isExact);
  return exact.length > 0 ? exact : rows;
}
