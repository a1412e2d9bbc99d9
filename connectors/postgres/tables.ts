/**
 * The tables of each kind of document, and which member goes into which column. The first table of a kind has one row
 * per document; the others have its parts, numbered from 1 in the document's order. A column without a value is null.
 * The migrations create these tables with the same columns; a test compares the two.
 */

import { escapeIdentifier } from 'pg';
import {
  type AwardLine,
  type BidSheetRow,
  DataError,
  type Document,
  type DocumentKind,
  type DocumentOf,
  type EventHead,
  type QuestionHead,
  type SupplierHead,
} from 'sourcing-bridge/connector';
import type { SchemaPart } from './migrations.ts';

/** A value as it is sent: text, or the bytes of a file. */
export type Cell = string | Uint8Array | null;

export type ColumnType = 'text' | 'numeric' | 'timestamptz' | 'boolean' | 'integer' | 'bigint' | 'jsonb' | 'text[]';

type Columns = Readonly<Record<string, ColumnType>>;
type Row<Names extends string = string> = Readonly<Partial<Record<Names, unknown>>>;

export interface Table<Kind extends DocumentKind = DocumentKind> {
  readonly name: string;
  /** The columns that come from the document, without its key. */
  readonly columns: Columns;
  /** The same as a list, each with the words that name it in a message. */
  readonly columnList: readonly { readonly name: string; readonly type: ColumnType; readonly place: string }[];
  rowsOf(document: DocumentOf<Kind>): readonly Row[];
}

/** The tables of one kind; the first one is its head. */
type Tables<Kind extends DocumentKind> = readonly [head: Table<Kind>, ...parts: Table<Kind>[]];

/** Defines a table; the compiler checks that the rows have the columns' names. */
function table<Kind extends DocumentKind, const C extends Columns>(
  name: string,
  columns: C,
  rowsOf: (document: DocumentOf<Kind>) => readonly Row<keyof C & string>[],
): Table<Kind> {
  const columnList = Object.entries(columns).map(([column, type]) => ({
    name: column,
    type,
    place: `${name}.${column}`,
  }));
  return { name, columns, columnList, rowsOf };
}

const eventColumns = {
  event_id: 'text',
  event_name: 'text',
  event_reference_id: 'text',
  event_type: 'text',
  event_category: 'text',
  event_is_test: 'boolean',
} as const;
const eventTags = { event_tags: 'jsonb' } as const;
const supplierColumns = { supplier_id: 'text', supplier_external_id: 'text', supplier_name: 'text' } as const;
const questionColumns = {
  question_id: 'text',
  question_identifier: 'text',
  question_text: 'text',
  question_type: 'text',
  question_input_type: 'text',
  question_parent: 'text',
  question_categories: 'text[]',
} as const;
const position = { position: 'integer' } as const;
const line = { line: 'integer' } as const;
const valueColumns = { ...line, ...position, column_name: 'text', value: 'text', currency: 'text' } as const;
const fields = { fields: 'jsonb' } as const;

const eventCells = ({ tags, ...event }: EventHead) => ({ ...prefixed('event', event), event_tags: tags });
const supplierCells = (supplier: SupplierHead) => prefixed('supplier', supplier);
const questionCells = (question: QuestionHead) => prefixed('question', question);

type Prefixed<Prefix extends string, Part> = { [Name in keyof Part & string as `${Prefix}_${Name}`]: Part[Name] };

function prefixed<Prefix extends string, Part extends object>(prefix: Prefix, part: Part): Prefixed<Prefix, Part> {
  const named: Record<string, unknown> = {};
  for (const name in part) named[`${prefix}_${name}`] = part[name];
  return named as Prefixed<Prefix, Part>;
}

function numbered<Part extends object>(parts: readonly Part[]) {
  return parts.map((part, index) => ({ position: index + 1, ...part }));
}

/** The rows for parts of lines; `line` is the number of the line. */
function ofLines<Line, Part extends object>(lines: readonly Line[], partsOf: (line: Line) => readonly Part[]) {
  return lines.flatMap((entry, index) => numbered(partsOf(entry)).map((part) => ({ line: index + 1, ...part })));
}

function numberedLines<Line extends object>(lines: readonly Line[]) {
  return lines.map((entry, index) => ({ line: index + 1, ...entry }));
}

/** An award has more of these than of all else together: each is made in one step. */
const valueRows = (lines: readonly { values: BidSheetRow }[]) =>
  lines.flatMap(({ values }, index) =>
    values.map(({ column, value, currency }, place) => ({
      line: index + 1,
      position: place + 1,
      column_name: column,
      value,
      currency,
    })),
  );

