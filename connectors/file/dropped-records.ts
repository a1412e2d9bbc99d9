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
  type SupplierRecord,
} from 'sourcing-bridge/connector';
import type { LineEntry, Position } from './lines.ts';
import type { DropSettings, FileSettings, RequisitionDropSettings, SupplierDropSettings } from './settings.ts';

export type Made<Stream extends ReadStream> = { readonly record: RecordOf<Stream> } | { readonly fault: RecordFault };

/** A record of a file, or what stands in its place. */
export interface ReadEntry<Stream extends ReadStream> {
  /** Where it begins. */
  readonly line: number;
  /** Where the next one begins. */
  readonly next: Position;
  readonly made: Made<Stream>;
}

/** What a stream reads of its files. */
export interface DropRead<Stream extends ReadStream> {
  readonly stream: Stream;
  readonly settings: DropSettings;
  readonly keyOf: (record: RecordOf<Stream>) => string;
  /** The record of a line of JSON; numbers in it are the texts that stand there. Undefined: the files are CSV. */
  readonly ofJson: ((value: unknown) => Made<Stream>) | undefined;
  /** The columns that a header must have. */
  readonly columns: readonly string[];
  /** The record of rows: of one, or of all that have the same text in this column. */
  readonly ofRows: (rows: readonly CsvRow[]) => Made<Stream>;
  readonly groupedBy?: string;
}

type CsvRow = Readonly<Record<string, string>>;

export function supplierDrops(settings: SupplierDropSettings): DropRead<'supplier'> {
  const { record } = settings;
  const named = namedPlaces(record);
  const others = (members: [string, unknown][]) =>
    Object.fromEntries(
      members.filter(
        ([name, value]) => name !== '' && !named.includes(name) && (typeof value !== 'object' || value === null),
      ),
    );
  const compileJson = () =>
    compileSupplierPlaces<unknown>(record, compileJsonPath, (value) =>
      others(Object.entries(typeof value === 'object' && value !== null ? value : {})),
    );
  const ofRow = compileSupplierPlaces<CsvRow>(record, columnAt, (row) => others(Object.entries(row)));
  return {
    stream: 'supplier',
    settings,
    keyOf: ({ external_id }: SupplierRecord) => external_id,
    ofJson: jsonOf(settings, compileJson),
    columns: named,
    ofRows: ([row = {}]) => ofRow(row, ''),
  };
}

export function requisitionDrops(settings: RequisitionDropSettings, csv: FileSettings['csv']): DropRead<'requisition'> {
  const { record } = settings;
  const { at, ...parts } = record.items;
  const places: RequisitionPlaces = { ...record, items: { ...parts, at: at ?? itemsOfGroup } };
  const base = {
    stream: 'requisition' as const,
    settings,
    keyOf: ({ reference_id }: RequisitionRecord) => reference_id,
    ofJson: jsonOf(settings, () => compileRequisitionPlaces<unknown>(places, compileJsonPath, compileJsonPath)),
  };
  const head = namedRequisitionPlaces(places).filter((column) => column !== itemsOfGroup);
  const valueAt = compileCells(places, csv);
  if (at !== undefined) {
    const ofRow = compileRequisitionPlaces<CsvRow>(places, valueAt);
    return { ...base, columns: head, ofRows: ([row = {}]) => ofRow(row, '') };
  }
  // A part that has its own name may be missing, but for what every item has.
  const inItem = Object.entries(parts).flatMap(([part, column]) =>
    part === column && part !== 'line' && part !== 'name' ? [] : [column],
  );
  return {
    ...base,
    columns: [...head, ...inItem],
    ofRows: compileGroup(places, valueAt),
    groupedBy: record.reference_id,
  };
}

/** In a CSV the places are columns, and no paths. */
function jsonOf<Read>({ format }: DropSettings, compile: () => (value: unknown, where: string) => Read) {
  if (format !== 'jsonl') return undefined;
  const read = compile();
  return (value: unknown) => read(value, '');
}

/** What no header has: the items of a group of rows, and whether one of them is open. */
const itemsOfGroup = '\u0000items';
const openOfGroup = '\u0000open';

interface RowGroup {
  readonly number: string;
  /** The rows that are open; all of them, where none is. Throws DataError for a row that does not say. */
  readonly kept: () => { readonly isOpen: boolean; readonly rows: readonly CsvRow[] };
}

/** A row that is not open is no item; without any that is, the requisition is not open. */
function compileGroup(
  places: RequisitionPlaces,
  valueAt: (column: string) => (row: CsvRow) => unknown,
): (rows: readonly CsvRow[]) => Made<'requisition'> {
  const isOpen = compileOpen<CsvRow>(places, valueAt);
  const valueInGroup = (column: string) => {
    const valueIn = valueAt(column);
    return (group: RowGroup) => {
      if (column === places.reference_id) return group.number;
      const { isOpen: open, rows } = group.kept();
      if (column === itemsOfGroup) return rows;
      return column === openOfGroup ? String(open) : valueIn(rows[0] ?? {});
    };
  };
  const ofGroup = compileRequisitionPlaces<RowGroup>(
    { ...places, open: openOfGroup },
    valueInGroup,
    valueAt as (column: string) => (row: unknown) => unknown,
  );
  return (rows) => {
    let kept: ReturnType<RowGroup['kept']> | undefined;
    const group: RowGroup = {
      number: rows[0]?.[places.reference_id] ?? '',
      kept: () => {
        if (kept) return kept;
        const open = rows.filter(isOpen);
        kept = open.length > 0 ? { isOpen: true, rows: open } : { isOpen: false, rows };
        return kept;
      },
    };
    return ofGroup(group, '');
  };
}

