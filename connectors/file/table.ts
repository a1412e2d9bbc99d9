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

export interface Table {
  /** The end of its file name: empty for the main table. */
  readonly suffix: '' | '_bid_sheet';
  /** Its columns for this document; `isOfWrite`: the value is that of a write, and not of the document. */
  columns(entry: Entry): readonly { readonly name: string; readonly isOfWrite: boolean }[];
  /** Throws DataError for a document that it cannot hold. */
  check(entry: Entry): void;
  /** The parts of the file, one per document, and the number of its rows. Throws DataError as `check` does. */
  render(entries: readonly Entry[]): { readonly parts: Iterable<Uint8Array>; readonly rows: () => number };
}

interface Column {
  readonly name: string;
  readonly type: CellType;
  readonly required: boolean;
  readonly isOfWrite?: boolean;
  readonly valueOf: (row: Row) => string | undefined;
}

type Options = Pick<FileSettings, 'csv' | 'columns' | 'bid_sheet' | 'layout'>;

/** The tables of documents of one kind: the lines, and the bid sheet if the settings want it as a table. */
export function tablesOf(kind: DocumentKind, options: Options): Table[] {
  const given = options.columns ?? fixedColumns(kind, options.layout === 'batch');
  const columns = given.map((column) => columnOf(kind, column));
  const isSheetSeparate = options.bid_sheet === 'table';
  const columnsOf = (entries: readonly Entry[]) =>
    options.columns ? columns : [...columns, ...foundColumns(kind, entries, isSheetSeparate)];
  const main = tableOf('', columnsOf, rowsOfEntry, options);
  if (!isSheetSeparate || (kind !== 'award' && kind !== 'quotation')) return [main];
  const bidSheetColumns = sheetColumns(kind);
  return [main, tableOf('_bid_sheet', () => bidSheetColumns, sheetRowsOf, options)];
}

function tableOf(
  suffix: Table['suffix'],
  columnsOf: (entries: readonly Entry[]) => readonly Column[],
  rowsFor: (entry: Entry, options: Options) => Row[],
  options: Options,
): Table {
  return {
    suffix,
    columns: (entry) => columnsOf([entry]).map(({ name, isOfWrite = false }) => ({ name, isOfWrite })),
    check: (entry) => {
      const columns = columnsOf([entry]);
      if (options.csv.header) headerOf(columns, options.csv);
      for (const row of rowsFor(entry, options)) cellsOf(columns, row, options.csv);
    },
    render: (entries) => render(columnsOf(entries), entries, rowsFor, options),
  };
}

type GivenColumn = { readonly name: string } & Partial<NonNullable<Options['columns']>[number]>;

function columnOf(kind: DocumentKind, { name, from, value, as, required = false }: GivenColumn): Column {
  if (from === undefined) return { name, type: as ?? 'text', required, valueOf: () => value };
  const { type, read } = cellSource(kind, from);
  return { name, type: as ?? type, required, isOfWrite: ofWrite.includes(from), valueOf: read };
}

/** Paths whose values are those of a write. */
const ofWrite = ['action', 'content_hash'];

/**
 * The columns of bid sheets, mapped fields and attributes that any of the documents has, in the order of their first
 * use.
 */