const awardedColumns = {
  lot: 'text',
  scenario: 'text',
  sourcing_request: 'text',
  requisition_intake: 'text',
  requisition_reference_id: 'text',
  requisition_line: 'text',
  share: 'numeric',
  quantity: 'numeric',
  unit_price: 'numeric',
  cost: 'numeric',
  historic_cost: 'numeric',
  savings: 'numeric',
  ...fields,
} as const;

const awardedCells = ({ values: _values, requisition: made, ...cells }: AwardLine) => ({
  ...cells,
  requisition_intake: made?.intake,
  requisition_reference_id: made?.reference_id,
  requisition_line: made?.line,
});

const tables: { readonly [Kind in DocumentKind]: Tables<Kind> } = {
  supplier: [
    table(
      'supplier',
      { id: 'text', external_id: 'text', name: 'text', archived: 'boolean', ...fields },
      ({ attributes: _attributes, contacts: _contacts, kind: _kind, key: _key, ...head }) => [head],
    ),
    table('supplier_attribute', { ...position, name: 'text', value: 'text' }, ({ attributes }) => numbered(attributes)),
    table('supplier_contact', { ...position, name: 'text', email: 'text' }, ({ contacts }) => numbered(contacts)),
  ],
  'sourcing-event': [
    table(
      'sourcing_event',
      {
        ...eventColumns,
        status: 'text',
        currency: 'text',
        exchange_rates: 'jsonb',
        created: 'timestamptz',
        published: 'timestamptz',
        closed: 'timestamptz',
        lot_count: 'bigint',
        contact_name: 'text',
        contact_email: 'text',
        columns: 'text[]',
        sourcing_requests: 'text[]',
        ...fields,
      },
      ({ kind: _kind, key: _key, event, contact, rounds: _rounds, suppliers: _suppliers, ...head }) => {
        const { event_tags: _tags, ...cells } = eventCells(event);
        return [{ ...cells, ...head, contact_name: contact?.name, contact_email: contact?.email }];
      },
    ),
    table('sourcing_event_tag', { ...position, name: 'text', value: 'text' }, ({ event }) => numbered(event.tags)),
    table(
      'sourcing_event_round',
      {
        ...position,
        status: 'text',
        starts: 'timestamptz',
        ends: 'timestamptz',
        awarded_cost: 'numeric',
        awarded_lot_count: 'bigint',
      },
      ({ rounds }) => numbered(rounds),
    ),
    table(
      'sourcing_event_supplier',
      { ...position, ...supplierColumns, accepted: 'boolean', participated: 'boolean' },
      ({ suppliers }) =>
        numbered(
          suppliers.map(({ accepted, participated, ...supplier }) => ({
            ...supplierCells(supplier),
            accepted,
            participated,
          })),
        ),
    ),
  ],
  quotation: [
    table(
      'quotation',
      { ...eventColumns, ...eventTags, ...supplierColumns, currency: 'text', exchange_rates: 'jsonb', ...fields },
      ({ event, supplier, currency, exchange_rates, fields }) => [
        { ...eventCells(event), ...supplierCells(supplier), currency, exchange_rates, fields },
      ],
    ),
    table(
      'quotation_line',
      { ...line, lot: 'text', sourcing_request: 'text', quantity: 'numeric', unit_price: 'numeric', ...fields },
      ({ lines }) => numberedLines(lines.map(({ bids: _bids, values: _values, ...cells }) => cells)),
    ),
    table('quotation_bid', { ...line, ...position, value: 'numeric', volume: 'numeric' }, ({ lines }) =>
      ofLines(lines, ({ bids }) => bids),
    ),
    table('quotation_value', valueColumns, ({ lines }) => valueRows(lines)),
  ],
  award: [
    table(
      'award',
      {
        ...eventColumns,
        ...eventTags,
        ...supplierColumns,
        currency: 'text',
        exchange_rates: 'jsonb',
        total_cost: 'numeric',
        ...fields,
      },
      ({ event, supplier, currency, exchange_rates, total_cost, fields }) => [
        { ...eventCells(event), ...supplierCells(supplier), currency, exchange_rates, total_cost, fields },
      ],
    ),
    table('award_line', { ...line, ...awardedColumns }, ({ lines }) => numberedLines(lines.map(awardedCells))),
    table('award_value', valueColumns, ({ lines }) => valueRows(lines)),
  ],
  'event-awards': [
    table(
      'event_awards',
      {
        ...eventColumns,
        ...eventTags,
        currency: 'text',
        exchange_rates: 'jsonb',
        total_cost: 'numeric',
        bid_sheet_csv: 'text',
        ...fields,
      },
      ({ event, currency, exchange_rates, total_cost, bid_sheet_csv, fields }) => [
        { ...eventCells(event), currency, exchange_rates, total_cost, bid_sheet_csv, fields },
      ],
    ),
    table('event_awards_supplier', { ...position, ...supplierColumns, total_cost: 'numeric' }, ({ suppliers }) =>
      numbered(suppliers.map(({ total_cost, ...supplier }) => ({ ...supplierCells(supplier), total_cost }))),
    ),
    table('event_awards_line', { ...line, ...supplierColumns, ...awardedColumns }, ({ lines }) =>
      numberedLines(lines.map(({ supplier, ...won }) => ({ ...supplierCells(supplier), ...awardedCells(won) }))),
    ),
    table('event_awards_value', valueColumns, ({ lines }) => valueRows(lines)),
  ],
  'rfi-answers': [
    table(
      'rfi_answers',
      { ...eventColumns, ...eventTags, ...supplierColumns, ...fields },
      ({ event, supplier, fields }) => [{ ...eventCells(event), ...supplierCells(supplier), fields }],
    ),
    table(
      'rfi_answer',
      { ...line, ...questionColumns, value: 'text', comment: 'text', currency: 'text', ...fields },
      ({ lines }) =>
        numberedLines(
          lines.map(({ question, options: _options, files: _files, ...cells }) => ({
            ...questionCells(question),
            ...cells,
          })),
        ),
    ),
    table('rfi_answer_option', { ...line, ...position, value: 'text', satisfies_gating: 'boolean' }, ({ lines }) =>
      ofLines(lines, ({ options }) => options),
    ),
    table('rfi_answer_file', { ...line, ...position, file_id: 'text' }, ({ lines }) =>
      ofLines(lines, ({ files }) => files.map((file_id) => ({ file_id }))),
    ),
  ],
  file: [
    // Name, size and checksum come with the bytes, not with the document.
    table(
      'file',
      { ...eventColumns, ...eventTags, ...supplierColumns, ...questionColumns, ...fields },
      ({ event, supplier, question, fields }) => [
        {
          ...eventCells(event),
          ...(supplier ? supplierCells(supplier) : {}),
          ...questionCells(question),
          fields,
        },
      ],
    ),
  ],
  job: [
    table(
      'job',
      {
        type: 'text',
        status: 'text',
        created: 'timestamptz',
        created_entity: 'text',
        reference_id: 'text',
        ...fields,
      },
      ({ kind: _kind, key: _key, errors: _errors, ...head }) => [head],
    ),
    table('job_error', { ...position, path: 'text', message: 'text' }, ({ errors }) => numbered(errors)),
  ],
};

