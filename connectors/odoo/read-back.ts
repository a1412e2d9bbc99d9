/**
 * What Odoo holds of a document that became an order, field by field, beside what a write makes of it. Values that only
 * users set are not compared: the state, taxes, notes, fields of other modules.
 */
import {
  fieldsOf,
  hasDifference,
  type ReadBack,
  type ReadField,
  type TakenDocument,
  z,
} from 'sourcing-bridge/connector';
import { headFields, heldTexts, wantedTexts } from './compare-order.ts';
import { partId } from './external-ids.ts';
import type { HeldOrder } from './held-orders.ts';
import type { Odoo } from './odoo.ts';
import type { OrderContext, OrderTask } from './order-task.ts';
import { liveOrders } from './plan-order.ts';
import { id, idIn, referenceTo, relation, text } from './values.ts';

/** What Odoo holds of one document; `found` are all orders of its own, cancelled ones included. */
export function readOrder(
  { document, reference }: TakenDocument<'award' | 'quotation'>,
  task: OrderTask,
  found: readonly HeldOrder[],
  context: OrderContext,
): ReadBack {
  const { key } = document;
  const { shape } = context;
  if (task.error) return { key, status: 'unclear', reason: task.error.message };
  const referenceOf = ({ id: order }: HeldOrder) => referenceTo(shape.model, order);
  const live = liveOrders(found);
  const own = live.find((order) => referenceOf(order) === reference) ?? (live.length === 1 ? live[0] : undefined);
  if (own) {
    const fields = [...headFields(task, own, context), ...lineFields(task, own, context)];
    return { key, status: 'held', reference: referenceOf(own), fields, notCompared: ['the taxes of the lines'] };
  }
  if (live.length > 1)
    return { key, status: 'unclear', reason: `Odoo holds ${live.length} orders for it: cancel the wrong ones` };
  const [cancelled] = found;
  return cancelled ? { key, status: 'cancelled', reference: referenceOf(cancelled) } : { key, status: 'missing' };
}

function lineFields(task: OrderTask, held: HeldOrder, { shape, linesOf }: OrderContext): ReadField[] {
  const { names, operation } = task;
  const { key } = operation.document;
  const byId = new Map(linesOf(held).map((line) => [line.externalId, line]));
  const wantedIds = new Set(task.lines.map(({ lot }) => partId(names.linePrefix, key, lot)));
  // A line that was set to zero, because Odoo deletes none of a confirmed order, orders nothing.
  const added = linesOf(held).filter((line) => !wantedIds.has(line.externalId) && line.product_qty !== 0);
  const pairs = task.lines.map((line) => ({ line, own: byId.get(partId(names.linePrefix, key, line.lot)) }));
  return fieldsOf(
    { lines: pairs.map(({ line }) => wantedTexts(line, shape)) },
    {
      lines: [
        ...pairs.flatMap(({ line, own }) => (own ? [{ lot: line.lot, ...heldTexts(own, line, shape) }] : [])),
        ...added.map((line) => ({ lot: line.text, ...heldTexts(line, undefined, shape) })),
      ],
    },
    { names: ['lot'], decimals: ['quantity', 'price', 'discount'] },
  );
}

const changeRows = z.array(z.object({ id, write_uid: relation, write_date: text }));

type Change = Pick<z.output<typeof changeRows>[number], 'write_uid' | 'write_date'>;

/**
 * Adds who has changed the records of this model last, and when, to those that differ: a person where there is one, as
 * the bridge may have written to the record since. `partsOf`: changes of what belongs to a record, such as its lines.
 */
export async function addLastChanges(
  odoo: Odoo,
  model: string,
  answers: readonly ReadBack[],
  signal: AbortSignal,
  partsOf: (record: number) => readonly Change[] = () => [],
): Promise<ReadBack[]> {
  const differing = answers.filter(hasDifference).flatMap(({ reference }) => idIn(reference, model) ?? []);
  if (differing.length === 0) return [...answers];
  const domain = [['id', 'in', differing]];
  const args = { domain, fields: ['write_uid', 'write_date'], order: 'id asc', context: { active_test: false } };
  const rows = await odoo.ask(model, 'search_read', args, changeRows, signal);
  const { uid } = await odoo.user(signal);
  const changes = new Map(
    rows.map((row) => {
      const newestFirst = [row, ...partsOf(row.id)].sort((a, b) => (a.write_date < b.write_date ? 1 : -1));
      const last = newestFirst.find(({ write_uid }) => write_uid?.id !== uid) ?? row;
      return [row.id, { by: last.write_uid?.name, at: utc(last.write_date) }];
    }),
  );
  return answers.map((answer) => {
    const changed = answer.status === 'held' ? changes.get(idIn(answer.reference, model) ?? -1) : undefined;
    return changed ? { ...answer, changed } : answer;
  });
}

/** Odoo's times are in UTC, without saying so. */
function utc(time: string): string | undefined {
  return /^\d{4}-\d\d-\d\d \d\d:\d\d:\d\d/.test(time) ? `${time.slice(0, 19).replace(' ', 'T')}Z` : undefined;
}