function foundColumns(kind: DocumentKind, entries: readonly Entry[], isSheetSeparate: boolean): Column[] {
  const [sheet, fields, attributes] = [new Set<string>(), new Set<string>(), new Set<string>()];
  for (const { operation } of entries) {
    const { document } = operation;
    if (document.kind === 'supplier') for (const { name } of document.attributes) attributes.add(name);
    if (!('lines' in document)) for (const name of Object.keys(document.fields ?? {})) fields.add(name);
    else
      for (const line of document.lines) {
        if (!isSheetSeparate && 'values' in line) for (const { column } of line.values) sheet.add(column);
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

function rowsOfEntry({ operation, state, file }: Entry, { layout }: Options): Row[] {
  const rows = rowsOf(operation, state, file);
  // In the layout `document` the JSON shows a document without lines; in a batch it needs a row of its own.
  return layout === 'document' ? rows.filter(({ line }) => line !== undefined) : rows;
}

/** One row per value of the bid sheet; the value takes the place of the bid. */
function sheetRowsOf({ operation, state }: Entry): Row[] {
  const { document } = operation;
  if (document.kind !== 'award' && document.kind !== 'quotation') return [];
  return document.lines.flatMap((line) =>
    line.values.map((value): Row => ({ operation, document: { ...document, state }, line, bid: value })),
  );
}

function sheetColumns(kind: DocumentKind): Column[] {
  const heads = [
    ['key', 'key'],
    ['event_id', 'event.id'],
    ['event_reference', 'event.reference_id'],
    ['supplier_id', 'supplier.id'],
    ['supplier_external_id', 'supplier.external_id'],
    ['lot', 'line.lot'],
  ] as const;
  return [
    ...heads.map(([name, from]) => columnOf(kind, { name, from })),
    ...['column', 'value', 'currency'].map(
      (name): Column => ({
        name,
        type: 'text',
        required: false,
        valueOf: ({ bid }) => bid?.[name] as string | undefined,
      }),
    ),
  ];
}

function render(
  columns: readonly Column[],
  entries: readonly Entry[],
  rowsFor: (entry: Entry, options: Options) => Row[],
  options: Options,
): ReturnType<Table['render']> {
  const { csv } = options;
  let rows = 0;
  function* lines(): Iterable<string[][]> {
    if (csv.header) yield [headerOf(columns, csv)];
    for (const entry of entries) {
      const cells = rowsFor(entry, options).map((row) => cellsOf(columns, row, csv));
      rows += cells.length;
      yield cells;
    }
  }
  return { parts: csvOf(lines(), csv), rows: () => rows };
}

/** The bytes of a CSV with these rows, some at a time. Each cell is `encodable`. */
export function* csvOf(rows: Iterable<string[][]>, csv: Csv): Iterable<Uint8Array> {
  const encode = encoderOf(csv.encoding);
  if (csv.encoding === 'utf-8-bom') yield Buffer.from([0xef, 0xbb, 0xbf]);
  for (const some of rows) {
    if (some.length === 0) continue;
    const text = stringify(some, {
      delimiter: csv.delimiter,
      record_delimiter: csv.line_ends === 'crlf' ? 'windows' : 'unix',
      quoted: csv.quotes === 'always',
      quoted_empty: csv.quotes === 'always',
      // The library quotes only the chosen line end, but a reader may accept any.
      quoted_match: /[\r\n]/,
    });
    yield encode(text);
  }
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
    if (column.required) throw new DataError(`${where()} needs a value, and the document has none.`);
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
  const missing = missingCharacter(harmless, csv.encoding);
  if (missing !== undefined) {
    const code = missing.codePointAt(0)?.toString(16).toUpperCase().padStart(4, '0');
    throw new DataError(
      `${where()}: the character "${missing}" (U+${code}) does not exist in ${csv.encoding}. Change the text, or settings.csv.encoding.`,
    );
  }
  return harmless;
}

/** The characters that windows-1252 has from 0x80 to 0x9f; five codes are unused. */
const windowsOnly: ReadonlyMap<string, number> = new Map(
  Array.from('€\u0000‚ƒ„…†‡ˆ‰Š‹Œ\u0000Ž\u0000\u0000‘’“”•–—˜™š›œ\u0000žŸ').flatMap(
    (character, index): [string, number][] => (character === '\u0000' ? [] : [[character, 0x80 + index]]),
  ),
);

/** The first character that the encoding does not have. */
function missingCharacter(text: string, encoding: Csv['encoding']): string | undefined {
  if (encoding === 'utf-8' || encoding === 'utf-8-bom') return undefined;
  for (const character of text) {
    const code = character.codePointAt(0) ?? 0;
    if (code < 0x80 || (code >= 0xa0 && code <= 0xff)) continue;
    if (encoding === 'iso-8859-1' ? code > 0xff : !windowsOnly.has(character)) return character;
  }
  return undefined;
}

function encoderOf(encoding: Csv['encoding']): (text: string) => Uint8Array {
  if (encoding === 'utf-8' || encoding === 'utf-8-bom') return (text) => Buffer.from(text, 'utf8');
  if (encoding === 'iso-8859-1') return (text) => Buffer.from(text, 'latin1');
  return (text) => {
    const bytes = Buffer.from(text, 'latin1');
    // Every character is one UTF-16 unit here: `encodable` has refused all others.
    for (let index = 0; index < text.length; index += 1) {
      const byte = windowsOnly.get(text.charAt(index));
      if (byte !== undefined) bytes[index] = byte;
    }
    return bytes;
  };
}
