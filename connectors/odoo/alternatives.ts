/**
 * The requests for quotation of an event that was awarded. Odoo calls them alternatives of each other, and asks whoever
 * confirms one of them whether the others are to be cancelled. An award continues its supplier's request, so that there
 * is one order for a winner, and cancels the others.
 */
import { type AwardLine, dueOf } from 'sourcing-bridge/connector';
import { type FoundOrders, type HeldOrder, isAwarded, isDecided, notAwardedMark, readOrders } from './held-orders.ts';
import type { Odoo } from './odoo.ts';
import type { OrderShape } from './order-shapes.ts';
import type { Cancellation, OrderContext, OrderTask } from './order-task.ts';
import { liveOrders } from './plan-order.ts';
import { idIn, referenceTo } from './values.ts';

/** The order that stands for a bid since its event was awarded: from then on, bids write nothing. */
export function orderInstead(
  own: readonly HeldOrder[],
  ofEvent: readonly HeldOrder[],
  { alternatives }: OrderContext['settings'],
): HeldOrder | undefined {
  const decided = own.find(isDecided);
  if (decided || alternatives === 'keep') return decided;
  const other = ofEvent.find(isDecided);
  return other && (own[0] ?? other);
}

/** From the award on, no request of the bid may be open: a call that was cut off may have made one since. */
export function planInstead(
  task: OrderTask,
  instead: HeldOrder,
  own: readonly HeldOrder[],
  { model, openStates }: OrderShape,
): void {
  const open = own.find((order) => openStates.has(order.state) && !isDecided(order));
  task.reference = referenceTo(model, (open ?? instead).id);
  if (!open) return;
  task.action = 'amend';
  task.step = { do: 'cancel', held: open, mark: notAwardedMark };
  task.steps.push(cancellation(open));
}

const cancellation = ({ name, vendor }: HeldOrder) =>
  `Cancel the request ${name} of ${vendor?.name ?? ''}: not awarded.`;

/** Adds to the awards the open requests of their events that nobody was awarded, as Odoo's own dialog lists them. */
export async function planAlternatives(
  odoo: Odoo,
  tasks: readonly OrderTask[],
  found: FoundOrders,
  context: OrderContext,
  signal: AbortSignal,
): Promise<void> {
  const { shape, settings, fields } = context;
  if (settings.alternatives === 'keep') return;
  const kept = tasks.filter(({ operation }) => operation.action !== 'cancel');
  for (const [event, awards] of Map.groupBy(kept, ({ operation }) => operation.document.event.id)) {
    const requests = found.inEvent(event);
    const [first] = dueOf(awards);
    if (!first || requests.length === 0) continue;
    const winners = new Set(
      awards.flatMap(({ error, reference, operation }) =>
        error ? found.of(operation.document.key).map(({ id }) => id) : (idIn(reference, shape.model) ?? []),
      ),
    );
    const others = liveOrders(requests).filter((order) => isAwarded(order) && !winners.has(order.id));
    const lines = dueOf(awards).flatMap(({ operation }) => operation.document.lines as readonly AwardLine[]);
    // Somebody else is awarded the rest of the lot, and whoever it is comes later.
    if (awards.length + others.length === 1 && lines.some(({ share }) => Number(share) < 1)) continue;
    const groups = requests.flatMap(({ purchase_group_id: group }) => group?.id ?? []);
    const inGroups = [['purchase_group_id', 'in', groups]];
    const grouped = groups.length === 0 ? [] : await readOrders(odoo, shape, inGroups, fields, signal);
    const alternatives = [...requests, ...grouped.filter(({ source }) => !source.includes('SB-'))].filter(
      (order) => shape.openStates.has(order.state) && !isAwarded(order) && !winners.has(order.id),
    );
    if (alternatives.length === 0) continue;
    const cancellations = alternatives.map((held): Cancellation => {
      const step = { do: 'cancel', held, mark: notAwardedMark } as const;
      return { reference: referenceTo(shape.model, held.id), error: undefined, isBegun: false, step };
    });
    for (const task of dueOf(awards)) task.alternatives = cancellations;
    first.steps.push(...alternatives.map(cancellation));
    if (first.action === 'none') first.action = 'amend';
  }
}
