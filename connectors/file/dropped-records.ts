/**
 * The records in a dropped file, one after the other. A line of JSON is a record. A row of a CSV is one, too, or the rows
 * with the same number are: then they have to stand together, and a row that cannot be read spoils its neighbours, as it
 * may be a line of theirs.
 *
 *     number;name;line;item        PR-7 has two items. Without the second row it would be bought without washers, so a
 *     PR-7;Steel;10;Bolt           fault there makes PR-7 a fault, and PR-8, which is next to it.
 *     PR-7;Steel;20;Washer
 *     PR-8;Paint;10;Red
 */
import {
  compileJsonPath,
  compileOpen,
  compileRequisitionPlaces,
  compileSupplierPlaces,
  DataError,
  namedPlaces,
  namedRequisitionPlaces,
  parseWithDigits,
  type ReadStream,
  type RecordFault,
  type RecordOf,
  type RequisitionPlaces,
  type RequisitionRecord,
} from 'sourcing-bridge/connector';
import type { FileEntry } from './csv-entries.ts';
import type { DropSettings, FileSettings, RequisitionDropSettings, SupplierDropSettings } from './settings.ts';

export type Made<Stream extends ReadStream> = { readonly record: RecordOf<Stream> } | { readonly fault: RecordFault };

/** A record of a file, or what stands in its place. */
export interface ReadEntry<Stream extends ReadStream> {
  /** Where it begins. */
  readonly line: number;
  readonly made: Made<Stream>;
}

type CsvRow = Readonly<Record<string, string>>;

/** What a stream reads of its files. */
export interface DropRead<Stream extends ReadStream> {
  readonly stream: Stream;
  readonly settings: DropSettings;
  readonly keyOf: (record: RecordOf<Stream>) => string;
  /** The columns that a header must have. */
  readonly columns: readonly string[];
  /** The column by which rows are one record. */
  readonly groupedBy: string | undefined;
  /** The record of a line of JSON (numbers in it are the texts that stand there), of a row, or of a list of grouped rows. */
  readonly recordOf: (given: unknown) => Made<Stream>;
}

export function supplierDrops(settings: SupplierDropSettings): DropRead<'supplier'> {
  const { format, record } = settings;
  const named = namedPlaces(record);
  const others = (row: unknown) => {
    const members = Object.entries(typeof row === 'object' && row !== null ? row : {});
    const isOther = ([name, value]: [string, unknown]) =>
      name !== '' && !named.includes(name) && (typeof value !== 'object' || value === null);
    return Object.fromEntries(members.filter(isOther));
  };
  const compile = compileSupplierPlaces<unknown>(record, format === 'csv' ? columnAt : compileJsonPath, others);
  return {
    stream: 'supplier',
    settings,
    keyOf: ({ external_id }) => external_id,
    columns: named,
    groupedBy: undefined,
    recordOf: (given) => compile(given, ''),
  };
}

export function requisitionDrops(settings: RequisitionDropSettings, csv: FileSettings['csv']): DropRead<'requisition'> {
  const { at = itemsOfGroup, ...parts } = settings.record.items;
  const places: RequisitionPlaces = { ...settings.record, items: { ...parts, at } };
  const drop = {
    stream: 'requisition',
    settings,
    keyOf: ({ reference_id }: RequisitionRecord) => reference_id,
  } as const;
  if (settings.format === 'csv') return { ...drop, ...groupedRows(places, csv) };
  const compiled = compileRequisitionPlaces<unknown>(places, compileJsonPath, compileJsonPath);
  return { ...drop, columns: [], groupedBy: undefined, recordOf: (given) => compiled(given, '') };
}

/** What no header has: the items of a group of rows, and whether one of them is open. */
const [itemsOfGroup, openOfGroup] = ['\u0000items', '\u0000open'];

