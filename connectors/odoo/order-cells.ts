/** Orders in the cells of Odoo's `load`. */
import { eventMarkerOf, externalId, markerOf, partId } from './external-ids.ts';
import type { HeldLine } from './held-orders.ts';
import type { Cells, LoadRecord } from './load.ts';
import type { WantedLine } from './lots.ts';
import { awardOrder, bidOrder, type OrderShape } from './order-shapes.ts';
import type { OrderContext, OrderTask } from './order-task.ts';
import { odooDay, odooTime, oneLine, plainOf } from './values.ts';

/** The cells of the order itself, without its lines. Throws DataError for a value that Odoo would refuse. */
export function headCells(
  { operation, vendor, names, agreement }: OrderTask,
  { shape, settings, data }: OrderContext,
): Cells {
  const { document } = operation;
  const { fields = {} } = document;
  const marker = markerOf(names.prefix, document.key);
  const event = eventMarkerOf(document.event.id);
  const isRequest = names.prefix === bidOrder.prefix;
  // An order that an award makes of its own names the event at its end, where late bids find it.
  const awarded = shape !== awardOrder ? '' : isRequest ? ' (awarded)' : ` (awarded ${event})`;
  const marks = `${isRequest ? `${event} ` : ''}${marker}${awarded}`;
  const warehouse = fields['warehouse'] ?? settings.warehouse;
  const receipts = warehouse === undefined || !shape.hasOrderLines ? undefined : data.receipts(warehouse);
  const dates = shape.hasOrderLines ? (['date_order', 'date_planned'] as const) : (['date_start', 'date_end'] as const);
  const dateOf = (value: string, what: string) =>
    shape.hasOrderLines ? odooTime(value, what, data.zone) : odooDay(value, what);
  return {
    id: externalId(names.prefix, document.key),
    ...shape.fixedCells,
    [`${shape.vendorField}/.id`]: String(vendor.id ?? ''),
    [shape.sourceField]: `${oneLine(fields['source'] ?? document.event.name)} ${marks}`,
    'currency_id/.id': String(data.currency(document.currency)),
    ...(agreement === undefined || !shape.hasOrderLines ? {} : { 'requisition_id/.id': String(agreement) }),
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

/**
 * The record to load: the order with all its lines. None is left out, because Odoo replaces prices that do not come with
 * a change of the order by those of the vendor's price list.
 */
export function orderRecord(task: OrderTask, context: OrderContext): LoadRecord {
  const { shape } = context;
  const { key } = task.operation.document;
  const zero = task.step?.do === 'write' ? task.step.zero : [];
  const isDated = task.lines.some(({ date }) => date !== undefined);
  const rows = [
    ...task.lines.map((line) => lineCells(partId(task.names.linePrefix, key, line.lot), line, shape)),
    ...zero.map((line) => zeroCells(line, shape, isDated)),
  ];
  return {
    cells: { ...newCells(task, context), ...task.form },
    ...(rows.length === 0 ? {} : { lines: { field: shape.linesField, rows } }),
  };
}

/**
 * Without the vendor and the company that the order has: a write that names them makes Odoo compute the automatic prices
 * of all lines again, also of those that a person has added.
 */
function newCells(task: OrderTask, context: OrderContext): Cells {
  const cells = headCells(task, context);
  if (task.step?.do !== 'write') return cells;
  const { vendor, company_id } = task.step.held;
  const held = { [`${context.shape.vendorField}/.id`]: vendor?.id, 'company_id/.id': company_id?.id };
  return Object.fromEntries(Object.entries(cells).filter(([name, value]) => value !== String(held[name])));
}

/**
 * Says that the price was set by hand, so that Odoo keeps it when a user changes the quantity. Odoo computes the price of
 * a line again from the price list, with its discount, as long as this number equals the price; it makes it so itself
 * where it gets none, or 0. No price is below zero.
 */
const priceByHand = { technical_price_unit: '-1', discount: '0' };

function lineCells(
  id: string,
  { product, unit, quantity, price, text, date }: WantedLine,
  { textField, hasOrderLines }: OrderShape,
): Cells {
  return {
    id,
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
function zeroCells(line: HeldLine, { textField }: OrderShape, isDated: boolean): Cells {
  return {
    id: line.externalId,
    [textField]: line.text,
    'product_id/.id': String(line.product_id?.id ?? ''),
    'product_uom_id/.id': String(line.product_uom_id?.id ?? ''),
    product_qty: '0',
    price_unit: plainOf(line.price_unit),
    ...priceByHand,
    // A column of one line would empty the field of the others.
    ...(isDated ? { date_planned: line.date_planned ?? '' } : {}),
  };
}
