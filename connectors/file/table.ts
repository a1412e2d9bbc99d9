/**
 * Documents as a table: its columns, the value of each cell, and the CSV in the form that the settings choose (RFC 4180
 * by default). A value that the table cannot hold refuses its document, and no other.
 */
import { stringify } from 'csv-stringify/sync';
import { DataError, type DocumentKind, type Operation } from 'sourcing-bridge/connector';
import { type CellType, cellSource, fixedColumns, placeOf, type Row, rowsOf, type WrittenFile } from './columns.ts';
import type { FileSettings } from './settings.ts';

/** A document for a table. */
export interface Entry {
  readonly operation: Operation;
  readonly state: string;
  readonly file?: WrittenFile | undefined;
}

/** The file, and the number of its rows. */
interface RenderedTable {
  readonly content: Uint8Array;
  readonly rows: number;
}

interface Column {
  readonly name: string;
  readonly type: CellType;
  /** Whether a document without a value is refused. */
  readonly required: boolean;
  /** Whether a withdrawn document has no such value: it has no lines, no mapped fields and no bytes. */
  readonly endsWithIt?: boolean;
  readonly valueOf: (row: Row) => string | undefined;
}

type Options = Pick<FileSettings, 'csv' | 'columns' | 'layout'>;

/** Makes tables of documents of one kind. The function throws DataError for a document that a table cannot hold. */
export function createTable(kind: DocumentKind, options: Options): (entries: readonly Entry[]) => RenderedTable {
  const { csv, layout } = options;
  const given = options.columns ?? fixedColumns(kind, layout === 'batch');
  const chosen = given.map((column) => columnOf(kind, column));
  return (entries) => {
    const columns = options.columns ? chosen : [...chosen, ...foundColumns(kind, entries)];
    const rows = entries.flatMap((entry) => rowsOfEntry(entry, layout).map((row) => cellsOf(columns, row, csv)));
    const header = csv.header ? [headerOf(columns, csv)] : [];
    return { content: csvOf([...header, ...rows], csv), rows: rows.length };
  };
}

type GivenColumn = { readonly name: string } & Partial<NonNullable<Options['columns']>[number]>;