/** The tables of a kind; every kind has some. */
export function tablesOf(kind: DocumentKind): Tables<DocumentKind> {
  return tables[kind] as unknown as Tables<DocumentKind>;
}

/**
 * Adds the cells of a row to those before them, in the order of the table's columns. Throws DataError for text that
 * PostgreSQL cannot hold.
 */
export function addCells(cells: Cell[], { columnList }: Table, row: Row): Cell[] {
  for (const { name, type, place } of columnList) cells.push(cellOf(place, type, row[name]));
  return cells;
}

/** The rows of a document in one of its kind's tables. */
export function rowsOf(table: Table, document: Document): readonly Row[] {
  return table.rowsOf(document);
}

function cellOf(place: string, type: ColumnType, value: unknown): Cell {
  if (value === undefined) return null;
  if (type === 'jsonb') return storable(place, JSON.stringify(value));
  if (type === 'text[]') return arrayLiteral((value as readonly string[]).map((entry) => storable(place, entry)));
  return storable(place, `${value as string | number | boolean}`);
}

/**
 * Returns the text. Throws DataError for a zero character, which PostgreSQL does not accept, and for half a character,
 * which would be sent as another one.
 */
export function storable(place: string, text: string): string {
  if (text.includes('\0'))
    throw new DataError(`PostgreSQL cannot hold the zero character (U+0000) in the value for ${place}.`);
  if (!text.isWellFormed())
    throw new DataError(`PostgreSQL cannot hold half a character (a lone surrogate) in the value for ${place}.`);
  return text;
}

function arrayLiteral(texts: readonly string[]): string {
  return `{${texts.map((text) => `"${text.replaceAll(/["\\]/g, '\\$&')}"`).join(',')}}`;
}

/** A function that returns the full name of a table in the schema, quoted for a statement. */
export function tableNames(schema: string): (table: string) => string {
  return (table) => `${escapeIdentifier(schema)}.${escapeIdentifier(table)}`;
}

/** All tables that the connector creates in its schema for a part of it. */
export function ownTables(part: SchemaPart['part']): string[] {
  if (part === 'news') return ['migration', 'requisition_news'];
  if (part === 'function') return ['migration', 'delivered_document'];
  const ofKinds = Object.values(tables).flatMap((tablesOfKind) => tablesOfKind.map(({ name }) => name));
  return ['migration', ...ofKinds, 'file_content', 'document_history'];
}
