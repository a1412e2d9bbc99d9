/**
 * Rebuilds documents from the tables with its own statements, independently of the connector's code. Decimals are as
 * PostgreSQL prints them.
 */
import { escapeIdentifier } from 'pg';
import type { Document } from '#connector/documents.ts';
import type { Sql } from '#platform/database/sql.ts';

type Row = Record<string, unknown>;

const partTables: Record<Document['kind'], readonly string[]> = {
  supplier: ['supplier_attribute', 'supplier_contact'],
  'sourcing-event': ['sourcing_event_tag', 'sourcing_event_round', 'sourcing_event_supplier'],
  quotation: ['quotation_line', 'quotation_bid', 'quotation_value'],
  award: ['award_line', 'award_value'],
  'event-awards': ['event_awards_supplier', 'event_awards_line', 'event_awards_value'],
  'rfi-answers': ['rfi_answer', 'rfi_answer_option', 'rfi_answer_file'],
  file: [],
  job: ['job_error'],
};

/** The rows of a part table, for a document or for one of its lines. */
type Parts = (table: string, line?: unknown) => Row[];

/** The current documents of a kind, by key; with `key`, only that document. */
export async function readDocuments(
  sql: Sql,
  schema: string,
  kind: Document['kind'],
  key?: string,
): Promise<Map<string, unknown>> {
  const heads = await readRows(sql, schema, kind.replaceAll('-', '_'), key);
  const parts = new Map<string, Map<unknown, Row[]>>();
  for (const table of partTables[kind])
    parts.set(
      table,
      Map.groupBy(await readRows(sql, schema, table, key), ({ key }) => key),
    );
  return new Map(
    heads
      .filter(({ state }) => state === 'current')
      .map((head) => {
        const part: Parts = (table, line) =>
          (parts.get(table)?.get(head['key']) ?? []).filter((row) => line === undefined || row['line'] === line);
        return [String(head['key']), withoutNulls(rebuild(kind, head, part))];
      }),
  );
}

interface ColumnOfTable {
  readonly name: string;
  readonly type: string;
}

const columnsRead = new WeakMap<Sql, Map<string, ColumnOfTable[]>>();

/** The columns of a table; read once, as the tables do not change meanwhile. */
async function columnsOf(sql: Sql, schema: string, table: string): Promise<ColumnOfTable[]> {
  const known = columnsRead.get(sql) ?? new Map<string, ColumnOfTable[]>();
  columnsRead.set(sql, known);
  const columns =
    known.get(`${schema}.${table}`) ??
    (await sql.query<ColumnOfTable>(
      'select column_name as name, data_type as type from information_schema.columns where table_schema = $1 and table_name = $2',
      [schema, table],
    ));
  known.set(`${schema}.${table}`, columns);
  return columns;
}

/** All rows as JSON, with numbers and times as text. */
async function readRows(sql: Sql, schema: string, table: string, key: string | undefined): Promise<Row[]> {
  const columns = await columnsOf(sql, schema, table);
  const shown = columns.map(({ name, type }) =>
    type === 'numeric'
      ? `${escapeIdentifier(name)}::text`
      : type === 'timestamp with time zone'
        ? `to_char(${escapeIdentifier(name)} at time zone 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.US"Z"') as ${escapeIdentifier(name)}`
        : escapeIdentifier(name),
  );
  const names = new Set(columns.map(({ name }) => name));
  const order = ['key', 'line', 'position'].filter((name) => names.has(name));
  return sql.query<Row>(
    `select ${shown.join(', ')} from ${escapeIdentifier(schema)}.${escapeIdentifier(table)}
     where $1::text is null or key = $1 order by ${order.join(', ')}`,
    [key ?? null],
  );
}

