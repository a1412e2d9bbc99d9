/**
 * Decides what to do with the order of a document: create, amend, revive or cancel it, or fail with the reason why none
 * of this is possible. It compares what Odoo holds with what is wanted, field by field and lot by lot. Lines that users
 * added have no external id of the bridge and are left alone.
 */
import { ConflictError, DataError } from 'sourcing-bridge/connector';
import { compareHead, compareLines, ownLines } from './compare-order.ts';
import { type HeldOrder, isAwarded, notAwardedMark, withdrawnMark } from './held-orders.ts';
import { checkFields, orderFields, type WantedLine } from './lots.ts';
import { headCells } from './order-cells.ts';
import { bidOrder, type OrderShape } from './order-shapes.ts';
import type { OrderContext, OrderTask } from './order-task.ts';
import { referenceTo } from './values.ts';

const isCancelled = ({ state }: HeldOrder) => state === 'cancel';
const isCancelledByBridge = ({ source }: HeldOrder) =>
  source.endsWith(withdrawnMark) || source.endsWith(notAwardedMark);

/** Those that count: not cancelled. */
export function liveOrders(found: readonly HeldOrder[] = []): HeldOrder[] {
  return found.filter((order) => !isCancelled(order));
}

/** The orders that are of the document itself, beside requests for quotation that its award does not continue yet. */
export function ownOrders(found: readonly HeldOrder[], shape: OrderShape): HeldOrder[] {
  return shape === bidOrder ? [...found] : found.filter((order) => !order.isRequest || isAwarded(order));
}

/** The order that the document is about: a live one before a cancelled one, and its own before its request. */
export function currentOrder(found: readonly HeldOrder[], shape: OrderShape): HeldOrder | undefined {
  const own = ownOrders(found, shape);
  // A buyer who cancels a request has decided nothing about the order.
  const requests = found.filter((order) => !own.includes(order) && (!isCancelled(order) || isCancelledByBridge(order)));
  const cancelled = own.find((order) => !isCancelledByBridge(order)) ?? own[0];
  return liveOrders(own)[0] ?? cancelled ?? liveOrders(requests)[0] ?? requests[0];
}

export function planOrder(task: OrderTask, found: readonly HeldOrder[], context: OrderContext): void {
  const { shape } = context;
  const own = ownOrders(found, shape);
  const live = liveOrders(own);
  if (live.length > 1)
    throw new ConflictError(
      `Odoo holds ${live.length} orders for this document (${live.map(({ name }) => name).join(', ')}): cancel the wrong ones.`,
    );
  const [held] = live;
  if (held) task.reference = referenceTo(shape.model, held.id);
  if (task.operation.action === 'cancel') return planCancel(task, held, context);
  checkFields(task.operation.document.fields, orderFields, 'orders');
  const current = currentOrder(found, shape);
  if (!current) return planCreate(task, context);
  if (isCancelled(current) && !isCancelledByBridge(current))
    throw new ConflictError(
      `The ${shape.name} ${current.name} was cancelled in Odoo, but its document is still valid: set it back to draft there and replay, or delete it and replay.`,
    );
  planAmend(task, current, context);
}

function planCreate(task: OrderTask, context: OrderContext): void {
  const { shape, confirms } = context;
  // Throws, before anything is sent, for values that Odoo would refuse or take in silence.
  headCells(task, context);
  needProducts(task, context);
  task.step = { do: 'create' };
  task.action = 'create';
  task.steps.push(
    `Make a ${shape.name} (${confirms ? 'confirmed' : 'draft'}) to ${task.vendor.code} "${task.vendor.name}" in ${task.operation.document.currency}.`,
    ...task.lines.map((line) => `Add a line: ${lineText(line)}.`),
  );
}

function planCancel(task: OrderTask, held: HeldOrder | undefined, context: OrderContext): void {
  if (!held) return;
  const { shape, confirms } = context;
  if (!confirms && !shape.openStates.has(held.state))
    throw new ConflictError(
      `The document was withdrawn, but the ${shape.name} ${held.name} is confirmed (${held.state}) in Odoo and was not changed: cancel it there.`,
    );
  // Odoo would cancel it without a word, also when everything was received, and a blanket order with all orders on it.
  refuseStarted(held, context, 'The document was withdrawn, but');
  task.step = { do: 'cancel', held, mark: withdrawnMark };
  task.action = 'cancel';
  task.steps.push(`Cancel the ${shape.name} ${held.name}, which is ${held.state}.`);
}

