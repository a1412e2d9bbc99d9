/**
 * What has to be done so that SAP's order is as the award says: pure. All changes of an order are one save, the record
 * in its text included. An item whose material, plant, unit or category changes is deleted and added anew, because SAP
 * does not change those.
 */
import { ConflictError } from 'sourcing-bridge/connector';
import type { Change } from './batch.ts';
import {
  blockedParts,
  changesIn,
  type HeldItem,
  type HeldOrder,
  heldState,
  isItemDeleted,
  itemNumber,
} from './held-orders.ts';
import { differingFields, heldFields, wantedFields } from './order-fields.ts';
import { type OrderRecord, recordText } from './order-record.ts';
import { itemBody, itemFields, itemNumbers, noteBody, type Order, type OrderItem, stateOf } from './order-values.ts';
import { changedHeader, expectUnchanged } from './purchasing-documents.ts';
import { pricedTogether, shown } from './sap-values.ts';
import type { Settings } from './settings.ts';

/** The fields that SAP changes in an item that exists; `delivery_date` and `account_assignment` are in parts of it. */
const changeable: ReadonlySet<string> = new Set([
  'PurchaseOrderItemText',
  'TaxCode',
  'StorageLocation',
  'OrderQuantity',
  'OrderPriceUnit',
  'NetPriceAmount',
  'NetPriceQuantity',
  'delivery_date',
  'account_assignment',
]);

/** The changes of one save; none where the order is as it has to be. Throws ConflictError where it must not be changed. */
export function planChange(order: Order, held: HeldOrder, settings: Settings, isWritten: boolean): Change[] {
  const numbers = new Map(held.record?.items.map(({ item, lot }) => [lot, item]));
  const byNumber = new Map(held.to_PurchaseOrderItem.map((item) => [itemNumber(item), item]));
  const last = Math.max(0, ...[...byNumber.keys(), ...numbers.values()].map(Number));
  const own = new Map(
    [...numbers].flatMap(([lot, number]) => {
      const item = byNumber.get(number);
      return item && !isItemDeleted(item) ? [[lot, item] as const] : [];
    }),
  );
  const kept = order.items.flatMap((item) => {
    const is = own.get(item.mark);
    return is && differingFields(item, is).every((name) => changeable.has(name)) ? [{ item, is }] : [];
  });
  const keptItems = new Set(kept.map(({ is }) => is));
  const toAdd = order.items.filter((item) => !kept.some((one) => one.item === item));
  const newNumbers = itemNumbers(toAdd.length, last);
  const removed = [...own.values()].filter((item) => !keptItems.has(item));
  const touched = [...removed, ...kept.flatMap(({ item, is }) => (differingFields(item, is).length > 0 ? [is] : []))];
  const changes = [
    ...headerChanges(order, held),
    ...kept.flatMap(({ item, is }) => itemChanges(item, is, held)),
    ...removed.map((item) => deletion(item, held)),
    ...toAdd.map((item, index): Change => {
      const number = newNumbers[index] ?? '';
      return {
        what: `add item ${number}: ${stateOf(item)}, ${item.lot}`,
        method: 'POST',
        ...orderEntity(held),
        navigation: 'to_PurchaseOrderItem',
        body: itemBody(item, number, held.Language === '' ? order.language : held.Language, settings),
        units: { DocumentCurrency: order.currency },
      };
    }),
  ];
  if (changes.length > 0 && !isWritten) expectChangeable(held, touched);
  const numberOf = (item: OrderItem) => {
    const is = kept.find((one) => one.item === item)?.is;
    return is ? itemNumber(is) : (newNumbers[toAdd.indexOf(item)] ?? '');
  };
  return [...changes, ...recordChanges(order, held, numberOf, settings)];
}

/** Throws for an order that a person has blocked or changed, or whose items are delivered. */
export function expectChangeable(held: HeldOrder, items: readonly HeldItem[]): void {
  const { PurchaseOrder: number } = held;
  const blocked = blockedParts(held);
  if (blocked.length > 0)
    throw new ConflictError(
      `purchase order ${number} is blocked in SAP (${blocked.join(', ')}; PurchasingDocumentDeletionCode S), so it is not changed`,
    );
  expectUnchanged(`purchase order ${number}`, changesIn(held));
  for (const item of items)
    if (item.IsCompletelyDelivered || item.IsFinallyInvoiced)
      throw new ConflictError(
        `item ${itemNumber(item)} of purchase order ${number} is ${item.IsCompletelyDelivered ? 'completely delivered' : 'finally invoiced'} in SAP, so it is not changed`,
      );
}

function headerChanges({ header }: Order, held: HeldOrder): Change[] {
  const body = changedHeader(header, held);
  if (Object.keys(body).length === 0) return [];
  const { etag } = held.__metadata ?? {};
  return [{ what: `set ${shown(body)}`, method: 'PATCH', ...orderEntity(held), body, etag }];
}

