/**
 * The orders that Odoo holds for documents: one per event and supplier. An order is found by the marker at the end of
 * its source text, by the reference that the bridge remembers, and, where both fail and it matters, by its external id.
 */
import { TransientError, z } from 'sourcing-bridge/connector';
import { eventMarkerOf, externalId, markerOf, type Prefix, referenceArgs } from './external-ids.ts';
import { type Odoo, OdooRefusal } from './odoo.ts';
import { awardOrder, bidOrder, type OrderShape } from './order-shapes.ts';
import { anyOf, id, idIn, number, relation, text } from './values.ts';

const rowForm = z.looseObject({
  id,
  name: text,
  state: z.string(),
  source: text,
  vendor: relation,
  /** The ids of its lines. */
  lines: z.array(id),
  currency_id: relation,
  company_id: relation,
  partner_ref: text.optional(),
  date_order: text.optional(),
  date_planned: text.optional(),
  date_start: text.optional(),
  date_end: text.optional(),
  picking_type_id: relation.optional(),
  locked: z.boolean().optional(),
  receipt_status: text.optional(),
  purchase_group_id: relation.optional(),
  requisition_id: relation.optional(),
});

export interface HeldOrder extends z.output<typeof rowForm> {
  /** Whether it was made as a request for quotation; an award may have continued it. */
  readonly isRequest: boolean;
}

const lineForm = z.looseObject({
  id,
  parent: relation,
  product_id: relation,
  product_uom_id: relation,
  product_qty: number,
  price_unit: number,
  discount: number.optional(),
  text,
  date_planned: text.optional(),
  write_uid: relation,
  write_date: text,
  qty_received: number.optional(),
  qty_invoiced: number.optional(),
});
export interface HeldLine extends z.output<typeof lineForm> {
  /** `sourcing_bridge.order_line_…`; empty for a line of a user. */
  readonly externalId: string;
}

/** The form of a row whose fields have other names in this model. */
function named<Form extends z.ZodType>(names: Readonly<Record<string, string>>, form: Form) {
  return z.preprocess((row) => {
    if (typeof row !== 'object' || row === null) return row;
    const renamed = Object.entries(names).map(([name, field]) => [name, row[field as never]]);
    return { ...row, ...Object.fromEntries(renamed) };
  }, form);
}

const externalIdsForm = z.record(z.string(), z.string());
const referenceForm = z.tuple([z.string(), id]);

