/**
 * What has to be done so that SAP's order is as the award says: pure. An amend changes item by item. Items whose
 * material, plant, unit or assignment changes are deleted and added anew, because SAP does not change those.
 */
import { ConflictError } from 'sourcing-bridge/connector';
import { changesIn, type HeldItem, type HeldOrder, heldState, isItemDeleted, itemNumber } from './held-orders.ts';
import { noItem, type OrderRecord, type RecordedItem } from './order-record.ts';
import { itemNumbers, type Order, type OrderItem, stateOf } from './order-values.ts';
import { isSameNumber } from './prices.ts';
import type { Settings } from './settings.ts';

export interface ItemChange {
  readonly held: HeldItem;
  /** Fields of A_PurchaseOrderItem. */
  readonly change: Readonly<Record<string, string>>;
  readonly item: OrderItem;
}

export interface OrderPlan {
  readonly add: readonly { readonly number: string; readonly item: OrderItem }[];
  readonly change: readonly ItemChange[];
  readonly remove: readonly HeldItem[];
  /** Fields of A_PurchaseOrder. */
  readonly header: Readonly<Record<string, string>>;
  /** Before anything else is changed: without the hash, with each state that a kill may leave. */
  readonly before: OrderRecord;
  readonly after: OrderRecord;
  /** In words for an operator; empty when the order is as it has to be. */
  readonly steps: readonly string[];
}

/** PurchasingProcessingStatus: partially released, and release completed. */
const released: ReadonlySet<string> = new Set(['04', '05']);
const headerFields = ['PaymentTerms', 'IncotermsClassification', 'IncotermsLocation1'] as const;

/** Throws ConflictError where the order must not be changed. */
export function planChange(order: Order, held: HeldOrder, settings: Settings): OrderPlan {
  const { record } = held;
  if (!record) throw conflict(held, changesIn(held));
  const byNumber = new Map(held.to_PurchaseOrderItem.map((item) => [itemNumber(item), item]));
  const byLot = new Map<string, HeldItem>();
  for (const { item: number, lot } of record.items) {
    const item = byNumber.get(number);
    if (item && !isItemDeleted(item)) byLot.set(lot, item);
  }
  const kept = new Set<HeldItem>();
  const change: ItemChange[] = [];
  const toAdd: OrderItem[] = [];
  for (const item of order.items) {
    const heldItem = byLot.get(item.mark);
    if (!heldItem || isOther(item, heldItem)) {
      toAdd.push(item);
      continue;
    }
    kept.add(heldItem);
    const fields = changedFields(item, heldItem);
    if (Object.keys(fields).length > 0) change.push({ held: heldItem, change: fields, item });
  }
  const remove = [...byLot.values()].filter((item) => !kept.has(item));
  const last = Math.max(0, ...[...byNumber.keys(), ...record.items.map(({ item }) => item)].map(Number));
  const numbers = itemNumbers(toAdd.length, last);
  const add = toAdd.map((item, index) => ({ number: numbers[index] ?? '', item }));
  const header = Object.fromEntries(
    headerFields.flatMap((name) => {
      const wanted = order.header[name];
      return wanted === undefined || wanted === held[name] ? [] : [[name, wanted]];
    }),
  );
  const after = recordAfter(order, { kept, byLot, add });
  const before = { ...after, hash: undefined, items: unionOf(held, record, after) };
  const steps = [
    ...Object.entries(header).map(([name, value]) => `set ${name} to ${value}`),
    ...add.map(({ number, item }) => `add item ${number}: ${stateOf(item)}, ${item.lot}`),
    ...change.map(
      ({ held: heldItem, change: fields, item }) =>
        `change item ${itemNumber(heldItem)} (${item.lot}): ${shownChange(heldItem, fields)}`,
    ),
    ...remove.map((item) => `delete item ${itemNumber(item)}: ${heldState(item)}, ${item.PurchaseOrderItemText}`),
  ];
  if (steps.length > 0) expectChangeable(held, settings, [...remove, ...change.map((entry) => entry.held)]);
  return { add, change, remove, header, before, after, steps };
}

