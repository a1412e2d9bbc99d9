/**
 * The events and suppliers by whose names a person finds documents. Written with the records that name them, so that a
 * document is found before anything was tried with it: while its flow is paused, for example.
 */
import { idOf } from '#bridge/documents/document-keys.ts';
import type { Sql } from '#platform/database/sql.ts';
import { isStorable } from '#platform/database/storable-text.ts';

/** What a document is about, in the words that a person knows. Null: unknown, or it is about none. */
export interface Subject {
  readonly sourcingEvent: string | null;
  readonly eventName: string | null;
  readonly eventReference: string | null;
  readonly supplier: string | null;
  readonly supplierName: string | null;
  readonly supplierExternalId: string | null;
}

export interface NamedSubject {
  readonly kind: 'event' | 'supplier';
  readonly id: string;
  readonly name: string;
  /** The event's `reference_id`, the supplier's external id; empty: none. */
  readonly reference: string;
}

/** Longer names are cut: they are for people. */
const charactersMax = 500;

/** Returns a text as searches compare it: in lower case, and equal letters written equally. */
export function foldText(text: string): string {
  return text.normalize('NFKC').toLowerCase();
}

function foldedName({ name, reference }: NamedSubject): string {
  return foldText(`${name} ${reference}`);
}

type Fields = Readonly<Record<string, unknown>>;

/** Returns the event of such a record, and the suppliers that it names. */
export function subjectsOfEvent(record: Fields): NamedSubject[] {
  const { id, reference_id: reference, suppliers } = record;
  const entries = Array.isArray(suppliers) ? suppliers.filter(isFields) : [];
  return [...subjectOf('event', record, id, reference), ...entries.flatMap(subjectsOfSupplier)];
}

/** Returns the supplier of an entry of a page or of the supplier list. The list knows some by their external id only. */
export function subjectsOfSupplier(entry: Fields): NamedSubject[] {
  return subjectOf('supplier', entry, idOf(entry['id']) ?? entry['external_id'], entry['external_id']);
}

function subjectOf(kind: NamedSubject['kind'], { name }: Fields, given: unknown, reference: unknown): NamedSubject[] {
  const id = idOf(given);
  const subject = { kind, id: id ?? '', name: shortText(name), reference: shortText(reference) };
  // What has no name and no reference cannot be found by one.
  return id === undefined || (subject.name === '' && subject.reference === '') ? [] : [subject];
}

function shortText(value: unknown): string {
  if (typeof value !== 'string') return '';
  // Nearly all are short and can be stored as they are.
  if (value.length <= charactersMax && isStorable(value)) return value;
  return value.replaceAll('\0', '').slice(0, charactersMax).toWellFormed();
}

function isFields(value: unknown): value is Fields {
  return typeof value === 'object' && value !== null;
}

/**
 * Writes the names of these subjects, in the transaction that stores what names them. The caller holds the source's
 * lock. Of several entries for one subject the last one counts.
 */
export async function noteSubjects(tx: Sql, source: string, subjects: readonly NamedSubject[]): Promise<void> {
  const distinct = [...new Map(subjects.map((subject) => [`${subject.kind} ${subject.id}`, subject])).values()];
  if (distinct.length === 0) return;
  await tx.query(
    `insert into bridge.subjects as s (source, kind, id, name, reference, folded)
     select $1, n.* from unnest($2::text[], $3::text[], $4::text[], $5::text[], $6::text[])
       as n (kind, id, name, reference, folded)
     where ${differs}
     on conflict (source, kind, id) do update
       set name = excluded.name, reference = excluded.reference, folded = excluded.folded
       where (s.name, s.reference) <> (excluded.name, excluded.reference)`,
    [
      source,
      distinct.map(({ kind }) => kind),
      distinct.map(({ id }) => id),
      distinct.map(({ name }) => name),
      distinct.map(({ reference }) => reference),
      distinct.map(foldedName),
    ],
  );
}

/**
 * Most are known by these names. A conflict would lock each, which costs more than to look at it. With NOT
 * EXISTS the planner would read all names for each page, however many there are; so each is looked up by its key.
 */
const differs = `(
  select (k.name, k.reference) = (n.name, n.reference) from bridge.subjects k
  where k.source = $1 and k.kind = n.kind and k.id = n.id) is not true`;

/** Returns these subjects with the names that the source shows now, where they lack one. */
export async function withNames<Named extends Subject>(
  sql: Sql,
  source: string,
  nameless: readonly Named[],
): Promise<Named[]> {
  const rows = await sql.query<NamedSubject>(
    `select kind, id, name, reference from bridge.subjects
     where source = $1 and (kind = 'event' and id = any($2) or kind = 'supplier' and id = any($3))`,
    [
      source,
      [...new Set(nameless.flatMap(({ sourcingEvent }) => sourcingEvent ?? []))],
      [...new Set(nameless.flatMap(({ supplier }) => supplier ?? []))],
    ],
  );
  const named = new Map(rows.map((row) => [`${row.kind} ${row.id}`, row]));
  return nameless.map((subject) => {
    const event = named.get(`event ${subject.sourcingEvent}`);
    const supplier = named.get(`supplier ${subject.supplier}`);
    return {
      ...subject,
      eventName: subject.eventName ?? (event?.name || null),
      eventReference: subject.eventReference ?? (event?.reference || null),
      supplierName: subject.supplierName ?? (supplier?.name || null),
      supplierExternalId: subject.supplierExternalId ?? (supplier?.reference || null),
    };
  });
}
