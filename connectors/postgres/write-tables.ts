/**
 * Writes documents to the connector's own tables. The number of statements does not grow with the batch: read the
 * heads, write the heads, delete the old parts, insert the new parts, add to the history. Heads are written before
 * their parts and in the order of their keys. Another transaction with one of these documents waits at its head, and
 * its later statements see what this transaction has written; two transactions never wait for each other.
 */
import { DataError, type Document, type DocumentKind, type Outcome } from 'sourcing-bridge/connector';
import type { Tx } from './connections.ts';
import type { Settings } from './settings.ts';
import { addCells, type Cell, type ColumnType, rowsOf, storable, tableNames, tablesOf } from './tables.ts';
import type { Known, Writer } from './writer.ts';

/** The rows that one operation writes. */
export interface DocumentRows {
  readonly document: Document;
  readonly isWithdrawn: boolean;
  readonly contentHash: string;
  readonly head: readonly Cell[];
  /** The rows of each of the kind's other tables. */
  readonly parts: readonly (readonly (readonly Cell[])[])[];
  /** The document for the history; undefined without history. */
  readonly json: string | undefined;
}

/** Keys of this length fit into a PostgreSQL index, whatever their characters. */
const keyCharactersMax = 600;
const fileColumns = { name: 'text', byte_count: 'bigint', sha256: 'text' } as const;
const managedColumns = { key: 'text', state: 'text', content_hash: 'text' } as const;

/** The reference of a document: table and key. */
export function referenceOf({ kind, key }: Pick<Document, 'kind' | 'key'>): string {
  return `${tablesOf(kind)[0].name}/${key}`;
}

/** The order of writes. Any order works that is the same in every process. */
export function compareKeys(a: string, b: string): number {
  return a < b ? -1 : a > b ? 1 : 0;
}

/** Throws DataError for a key that is too long, or that PostgreSQL cannot hold. */
export function checkKey({ kind, key }: Document): void {
  if (key.length > keyCharactersMax)
    throw new DataError(
      `The key of this ${kind} has ${key.length} characters; the tables' primary keys hold at most ${keyCharactersMax}.`,
    );
  storable('the key', key);
}

/**
 * Throws DataError where fewer rows were written than sent: a trigger that returns null drops a row, and PostgreSQL
 * says nothing of it.
 */
export function refuseDropped(sent: number, written: number, tables: string): void {
  if (written < sent)
    throw new DataError(
      `PostgreSQL: a trigger has dropped ${sent - written} of ${sent} rows for ${tables}. ` +
        'Let it return the row, or raise an exception.',
    );
}

/** A writer for the tables of one kind. */
export function createTableWriter(kind: DocumentKind, { schema, history }: Settings): Writer<DocumentRows> {
  const [head, ...parts] = tablesOf(kind);
  const name = tableNames(schema);
  const headTable = name(head.name);
  const headColumns = { ...head.columns, ...(kind === 'file' ? fileColumns : {}) };
  const partTables = [
    ...parts.map((part) => ({ table: name(part.name), columns: { key: 'text', ...part.columns } as const })),
    ...(kind === 'file' ? [{ table: name('file_content'), columns: { key: 'text', bytes: 'bytea' } as const }] : []),
  ];
  const sql = {
    held: `select key, state, content_hash from ${headTable} where key = any($1::text[])`,
    heads: upsert(headTable, headColumns),
    clear: joined(partTables.map(({ table }) => `delete from ${table} where key = any($1::text[])`)),
    fill: insertAll(partTables),
    remember: `insert into ${name('document_history')} (kind, key, version, written_at, state, content_hash, document)
      select $1, head.key, head.version, head.written_at, head.state, head.content_hash, input.document::jsonb
      from unnest($2::text[], $3::text[]) as input (key, document) join ${headTable} as head using (key)
      on conflict (kind, key, version) do nothing`,
  };

  async function readKnown(tx: Tx, keys: readonly string[]): Promise<ReadonlyMap<string, Known>> {
    const rows = await tx.query<Known & { key: string }>(sql.held, [keys]);
    return new Map(rows.map((row) => [row.key, row]));
  }

  return {
    readKnown,
    referenceOf,
    prepare: (operation, file) => {
      const { document, action, contentHash } = operation;
      checkKey(document);
      const isWithdrawn = action === 'cancel';
      const cells: Cell[] = [document.key, isWithdrawn ? 'withdrawn' : 'current', contentHash];
      for (const row of rowsOf(head, document)) addCells(cells, head, row);
      if (kind === 'file')
        cells.push(file ? storable('file.name', file.name) : null, file?.byteCount ?? null, file?.sha256 ?? null);
      const partRows: Cell[][][] = parts.map((part) =>
        isWithdrawn ? [] : rowsOf(part, document).map((row) => addCells([document.key], part, row)),
      );
      if (kind === 'file') partRows.push(file?.bytes ? [[document.key, file.bytes]] : []);
      return {
        document,
        isWithdrawn,
        contentHash,
        head: cells,
        parts: partRows,
        json: history ? JSON.stringify(document) : undefined,
      };
    },
    apply: async (tx, documents) => {
      const keysOf = (of: readonly DocumentRows[]) => of.map(({ document }) => document.key);
      const held = await readKnown(tx, keysOf(documents));
      // A document that is not in the tables needs no withdrawal.
      const wanted = documents.filter(({ isWithdrawn, document }) => !isWithdrawn || held.has(document.key));
      if (wanted.length > 0) {
        const keys = keysOf(wanted);
        const heads = wanted.map((rows) => rows.head);
        const written = await tx.query(sql.heads, arraysOf(heads, { ...managedColumns, ...headColumns }));
        refuseDropped(heads.length, written.length, headTable);
        if (partTables.length > 0) {
          await tx.query(sql.clear, [keys]);
          const rows = partTables.map((_, index) => wanted.flatMap(({ parts }) => parts[index] ?? []));
          const sent = rows.reduce((sum, { length }) => sum + length, 0);
          if (sent > 0) {
            const columns = partTables.flatMap((part, index) => arraysOf(rows[index] ?? [], part.columns));
            const [filled] = await tx.query<{ rows: number }>(sql.fill, columns);
            refuseDropped(sent, filled?.rows ?? 0, partTables.map(({ table }) => table).join(', '));
          }
        }
        if (history) await tx.query(sql.remember, [kind, keys, wanted.map(({ json }) => json ?? null)]);
      }
      return documents.map((rows) => outcomeFor(rows, held.get(rows.document.key)));
    },
  };
}