/** Each row is an item: the rows with one number are a requisition. */
function groupedRows(
  places: RequisitionPlaces,
  csv: FileSettings['csv'],
): Pick<DropRead<'requisition'>, 'columns' | 'groupedBy' | 'recordOf'> {
  const compiled = compileRequisitionPlaces<unknown>({ ...places, open: openOfGroup }, columnAt, columnAt);
  const isOpen = compileOpen<CsvRow>(places, columnAt);
  const plain = compilePlain(places, csv);
  const { at: _itemsOfGroup, ...parts } = places.items;
  const inItem = Object.entries(parts).flatMap(([part, column]) =>
    // A part that has its own name may be missing, but for what every item has.
    part === column && part !== 'line' && part !== 'name' ? [] : [column],
  );
  return {
    columns: [...namedRequisitionPlaces(places).filter((column) => column !== itemsOfGroup), ...inItem],
    groupedBy: places.reference_id,
    recordOf: (given) => {
      const all = given as readonly CsvRow[];
      try {
        // A row that is not open is no item; without any that is, the requisition is not open.
        const open = all.filter(isOpen);
        const rows = (open.length > 0 ? open : all).map(plain);
        return compiled({ ...rows[0], [itemsOfGroup]: rows, [openOfGroup]: String(open.length > 0) }, '');
      } catch (error) {
        if (!(error instanceof DataError)) throw error;
        return faultOf(error.message, all[0]?.[places.reference_id]?.trim());
      }
    },
  };
}

function columnAt(column: string): (row: unknown) => unknown {
  return (row) => (row as Readonly<Record<string, unknown>> | undefined)?.[column];
}

/** Amounts and days in the form that the service has, from the one that the settings of the CSV say. */
function compilePlain(
  { needed_by: day, items }: RequisitionPlaces,
  { decimal_separator: separator, dates }: FileSettings['csv'],
): (row: CsvRow) => CsvRow {
  const amounts = separator === ',' ? [items.quantity, items.target_price] : [];
  const days = dates === undefined ? [] : [day, items.needed_by];
  const dayOf = dates === undefined ? (text: string) => text : compileDate(dates);
  return (row) => {
    const changed = Object.entries(row).map(([column, text]) => {
      if (amounts.includes(column)) return [column, amountOf(column, text.trim())];
      return [column, days.includes(column) ? dayOf(text.trim()) : text];
    });
    return Object.fromEntries(changed) as CsvRow;
  };
}

/** In a file with decimal commas a point may mark thousands: 1.000 is one, or a thousand. Throws DataError for it. */
function amountOf(column: string, text: string): string {
  if (text.includes('.'))
    throw new DataError(
      `${column} is ${JSON.stringify(text.slice(0, 60))}: with csv.decimal_separator "," an amount has no point, as it may be a thousand`,
    );
  return text.replace(/^(-?\d+),(\d+)$/, '$1.$2');
}

/** Reads a day or a time, in UTC, in the form `DD.MM.YYYY`. Throws DataError for another text. */
function compileDate(form: string): (text: string) => string {
  const tokens: readonly string[] = form.match(/YYYY|MM|DD|HH|mm|ss/g) ?? [];
  const pattern = form
    .replaceAll(/[-./]/g, '\\$&')
    .replaceAll(/YYYY|MM|DD|HH|mm|ss/g, (token) => `(\\d{${token.length}})`);
  const whole = new RegExp(`^${pattern}$`);
  return (text) => {
    if (text === '') return '';
    const found = whole.exec(text);
    if (!found)
      throw new DataError(
        `needed_by is ${JSON.stringify(text.slice(0, 60))}: it must be written as ${form} (csv.dates)`,
      );
    const at = (token: string, otherwise: string) => found[tokens.indexOf(token) + 1] ?? otherwise;
    const day = ['YYYY', 'MM', 'DD'].map((token) => at(token, '')).join('-');
    return tokens.includes('HH') ? `${day}T${at('HH', '00')}:${at('mm', '00')}:${at('ss', '00')}Z` : day;
  };
}

