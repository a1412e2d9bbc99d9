/**
 * All text that a schema holds, whatever its tables are: the catalog of the database names them, so that a table or a
 * column that is added later is searched, too. Sealed values and hashes are bytes and not text.
 */
import type { Sql } from '../database/sql.ts';
import type { Person } from './person.ts';

type TextType = 'text' | 'json' | 'jsonb' | 'text[]';

export interface TextColumn {
  readonly name: string;
  readonly type: TextType;
  readonly nullable: boolean;
}

export interface TextTable {
  /** With its schema. */
  readonly table: string;
  /** The primary key; empty where there is none. */
  readonly key: readonly string[];
  readonly columns: readonly TextColumn[];
}

/** Returns the tables of a schema that have text. Not its list of migrations. */
export async function findTextTables(sql: Sql, schema: string): Promise<TextTable[]> {
  return sql.query<TextTable>(
    `select n.nspname || '.' || c.relname as table,
       coalesce((select json_agg(k.attname order by array_position(i.indkey::int2[], k.attnum))
         from pg_index i join pg_attribute k on k.attrelid = c.oid and k.attnum = any(i.indkey)
         where i.indrelid = c.oid and i.indisprimary), '[]') as key,
       json_agg(json_build_object('name', a.attname, 'type', format_type(a.atttypid, null),
         'nullable', not a.attnotnull) order by a.attnum) as columns
     from pg_class c join pg_namespace n on n.oid = c.relnamespace
     join pg_attribute a on a.attrelid = c.oid and a.attnum > 0 and not a.attisdropped
     where n.nspname = $1 and c.relkind in ('r', 'p') and c.relname <> 'migrations'
       and format_type(a.atttypid, null) in ('text', 'json', 'jsonb', 'text[]')
     group by n.nspname, c.relname, c.oid order by c.relname`,
    [schema],
  );
}

export interface FoundRow {
  readonly table: TextTable;
  /** Names the row for people and for an update. */
  readonly key: Readonly<Record<string, unknown>>;
  /** The columns that hold the person, as text; an array is JSON. */
  readonly found: Readonly<Record<string, string>>;
}

const pageSize = 200;

/** Yields the rows of a table that hold the person, by pages. A row that is changed meanwhile may come again. */
export async function* findRowsOf(sql: Sql, table: TextTable, person: Person): AsyncGenerator<FoundRow> {
  const shown = (names: readonly string[], asText: (name: string) => string) =>
    `json_build_object(${names.map((name) => `'${name}', ${asText(name)}`).join(', ')})`;
  const columnNames = table.columns.map(({ name }) => name);
  const typeOf = new Map(table.columns.map(({ name, type }) => [name, type]));
  const asText = (name: string) => (typeOf.get(name) === 'text[]' ? `to_json("${name}")::text` : `"${name}"::text`);
  let after: string | null = null;
  for (;;) {
    const rows: { place: string; key: Record<string, unknown>; texts: Record<string, string | null> }[] =
      await sql.query(
        `select ctid::text as place, ${shown(table.key, (name) => `"${name}"::text`)} as key,
           ${shown(columnNames, asText)} as texts
         from ${table.table}
         where ($2::tid is null or ctid > $2::tid) and (${columnNames.map((name) => `${asText(name)} ~* $1`).join(' or ')})
         order by ctid limit ${pageSize}`,
        [person.pattern, after],
      );
    for (const { key, texts } of rows) {
      const found = Object.entries(texts).filter(
        (entry): entry is [string, string] => entry[1] !== null && person.isIn(entry[1]),
      );
      if (found.length > 0) yield { table, key, found: Object.fromEntries(found) };
    }
    after = rows.at(-1)?.place ?? null;
    if (rows.length < pageSize) return;
  }
}

/**
 * Takes the person out of the row. Does nothing when the row was changed since it was read: it is found again. Rejects
 * when a constraint of the table forbids it.
 */
export async function takeOutOfRow(sql: Sql, { table, key, found }: FoundRow, person: Person): Promise<boolean> {
  const params: unknown[] = [];
  const param = (value: unknown) => `$${params.push(value)}`;
  const changes = table.columns.flatMap(({ name, type, nullable }) => {
    const before = found[name];
    if (before === undefined) return [];
    const after = cleanText(before, type, nullable, person);
    const value =
      type === 'text[]' ? `array(select json_array_elements_text(${param(after)}::json))` : `${param(after)}::${type}`;
    const old = type === 'text[]' ? `to_json("${name}")::text` : `"${name}"::text`;
    return [{ set: `"${name}" = ${value}`, unchanged: `${old} = ${param(before)}` }];
  });
  const where = Object.entries(key).map(([name, value]) => `"${name}"::text = ${param(value)}`);
  const rows = await sql.query(
    `update ${table.table} set ${changes.map(({ set }) => set).join(', ')}
     where ${[...where, ...changes.map(({ unchanged }) => unchanged)].join(' and ')} returning 1`,
    params,
  );
  return rows.length > 0;
}

/** Text that is JSON is cleaned as JSON: there a contact goes with its name. */
function cleanText(text: string, type: TextType, nullable: boolean, person: Person): string | null {
  const value = jsonOf(text);
  if (value === undefined) return person.takeOutOfText(text);
  const cleaned = person.takeOutOfJson(value);
  if (cleaned === undefined) return nullable ? null : type === 'text' ? person.placeholder : '{}';
  return JSON.stringify(cleaned);
}

/** The object or the list; undefined for any other text. */
function jsonOf(text: string): object | undefined {
  if (!/^\s*[[{"]/.test(text)) return undefined;
  try {
    return JSON.parse(text) as object;
  } catch {
    return undefined;
  }
}
