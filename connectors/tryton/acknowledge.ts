/**
 * Shows on a purchase requisition what became of it: by one note (`ir.note`), whose text is replaced by each news. The
 * note ends with the key of its news. It is looked for before it is written, so that a repetition adds no second note.
 */
import {
  type Acknowledgement,
  asConnectorError,
  ConflictError,
  concernsOneRecord,
  DataError,
  type Outcome,
  outcomeOf,
  type Progress,
  runInHalves,
  z,
} from 'sourcing-bridge/connector';
import type { Tryton } from './rpc.ts';
import { sendTasks } from './send-batch.ts';
import { id, ids, oneLine, referenceTo, text } from './values.ts';

export const requisitionModel = 'purchase.requisition';
const noteModel = 'ir.note';
const requisitionRows = z.array(z.object({ id, number: text }));
const noteRows = z.array(z.object({ id, resource: text, message: text }));

/** By what the bridge's note is found; the key of the news follows it. */
const mark = 'Kept by the sourcing bridge: news ';

interface NoteTask extends Omit<Progress, 'isBegun'> {
  readonly news: Acknowledgement;
  readonly message: string;
  /** The note that the requisition has. More than one, if a user has copied it: all of them are kept up to date. */
  readonly notes: readonly number[];
}

/** Returns the session's `acknowledge`. */
export function createAcknowledge(tryton: Tryton) {
  /** Rejects if Tryton cannot be read; the refusal of one requisition becomes the error of its task. */
  async function planAll(given: readonly Acknowledgement[], signal: AbortSignal): Promise<NoteTask[]> {
    const numbers = given.map(({ requisition }) => requisition);
    const named = [[['number', 'in', numbers]], 0, null, [['id', 'ASC']], ['number']];
    const rows = await tryton.ask(`${requisitionModel}.search_read`, named, requisitionRows, signal);
    const resources = rows.map((row) => referenceTo(requisitionModel, row.id));
    const domain = [
      ['resource', 'in', resources],
      ['message', 'like', `%${mark}%`],
    ];
    const params = [domain, 0, null, [['id', 'ASC']], ['resource', 'message']];
    const notes = resources.length === 0 ? [] : await tryton.ask(`${noteModel}.search_read`, params, noteRows, signal);
    return given.map((news): NoteTask => {
      const [requisition, other] = rows.filter(({ number }) => number === news.requisition);
      const reference = requisition ? referenceTo(requisitionModel, requisition.id) : '';
      const own = notes.filter(({ resource }) => resource === reference);
      const message = `${oneLine(news.text)}\n(${mark}${news.idempotencyKey})`;
      const isShown = own.length > 0 && own.every((note) => note.message === message);
      const error = !requisition
        ? new DataError(`Tryton has no purchase requisition ${news.requisition}.`)
        : other
          ? new ConflictError(`Tryton has several purchase requisitions ${news.requisition}.`)
          : undefined;
      const action = isShown ? 'none' : own.length > 0 ? 'amend' : 'create';
      return { news, message, notes: own.map((note) => note.id), action, steps: [], reference, error };
    });
  }

  async function send(tasks: readonly NoteTask[], signal: AbortSignal): Promise<void> {
    await sendTasks(
      tasks.filter(({ action }) => action === 'create'),
      async (batch) => {
        const values = batch.map(({ reference, message }) => ({ resource: reference, message }));
        return tryton.change(`${noteModel}.create`, [values], ids, signal);
      },
      {
        signal,
        findCreated: async (batch) => {
          const found = await planAll(
            batch.map(({ news }) => news),
            signal,
          );
          return found.map(({ notes: [note], action }) => (action === 'none' ? note : undefined));
        },
      },
    );
    await sendTasks(
      tasks.filter(({ action }) => action === 'amend'),
      async (batch) => {
        const pairs = batch.flatMap(({ notes, message }) => [notes, { message }]);
        await tryton.change(`${noteModel}.write`, pairs, z.unknown(), signal);
        return batch;
      },
      { signal },
    );
  }

  async function acknowledgeAll(given: readonly Acknowledgement[], signal: AbortSignal): Promise<Outcome[]> {
    let tasks: readonly NoteTask[];
    try {
      tasks = await planAll(given, signal);
    } catch (thrown) {
      if (concernsOneRecord(asConnectorError(thrown))) throw thrown;
      return given.map(() => outcomeOf(thrown));
    }
    await send(tasks, signal);
    return tasks.map(({ error, action, reference }): Outcome => {
      if (error) return outcomeOf(error);
      return { status: action === 'none' ? 'unchanged' : 'updated', reference };
    });
  }

  return (given: readonly Acknowledgement[], signal: AbortSignal): Promise<Outcome[]> =>
    runInHalves(
      given,
      (batch) => acknowledgeAll(batch, signal),
      (_, error) => outcomeOf(error),
      signal,
    );
}
