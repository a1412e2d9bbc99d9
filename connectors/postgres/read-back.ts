/**
 * Reads back what the tables hold of documents, for the comparison with what was delivered. One statement reads the rows
 * of all tables of a kind: a write that runs at the same time is seen as a whole, or not at all. The expected values are
 * the rows that a write makes.
 */
import {
  canonicalDecimal,
  type Document,
  type DocumentKind,
  fieldsOf,
  type ReadBack,
  type TakenDocument,
  textArray,
} from 'sourcing-bridge/connector';
import type { Tx } from './connections.ts';
import type { Settings } from './settings.ts';
import { type ColumnType, rowsOf, type Table, tableNames, tablesOf } from './tables.ts';
import { referenceOf } from './write-tables.ts';

type Row = Readonly<Record<string, unknown>>;

interface HeldRows {
  readonly key: string;
  readonly state: string;
  readonly head: Row;
  /** The rows of the kind's other tables, by their names. */
  readonly parts: Readonly<Record<string, readonly Row[]>>;
}

/** What the tables hold of these documents of one kind, in their order. */
export async function readBackFromTables(
  tx: Tx,
  kind: DocumentKind,
  deliveries: readonly TakenDocument[],
  { schema }: Settings,
): Promise<ReadBack[]> {
  const rows = await tx.query<HeldRows>(statementOf(kind, schema), [
    textArray(deliveries.map(({ document }) => document.key)),
  ]);
  const held = new Map(rows.map((row) => [row.key, row]));
  return deliveries.map(({ document }) => answerOf(document, held.get(document.key)));
}

function answerOf(document: Document, held: HeldRows | undefined): ReadBack {
  const { key } = document;
  if (!held) return { key, status: 'missing' };
  const reference = referenceOf(document);
  if (held.state !== 'current') return { key, status: 'cancelled', reference };
  const [head, ...parts] = tablesOf(document.kind);
  const rowsOfAll = (rowsIn: (table: Table) => readonly Row[]) => ({
    ...rowsIn(head).map((row) => comparable(head, row))[0],
    ...Object.fromEntries(parts.map((part) => [part.name, rowsIn(part).map((row) => comparable(part, row))])),
  });
  const expected = rowsOfAll((table) => rowsOf(table, document));
  const seen = rowsOfAll((table) => (table === head ? [held.head] : (held.parts[table.name] ?? [])));
  const fields = fieldsOf(expected, seen, { names: ['row'] });
  const notCompared = document.kind === 'file' ? { notCompared: ['the name and the bytes of the file'] } : {};
  return { key, status: 'held', reference, fields, ...notCompared };
}

/** A row in one form, whether it comes from a document or from the database; a column without a value is null. */
function comparable({ columns }: Table, row: Row): Row {
  const { line, position, ...named } = Object.fromEntries(
    Object.entries(columns).map(([name, type]) => [name, valueOf(type, row[name])]),
  );
  const numbers = [line, position].filter((number) => typeof number === 'string');
  // A row of a part is known by its line and its place there.
  return numbers.length === 0 ? named : { row: numbers.join('.'), ...named };
}

function valueOf(type: ColumnType, value: unknown): unknown {
  if (value === undefined || value === null) return null;
  if (type === 'numeric') return canonicalDecimal(`${value as string | number}`);
  // Written as a whole, so compared as a whole: a member that somebody has added is a difference, too.
  if (type === 'jsonb') return JSON.stringify(sorted(value));
  return type === 'text[]' || typeof value === 'string' ? value : `${value as number | boolean}`;
}

/** With the members of each object in one order; PostgreSQL has its own. */
function sorted(value: unknown): unknown {
  if (Array.isArray(value)) return value.map(sorted);
  if (typeof value !== 'object' || value === null) return value;
  const members = Object.entries(value).toSorted(([a], [b]) => (a < b ? -1 : 1));
  return Object.fromEntries(members.map(([name, member]) => [name, sorted(member)]));
}

/** `$1`: keys. */
function statementOf(kind: DocumentKind, schema: string): string {
  const name = tableNames(schema);
  const [head, ...parts] = tablesOf(kind);
  const rowOf = ({ columns }: Table, alias: string) =>
    `(select to_json(r) from (select ${Object.entries(columns)
      .map(([column, type]) => `${shown(`${alias}.${column}`, type)} as ${column}`)
      .join(', ')}) r)`;
  const partOf = (part: Table) =>
    `'${part.name}', coalesce((select json_agg(${rowOf(part, 'p')} order by ${orderOf(part)})
      from ${name(part.name)} p where p.key = h.key), '[]')`;
  return `select h.key, h.state, ${rowOf(head, 'h')} as head, json_build_object(${parts.map(partOf).join(', ')}) as parts
    from ${name(head.name)} h where h.key = any($1::text[])`;
}

function orderOf({ columns }: Table): string {
  return ['line', 'position'].flatMap((column) => (column in columns ? [`p.${column}`] : [])).join(', ');
}

/** Numbers and times as text, so that no digit of them is lost. */
function shown(column: string, type: ColumnType): string {
  if (type === 'timestamptz') return `to_char(${column} at time zone 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.US"Z"')`;
  return type === 'jsonb' || type === 'text' || type === 'text[]' ? column : `${column}::text`;
}
