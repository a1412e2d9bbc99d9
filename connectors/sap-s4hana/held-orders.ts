/** The purchase orders that SAP holds, found by the mark of their document's key. */
import { type AwardDocument, type TakenDocument, z } from 'sourcing-bridge/connector';
import { keyMarker } from './markers.ts';
import { dayOfDate, decimalOrZero, equals, expanded, flagOrFalse, metadataForm, textOrEmpty } from './odata.ts';
import {
  accountIn,
  accountText,
  dueIn,
  type ItemState,
  itemState,
  noItem,
  type OrderRecord,
  parseRecord,
} from './order-record.ts';
import type { Orders } from './orders.ts';
import { marksOf } from './purchasing-documents.ts';
import { isSameCode, plainCode } from './sap-values.ts';
import type { Settings } from './settings.ts';

const heldScheduleLine = z.object({
  ScheduleLine: z.string(),
  ScheduleLineDeliveryDate: z.string().nullish(),
  __metadata: metadataForm,
});

const heldAccount = z.object({
  AccountAssignmentNumber: z.string(),
  CostCenter: textOrEmpty,
  GLAccount: textOrEmpty,
  OrderID: textOrEmpty,
  WBSElementExternalID: textOrEmpty,
  __metadata: metadataForm,
});

const heldItem = z.object({
  PurchaseOrderItem: z.string(),
  PurchasingDocumentDeletionCode: textOrEmpty,
  PurchaseOrderItemText: textOrEmpty,
  Material: textOrEmpty,
  MaterialGroup: textOrEmpty,
  SupplierMaterialNumber: textOrEmpty,
  Plant: textOrEmpty,
  StorageLocation: textOrEmpty,
  TaxCode: textOrEmpty,
  PurchaseOrderItemCategory: textOrEmpty,
  AccountAssignmentCategory: textOrEmpty,
  PurchaseRequisition: textOrEmpty,
  PurchaseRequisitionItem: textOrEmpty,
  OrderQuantity: decimalOrZero,
  PurchaseOrderQuantityUnit: textOrEmpty,
  OrderPriceUnit: textOrEmpty,
  NetPriceAmount: decimalOrZero,
  NetPriceQuantity: decimalOrZero,
  IsCompletelyDelivered: flagOrFalse,
  IsFinallyInvoiced: flagOrFalse,
  to_ScheduleLine: expanded(heldScheduleLine),
  to_AccountAssignment: expanded(heldAccount),
  __metadata: metadataForm,
});

const heldNote = z.object({
  TextObjectType: z.string(),
  Language: z.string(),
  PlainLongText: textOrEmpty,
  __metadata: metadataForm,
});

const heldOrder = z.object({
  PurchaseOrder: z.string().min(1),
  PurchasingDocumentDeletionCode: textOrEmpty,
  Supplier: textOrEmpty,
  DocumentCurrency: textOrEmpty,
  Language: textOrEmpty,
  CorrespncExternalReference: textOrEmpty,
  PaymentTerms: textOrEmpty,
  IncotermsClassification: textOrEmpty,
  IncotermsLocation1: textOrEmpty,
  to_PurchaseOrderItem: expanded(heldItem),
  to_PurchaseOrderNote: expanded(heldNote),
  __metadata: metadataForm,
});

export const orderForms = {
  A_PurchaseOrder: heldOrder,
  A_PurchaseOrderItem: heldItem,
  A_PurchaseOrderNote: heldNote,
  A_PurchaseOrderScheduleLine: heldScheduleLine,
  A_PurOrdAccountAssignment: heldAccount,
};

export type HeldItem = z.output<typeof heldItem>;
export interface HeldOrder extends z.output<typeof heldOrder> {
  readonly record: OrderRecord | undefined;
  readonly note: z.output<typeof heldNote> | undefined;
}

/** The orders of these documents that are not deleted, by the document's key. */
export async function findOrders(
  orders: Orders,
  documents: readonly AwardDocument[],
  settings: Settings,
  signal: AbortSignal,
): Promise<Map<string, HeldOrder[]>> {
  const markers = new Map(documents.map(({ key }) => [keyMarker(key), key]));
  const found = await orders.find(heldOrder, orderForms, marksOf(documents), signal);
  const byKey = new Map<string, HeldOrder[]>(documents.map(({ key }) => [key, []]));
  for (const row of found) {
    const order = withRecord(row, settings);
    const key = markers.get(order.CorrespncExternalReference);
    // Another key with the same mark is another document's.
    if (key === undefined || (order.record && order.record.key !== key) || isDeleted(order)) continue;
    byKey.get(key)?.push(order);
  }
  return byKey;
}