function rebuild(kind: Document['kind'], head: Row, part: Parts): Row {
  const common = { kind, key: head['key'], fields: head['fields'] };
  const pair = {
    ...common,
    event: { ...named(head, 'event'), tags: head['event_tags'] },
    supplier: named(head, 'supplier'),
  };
  switch (kind) {
    case 'supplier':
      return {
        ...common,
        ...only(head, ['id', 'external_id', 'name', 'archived']),
        attributes: part('supplier_attribute').map((row) => only(row, ['name', 'value'])),
        contacts: part('supplier_contact').map((row) => only(row, ['name', 'email'])),
      };
    case 'sourcing-event': {
      const contact = named(head, 'contact');
      return {
        ...common,
        event: {
          ...named(head, 'event'),
          tags: part('sourcing_event_tag').map((row) => only(row, ['name', 'value'])),
        },
        ...only(head, ['status', 'currency', 'exchange_rates', 'created', 'published', 'closed', 'columns']),
        sourcing_requests: head['sourcing_requests'],
        lot_count: head['lot_count'],
        contact: isEmpty(contact) ? null : contact,
        rounds: part('sourcing_event_round').map((row) =>
          only(row, ['status', 'starts', 'ends', 'awarded_cost', 'awarded_lot_count']),
        ),
        suppliers: part('sourcing_event_supplier').map((row) => ({
          ...named(row, 'supplier'),
          ...only(row, ['accepted', 'participated']),
        })),
      };
    }
    case 'quotation':
      return {
        ...pair,
        ...only(head, ['currency', 'exchange_rates']),
        lines: part('quotation_line').map((row) => ({
          ...only(row, ['lot', 'sourcing_request', 'quantity', 'unit_price', 'fields']),
          bids: part('quotation_bid', row['line']).map((bid) => only(bid, ['value', 'volume'])),
          values: valuesOf(part, 'quotation_value', row),
        })),
      };
    case 'award':
      return {
        ...pair,
        ...only(head, ['currency', 'exchange_rates', 'total_cost']),
        lines: part('award_line').map((row) => ({ ...awarded(row), values: valuesOf(part, 'award_value', row) })),
      };
    case 'event-awards':
      return {
        ...common,
        event: pair.event,
        ...only(head, ['currency', 'exchange_rates', 'total_cost', 'bid_sheet_csv']),
        suppliers: part('event_awards_supplier').map((row) => ({
          ...named(row, 'supplier'),
          ...only(row, ['total_cost']),
        })),
        lines: part('event_awards_line').map((row) => ({
          ...awarded(row),
          supplier: named(row, 'supplier'),
          values: valuesOf(part, 'event_awards_value', row),
        })),
      };
    case 'rfi-answers':
      return {
        ...pair,
        lines: part('rfi_answer').map((row) => ({
          question: named(row, 'question'),
          ...only(row, ['value', 'comment', 'currency', 'fields']),
          options: part('rfi_answer_option', row['line']).map((option) => only(option, ['value', 'satisfies_gating'])),
          files: part('rfi_answer_file', row['line']).map(({ file_id }) => file_id),
        })),
      };
    case 'file':
      return {
        ...pair,
        supplier: head['supplier_id'] === null ? null : pair.supplier,
        question: named(head, 'question'),
      };
    case 'job':
      return {
        ...common,
        ...only(head, ['type', 'status', 'created', 'created_entity', 'reference_id']),
        errors: part('job_error').map((row) => only(row, ['path', 'message'])),
      };
  }
}

const awardedNames = 'lot scenario sourcing_request share quantity unit_price cost historic_cost savings fields'.split(
  ' ',
);

function awarded(row: Row): Row {
  const requisition = named(row, 'requisition');
  return { ...only(row, awardedNames), requisition: isEmpty(requisition) ? null : requisition };
}

function valuesOf(part: Parts, table: string, row: Row): Row[] {
  return part(table, row['line']).map(({ column_name, value, currency }) => ({ column: column_name, value, currency }));
}

function isEmpty(row: Row): boolean {
  return Object.values(row).every((value) => value === null);
}

function only(row: Row, names: readonly string[]): Row {
  return Object.fromEntries(names.map((name) => [name, row[name]]));
}

/** The columns that begin with this prefix, without the prefix. */
function named(row: Row, prefix: string): Row {
  const own = Object.entries(row).filter(([name]) => name.startsWith(`${prefix}_`) && name !== 'event_tags');
  return Object.fromEntries(own.map(([name, value]) => [name.slice(prefix.length + 1), value]));
}

/** Documents leave unknown values out. */
function withoutNulls(value: unknown): unknown {
  if (Array.isArray(value)) return value.map(withoutNulls);
  if (typeof value !== 'object' || value === null) return value;
  const known = Object.entries(value).filter(([, member]) => member !== null && member !== undefined);
  return Object.fromEntries(known.map(([name, member]) => [name, withoutNulls(member)]));
}
