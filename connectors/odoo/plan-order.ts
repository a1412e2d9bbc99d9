/**
 * Decides what to do with the order of a document: create, amend, revive or cancel it, or fail with the reason why none
 * of this is possible. It compares what Odoo holds with what is wanted, field by field and lot by lot. Lines that users
 * added have no external id of the bridge and are left alone.
 */
import { type AwardDocument, ConflictError, DataError, type QuotationDocument } from 'sourcing-bridge/connector';
import { documentPrefix, externalId, markerOf, partId } from './external-ids.ts';
import { type HeldLine, type HeldOrder, withdrawnMark } from './held-orders.ts';
import type { Cells, LoadRecord } from './load.ts';
import { checkFields, orderFields, type WantedLine } from './lots.ts';
import type { OrderShape } from './order-shapes.ts';
import type { ReferenceData } from './reference-data.ts';
import type { Settings } from './settings.ts';
import type { Task } from './task.ts';
import { odooDay, odooTime, oneLine, plainOf, referenceTo } from './values.ts';
import type { Vendor } from './vendors.ts';

export type OrderDocument = AwardDocument | QuotationDocument;

export interface OrderTask extends Task<OrderDocument['kind']> {
  vendor: Vendor;
  lines: readonly WantedLine[];
  /** What Odoo's form fills in for the vendor of an order; it is read before the order is written. */
  form: Cells;
  step: OrderStep | undefined;
}

type OrderStep =
  | { readonly do: 'create' }
  | { readonly do: 'cancel'; readonly held: HeldOrder }
  | {
      readonly do: 'write';
      readonly held: HeldOrder;
      /** Whether it is cancelled and becomes a draft first. */
      readonly isRevived: boolean;
      /** Lines of a confirmed order that order nothing any more: Odoo deletes none of them. */
      readonly zero: readonly HeldLine[];
      /** Lines of a draft that are deleted: of lots that are gone, and all if the vendor changes, whose taxes they have. */
      readonly remove: readonly HeldLine[];
      readonly isVendorNew: boolean;
      readonly confirm: boolean;
    };

export interface OrderContext {
  readonly shape: OrderShape;
  readonly settings: Settings;
  readonly data: ReferenceData;
  /** Whether the connector confirms these orders, and amends confirmed ones. */
  readonly confirms: boolean;
  /** What is read of an order, beside what every order has. */
  readonly fields: readonly string[];
  readonly linesOf: (order: HeldOrder) => readonly HeldLine[];
  /** The numbers of the orders on a blanket order that are not cancelled. */
  readonly callOffsOf: (order: HeldOrder) => readonly string[];
}

const isCancelled = ({ state }: HeldOrder) => state === 'cancel';
const isWithdrawn = ({ source }: HeldOrder) => source.endsWith(withdrawnMark);

/** Those that count: not cancelled. */
export function liveOrders(found: readonly HeldOrder[] = []): HeldOrder[] {
  return found.filter((order) => !isCancelled(order));
}

export function planOrder(task: OrderTask, found: readonly HeldOrder[], context: OrderContext): void {
  const { shape } = context;
  const live = liveOrders(found);
  const [held] = live;
  if (live.length > 1)
    throw new ConflictError(
      `Odoo holds ${live.length} orders for this document (${live.map(({ name }) => name).join(', ')}): cancel the wrong ones.`,
    );
  if (held) task.reference = referenceTo(shape.model, held.id);
  if (task.operation.action === 'cancel') return planCancel(task, held, context);
  checkFields(task.operation.document.fields, orderFields, 'orders');
  if (held) return planAmend(task, held, context, false);
  const cancelled = found.find((order) => !isWithdrawn(order));
  if (cancelled)
    throw new ConflictError(
      `The ${shape.name} ${cancelled.name} was cancelled in Odoo, but its document is still valid: set it back to draft there and replay, or delete it and replay.`,
    );
  const [withdrawn] = found;
  if (withdrawn) return planAmend(task, withdrawn, context, true);
  planCreate(task, context);
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
  task.step = { do: 'cancel', held };
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
  if (
    held.invoice_status === 'invoiced' ||
    (held.invoice_count ?? 0) > 0 ||
    lines.some(({ qty_invoiced = 0 }) => qty_invoiced > 0)
  )
    throw new ConflictError(`${name} has bills in Odoo: cancel them there first.`);
}