function columnOf(kind: DocumentKind, { name, from, value, as, required = false }: GivenColumn): Column {
  if (from === undefined) return { name, type: as ?? 'text', required, valueOf: () => value };
  const { type, read } = cellSource(kind, from);
  const endsWithIt = /^(?:line|bid|answers|fields|file)[.[]/.test(from);
  return { name, type: as ?? type, required, endsWithIt, valueOf: read };
}

/**
 * The columns of bid sheets, mapped fields and attributes that any of the documents has, in the order of their first
 * use.
 */
function foundColumns(kind: DocumentKind, entries: readonly Entry[]): Column[] {
  const [sheet, fields, attributes] = [new Set<string>(), new Set<string>(), new Set<string>()];
  for (const { operation } of entries) {
    const { document } = operation;
    if (document.kind === 'supplier') for (const { name } of document.attributes) attributes.add(name);
    if (!('lines' in document)) for (const name of Object.keys(document.fields ?? {})) fields.add(name);
    else
      for (const line of document.lines) {
        if ('values' in line) for (const { column } of line.values) sheet.add(column);
        for (const name of Object.keys({ ...document.fields, ...line.fields })) fields.add(name);
      }
  }
  const found = (names: Set<string>, title: string, valueOf: (name: string) => Column['valueOf']) =>
    [...names].map(
      (name): Column => ({ name: `${title}: ${name}`, type: 'text', required: false, valueOf: valueOf(name) }),
    );
  const ofPath = (path: string) => (name: string) =>
    cellSource(kind, `${path}["${name.replaceAll(/["\\]/g, '\\$&')}"]`).read;
  const ofRow = (path: string) => (name: string) => {
    const [ofLine, ofDocument] = [ofPath(`line.${path}`)(name), ofPath(path)(name)];
    return (row: Row) => (row.line ? ofLine(row) : ofDocument(row));
  };
  return [
    ...found(attributes, 'attribute', ofPath('attributes')),
    ...found(sheet, 'sheet', ofPath('line.values')),
    ...found(fields, 'field', ofRow('fields')),
  ];
}

function rowsOfEntry({ operation, state, file }: Entry, layout: Options['layout']): Row[] {
  const rows = rowsOf(operation, state, file);
  // In the layout `document` the JSON shows a document without lines; in a batch it needs a row of its own.
  return layout === 'document' ? rows.filter(({ line }) => line !== undefined) : rows;
}

/** The bytes of a CSV with these rows. Each cell is `encodable`. */
export function csvOf(rows: readonly (readonly string[])[], csv: Csv): Uint8Array {
  const text = stringify(rows as string[][], {
    delimiter: csv.delimiter,
    record_delimiter: 'windows',
    // The library quotes only this line end, but a reader may accept any.
    quoted_match: /[\r\n]/,
    bom: csv.encoding === 'utf-8-bom',
  });
  return encode(text, csv.encoding, (character) => {
    throw new DataError(`"${character}" does not exist in ${csv.encoding}`);
  });
}

type Csv = Options['csv'];

function headerOf(columns: readonly Column[], csv: Csv): string[] {
  return columns.map(({ name }) => encodable(name, csv, () => `the name of the column ${name}`));
}

function cellsOf(columns: readonly Column[], row: Row, csv: Csv): string[] {
  return columns.map((column) => cellOf(column, row, csv));
}

/** The text of a cell. Throws DataError when the document's value does not fit the column. */
function cellOf(column: Column, row: Row, csv: Csv): string {
  const given = column.valueOf(row);
  const where = () => `${placeOf(row)}: column ${column.name}`;
  if (given === undefined || given === '') {
    const isRequired = column.required && !(column.endsWithIt === true && row.operation.action === 'cancel');
    if (isRequired) throw new DataError(`${where()} needs a value, and the document has none.`);
    return '';
  }
  return encodable(typed(given, column.type, csv, where), csv, where);
}

/** The value in the form of the column's type. */
function typed(given: string, type: CellType, csv: Csv, where: () => string): string {
  if (type === 'decimal') {
    if (!plainDecimal.test(given))
      throw new DataError(`${where()} needs a decimal number, and the document has "${given}".`);
    return csv.decimal_separator === ',' ? given.replace('.', ',') : given;
  }
  if (type === 'date' && csv.dates !== undefined) {
    const parts = timePattern.exec(given);
    if (!parts) throw new DataError(`${where()} needs a date, and the document has "${given}".`);
    const [, year = '', month = '', day = '', hour = '00', minute = '00', second = '00'] = parts;
    const values: Record<string, string> = { YYYY: year, MM: month, DD: day, HH: hour, mm: minute, ss: second };
    return csv.dates.replaceAll(/YYYY|MM|DD|HH|mm|ss/g, (token) => values[token] ?? '');
  }
  return given;
}

const plainDecimal = /^-?\d+(?:\.\d+)?$/;
const timePattern = /^(\d{4})-(\d\d)-(\d\d)(?:T(\d\d):(\d\d):(\d\d)(?:\.\d+)?Z?)?$/;
/** The characters with which a formula begins in a spreadsheet, also in full width. */
const formula = /^[=+\-@\t\r\n＝＋－＠]/u;

/** The text as it goes into the cell; throws DataError for a character that the encoding does not have. */
export function encodable(text: string, csv: Csv, where: () => string): string {
  const isNumber = plainDecimal.test(csv.decimal_separator === ',' ? text.replace(',', '.') : text);
  const harmless = csv.formulas === 'quote' && formula.test(text) && !isNumber ? `'${text}` : text;
  if (!harmless.isWellFormed())
    throw new DataError(`${where()}: the text has half a character (a lone surrogate), which cannot be encoded.`);
  encode(harmless, csv.encoding, (character) => {
    const code = character.codePointAt(0)?.toString(16).toUpperCase().padStart(4, '0');
    throw new DataError(
      `${where()}: the character "${character}" (U+${code}) does not exist in ${csv.encoding}. Change the text, or settings.csv.encoding.`,
    );
  });
  return harmless;
}

/** The byte of each character of windows-1252. */
const bytesOfCharacters = new Map(
  Array.from({ length: 256 }, (_, byte) => [new TextDecoder('windows-1252').decode(Uint8Array.of(byte)), byte] as const)
    // The decoder makes control characters of the bytes that windows-1252 does not use.
    .filter(([character, byte]) => byte < 0x80 || !/[\u0080-\u009f]/.test(character)),
);

/** The bytes of a text; a character that the encoding does not have is given to `missing`, which throws. */
function encode(text: string, encoding: Csv['encoding'], missing: (character: string) => never): Uint8Array {
  if (encoding !== 'windows-1252') return Buffer.from(text, 'utf8');
  return Uint8Array.from(text, (character) => bytesOfCharacters.get(character) ?? missing(character));
}

/** `withdrawn` after a cancel; otherwise `awarded` for an award and `current` for any other kind. */
export function stateOf({ document, action }: Pick<Operation, 'document' | 'action'>): string {
  if (action === 'cancel') return 'withdrawn';
  return document.kind === 'award' ? 'awarded' : 'current';
}