/** The orders of delivered documents by the document's key, also deleted ones: by their number, or by the mark. */
export async function findDelivered(
  orders: Orders,
  deliveries: readonly TakenDocument<'award'>[],
  settings: Settings,
  signal: AbortSignal,
): Promise<Map<string, HeldOrder[]>> {
  const numberOf = ({ reference = '' }: TakenDocument<'award'>) => /^PurchaseOrder\/(\w+)$/u.exec(reference)?.[1];
  const numbers = deliveries.flatMap((delivery) => numberOf(delivery) ?? []);
  const filters = [...equals('PurchaseOrder', numbers), ...marksOf(deliveries.map(({ document }) => document))];
  const found = await orders.find(heldOrder, orderForms, filters, signal);
  const all = found.map((row) => withRecord(row, settings));
  return new Map(
    deliveries.map((delivery) => {
      const { key } = delivery.document;
      const isOwn = ({ PurchaseOrder, CorrespncExternalReference: mark, record }: HeldOrder) =>
        isSameCode(PurchaseOrder, numberOf(delivery) ?? '') ||
        (mark === keyMarker(key) && (record === undefined || record.key === key));
      return [key, all.filter(isOwn)];
    }),
  );
}

function withRecord(order: z.output<typeof heldOrder>, { note_type }: Settings): HeldOrder {
  const notes = order.to_PurchaseOrderNote.filter(({ TextObjectType }) => TextObjectType === note_type);
  const note = notes.find(({ PlainLongText }) => parseRecord(PlainLongText)) ?? notes[0];
  return { ...order, note, record: note && parseRecord(note.PlainLongText) };
}

/** PurchasingDocumentDeletionCode (KBA 3416344): deleted; and blocked, as a person does with an order that is to wait. */
const deleted = 'L';
const blocked = 'S';

/** Deleted as a whole, or item by item: then the header's code stays empty (KBA 3070935). */
export function isDeleted({ PurchasingDocumentDeletionCode: code, to_PurchaseOrderItem: items }: HeldOrder): boolean {
  return code === deleted || (items.length > 0 && items.every(isItemDeleted));
}

export function isItemDeleted({ PurchasingDocumentDeletionCode }: HeldItem): boolean {
  return PurchasingDocumentDeletionCode === deleted;
}

/** What a person has blocked: `the order`, or its items; empty for nothing. */
export function blockedParts({
  PurchasingDocumentDeletionCode: code,
  to_PurchaseOrderItem: items,
}: HeldOrder): string[] {
  const parts = items.filter((item) => item.PurchasingDocumentDeletionCode === blocked);
  return [...(code === blocked ? ['the order'] : []), ...parts.map((item) => `item ${itemNumber(item)}`)];
}

/** The item's state, with those parts of it that the state `like` names. */
export function heldState(item: HeldItem | undefined, like: ItemState): ItemState {
  if (!item || isItemDeleted(item)) return noItem;
  return itemState({
    quantity: item.OrderQuantity,
    unit: item.PurchaseOrderQuantityUnit,
    priceUnit: item.OrderPriceUnit,
    amount: item.NetPriceAmount,
    per: item.NetPriceQuantity,
    due: dueIn(like) === undefined ? undefined : heldDays(item),
    account: accountIn(like) === undefined ? undefined : heldAccounts(item),
  });
}

/** The days of its schedule lines: several where a person has divided the delivery. */
export function heldDays({ to_ScheduleLine: lines }: HeldItem): string {
  const days = lines.map(({ ScheduleLineDeliveryDate }) => dayOfDate(ScheduleLineDeliveryDate) ?? 'none');
  return days.length === 0 ? 'none' : days.join('+');
}

export function heldAccounts({ to_AccountAssignment: accounts }: HeldItem): string {
  return accounts.length === 0 ? 'none' : accounts.map((fields) => accountText(fields)).join('+');
}

/** The number without leading zeros: SAP shows 10 as 00010 in some releases. */
export function itemNumber({ PurchaseOrderItem }: Pick<HeldItem, 'PurchaseOrderItem'>): string {
  return plainCode(PurchaseOrderItem);
}

/**
 * What in the order is not as the connector wrote it, one text each. Empty for an order that no person and no rule of
 * SAP has changed.
 */
export function changesIn(order: HeldOrder): string[] {
  const { record } = order;
  if (!record) return ['its record (a text of the header) is missing'];
  const changes: string[] = [];
  if (!isSameCode(record.supplier, order.Supplier))
    changes.push(`supplier ${order.Supplier} instead of ${record.supplier}`);
  if (record.currency !== order.DocumentCurrency)
    changes.push(`currency ${order.DocumentCurrency} instead of ${record.currency}`);
  const items = new Map(order.to_PurchaseOrderItem.map((item) => [itemNumber(item), item]));
  const recorded = new Map(record.items.map(({ item, state }) => [item, state]));
  for (const number of new Set([...recorded.keys(), ...items.keys()])) {
    const state = recorded.get(number) ?? noItem;
    const held = heldState(items.get(number), state);
    if (held === state) continue;
    if (state === noItem) changes.push(`item ${number} was added`);
    else changes.push(`item ${number} ${held === noItem ? 'was deleted' : `has ${held} instead of ${state}`}`);
  }
  return changes;
}
