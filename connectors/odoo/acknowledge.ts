/**
 * Shows on a purchase agreement what became of it: by a note in its log (chatter). Odoo's agreement has no field that is
 * free for it, and `reference` is what `read` returns as its name. Each note ends with the key of its news: before a note
 * is written, the newest one of the bridge is read, so that a repetition writes none.
 */
import { type Acknowledgement, ConflictError, DataError, type Outcome, writeEach, z } from 'sourcing-bridge/connector';
import type { Odoo } from './odoo.ts';
import { id, ids, oneLine, referenceTo, text } from './values.ts';

const model = 'purchase.requisition';
const agreementRows = z.array(z.object({ id }));
const noteRows = z.array(z.object({ id, body: text }));

/** By what the bridge's notes are found; the key follows it. */
const mark = 'Kept by the sourcing bridge: news ';

/** Returns the session's `acknowledge`. */
export function createAcknowledge(odoo: Odoo) {
  async function acknowledge(news: Acknowledgement, signal: AbortSignal): Promise<Outcome> {
    const named = { domain: [['name', '=', news.requisition]], fields: ['id'], order: 'id asc', limit: 2 };
    const [agreement, other] = await odoo.ask(model, 'search_read', named, agreementRows, signal);
    if (!agreement) throw new DataError(`Odoo has no purchase agreement ${news.requisition}.`);
    if (other) throw new ConflictError(`Odoo has several purchase agreements ${news.requisition}.`);
    const reference = referenceTo(model, agreement.id);
    const domain = [
      ['model', '=', model],
      ['res_id', '=', agreement.id],
      ['body', 'like', mark],
    ];
    const newest = { domain, fields: ['body'], order: 'id desc', limit: 1 };
    const [note] = await odoo.ask('mail.message', 'search_read', newest, noteRows, signal);
    if (note?.body.includes(`${mark}${news.idempotencyKey}`)) return { status: 'unchanged', reference };
    const body = `${oneLine(news.text)} (${mark}${news.idempotencyKey})`;
    // Without a subtype it is a note for people of the company: nobody gets an e-mail.
    await odoo.change(model, 'message_post', { ids: [agreement.id], body }, ids, signal);
    return { status: 'updated', reference };
  }

  return (given: readonly Acknowledgement[], signal: AbortSignal): Promise<Outcome[]> =>
    writeEach(given, (news) => acknowledge(news, signal), { signal });
}