/** The records in the lines of a file whose header, if it has one, fits the settings. */
export async function* recordsIn<Stream extends ReadStream>(
  source: DropRead<Stream>,
  lines: AsyncGenerator<FileEntry>,
): AsyncGenerator<ReadEntry<Stream>> {
  const { settings, groupedBy, recordOf } = source;
  if (settings.format === 'csv' && groupedBy !== undefined) return yield* groupsIn(groupedBy, recordOf, rowsIn(lines));
  for await (const { line, value, why } of settings.format === 'csv' ? rowsIn(lines) : jsonIn(lines))
    yield { line, made: why === undefined ? recordOf(value) : faultOf(why) };
}

/** What stands in a line, or why it cannot be read. */
interface Read<Value> {
  readonly line: number;
  readonly value: Value;
  readonly why: string | undefined;
}

async function* jsonIn(lines: AsyncIterable<FileEntry>): AsyncGenerator<Read<unknown>> {
  for await (const { line, text, fault } of lines) {
    const value = fault === undefined ? parseWithDigits(text) : undefined;
    yield { line, value, why: value === undefined ? `it ${fault ?? 'is not JSON'}` : undefined };
  }
}

/** The rows below the header. */
async function* rowsIn(lines: AsyncGenerator<FileEntry>): AsyncGenerator<Read<CsvRow>> {
  const header = await lines.next();
  const columns = columnsOf(header.done === true ? undefined : header.value);
  for await (const { line, cells = [], fault } of lines) {
    const value = Object.fromEntries(columns.map((column, index) => [column, cells[index] ?? '']));
    const isWhole = cells.length === columns.length;
    const counts = isWhole ? undefined : `it has ${cells.length} cells, and the header has ${columns.length}`;
    yield { line, value, why: fault === undefined ? counts : `it ${fault}` };
  }
}

/** The rows of one number that stand together; `spoiledBy`: the line beside them that cannot be read. */
interface RowGroup {
  readonly line: number;
  readonly number: string;
  readonly rows: CsvRow[];
  spoiledBy: number | undefined;
}

/** One more than a requisition may have: so many make it a fault, and no more are kept in memory. */
const rowsMax = 10_001;

async function* groupsIn<Stream extends ReadStream>(
  groupedBy: string,
  recordOf: DropRead<Stream>['recordOf'],
  rows: AsyncIterable<Read<CsvRow>>,
): AsyncGenerator<ReadEntry<Stream>> {
  const finished = ({ line, number, rows: own, spoiledBy }: RowGroup): ReadEntry<Stream> => {
    const why = `line ${spoiledBy} beside it cannot be read, and may be a line of it`;
    return { line, made: spoiledBy === undefined ? recordOf(own) : faultOf(why, number) };
  };
  let group: RowGroup | undefined;
  let faultAt: number | undefined;
  for await (const { line, value, why: fault } of rows) {
    const number = value[groupedBy]?.trim() ?? '';
    const why = fault ?? (number === '' ? 'it has no number' : undefined);
    if (group && (why !== undefined || number !== group.number)) {
      if (why !== undefined) group.spoiledBy = line;
      yield finished(group);
      group = undefined;
    }
    if (why !== undefined) yield { line, made: faultOf(why) };
    else {
      group ??= { line, number, rows: [], spoiledBy: faultAt };
      if (group.rows.length < rowsMax) group.rows.push(value);
    }
    faultAt = why === undefined ? undefined : line;
  }
  if (group) yield finished(group);
}

/** The reader names the place. */
export function faultOf(why: string, key?: string): { readonly fault: RecordFault } {
  return { fault: { where: '', key: key === '' ? undefined : key, why } };
}

/** What is wrong with the header; undefined when it has each column that is wanted, once. */
export function faultOfHeader(header: FileEntry | undefined, wanted: readonly string[]): string | undefined {
  if (header === undefined) return 'it has no header';
  if (header.fault !== undefined) return `the header ${header.fault}`;
  const columns = columnsOf(header);
  const missing = wanted.find((name) => !columns.includes(name));
  if (missing !== undefined) return `the header has no column "${missing}"`;
  const repeated = columns.find((name, index) => columns.indexOf(name) !== index);
  return repeated === undefined ? undefined : `the header has the column "${repeated}" twice`;
}

function columnsOf(header: FileEntry | undefined): readonly string[] {
  return (header?.cells ?? []).map((name) => name.trim());
}