/** `isRevived`: the bridge has cancelled it; it comes back as a draft, with its number and its external ids. */
function planAmend(task: OrderTask, held: HeldOrder, context: OrderContext, isRevived: boolean): void {
  const { shape, confirms } = context;
  const isConfirmed = !isRevived && !shape.openStates.has(held.state);
  needProducts(task, context);
  const head = compareHead(task, held, context);
  const { changed, gone } = compareLines(task, held, context);
  // In a confirmed order, a line cannot be removed. It is set to zero, and is no difference any more.
  const removed = isConfirmed ? gone.filter(({ product_qty }) => product_qty !== 0) : gone;
  const confirm = confirms && (isRevived || shape.confirmFrom.has(held.state));
  const steps = [
    ...head.fixed,
    ...head.other,
    ...changed.map(({ wanted, line, what }) =>
      line ? `Lot "${wanted.lot}": change ${what.join(', ')}.` : `Add a line: ${lineText(wanted)}.`,
    ),
    ...removed.map((line) => `${isConfirmed ? 'Set to zero' : 'Remove'} the line "${line.text}".`),
    ...(confirm ? ['Confirm it.'] : []),
  ];
  if (steps.length === 0 && !isRevived) return;
  if (isConfirmed) {
    const asked = `What the document asks for: ${steps.join(' ')}`;
    if (!confirms || !shape.hasOrderLines || head.fixed.length > 0)
      throw new ConflictError(
        `The ${shape.name} ${held.name} is confirmed (${held.state}) in Odoo and was not changed. ${asked} Make the change there.`,
      );
    refuseStarted(held, context, `${asked} But`);
  }
  const first = isRevived ? ', which the bridge has cancelled, back to draft' : '';
  task.reference = referenceTo(shape.model, held.id);
  task.action = isRevived ? 'create' : 'amend';
  task.steps.push(`${isRevived ? 'Set' : 'Amend'} the ${shape.name} ${held.name}${first}.`, ...steps);
  task.step = {
    do: 'write',
    held,
    isRevived,
    isVendorNew: head.isVendorNew,
    zero: isConfirmed ? removed : [],
    remove: isConfirmed ? [] : head.isVendorNew ? ownLines(task, held, context) : removed,
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

/** What differs in the order itself, in sentences; `fixed`: what a confirmed order may not change. */
function compareHead(task: OrderTask, held: HeldOrder, context: OrderContext) {
  const { shape } = context;
  const cells = headCells(task, context);
  const change = (what: string, now: string, wanted: string | undefined) =>
    wanted === undefined || now === wanted ? [] : [`Change the ${what} from "${now}" to "${wanted}".`];
  const idText = (value: { id: number } | undefined) => String(value?.id ?? '');
  const { vendor } = task;
  const isVendorNew = vendor.id === undefined || held.vendor?.id !== vendor.id;
  return {
    isVendorNew,
    fixed: [
      ...(!isVendorNew ? [] : change('vendor', held.vendor?.name ?? '', `${vendor.name} (${vendor.code})`)),
      ...change('currency', idText(held.currency_id), cells['currency_id/.id']),
      ...change('company', idText(held.company_id), cells['company_id/.id']),
      ...change('operation type', idText(held.picking_type_id), cells['picking_type_id/.id']),
    ],
    other: [
      ...change('source', held.source, cells[shape.sourceField]),
      ...(['partner_ref', 'date_order', 'date_planned', 'date_start', 'date_end'] as const).flatMap((name) =>
        change(name.replace('_', ' '), held[name] ?? '', cells[name]),
      ),
    ],
  };
}

/** The cells of the order itself, without its lines. Throws DataError for a value that Odoo would refuse. */
export function headCells({ operation, vendor }: OrderTask, { shape, settings, data }: OrderContext): Cells {
  const { document } = operation;
  const { fields = {} } = document;
  const marker = markerOf(shape.prefix, document.key);
  const eventMarker = shape.prefix === 'bids' ? ` ${eventMarkerOf(document.event.id)}` : '';
  const warehouse = fields['warehouse'] ?? settings.warehouse;
  const receipts = warehouse === undefined || !shape.hasOrderLines ? undefined : data.receipts(warehouse);
  const dates = shape.hasOrderLines ? (['date_order', 'date_planned'] as const) : (['date_start', 'date_end'] as const);
  const dateOf = (value: string, what: string) =>
    shape.hasOrderLines ? odooTime(value, what, data.zone) : odooDay(value, what);
  return {
    id: externalId(shape.prefix, document.key),
    ...shape.fixedCells,
    [`${shape.vendorField}/.id`]: String(vendor.id ?? ''),
    [shape.sourceField]: `${oneLine(fields['source'] ?? document.event.name)}${eventMarker} ${marker}`,
    'currency_id/.id': String(data.currency(document.currency)),
    ...(receipts === undefined
      ? {}
      : {
          'picking_type_id/.id': String(receipts.id),
          ...(receipts.company === undefined ? {} : { 'company_id/.id': String(receipts.company) }),
        }),
    ...(fields['partner_ref'] === undefined || !shape.hasOrderLines
      ? {}
      : { partner_ref: oneLine(fields['partner_ref']) }),
    ...Object.fromEntries(
      dates.flatMap((name) => (fields[name] === undefined ? [] : [[name, dateOf(fields[name], `The field ${name}`)]])),
    ),
  };
}

/** All requests for quotation of an event have it in their source, by which they become alternatives of each other. */
export function eventMarkerOf(event: string): string {
  return markerOf('event', event);
}

/**
 * The record to load: the order with all its lines. None is left out, because Odoo replaces prices that do not come with
 * a change of the order by those of the vendor's price list.
 */
export function orderRecord(task: OrderTask, context: OrderContext): LoadRecord {
  const { shape } = context;
  const { key } = task.operation.document;
  const zero = task.step?.do === 'write' ? task.step.zero : [];
  const rows = [
    ...task.lines.map((line) => lineCells(key, line, shape)),
    ...zero.map((line) => zeroCells(line, shape)),
  ];
  return {
    cells: { ...headCells(task, context), ...task.form },
    ...(rows.length === 0 ? {} : { lines: { field: shape.linesField, rows } }),
  };
}

/**
 * Says that the price was set by hand, so that Odoo keeps it when a user changes the quantity. Odoo computes the price of
 * a line again from the price list, with its discount, as long as this number equals the price; it makes it so itself
 * where it gets none, or 0. No price is below zero.
 */
const priceByHand = { technical_price_unit: '-1', discount: '0' };

function lineCells(
  key: string,
  { lot, product, unit, quantity, price, text, date }: WantedLine,
  { linePrefix, textField, hasOrderLines }: OrderShape,
): Cells {
  return {
    id: partId(linePrefix, key, lot),
    [textField]: text,
    'product_id/.id': product === undefined ? '' : String(product.id),
    'product_uom_id/.id': unit === undefined ? '' : String(unit.id),
    product_qty: quantity,
    price_unit: price,
    ...(hasOrderLines ? priceByHand : {}),
    ...(date === undefined || !hasOrderLines ? {} : { date_planned: date }),
  };
}

/** The price comes with the zero: only at the same price does the difference reduce the receipt, and not become a return. */
function zeroCells(line: HeldLine, { textField }: OrderShape): Cells {
  return {
    id: line.externalId,
    [textField]: line.text,
    'product_id/.id': String(line.product_id?.id ?? ''),
    'product_uom_id/.id': String(line.product_uom_id?.id ?? ''),
    product_qty: '0',
    price_unit: plainOf(line.price_unit),
    ...priceByHand,
    ...(line.date_planned === undefined ? {} : { date_planned: line.date_planned }),
  };
}

interface ChangedLine {
  readonly wanted: WantedLine;
  /** Undefined: the line is missing. */
  readonly line: HeldLine | undefined;
  /** What changes, in words. */
  readonly what: readonly string[];
}

/** The lots whose line is missing or differs, and the lines of lots that are no longer in the document. */
function compareLines(
  task: OrderTask,
  held: HeldOrder,
  { shape, linesOf }: OrderContext,
  compare: (line: HeldLine, wanted: WantedLine, shape: OrderShape) => string[] = differencesOf,
) {
  const { key } = task.operation.document;
  const lines = linesOf(held);
  const byId = new Map(lines.map((line) => [line.externalId, line]));
  const wantedIds = new Set<string>();
  const changed = task.lines.flatMap((wanted): ChangedLine[] => {
    const name = partId(shape.linePrefix, key, wanted.lot);
    wantedIds.add(name);
    const line = byId.get(name);
    if (!line) return [{ wanted, line: undefined, what: [] }];
    const what = compare(line, wanted, shape);
    return what.length === 0 ? [] : [{ wanted, line, what }];
  });
  const own = ownLines(task, held, { shape, linesOf });
  const gone = own.filter(({ externalId: name }) => !wantedIds.has(name));
  return { changed, gone };
}

/** The lines that the bridge has made of the document. */
function ownLines(
  { operation }: OrderTask,
  held: HeldOrder,
  { shape, linesOf }: Pick<OrderContext, 'shape' | 'linesOf'>,
): HeldLine[] {
  const prefix = documentPrefix(shape.linePrefix, operation.document.key);
  return linesOf(held).filter((line) => line.externalId.startsWith(prefix));
}

/** What decides what is paid; beside it the text and the day. */
function moneyDifferences(line: HeldLine, wanted: WantedLine): string[] {
  return [
    ...difference('product', line.product_id?.id ?? 'none', wanted.product?.id ?? 'none'),
    ...difference('unit', line.product_uom_id?.id ?? 'none', wanted.unit?.id ?? 'none'),
    ...difference('quantity', line.product_qty, Number(wanted.quantity)),
    ...difference('price', line.price_unit, Number(wanted.price)),
    ...difference('discount', line.discount ?? 0, 0),
  ];
}

function differencesOf(line: HeldLine, wanted: WantedLine, { hasOrderLines }: OrderShape): string[] {
  return [
    ...moneyDifferences(line, wanted),
    ...difference('text', line.text, wanted.text),
    ...(hasOrderLines && wanted.date !== undefined ? difference('date', line.date_planned ?? '', wanted.date) : []),
  ];
}

function difference(name: string, now: unknown, next: unknown): string[] {
  return now === next ? [] : [`the ${name} from ${String(now)} to ${String(next)}`];
}

/** What Odoo holds after a write in another way than it was written, of all that decides what is paid. */
export function wrongMoney(task: OrderTask, held: HeldOrder, context: OrderContext): string[] {
  const { changed, gone } = compareLines(task, held, context, moneyDifferences);
  return [
    ...compareHead(task, held, context).fixed,
    ...changed.map(({ wanted, line, what }) =>
      line ? `Lot "${wanted.lot}": change ${what.join(', ')}.` : `Lot "${wanted.lot}" is missing.`,
    ),
    ...gone.filter(({ product_qty }) => product_qty !== 0).map(({ text }) => `The line "${text}" is still there.`),
  ];
}

function lineText({ lot, quantity, price, unit, product }: WantedLine): string {
  return `lot "${lot}", ${[quantity, ...(unit ? [unit.name] : []), ...(product ? [`of ${product.name}`] : []), `at ${price}`].join(' ')}`;
}