/** Throws ConflictError for an order that a person has changed, that is released, or whose items are delivered. */
export function expectChangeable(held: HeldOrder, settings: Settings, items: readonly HeldItem[]): void {
  const changes = changesIn(held);
  if (changes.length > 0 && settings.changed_orders === 'refuse') throw conflict(held, changes);
  if (released.has(held.PurchasingProcessingStatus) && settings.released_orders === 'refuse')
    throw new ConflictError(
      `purchase order ${held.PurchaseOrder} is released in SAP (PurchasingProcessingStatus ${held.PurchasingProcessingStatus}), so it is not changed (settings.released_orders)`,
    );
  for (const item of items)
    if (item.IsCompletelyDelivered || item.IsFinallyInvoiced)
      throw new ConflictError(
        `item ${itemNumber(item)} of purchase order ${held.PurchaseOrder} is ${item.IsCompletelyDelivered ? 'completely delivered' : 'finally invoiced'} in SAP, so it is not changed`,
      );
}

function conflict({ PurchaseOrder }: HeldOrder, changes: readonly string[]): ConflictError {
  return new ConflictError(
    `purchase order ${PurchaseOrder} was changed in SAP, so it is not overwritten (settings.changed_orders): ${changes.slice(0, 10).join('; ')}`,
  );
}

/** Whether only a new item can be as the line says. */
function isOther(item: OrderItem, held: HeldItem): boolean {
  if (item.unit !== held.PurchaseOrderQuantityUnit) return true;
  return Object.entries(item.fixed).some(([name, value]) => !isSameCode(value, textIn(held, name)));
}

/** SAP shows numbers with or without leading zeros. */
function isSameCode(a: string, b: string): boolean {
  const plainCode = (code: string) => (/^\d+$/u.test(code) ? code.replace(/^0+(?=\d)/u, '') : code);
  return plainCode(a) === plainCode(b);
}

function changedFields(item: OrderItem, held: HeldItem): Record<string, string> {
  const changed: Record<string, string> = {};
  if (!isSameNumber(item.quantity, held.OrderQuantity)) changed['OrderQuantity'] = item.quantity;
  const isSamePrice =
    isSameNumber(item.price.amount, held.NetPriceAmount) && isSameNumber(item.price.per, held.NetPriceQuantity);
  if (!isSamePrice) Object.assign(changed, { NetPriceAmount: item.price.amount, NetPriceQuantity: item.price.per });
  if (item.text !== held.PurchaseOrderItemText) changed['PurchaseOrderItemText'] = item.text;
  for (const [name, value] of Object.entries(item.changeable))
    if (value !== held[name as 'TaxCode' | 'StorageLocation']) changed[name] = value;
  return changed;
}

function shownChange(held: HeldItem, fields: Readonly<Record<string, string>>): string {
  return Object.entries(fields)
    .map(([name, value]) => `${name} from ${textIn(held, name)} to ${value}`)
    .join(', ');
}

function textIn(held: HeldItem, name: string): string {
  const value = (held as Readonly<Record<string, unknown>>)[name];
  return typeof value === 'string' ? value : '';
}

function recordAfter(
  order: Order,
  { kept, byLot, add }: { kept: ReadonlySet<HeldItem>; byLot: ReadonlyMap<string, HeldItem>; add: OrderPlan['add'] },
): OrderRecord {
  const { key, hash, supplier, currency } = order;
  const added = new Map(add.map(({ number, item }) => [item.mark, number]));
  const items = order.items.map((item): RecordedItem => {
    const heldItem = byLot.get(item.mark);
    const number = heldItem && kept.has(heldItem) ? itemNumber(heldItem) : (added.get(item.mark) ?? '');
    return { item: number, lot: item.mark, state: stateOf(item) };
  });
  return { key, hash, supplier, currency, items };
}

/** Each item with its state now and with that after the change. */
function unionOf(held: HeldOrder, record: OrderRecord, after: OrderRecord): RecordedItem[] {
  const now = new Map(held.to_PurchaseOrderItem.map((item) => [itemNumber(item), heldState(item)]));
  const lots = new Map([...record.items, ...after.items].map(({ item, lot }) => [item, lot]));
  return [...lots].flatMap(([item, lot]) => {
    const then = after.items.find((entry) => entry.item === item)?.state ?? noItem;
    const states = new Set([now.get(item) ?? noItem, then]);
    return [...states].map((state) => ({ item, lot, state }));
  });
}
