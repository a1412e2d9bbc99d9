/**
 * Reads back what the tables hold of documents, for the comparison with what was delivered. One statement reads the rows
 * of all tables of a document: a write that runs at the same time is seen as a whole, or not at all. The expected values are
 * the rows that a write makes.
 */
import {
  canonicalDecimal,
  type Document,
  type DocumentKind,
  fieldsOf,
  type ReadBack,
  type ReadField,
  type TakenDocument,
} from 'sourcing-bridge/connector';
import type { Tx } from './connections.ts';
import type { Settings } from './settings.ts';
import { type ColumnType, rowsOf, type Table, tableNames, tablesOf } from './tables.ts';
import { referenceOf } from './write-tables.ts';

type Row = Readonly<Record<string, unknown>>;
/** The columns of a table in their order, each as the text that `shown` makes of it. */
type HeldRow = readonly (string | null)[];

interface HeldRows {
  readonly key: string;
  readonly state: string;
  readonly head: HeldRow;
  /** The rows of the kind's other tables, in their order; null: none. */
  readonly parts: readonly (readonly HeldRow[] | null)[];
}

/** So many documents are asked for at once; while they are compared, the server reads the next ones. */
const perStatement = 100;

/** What the tables hold of these documents of one kind, in their order. */
export async function readBackFromTables(
  tx: Tx,
  kind: DocumentKind,
  deliveries: readonly TakenDocument[],
  { schema }: Settings,
): Promise<ReadBack[]> {
  const statement = statementOf(kind, schema);
  const answers: ReadBack[] = [];
  let asked = ask(0);
  for (let from = 0; from < deliveries.length; from += perStatement) {
    const rows = await asked;
    asked = ask(from + perStatement);
    const held = new Map(rows.map((row) => [row.key, row]));
    for (const { document } of deliveries.slice(from, from + perStatement))
      answers.push(answerOf(document, held.get(document.key)));
  }
  return answers;

  function ask(from: number): Promise<HeldRows[]> {
    const keys = deliveries.slice(from, from + perStatement).map(({ document }) => document.key);
    const rows = keys.length === 0 ? Promise.resolve([]) : tx.query<HeldRows>(statement, [keys]);
    // It is awaited with the next turn, and may fail before.
    rows.catch(() => undefined);
    return rows;
  }
}

function answerOf(document: Document, held: HeldRows | undefined): ReadBack {
  const { key } = document;
  if (!held) return { key, status: 'missing' };
  const reference = referenceOf(document);
  if (held.state !== 'current') return { key, status: 'cancelled', reference };
  const fields: ReadField[] = [];
  let equalValues = 0;
  for (const [index, table] of tablesOf(document.kind).entries()) {
    const wanted = rowsOf(table, document);
    const seen = index === 0 ? [held.head] : (held.parts[index - 1] ?? []);
    const equal = countEqual(table, wanted, seen);
    if (equal === undefined) fields.push(...fieldsOfRows(table, index === 0, wanted, seen));
    else equalValues += equal;
  }
  const notCompared = document.kind === 'file' ? { notCompared: ['the name and the bytes of the file'] } : {};
  return { key, status: 'held', reference, fields, equalValues, ...notCompared };
}

/**
 * Counts the values of a table that holds what was written; undefined where a value differs, or may. A document has
 * hundreds of values, nearly all of them equal: nothing is made of them here.
 */
function countEqual({ columns }: Table, wanted: readonly Row[], held: readonly HeldRow[]): number | undefined {
  if (wanted.length !== held.length) return undefined;
  const entries = Object.entries(columns);
  let count = 0;
  for (const [row, cells] of wanted.entries())
    for (let place = 0; place < entries.length; place += 1) {
      const [name, type] = entries[place] as [string, ColumnType];
      if (!isEqual(type, cells[name], held[row]?.[place])) return undefined;
      // As `fieldsOfRows` counts them: a row has one name, and a list its entries.
      if (type === 'text[]' && Array.isArray(cells[name])) count += cells[name].length;
      else if (name !== 'position' || !('line' in columns)) count += 1;
    }
  return count;
}

function isEqual(type: ColumnType, written: unknown, held: string | null | undefined): boolean {
  if (written === undefined || written === null) return held === null;
  if (typeof held !== 'string') return false;
  if (typeof written !== 'object') {
    const text = `${written as string | number | boolean}`;
    return text === held || (type === 'numeric' && canonicalDecimal(text) === canonicalDecimal(held));
  }
  return JSON.stringify(sorted(written)) === JSON.stringify(sorted(JSON.parse(held)));
}

/** The values of a table, each of the document beside that of the table. */
function fieldsOfRows(table: Table, isHead: boolean, wanted: readonly Row[], held: readonly HeldRow[]): ReadField[] {
  const expected = wanted.map((row) => comparable(table, row));
  const seen = held.map((cells) => comparable(table, rowOfCells(table, cells)));
  const [object, heldObject] = isHead ? [expected[0], seen[0]] : [{ [table.name]: expected }, { [table.name]: seen }];
  return fieldsOf(object, heldObject, { names: ['row'] });
}

function rowOfCells({ columns }: Table, cells: HeldRow): Row {
  return Object.fromEntries(
    Object.entries(columns).map(([name, type], place) => {
      const cell = cells[place] ?? null;
      return [name, cell !== null && (type === 'jsonb' || type === 'text[]') ? JSON.parse(cell) : cell];
    }),
  );
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

/** `$1`: keys. Rows as lists of texts: as objects they would cost the server and the driver twice as much. */
function statementOf(kind: DocumentKind, schema: string): string {
  const name = tableNames(schema);
  const [head, ...parts] = tablesOf(kind);
  const rowOf = ({ columns }: Table, alias: string) =>
    `array[${Object.entries(columns)
      .map(([column, type]) => shown(`${alias}.${column}`, type))
      .join(', ')}]`;
  const partOf = (part: Table) =>
    `(select json_agg(${rowOf(part, 'p')} order by ${orderOf(part)}) from ${name(part.name)} p where p.key = h.key)`;
  return `select h.key, h.state, to_json(${rowOf(head, 'h')}) as head, json_build_array(${parts.map(partOf).join(', ')}) as parts
    from ${name(head.name)} h where h.key = any($1::text[])`;
}

function orderOf({ columns }: Table): string {
  return ['line', 'position'].flatMap((column) => (column in columns ? [`p.${column}`] : [])).join(', ');
}

/** Everything as text, so that no digit of a number is lost. */
function shown(column: string, type: ColumnType): string {
  if (type === 'timestamptz') return `to_char(${column} at time zone 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.US"Z"')`;
  if (type === 'text[]') return `to_json(${column})::text`;
  return type === 'text' ? column : `${column}::text`;
}