function orderEntity({ PurchaseOrder }: HeldOrder) {
  return { set: 'A_PurchaseOrder', key: PurchaseOrder };
}

function itemEntity({ PurchaseOrderItem }: HeldItem, { PurchaseOrder }: HeldOrder) {
  return { set: 'A_PurchaseOrderItem', key: { PurchaseOrder, PurchaseOrderItem } };
}

function deletion(item: HeldItem, order: HeldOrder): Change {
  return {
    what: `delete item ${itemNumber(item)}: ${heldState(item, '')}, ${item.PurchaseOrderItemText}`,
    method: 'DELETE',
    ...itemEntity(item, order),
    etag: item.__metadata?.etag,
  };
}

/** One change for the item, one for its schedule line, one for its account assignment: each only if it differs. */
function itemChanges(item: OrderItem, held: HeldItem, order: HeldOrder): Change[] {
  const names = new Set(differingFields(item, held));
  const is = heldFields(held, item);
  const wanted = wantedFields(item);
  const what = (parts: readonly string[]) =>
    `change item ${itemNumber(held)} (${item.lot}): ${parts.map((name) => `${name} from ${is[name]} to ${wanted[name]}`).join(', ')}`;
  const { PurchaseOrder } = order;
  const { PurchaseOrderItem } = held;
  const fields = itemFields(item);
  const own = Object.keys(fields).filter((name) => names.has(name));
  const body = pricedTogether(Object.fromEntries(own.map((name) => [name, fields[name] ?? ''])), fields);
  const changes: Change[] = [];
  if (own.length > 0)
    changes.push({
      what: what(Object.keys(body)),
      method: 'PATCH',
      ...itemEntity(held, order),
      body,
      units: unitsIn(body, item, order),
      etag: held.__metadata?.etag,
    });
  if (names.has('delivery_date')) {
    const line = onlyPart(held.to_ScheduleLine, 'schedule lines', held, order);
    const { ScheduleLine } = line;
    const key = { PurchasingDocument: PurchaseOrder, PurchasingDocumentItem: PurchaseOrderItem, ScheduleLine };
    changes.push({
      what: what(['delivery_date']),
      method: 'PATCH',
      set: 'A_PurchaseOrderScheduleLine',
      key,
      body: { ScheduleLineDeliveryDate: item.deliveryDate },
      etag: line.__metadata?.etag,
    });
  }
  if (names.has('account_assignment')) {
    const assignment = onlyPart(held.to_AccountAssignment, 'account assignments', held, order);
    const { AccountAssignmentNumber } = assignment;
    changes.push({
      what: what(['account_assignment']),
      method: 'PATCH',
      set: 'A_PurOrdAccountAssignment',
      key: { PurchaseOrder, PurchaseOrderItem, AccountAssignmentNumber },
      body: item.account,
      etag: assignment.__metadata?.etag,
    });
  }
  return changes;
}

function unitsIn(body: object, { unit }: OrderItem, { DocumentCurrency }: HeldOrder): Record<string, string> {
  return {
    ...('OrderQuantity' in body ? { PurchaseOrderQuantityUnit: unit } : {}),
    ...('NetPriceAmount' in body ? { DocumentCurrency, OrderPriceUnit: unit } : {}),
  };
}

/** The connector writes one of them for each item; a person may have divided it. */
function onlyPart<T>(parts: readonly T[], what: string, item: HeldItem, { PurchaseOrder }: HeldOrder): T {
  const [only, second] = parts;
  if (only === undefined || second !== undefined)
    throw new ConflictError(
      `item ${itemNumber(item)} of purchase order ${PurchaseOrder} has ${parts.length} ${what} in SAP, so they are not changed`,
    );
  return only;
}

/** The text with the record, where it is not the one that is wanted. */
function recordChanges(
  order: Order,
  held: HeldOrder,
  numberOf: (item: OrderItem) => string,
  settings: Settings,
): Change[] {
  const { key, hash, supplier, currency, items, remarks } = order;
  const { record, note, PurchaseOrder } = held;
  const recorded = items.map((item) => ({ item: numberOf(item), lot: item.mark, state: stateOf(item) }));
  const wanted: OrderRecord = { key, hash, supplier, currency, items: recorded };
  if (record && recordText(record, []) === recordText(wanted, [])) return [];
  const what = 'renew the record of the order';
  const text = recordText(wanted, remarks);
  if (!note) {
    const body = noteBody(text, settings.note_type, settings.language);
    return [{ what, method: 'POST', ...orderEntity(held), navigation: 'to_PurchaseOrderNote', body }];
  }
  const { TextObjectType, Language, __metadata } = note;
  const entity = { set: 'A_PurchaseOrderNote', key: { PurchaseOrder, TextObjectType, Language } };
  return [{ what, method: 'PATCH', ...entity, body: { PlainLongText: text }, etag: __metadata?.etag }];
}