/** Added to the source when the bridge cancels an order: else a user has cancelled it. */
export const withdrawnMark = ' (withdrawn)';
/** The same, of a request for quotation whose event was awarded to others. */
export const notAwardedMark = ' (not awarded)';
/** Whether it is the order of an award. Before the mark stands a marker: an event may have such words in its name. */
export const isAwarded = ({ source }: HeldOrder) => /SB-[0-9A-Z]{16} \(awarded/u.test(source);
/** Whether its event was awarded, to its supplier or to others. */
export const isDecided = ({ source }: HeldOrder) => /SB-[0-9A-Z]{16} \((not )?awarded/u.test(source);

export interface Searched {
  readonly key: string;
  readonly event: string;
  readonly reference?: string | undefined;
  /** Whether it matters that nothing is found: the order was written before, or that is not known. */
  readonly isExpected: boolean;
}

export interface FoundOrders {
  /** By document key; of an award the request for quotation of the same supplier, too. */
  of(key: string): HeldOrder[];
  /** All requests for quotation of an event, and the orders that awards have made of it. */
  inEvent(event: string): HeldOrder[];
  /** The order that an award has made of its own. */
  awardOf(key: string): HeldOrder | undefined;
}

/** Cancelled ones included. */
export async function findOrders(
  odoo: Odoo,
  shape: OrderShape,
  searched: readonly Searched[],
  fields: readonly string[],
  signal: AbortSignal,
): Promise<FoundOrders> {
  const { model, sourceField, prefix, hasOrderLines } = shape;
  const prefixes = shape === awardOrder ? [prefix, bidOrder.prefix] : [prefix];
  const events = hasOrderLines ? [...new Set(searched.map(({ event }) => eventMarkerOf(event)))] : [];
  // Of requests for quotation, the order that their award made of its own.
  const keys = searched.map(({ key }) => markerOf(shape === bidOrder ? awardOrder.prefix : prefix, key));
  const references = searched.flatMap(({ reference }) => idIn(reference, model) ?? []);
  const conditions = [
    ...[...keys, ...events].map((marker) => [sourceField, '=like', `%${marker}%`]),
    ...(references.length === 0 ? [] : [['id', 'in', references]]),
  ];
  const rows = await readOrders(odoo, shape, anyOf(conditions), fields, signal);
  const inEvent = (event: string) => rows.filter(({ source }) => source.includes(eventMarkerOf(event)));
  const found = new Map<string, HeldOrder[]>();
  for (const { key, event, reference, isExpected } of searched) {
    const marked = rows.filter(({ source }) => prefixes.some((each) => source.includes(markerOf(each, key))));
    // A user has written over the source text.
    const bare = rows.filter((row) => row.id === idIn(reference, model) && !row.source.includes('SB-'));
    const isTendered = shape === awardOrder && inEvent(event).some(({ isRequest }) => isRequest);
    const isMissed = marked.length === 0 && (isExpected || isTendered);
    const named = isMissed || bare.length > 0 ? await namedOrders(key) : [];
    found.set(key, [...marked, ...(named.length > 0 ? named : bare)]);
  }
  const awardOf = (key: string) => rows.find(({ source }) => source.includes(markerOf(awardOrder.prefix, key)));
  return { of: (key) => found.get(key) ?? [], inEvent, awardOf };

  /** By their external ids. */
  async function namedOrders(key: string): Promise<HeldOrder[]> {
    const named: HeldOrder[] = [];
    for (const each of prefixes) {
      const record = await recordNamed(odoo, each, key, model, signal);
      if (record === undefined) continue;
      const own = await readOrders(odoo, shape, [['id', '=', record]], fields, signal);
      if (own.length === 0)
        throw new TransientError(`Odoo names ${model},${record} for a document, and does not show it.`);
      named.push(...own.map((order) => ({ ...order, isRequest: each === bidOrder.prefix })));
    }
    return named;
  }
}

/** Only requests for quotation have the marker of their event before their own. */
const requestSource = /SB-[0-9A-Z]{16} SB-[0-9A-Z]{16}/u;

export async function readOrders(
  odoo: Odoo,
  { model, sourceField, vendorField, linesField }: OrderShape,
  domain: readonly unknown[],
  fields: readonly string[],
  signal: AbortSignal,
): Promise<HeldOrder[]> {
  const names = [
    ...new Set(['name', 'state', sourceField, vendorField, linesField, 'currency_id', 'company_id', ...fields]),
  ];
  const rows = z.array(named({ source: sourceField, vendor: vendorField, lines: linesField }, rowForm));
  const args = { domain, fields: names, order: 'id asc', context: { active_test: false } };
  const orders = await odoo.ask(model, 'search_read', args, rows, signal);
  return orders.map((order) => ({ ...order, isRequest: requestSource.test(order.source) }));
}

/** The id of the record with the external id of a document; undefined if there is none. */
export async function recordNamed(
  odoo: Odoo,
  prefix: Prefix,
  key: string,
  model: string,
  signal: AbortSignal,
): Promise<number | undefined> {
  const args = referenceArgs(externalId(prefix, key));
  try {
    const [found, record] = await odoo.ask('ir.model.data', 'check_object_reference', args, referenceForm, signal);
    return found === model ? record : undefined;
  } catch (error) {
    if (error instanceof OdooRefusal && /External ID not found/i.test(error.message)) return undefined;
    throw error;
  }
}

const callOffRows = z.array(z.object({ id, name: text, requisition_id: relation }));

/** The numbers of the orders on these blanket orders that are not cancelled, by the blanket order's id. */
export async function readCallOffs(
  odoo: Odoo,
  agreements: readonly HeldOrder[],
  signal: AbortSignal,
): Promise<ReadonlyMap<number | undefined, string[]>> {
  if (agreements.length === 0) return new Map();
  const domain = [
    ['requisition_id', 'in', agreements.map(({ id: agreement }) => agreement)],
    ['state', '!=', 'cancel'],
  ];
  const args = { domain, fields: ['name', 'requisition_id'], order: 'id asc' };
  const rows = await odoo.ask('purchase.order', 'search_read', args, callOffRows, signal);
  const byAgreement = Map.groupBy(rows, ({ requisition_id }) => requisition_id?.id);
  return new Map([...byAgreement].map(([agreement, orders]) => [agreement, orders.map(({ name }) => name)]));
}

/** The lines of orders, by the order's id. */
export async function readLines(
  odoo: Odoo,
  { lineModel, parentField, textField, hasOrderLines }: OrderShape,
  orders: readonly HeldOrder[],
  signal: AbortSignal,
): Promise<ReadonlyMap<number | undefined, HeldLine[]>> {
  if (orders.length === 0) return new Map();
  const domain = [[parentField, 'in', orders.map(({ id: order }) => order)]];
  const own = hasOrderLines ? ['date_planned', 'discount', 'qty_received', 'qty_invoiced'] : [];
  const always = ['product_id', 'product_uom_id', 'product_qty', 'price_unit', 'write_uid', 'write_date'];
  const fields = [parentField, textField, ...always, ...own];
  const form = z.array(named({ parent: parentField, text: textField }, lineForm));
  const rows = await odoo.ask(lineModel, 'search_read', { domain, fields, order: 'id asc' }, form, signal);
  // An empty answer proves nothing: the orders themselves say which lines they have.
  const shown = new Set(rows.map((row) => row.id));
  if (orders.some(({ lines }) => lines.some((line) => !shown.has(line))))
    throw new TransientError(`Odoo did not show all lines of ${lineModel} that its orders have.`);
  return Map.groupBy(await withExternalIds(odoo, lineModel, rows, signal), ({ parent }) => parent?.id);
}

/** The rows with their external ids; empty for those of users. */
export async function withExternalIds<Row extends { id: number }>(
  odoo: Odoo,
  model: string,
  rows: readonly Row[],
  signal: AbortSignal,
): Promise<(Row & { readonly externalId: string })[]> {
  if (rows.length === 0) return [];
  const ids = rows.map((row) => row.id);
  const names = await odoo.ask(model, 'get_external_id', { ids }, externalIdsForm, signal);
  if (ids.some((row) => names[row] === undefined))
    throw new TransientError(`Odoo did not say which external ids its ${model} have.`);
  return rows.map((row) => ({ ...row, externalId: names[row.id] ?? '' }));
}
