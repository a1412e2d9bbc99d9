/**
 * What has to be done so that SAP's order is as the award says: pure. An amend changes item by item: its quantity and
 * price, then the day of its schedule line, then its account assignment. Items whose material, plant, unit or category
 * changes are deleted and added anew, because SAP does not change those.
 */
import { ConflictError } from 'sourcing-bridge/connector';
import { changesIn, type HeldItem, type HeldOrder, heldState, isItemDeleted, itemNumber } from './held-orders.ts';
import {
  accountIn,
  dueIn,
  noItem,
  type OrderRecord,
  plainCode,
  type RecordedItem,
  statesBetween,
} from './order-record.ts';
import { itemNumbers, type Order, type OrderItem, stateOf } from './order-values.ts';
import { isSameNumber } from './prices.ts';
import type { Settings } from './settings.ts';

export interface ItemChange {
  readonly held: HeldItem;
  /** Fields of A_PurchaseOrderItem. */
  readonly change: Readonly<Record<string, string>>;
  /** Fields of its schedule line; undefined: the day stays. */
  readonly due: ChangedPart<HeldItem['to_ScheduleLine'][number]> | undefined;
  /** Fields of its account assignment; undefined: it stays. */
  readonly account: ChangedPart<HeldItem['to_AccountAssignment'][number]> | undefined;
  readonly item: OrderItem;
}

interface ChangedPart<T> {
  readonly held: T;
  readonly change: Readonly<Record<string, string>>;
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
    const changed = changedParts(item, heldItem, held);
    if (changed) change.push(changed);
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
    ...change.map((entry) => `change item ${itemNumber(entry.held)} (${entry.item.lot}): ${shownChange(entry)}`),
    ...remove.map((item) => `delete item ${itemNumber(item)}: ${heldState(item, '')}, ${item.PurchaseOrderItemText}`),
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
  return Object.entries(item.fixed).some(([name, value]) => plainCode(value) !== plainCode(textIn(held, name)));
}

/** Undefined where the item is as the line says. Throws ConflictError for a delivery or account that a person divided. */
function changedParts(item: OrderItem, held: HeldItem, order: HeldOrder): ItemChange | undefined {
  const change = changedFields(item, held);
  const wanted = stateOf(item);
  const isHeld = heldState(held, wanted);
  const due =
    item.deliveryDate === undefined || dueIn(isHeld) === dueIn(wanted)
      ? undefined
      : {
          held: onlyPart(held.to_ScheduleLine, `${held.to_ScheduleLine.length} schedule lines`, held, order),
          change: { ScheduleLineDeliveryDate: item.deliveryDate },
        };
  const account =
    accountIn(isHeld) === accountIn(wanted)
      ? undefined
      : {
          held: onlyPart(
            held.to_AccountAssignment,
            `${held.to_AccountAssignment.length} account assignments`,
            held,
            order,
          ),
          change: item.account,
        };
  return Object.keys(change).length > 0 || due || account ? { held, change, due, account, item } : undefined;
}

/** The connector writes one of them for each item. */
function onlyPart<T>(parts: readonly T[], what: string, item: HeldItem, { PurchaseOrder }: HeldOrder): T {
  const [only, second] = parts;
  if (only === undefined || second !== undefined)
    throw new ConflictError(
      `item ${itemNumber(item)} of purchase order ${PurchaseOrder} has ${what} in SAP, so they are not changed`,
    );
  return only;
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

function shownChange({ held, change, due, account, item }: ItemChange): string {
  const wanted = stateOf(item);
  const isHeld = heldState(held, wanted);
  return [
    ...Object.entries(change).map(([name, value]) => `${name} from ${textIn(held, name)} to ${value}`),
    ...(due ? [`delivery date from ${dueIn(isHeld)} to ${dueIn(wanted)}`] : []),
    ...(account ? [`account assignment from ${accountIn(isHeld)} to ${accountIn(wanted)}`] : []),
  ].join(', ');
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
  const now = new Map(held.to_PurchaseOrderItem.map((item) => [itemNumber(item), item]));
  const lots = new Map([...record.items, ...after.items].map(({ item, lot }) => [item, lot]));
  return [...lots].flatMap(([item, lot]) => {
    const then = after.items.find((entry) => entry.item === item)?.state ?? noItem;
    return statesBetween(heldState(now.get(item), then), then).map((state) => ({ item, lot, state }));
  });
}