function outcomeFor({ document, isWithdrawn, contentHash }: DocumentRows, held: Known | undefined): Outcome {
  const reference = referenceOf(document);
  if (isWithdrawn) return { status: 'cancelled', reference };
  if (held?.state !== 'current') return { status: 'created', reference };
  return { status: held.content_hash === contentHash ? 'unchanged' : 'updated', reference };
}

type SqlType = ColumnType | 'bytea';

/** One parameter per column: an array of all its cells. */
function arraysOf(rows: readonly (readonly Cell[])[], columns: Readonly<Record<string, SqlType>>): Cell[][] {
  return Object.keys(columns).map((_, index) => rows.map((row) => row[index] ?? null));
}

/** A document that is written again unchanged keeps its version; a row that was changed by hand is corrected. */
function upsert(table: string, columns: Readonly<Record<string, SqlType>>): string {
  const all = { ...managedColumns, ...columns };
  const names = Object.keys(all);
  const same = 'held.state = excluded.state and held.content_hash = excluded.content_hash';
  return `insert into ${table} as held (${names.join(', ')}, version, written_at)
    select ${casts('input', all)}, 1, now() from ${inputOf('input', all, 1)}
    on conflict (key) do update set
      version = held.version + case when ${same} then 0 else 1 end,
      written_at = case when ${same} then held.written_at else excluded.written_at end,
      ${names
        .slice(1)
        .map((column) => `${column} = excluded.${column}`)
        .join(', ')} returning 1`;
}

/** Inserts the rows of all tables, and returns how many were written. */
function insertAll(tables: readonly { table: string; columns: Readonly<Record<string, SqlType>> }[]): string {
  let next = 1;
  const inserts = tables.map(({ table, columns }, index) => {
    const first = next;
    next += Object.keys(columns).length;
    return `part_${index} as (insert into ${table} (${Object.keys(columns).join(', ')})
        select ${casts('input', columns)} from ${inputOf('input', columns, first)} returning 1)`;
  });
  const counts = tables.map((_, index) => `(select count(*) from part_${index})`);
  return `with ${inserts.join(', ')} select (${counts.join(' + ')})::int as rows`;
}

/** Each column is sent as an array of texts (`bytea` as an array of bytes) and cast by the statement. */
function inputOf(alias: string, columns: Readonly<Record<string, SqlType>>, first: number): string {
  const arrays = Object.values(columns).map(
    (type, index) => `$${first + index}::${type === 'bytea' ? type : 'text'}[]`,
  );
  return `unnest(${arrays.join(', ')}) as ${alias} (${Object.keys(columns).join(', ')})`;
}

function casts(alias: string, columns: Readonly<Record<string, SqlType>>): string {
  return Object.entries(columns)
    .map(([name, type]) => (type === 'text' || type === 'bytea' ? `${alias}.${name}` : `${alias}.${name}::${type}`))
    .join(', ');
}

/** Joins several statements that change data into one. */
function joined(statements: readonly string[]): string {
  const last = statements.at(-1) ?? '';
  const others = statements.slice(0, -1).map((statement, index) => `part_${index} as (${statement})`);
  return others.length === 0 ? last : `with ${others.join(', ')} ${last}`;
}
