/**
 * Writes records with Odoo's `load`: one call for many, each under its external id, all or none of them. Odoo answers
 * 200 also when it refuses; then nothing is stored, and each record is loaded alone.
 */
import {
  asConnectorError,
  type ConnectorError,
  DataError,
  type DocumentKind,
  LockedError,
  type Task,
  TransientError,
  UnknownOutcome,
  z,
} from 'sourcing-bridge/connector';
import { isBusyMessage, type Odoo, shortened } from './odoo.ts';
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
  let stop: ConnectorError | undefined;

  async function load(group: readonly LoadRecord[]): Promise<void> {
    const loaded = stop ?? (await loadTogether(odoo, model, group, signal));
    // One of them is refused: each alone, so that the others are written.
    if (!Array.isArray(loaded) && loaded.type === 'data' && group.length > 1) {
      for (const record of group) await load([record]);
      return;
    }
    if (!Array.isArray(loaded) && stopsAll.has(loaded.type)) stop = loaded;
    for (const [index, record] of group.entries())
      results.set(record, Array.isArray(loaded) ? (loaded[index] as number) : loaded);
  }

  // An empty cell would empty the field: only records with the same columns share a call.
  for (const group of Map.groupBy(records, columnsKey).values()) await load(group);
  return records.map((record) => results.get(record) as number | ConnectorError);
}

/** Else Odoo reads the times in the cells in the user's zone, and makes large pictures smaller. */
const context = { tz: 'UTC', image_no_postprocess: true };

/** Types of errors that every other record would meet, too. */
const stopsAll: ReadonlySet<string> = new Set(['auth', 'config', 'rate-limited', 'transient', 'unknown']);

/** In one call, all or none of them. */
async function loadTogether(
  odoo: Odoo,
  model: string,
  records: readonly LoadRecord[],
  signal: AbortSignal,
): Promise<number[] | ConnectorError> {
  if (signal.aborted) return new TransientError('stopped before it was sent');
  try {
    const args = { ...tableOf(records), context };
    const { ids: loaded, messages } = await odoo.change(model, 'load', args, answerForm, signal);
    if (loaded !== false && loaded.length === records.length) return loaded;
    if (loaded !== false)
      return new UnknownOutcome(`Odoo answered for ${loaded.length} records, and ${records.length} were sent.`);
    const busy = messages.find(({ message }) => isBusyMessage(message));
    if (busy) return new LockedError(`Odoo: ${shortened(busy.message)}`);
    const texts = messages
      .filter(({ type }) => type !== 'warning')
      .slice(0, 3)
      .map(({ message, field }) => `${shortened(message)}${field ? ` (${field})` : ''}`);
    return new DataError(`Odoo: ${texts.join(' ') || 'it refuses the record and does not say why.'}`);
  } catch (thrown) {
    return asConnectorError(thrown);
  }
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
