/**
 * Writes records with Odoo's `load`: one call for many, each under its external id, all or none of them. Odoo answers
 * 200 also when it refuses; then nothing is stored, and the messages say which records are at fault. Those get the error,
 * and the others are loaded again without them.
 */
import {
  type ConnectorError,
  DataError,
  type DocumentKind,
  LockedError,
  TransientError,
  UnknownOutcome,
  z,
} from 'sourcing-bridge/connector';
import { asConnectorError, isBusyMessage, type Odoo, shortened } from './odoo.ts';
import type { Task } from './task.ts';
import { ids } from './values.ts';

export type Cells = Readonly<Record<string, string>>;

export interface LoadRecord {
  /** By column, with `id`, the external id. A column that is missing leaves the field as it is. */
  readonly cells: Cells;
  /** The name of the one2many, and the cells of its records. Those that are left out stay as they are. */
  readonly lines?: { readonly field: string; readonly rows: readonly Cells[] };
}

const answerForm = z.object({
  ids: z.union([ids, z.literal(false)]),
  messages: z.array(
    z.object({
      type: z.string().optional(),
      message: z.string(),
      record: z.int().optional(),
      field: z.union([z.string(), z.literal(false)]).optional(),
    }),
  ),
});

/** For each record its id, or why it was not written. */
export async function loadRecords(
  odoo: Odoo,
  model: string,
  records: readonly LoadRecord[],
  signal: AbortSignal,
): Promise<(number | ConnectorError)[]> {
  const results = new Map<LoadRecord, number | ConnectorError>();
  // An empty cell would empty the field: only records with the same columns share a call.
  for (const group of Map.groupBy(records, columnsKey).values()) {
    const written = await loadGroup(odoo, model, group, signal);
    for (const [index, record] of group.entries()) results.set(record, written[index] as number | ConnectorError);
    const stop = written.find((result) => typeof result !== 'number' && stopsAll(result));
    if (stop !== undefined) for (const record of records) if (!results.has(record)) results.set(record, stop);
    if (stop !== undefined) break;
  }
  return records.map((record) => results.get(record) as number | ConnectorError);
}

async function loadGroup(
  odoo: Odoo,
  model: string,
  records: readonly LoadRecord[],
  signal: AbortSignal,
): Promise<(number | ConnectorError)[]> {
  if (records.length === 0) return [];
  if (signal.aborted) return records.map(() => new TransientError('stopped before it was sent'));
  const { fields, data } = tableOf(records);
  let errors: ReadonlyMap<number, ConnectorError>;
  try {
    const answer = await odoo.change(model, 'load', { fields, data }, answerForm, signal);
    if (answer.ids !== false && answer.ids.length === records.length) return answer.ids;
    if (answer.ids !== false)
      throw new UnknownOutcome(`Odoo answered for ${answer.ids.length} records, and ${records.length} were sent.`);
    const { messages } = answer;
    const busy = messages.find(({ message }) => isBusyMessage(message));
    if (busy) return records.map(() => new LockedError(`Odoo: ${shortened(busy.message)}`));
    errors = errorsOf(messages, records.length);
  } catch (thrown) {
    const error = asConnectorError(thrown);
    if (error.type !== 'data' || records.length === 1) return records.map(() => error);
    return loadInHalves(odoo, model, records, signal);
  }
  if (errors.size === 0) {
    if (records.length > 1) return loadInHalves(odoo, model, records, signal);
    return [new DataError('Odoo refuses the record and does not say why.')];
  }
  const good = records.filter((_, index) => !errors.has(index));
  const loaded = await loadGroup(odoo, model, good, signal);
  return records.map((record, index) => errors.get(index) ?? (loaded[good.indexOf(record)] as number | ConnectorError));
}

/** For a refusal that names no record: the halves, and so on until the record is alone. */
async function loadInHalves(
  odoo: Odoo,
  model: string,
  records: readonly LoadRecord[],
  signal: AbortSignal,
): Promise<(number | ConnectorError)[]> {
  const half = Math.ceil(records.length / 2);
  const first = await loadGroup(odoo, model, records.slice(0, half), signal);
  const stop = first.find((result) => typeof result !== 'number' && stopsAll(result));
  const rest = records.slice(half);
  return [...first, ...(stop === undefined ? await loadGroup(odoo, model, rest, signal) : rest.map(() => stop))];
}

/** Errors that every other record would meet, too. */
function stopsAll(result: number | ConnectorError): boolean {
  return typeof result !== 'number' && ['auth', 'config', 'rate-limited', 'transient', 'unknown'].includes(result.type);
}

function errorsOf(messages: z.output<typeof answerForm>['messages'], count: number): Map<number, ConnectorError> {
  const real = messages.filter(({ type }) => type !== 'warning');
  const byRecord = Map.groupBy(real, ({ record }) => record ?? -1);
  return new Map(
    [...byRecord]
      .filter(([record]) => record >= 0 && record < count)
      .map(([record, own]) => {
        const texts = own.slice(0, 3).map(({ message, field }) => `${shortened(message)}${field ? ` (${field})` : ''}`);
        return [record, new DataError(`Odoo: ${texts.join(' ')}`)];
      }),
  );
}

function columnsKey({ cells, lines }: LoadRecord): string {
  return JSON.stringify([Object.keys(cells).sort(), lines?.field, lineColumns([lines]).sort()]);
}

function lineColumns(lines: readonly LoadRecord['lines'][]): string[] {
  return [...new Set(lines.flatMap((each) => (each?.rows ?? []).flatMap((row) => Object.keys(row))))];
}

/** The record's own cells stand in the row of its first line; further lines have rows of their own. */
function tableOf(records: readonly LoadRecord[]): { fields: string[]; data: string[][] } {
  const own = Object.keys(records[0]?.cells ?? {});
  const lineField = records.find(({ lines }) => lines)?.lines?.field ?? '';
  const columns = lineColumns(records.map(({ lines }) => lines));
  const data = records.flatMap(({ cells, lines }) => {
    const [first = {}, ...more] = lines?.rows ?? [];
    const lineCells = (row: Cells) => columns.map((column) => row[column] ?? '');
    return [
      [...own.map((column) => cells[column] ?? ''), ...lineCells(first)],
      ...more.map((row) => [...own.map(() => ''), ...lineCells(row)]),
    ];
  });
  return { fields: [...own, ...columns.map((column) => `${lineField}/${column}`)], data };
}

/** Deletes records in one call, all or none of them. `gone`: each task with the ids of its records. Where Odoo refuses, all of these tasks fail with its words. */
export async function removeRecords(
  odoo: Odoo,
  model: string,
  gone: readonly { readonly task: Pick<Task<DocumentKind>, 'error'>; readonly ids: readonly number[] }[],
  signal: AbortSignal,
): Promise<void> {
  const ids = gone.flatMap((removal) => removal.ids);
  if (ids.length === 0) return;
  try {
    signal.throwIfAborted();
    await odoo.change(model, 'unlink', { ids }, z.literal(true), signal);
  } catch (error) {
    for (const { task } of gone) task.error = asConnectorError(error);
  }
}
