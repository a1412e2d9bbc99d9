/**
 * Shows on a purchase requisition what became of it: by one note (`ir.note`), whose text is replaced by each news. The
 * note ends with the key of its news. It is looked for before it is written, so that a repetition adds no second note.
 */
import { type Acknowledgement, ConflictError, DataError, type Outcome, writeEach, z } from 'sourcing-bridge/connector';
import type { Tryton } from './rpc.ts';
import { id, ids, oneLine, referenceTo, text } from './values.ts';

export const requisitionModel = 'purchase.requisition';
const noteModel = 'ir.note';
const requisitionRows = z.array(z.object({ id }));
const noteRows = z.array(z.object({ id, message: text }));

/** By what the bridge's note is found; the key of the news follows it. */
const mark = 'Kept by the sourcing bridge: news ';

/** Returns the session's `acknowledge`. */
export function createAcknowledge(tryton: Tryton) {
  async function acknowledge(news: Acknowledgement, signal: AbortSignal): Promise<Outcome> {
    const named = [[['number', '=', news.requisition]], 0, 2, [['id', 'ASC']], ['id']];
    const found = await tryton.ask(`${requisitionModel}.search_read`, named, requisitionRows, signal);
    const [requisition, other] = found;
    if (!requisition) throw new DataError(`Tryton has no purchase requisition ${news.requisition}.`);
    if (other) throw new ConflictError(`Tryton has several purchase requisitions ${news.requisition}.`);
    const reference = referenceTo(requisitionModel, requisition.id);
    const domain = [
      ['resource', '=', reference],
      ['message', 'like', `%${mark}%`],
    ];
    const own = [domain, 0, null, [['id', 'ASC']], ['message']];
    // More than one, if a user has copied it: all of them are kept up to date.
    const notes = await tryton.ask(`${noteModel}.search_read`, own, noteRows, signal);
    const message = `${oneLine(news.text)}\n(${mark}${news.idempotencyKey})`;
    if (notes.length === 0)
      await tryton.change(`${noteModel}.create`, [[{ resource: reference, message }]], ids, signal);
    else if (notes.every((note) => note.message === message)) return { status: 'unchanged', reference };
    else await tryton.change(`${noteModel}.write`, [notes.map((note) => note.id), { message }], z.unknown(), signal);
    return { status: 'updated', reference };
  }

  return (given: readonly Acknowledgement[], signal: AbortSignal): Promise<Outcome[]> =>
    writeEach(given, (news) => acknowledge(news, signal), { signal });
}