/** Throws ConflictError if goods, bills or call-off orders exist for the order, or if a user has locked it. */
function refuseStarted(held: HeldOrder, { shape, linesOf, callOffsOf }: OrderContext, why: string): void {
  const name = `${why} the ${shape.name} ${held.name}`;
  const callOffs = callOffsOf(held);
  if (callOffs.length > 0)
    throw new ConflictError(
      `${name} has orders on it in Odoo (${callOffs.join(', ')}): cancel or close them there first, and replay.`,
    );
  if (held.locked) throw new ConflictError(`${name} is locked in Odoo: unlock it there and replay.`);
  const lines = linesOf(held);
  if (['partial', 'full'].includes(held.receipt_status ?? '') || lines.some(({ qty_received = 0 }) => qty_received > 0))
    throw new ConflictError(
      `${name} was received in Odoo (${held.receipt_status || 'in part'}): return the goods and cancel it there.`,
    );
  // The order itself counts cancelled bills, too.
  if (lines.some(({ qty_invoiced = 0 }) => qty_invoiced > 0))
    throw new ConflictError(`${name} has bills in Odoo: cancel them there first.`);
}

/** An order that the bridge has cancelled comes back as a draft, with its number and its external ids. */
function planAmend(task: OrderTask, held: HeldOrder, context: OrderContext): void {
  const { shape, confirms } = context;
  const isRevived = isCancelled(held);
  const isContinued = !ownOrders([held], shape).includes(held);
  const isConfirmed = !isRevived && !shape.openStates.has(held.state);
  needProducts(task, context);
  const head = compareHead(task, held, context);
  const { changed, gone } = compareLines(task, held, context);
  // In a confirmed order, a line cannot be removed. It is set to zero, and is no difference any more.
  const removed = isConfirmed ? gone.filter(({ product_qty }) => product_qty !== 0) : gone;
  const confirm = confirms && (isRevived || shape.confirmFrom.has(held.state));
  const ordered = [
    ...head.fixed,
    ...head.other,
    ...changed.map(({ wanted, line, what }) =>
      line ? `Lot "${wanted.lot}": change ${what.join(', ')}.` : `Add a line: ${lineText(wanted)}.`,
    ),
    ...removed.map((line) => `${isConfirmed ? 'Set to zero' : 'Remove'} the line "${line.text}".`),
  ];
  const steps = [...head.links, ...ordered, ...(confirm ? ['Confirm it.'] : [])];
  if (steps.length === 0 && !isRevived) return;
  // What the order says of its origin may change at any time.
  if (isConfirmed && ordered.length > 0) {
    const asked = `What the document asks for: ${steps.join(' ')}`;
    // Odoo would leave the receipt of the old product, or of the old unit, as it is.
    const isOtherGoods = changed.some(({ fields }) => fields.includes('product') || fields.includes('unit'));
    if (!confirms || !shape.hasOrderLines || head.fixed.length > 0 || isOtherGoods)
      throw new ConflictError(
        `The ${shape.name} ${held.name} is confirmed (${held.state}) in Odoo and was not changed. ${asked} Make the change there.`,
      );
    refuseStarted(held, context, `${asked} But`);
  }
  const what = isContinued ? `${bidOrder.name} ${held.name}, which becomes the order` : `${shape.name} ${held.name}`;
  const back = isRevived ? ', which the bridge has cancelled, back to draft' : '';
  task.reference = referenceTo(shape.model, held.id);
  task.action = isRevived || isContinued ? 'create' : 'amend';
  task.steps.push(`${isRevived ? 'Set' : 'Amend'} the ${what}${back}.`, ...steps);
  task.step = {
    do: 'write',
    held,
    isRevived,
    isVendorNew: head.isVendorNew,
    zero: isConfirmed ? removed : [],
    remove: isConfirmed ? [] : head.isVendorNew ? ownLines(task, held, context.linesOf) : removed,
    confirm,
  };
}

/** Odoo takes a line without a product, and refuses to confirm the order then. */
function needProducts({ lines }: OrderTask, { shape, confirms }: OrderContext): void {
  if (shape.hasOrderLines && !confirms) return;
  const bare = lines.find(({ product }) => !product);
  if (bare)
    throw new DataError(
      `Lot "${bare.lot}" has no product, which a ${shape.hasOrderLines ? 'confirmed order' : shape.name} needs: set the field product in the mapping, or settings.product.`,
    );
}

function lineText({ lot, quantity, price, unit, product }: WantedLine): string {
  return `lot "${lot}", ${[quantity, ...(unit ? [unit.name] : []), ...(product ? [`of ${product.name}`] : []), `at ${price}`].join(' ')}`;
}
