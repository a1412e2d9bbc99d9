/**
 * Odoo's `load`: creates or updates records, with their lines, by external ids, in one transaction. A record that fails
 * is reported in the answer, whose status is 200 all the same; then nothing of the call is stored. A time is one of the
 * user's zone, unless the context names another one.
 */
import { OdooFault, valueError } from './faults.ts';
import { type Field, models } from './models.ts';
import { type Caller, checkedTime, missingValue, type Orm } from './orm.ts';
import type { Row, Rows } from './rows.ts';
import { textOf } from './text-of.ts';

interface Message {
  readonly type: 'error';
  readonly message: string;
  readonly record: number;
  readonly rows: { readonly from: number; readonly to: number };
  readonly field?: string;
  readonly field_name?: string;
  readonly moreinfo?: object;
}

export interface Loaded {
  readonly ids: readonly number[] | false;
  readonly messages: readonly Message[];
  readonly nextrow: 0;
}

type Cells = ReadonlyMap<string, string>;

/** A record of the data: its own cells, and the cells of each of its lines, by the name of the one2many. */
interface Given {
  readonly cells: Cells;
  readonly lines: ReadonlyMap<string, Cells[]>;
  readonly rows: { from: number; to: number };
}

interface LoadDeps {
  readonly rows: Rows;
  readonly orm: Orm;
  /** Why a record cannot be written now: a transaction that has ended in the meantime has changed it. */
  readonly conflict: (externalIds: readonly string[]) => string | undefined;
}

class CellError extends Error {
  readonly isReference: boolean;

  constructor(message: string, isReference = false) {
    super(message);
    this.isReference = isReference;
  }
}

export function load(
  model: string,
  fields: readonly string[],
  data: readonly (readonly unknown[])[],
  { rows, orm, conflict }: LoadDeps,
  caller: Caller,
): Loaded {
  checkColumns(model, fields);
  const records = recordsOf(model, fields, data);
  const messages: Message[] = [];
  const ids: number[] = [];
  class Refused extends Error {}
  try {
    rows.transaction(() => {
      for (const [index, given] of records.entries()) one(given, index);
      if (messages.length > 0) throw new Refused();
    });
  } catch (error) {
    if (!(error instanceof Refused)) throw error;
    return { ids: false, messages, nextrow: 0 };
  }
  return { ids, messages: [], nextrow: 0 };

  function one(given: Given, record: number): void {
    const add = (message: string, more: Partial<Message> = {}) =>
      void messages.push({ rows: given.rows, record, type: 'error', message, ...more });
    const locked = conflict(externalIdsOf(given));
    if (locked !== undefined) return add(locked);
    const values = valuesOf(model, given.cells, '', add);
    let isLineWrong = false;
    for (const [name, lines] of given.lines) {
      const field = (models[model] as { fields: Record<string, Field> }).fields[name] as Field;
      values[name] = lines.map((cells) => {
        const child = valuesOf(field.relation as string, cells, `${field.label}/`, (message, more) => {
          isLineWrong = true;
          add(message, { ...more, field: name, field_name: field.label });
        });
        const externalId = qualified(cells.get('id'));
        const held = externalId === undefined ? undefined : heldBy(field.relation as string, externalId);
        if (held) return [1, held.id, child];
        return [0, 0, { ...child, __externalId: externalId }];
      });
    }
    if (isLineWrong) return;
    try {
      rows.transaction(() => save(given, values));
    } catch (error) {
      if (!(error instanceof OdooFault)) throw error;
      const message = error.message.replace(/^The operation cannot be completed: /, '');
      const [, field] = message.startsWith(missingValue) ? (/\((\w+)\)/.exec(message) ?? []) : [];
      add(message, field === undefined ? {} : { field });
    }
  }

  function save(given: Given, values: Record<string, unknown>): void {
    const externalId = qualified(given.cells.get('id'));
    const databaseId = given.cells.get('.id');
    const held = databaseId
      ? orm.get(model, Number(databaseId))
      : externalId === undefined
        ? undefined
        : heldBy(model, externalId);
    const lines = [...given.lines.keys()];
    const own = Object.fromEntries(Object.entries(values).filter(([name]) => !lines.includes(name)));
    let row: Row;
    if (held) {
      row = held;
      const priced = lines.flatMap((name) =>
        (values[name] as [number, number, object][]).flatMap(([, id, line]) => ('price_unit' in line ? [id] : [])),
      );
      orm.write(model, row, own, caller, priced);
    } else row = orm.create(model, own, caller);
    if (externalId !== undefined) rows.name(externalId, model, row.id);
    for (const name of lines) {
      const field = models[model]?.fields[name] as Field;
      for (const [command, id, given] of values[name] as [number, number, Record<string, unknown>][]) {
        if (command === 1) {
          orm.write(field.relation as string, orm.get(field.relation as string, id), given, caller);
          continue;
        }
        const { __externalId: childId, ...child } = given;
        const created = orm.create(field.relation as string, { ...child, [field.inverse as string]: row.id }, caller);
        if (typeof childId === 'string') rows.name(childId, field.relation as string, created.id);
      }
    }
    ids.push(row.id);
  }

  function heldBy(wanted: string, externalId: string): Row | undefined {
    const named = rows.externalIds.get(externalId);
    return named?.model === wanted ? rows.find(wanted, named.id) : undefined;
  }

  function valuesOf(
    owner: string,
    cells: Cells,
    prefix: string,
    add: (message: string, more?: Partial<Message>) => void,
  ): Record<string, unknown> {
    const values: Record<string, unknown> = {};
    for (const [column, text] of cells) {
      const [name = '', by] = column.split('/');
      if (name === 'id' || name === '.id') continue;
      const field = models[owner]?.fields[name] as Field;
      try {
        values[name] = convert(field, by, text, `${prefix}${field.label}`);
      } catch (error) {
        if (!(error instanceof CellError)) throw error;
        const moreinfo = error.isReference ? { moreinfo: { name: 'Possible Values' } } : {};
        add(error.message, { field: name, field_name: field.label, ...moreinfo });
      }
    }
    return values;
  }

  function convert(field: Field, by: string | undefined, text: string, label: string): unknown {
    if (text === '') return false;
    switch (field.type) {
      case 'integer':
        if (!/^-?\d+$/.test(text)) throw new CellError(`'${text}' does not seem to be an integer for field '${label}'`);
        return Number(text);
      case 'float':
      case 'monetary':
        if (Number.isNaN(Number(text)))
          throw new CellError(`'${text}' does not seem to be a number for field '${label}'`);
        return Number(text);
      case 'boolean':
        return ['1', 'true', 'yes'].includes(text.toLowerCase());
      case 'date':
      case 'datetime':
        try {
          return field.type === 'date' ? checkedTime(text, 'date') : inUtc(checkedTime(text, 'datetime'), caller.zone);
        } catch {
          throw new CellError(`'${text}' does not seem to be a valid ${field.type} for field '${label}'`);
        }
      case 'selection':
        if (!field.options?.includes(text))
          throw new CellError(`Value '${text}' not found in selection field '${label}'`);
        return text;
      case 'many2one':
        return referred(field.relation as string, by, text, label);
      default:
        return text;
    }
  }

  function referred(relation: string, by: string | undefined, text: string, label: string): number {
    if (by === 'id') {
      const held = heldBy(relation, qualified(text) as string);
      if (!held) throw new CellError(`No matching record found for external id '${text}' in field '${label}'`, true);
      return held.id;
    }
    if (by === '.id') {
      const held = rows.find(relation, Number(text));
      if (!held) throw new CellError(`No matching record found for database id '${text}' in field '${label}'`, true);
      return held.id;
    }
    const named = rows.all(relation).find((row) => row['name'] === text || row['default_code'] === text);
    if (!named) throw new CellError(`No matching record found for name '${text}' in field '${label}'`, true);
    return named.id;
  }
}