function columnAt(column: string): (row: CsvRow) => unknown {
  return (row) => row[column];
}

/** Compiles columns; amounts and days are written as the settings of the CSV say. */
function compileCells(
  { needed_by: day, items }: RequisitionPlaces,
  { decimal_separator: separator, dates }: FileSettings['csv'],
): (column: string) => (row: CsvRow) => unknown {
  const days = [day, items.needed_by];
  const amounts = [items.quantity, items.target_price];
  return (column) => {
    if (separator === ',' && amounts.includes(column))
      return (row) => (/^\s*-?\d+,\d+\s*$/.test(row[column] ?? '') ? row[column]?.replace(',', '.') : row[column]);
    if (dates === undefined || !days.includes(column)) return columnAt(column);
    const read = compileDate(dates);
    return (row) => read((row[column] ?? '').trim());
  };
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

/** The records of lines of JSON. */
export async function* jsonRecords<Stream extends ReadStream>(
  ofJson: NonNullable<DropRead<Stream>['ofJson']>,
  entries: AsyncIterable<LineEntry>,
): AsyncGenerator<ReadEntry<Stream>> {
  for await (const { line, next, text, fault } of entries) {
    if (fault !== undefined) yield { line, next, made: faultOf(`it ${fault}`) };
    else {
      const value = parseWithDigits(text);
      yield { line, next, made: value === undefined ? faultOf('it is not JSON') : ofJson(value) };
    }
  }
}

/** The records of the rows below a header. Where the header does not fit the settings, every row is a fault that says so. */
export async function* rowRecords<Stream extends ReadStream>(
  { ofRows, groupedBy, columns: wanted }: DropRead<Stream>,
  header: LineEntry | undefined,
  entries: AsyncIterable<LineEntry>,
): AsyncGenerator<ReadEntry<Stream>> {
  const columns = (header?.cells ?? []).map((name) => name.trim());
  const spoiled = faultOfHeader(header, wanted);
  let group:
    | { line: number; next: Position; number: string; rows: CsvRow[]; spoiledBy: number | undefined }
    | undefined;
  let faultAt: number | undefined;
  const finished = (): ReadEntry<Stream>[] => {
    if (!group) return [];
    const { line, next, number, rows, spoiledBy } = group;
    group = undefined;
    if (spoiledBy === undefined) return [{ line, next, made: ofRows(rows) }];
    const why = `line ${spoiledBy} beside it cannot be read, and may be a line of it`;
    return [{ line, next, made: faultOf(why, number) }];
  };
  for await (const { line, next, cells, fault } of entries) {
    const why = spoiled ?? faultOfRow(cells, fault, columns.length);
    const row = Object.fromEntries(columns.map((column, index) => [column, cells?.[index] ?? '']));
    const number = groupedBy === undefined ? '' : (row[groupedBy] ?? '').trim();
    const isLost = why !== undefined || (groupedBy !== undefined && number === '');
    if (group && (isLost || number !== group.number || groupedBy === undefined)) {
      if (isLost && groupedBy !== undefined) group.spoiledBy ??= line;
      yield* finished();
    }
    if (isLost) {
      yield { line, next, made: faultOf(why ?? 'it has no number') };
      faultAt = line;
      continue;
    }
    if (!group) group = { line, next, number, rows: [], spoiledBy: groupedBy === undefined ? undefined : faultAt };
    group.next = next;
    // A requisition has fewer items: so many make it a fault, and no more are kept in memory.
    if (group.rows.length <= rowsMax) group.rows.push(row);
    faultAt = undefined;
  }
  yield* finished();
}

/** One more than a requisition may have. */
const rowsMax = 10_000;

/** The reader names the place. */
export function faultOf(why: string, key?: string): { readonly fault: RecordFault } {
  return { fault: { where: '', key, why } };
}

function faultOfRow(
  cells: readonly string[] | undefined,
  fault: string | undefined,
  columns: number,
): string | undefined {
  if (fault !== undefined || cells === undefined) return `it ${fault ?? 'cannot be read'}`;
  return cells.length === columns ? undefined : `it has ${cells.length} cells, and the header has ${columns}`;
}

/** What is wrong with the header; undefined when it has each column that is wanted, once. */
export function faultOfHeader(header: LineEntry | undefined, wanted: readonly string[]): string | undefined {
  if (header?.fault !== undefined) return `the header ${header.fault}`;
  const columns = (header?.cells ?? []).map((name) => name.trim());
  const missing = wanted.find((name) => !columns.includes(name));
  if (missing !== undefined) return `the header has no column "${missing}"`;
  const repeated = columns.find((name, index) => columns.indexOf(name) !== index);
  return repeated === undefined ? undefined : `the header has the column "${repeated}" twice`;
}
