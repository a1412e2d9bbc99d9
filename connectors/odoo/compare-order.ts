/**
 * What Odoo holds of an order beside what is wanted, field by field and lot by lot: for the plan of a change, for the
 * check after a write, and for reading back.
 */
import { type ReadField } from 'sourcing-bridge/connector';
import { documentPrefix, partId } from './external-ids.ts';
import type { HeldLine, HeldOrder } from './held-orders.ts';
import type { WantedLine } from './lots.ts';
import { headCells } from './order-cells.ts';
import type { OrderShape } from './order-shapes.ts';
import type { OrderContext, OrderTask } from './order-task.ts';
import { plainOf } from './values.ts';

/** What a confirmed order may not change. */
const fixedFields: ReadonlySet<string> = new Set(['vendor', 'currency', 'company', 'operation type']);
/** What an order says of where it comes from. */
const linkFields: ReadonlySet<string> = new Set(['origin', 'reference', 'agreement']);

interface Named {
  readonly id: number | string | undefined;
  readonly name: string | undefined;
}

/** Records are compared by their ids, and shown by their names. */
function shownRecord(wanted: Named, held: Named | undefined): string | undefined {
  if (String(wanted.id ?? '') === String(held?.id ?? '')) return wanted.name;
  return held?.name === wanted.name && held !== undefined ? `${held.name} (${held.id})` : held?.name;
}

/** The fields of the order itself that are wanted. */
export function headFields(task: OrderTask, held: HeldOrder, context: OrderContext): ReadField[] {
  const { shape } = context;
  const { vendor, operation } = task;
  const cells = headCells(task, context);
  const { currency } = operation.document;
  const wantedCurrency = { id: cells['currency_id/.id'], name: currency };
  const idFields = [
    ['company', cells['company_id/.id'], held.company_id],
    ['operation type', cells['picking_type_id/.id'], held.picking_type_id],
    ['agreement', cells['requisition_id/.id'], held.requisition_id],
  ] as const;
  const texts = ['partner_ref', 'date_order', 'date_planned', 'date_start', 'date_end'] as const;
  return [
    { name: 'vendor', expected: vendor.name, held: shownRecord(vendor, held.vendor) },
    { name: 'currency', expected: currency, held: shownRecord(wantedCurrency, held.currency_id) },
    { name: shape.sourceField, expected: cells[shape.sourceField], held: textOf(held.source) },
    ...idFields.map(([name, expected, own]) => ({ name, expected, held: own && String(own.id) })),
    ...texts.map((name) => ({ name, expected: textOf(cells[name]), held: textOf(held[name]) })),
  ].filter(({ expected }) => expected !== undefined);
}

function textOf(value: string | undefined): string | undefined {
  return value === '' ? undefined : value;
}

/** What differs in the order itself, in sentences. */
export function compareHead(task: OrderTask, held: HeldOrder, context: OrderContext) {
  const changed = headFields(task, held, context).filter(({ expected, held: now }) => expected !== now);
  const sentences = (isWanted: (name: string) => boolean) =>
    changed
      .filter(({ name }) => isWanted(name))
      .map(({ name, expected, held: now }) => `Change the ${name} from "${now ?? ''}" to "${expected}".`);
  return {
    isVendorNew: changed.some(({ name }) => name === 'vendor'),
    fixed: sentences((name) => fixedFields.has(name)),
    links: sentences((name) => linkFields.has(name)),
    other: sentences((name) => !fixedFields.has(name) && !linkFields.has(name)),
  };
}

interface ChangedLine {
  readonly wanted: WantedLine;
  /** Undefined: the line is missing. */
  readonly line: HeldLine | undefined;
  /** The names of the fields that change. */
  readonly fields: readonly string[];
  /** What changes, in words. */
  readonly what: readonly string[];
}

/** The lots whose line is missing or differs, and the lines of lots that are no longer in the document. */
export function compareLines(
  task: OrderTask,
  held: HeldOrder,
  { shape, linesOf }: OrderContext,
  isCompared: (name: string) => boolean = () => true,
) {
  const { key } = task.operation.document;
  const lines = linesOf(held);
  const byId = new Map(lines.map((line) => [line.externalId, line]));
  const wantedIds = new Set<string>();
  const changed = task.lines.flatMap((wanted): ChangedLine[] => {
    const name = partId(task.names.linePrefix, key, wanted.lot);
    wantedIds.add(name);
    const line = byId.get(name);
    if (!line) return [{ wanted, line: undefined, fields: [], what: [] }];
    const differences = differencesOf(line, wanted, shape).filter(([name]) => isCompared(name));
    if (differences.length === 0) return [];
    return [{ wanted, line, fields: differences.map(([name]) => name), what: differences.map(([, text]) => text) }];
  });
  const own = ownLines(task, held, linesOf);
  const gone = own.filter(({ externalId: name }) => !wantedIds.has(name));
  return { changed, gone };
}

/** The lines that the bridge has made of the document. */
export function ownLines(
  { operation, names }: OrderTask,
  held: HeldOrder,
  linesOf: OrderContext['linesOf'],
): HeldLine[] {
  const prefix = documentPrefix(names.linePrefix, operation.document.key);
  return linesOf(held).filter((line) => line.externalId.startsWith(prefix));
}

/** By the field's name: what differs, in words. */
function differencesOf(line: HeldLine, wanted: WantedLine, shape: OrderShape): [name: string, what: string][] {
  const now: Readonly<Record<string, string | undefined>> = heldTexts(line, wanted, shape);
  const { lot: _, ...next } = wantedTexts(wanted, shape);
  return Object.entries(next).flatMap(([name, value]) =>
    now[name] === value ? [] : [[name, `the ${name} from ${now[name] ?? 'none'} to ${value ?? 'none'}`] as const],
  ) as [string, string][];
}

/** What Odoo holds after a write in another way than it was written, of all that decides what is paid. */
export function wrongMoney(task: OrderTask, held: HeldOrder, context: OrderContext): string[] {
  const { changed, gone } = compareLines(task, held, context, (name) => name !== 'text' && name !== 'date');
  return [
    ...compareHead(task, held, context).fixed,
    ...changed.map(({ wanted, line, what }) =>
      line ? `Lot "${wanted.lot}": change ${what.join(', ')}.` : `Lot "${wanted.lot}" is missing.`,
    ),
    ...gone.filter(({ product_qty }) => product_qty !== 0).map(({ text }) => `The line "${text}" is still there.`),
  ];
}

export function wantedTexts(
  { lot, product, unit, quantity, price, text: description, date }: WantedLine,
  { hasOrderLines }: OrderShape,
) {
  const day = date === undefined ? {} : { date };
  const ofOrders = hasOrderLines ? { discount: '0', ...day } : {};
  return { lot, product: product?.name, unit: unit?.name, quantity, price, text: description, ...ofOrders };
}

export function heldTexts(line: HeldLine, wanted: WantedLine | undefined, { hasOrderLines }: OrderShape) {
  const { product, unit } = wanted ?? {};
  return {
    product: product ? shownRecord(product, line.product_id) : line.product_id?.name,
    unit: unit ? shownRecord(unit, line.product_uom_id) : line.product_uom_id?.name,
    quantity: plainOf(line.product_qty),
    price: plainOf(line.price_unit),
    text: line.text,
    ...(hasOrderLines ? { discount: plainOf(line.discount ?? 0) } : {}),
    ...(hasOrderLines && wanted?.date !== undefined ? { date: line.date_planned } : {}),
  };
}