/** What clocks in the zone show, in UTC. */
function inUtc(time: string, timeZone: string): string {
  const ms = Date.parse(`${time.replace(' ', 'T')}Z`);
  const shown = new Intl.DateTimeFormat('sv-SE', { timeZone, dateStyle: 'short', timeStyle: 'medium' }).format(ms);
  const aheadMs = Date.parse(`${shown.replace(' ', 'T')}Z`) - ms;
  return new Date(ms - aheadMs).toISOString().slice(0, 19).replace('T', ' ');
}

/** Every external id that the record names as its own or its lines'. */
function externalIdsOf({ cells, lines }: Given): string[] {
  const own = [cells, ...[...lines.values()].flat()].map((each) => qualified(each.get('id')));
  return own.filter((id) => id !== undefined);
}

/** Without a module, Odoo puts the name into `__import__`. */
function qualified(externalId: string | undefined): string | undefined {
  if (externalId === undefined || externalId === '') return undefined;
  return externalId.includes('.') ? externalId : `__import__.${externalId}`;
}

function checkColumns(model: string, fields: readonly string[]): void {
  for (const column of fields) {
    const [name = '', next, ...rest] = column.split('/');
    if (name === 'id' || name === '.id') continue;
    const field = models[model]?.fields[name];
    if (!field) throw valueError(`Invalid field name '${column}'`);
    if (field.type === 'one2many' && next !== undefined)
      checkColumns(field.relation as string, [[next, ...rest].join('/')]);
  }
}

/** A row with an own cell begins a record; a row with cells of lines only belongs to the record before it. */
function recordsOf(model: string, fields: readonly string[], data: readonly (readonly unknown[])[]): Given[] {
  const isLine = (column: string) => models[model]?.fields[column.split('/')[0] ?? '']?.type === 'one2many';
  const records: { cells: Map<string, string>; lines: Map<string, Cells[]>; rows: { from: number; to: number } }[] = [];
  for (const [number, cells] of data.entries()) {
    const own = fields.map((column, at) => [column, textOf(cells[at])] as const);
    const head = own.filter(([column]) => !isLine(column));
    if (records.length === 0 || head.some(([, text]) => text !== ''))
      records.push({ cells: new Map(head), lines: new Map(), rows: { from: number, to: number } });
    const record = records.at(-1);
    if (!record) continue;
    record.rows.to = number;
    const byField = Map.groupBy(
      own.filter(([column]) => isLine(column)),
      ([column]) => column.split('/')[0] ?? '',
    );
    for (const [name, line] of byField) {
      if (line.every(([, text]) => text === '')) continue;
      const cells = new Map(line.map(([column, text]) => [column.slice(name.length + 1), text]));
      record.lines.set(name, [...(record.lines.get(name) ?? []), cells]);
    }
  }
  return records;
}
