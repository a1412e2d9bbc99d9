/** The purchase orders that SAP holds, found by the mark of their document's key. */
import { type AwardDocument, ConflictError, type TakenDocument, z } from 'sourcing-bridge/connector';
import { keyMarker } from './markers.ts';
import {
  anyOf,
  dayOfDate,
  decimalOrZero,
  expanded,
  expandedOrLink,
  flagOrFalse,
  metadataForm,
  type OData,
  orderService,
  textOrEmpty,
} from './odata.ts';
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
  NetPriceAmount: decimalOrZero,
  NetPriceQuantity: decimalOrZero,
  IsCompletelyDelivered: flagOrFalse,
  IsFinallyInvoiced: flagOrFalse,
  to_ScheduleLine: expandedOrLink(heldScheduleLine),
  to_AccountAssignment: expandedOrLink(heldAccount),
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
  PurchasingProcessingStatus: textOrEmpty,
  Supplier: textOrEmpty,
  DocumentCurrency: textOrEmpty,
  CorrespncExternalReference: textOrEmpty,
  PaymentTerms: textOrEmpty,
  IncotermsClassification: textOrEmpty,
  IncotermsLocation1: textOrEmpty,
  to_PurchaseOrderItem: expanded(heldItem),
  to_PurchaseOrderNote: expanded(heldNote),
  __metadata: metadataForm,
});

export type HeldItem = z.output<typeof heldItem>;
export interface HeldOrder extends z.output<typeof heldOrder> {
  readonly record: OrderRecord | undefined;
  readonly note: z.output<typeof heldNote> | undefined;
}

const select = [
  ...namesOf(heldOrder),
  ...namesOf(heldItem).map((name) => `to_PurchaseOrderItem/${name}`),
  ...namesOf(heldScheduleLine).map((name) => `to_PurchaseOrderItem/to_ScheduleLine/${name}`),
  ...namesOf(heldAccount).map((name) => `to_PurchaseOrderItem/to_AccountAssignment/${name}`),
  ...namesOf(heldNote).map((name) => `to_PurchaseOrderNote/${name}`),
];
const expand = [
  'to_PurchaseOrderItem/to_ScheduleLine',
  'to_PurchaseOrderItem/to_AccountAssignment',
  'to_PurchaseOrderNote',
];

function namesOf({ shape }: z.ZodObject): string[] {
  return Object.keys(shape).filter((name) => name !== '__metadata' && !name.startsWith('to_'));
}

/** The orders of these documents that are not deleted, by the document's key. One request, plus one a page. */
export async function findOrders(
  odata: OData,
  documents: readonly AwardDocument[],
  settings: Settings,
  signal: AbortSignal,
): Promise<Map<string, HeldOrder[]>> {
  const markers = new Map(documents.map(({ key }) => [keyMarker(key), key]));
  const filter = anyOf('CorrespncExternalReference', [...markers.keys()]);
  const found = await odata.list(orderService, 'A_PurchaseOrder', heldOrder, { filter, select, expand }, signal);
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
  odata: OData,
  deliveries: readonly TakenDocument<'award'>[],
  settings: Settings,
  signal: AbortSignal,
): Promise<Map<string, HeldOrder[]>> {
  const numberOf = ({ reference = '' }: TakenDocument<'award'>) => /^PurchaseOrder\/(\w+)$/u.exec(reference)?.[1];
  const numbers = deliveries.flatMap((delivery) => numberOf(delivery) ?? []);
  const markers = deliveries.map(({ document }) => keyMarker(document.key));
  const filter = [
    ...(numbers.length === 0 ? [] : [anyOf('PurchaseOrder', numbers)]),
    anyOf('CorrespncExternalReference', markers),
  ].join(' or ');
  const found = await odata.list(orderService, 'A_PurchaseOrder', heldOrder, { filter, select, expand }, signal);
  const orders = found.map((row) => withRecord(row, settings));
  return new Map(
    deliveries.map((delivery, index) => {
      const { key } = delivery.document;
      const isOwn = ({ PurchaseOrder, CorrespncExternalReference: mark, record }: HeldOrder) =>
        PurchaseOrder === numberOf(delivery) ||
        (mark === markers[index] && (record === undefined || record.key === key));
      return [key, orders.filter(isOwn)];
    }),
  );
}

/** One order as it is now; undefined where SAP has none. */
export async function readOrder(
  odata: OData,
  number: string,
  settings: Settings,
  signal: AbortSignal,
): Promise<HeldOrder | undefined> {
  const filter = anyOf('PurchaseOrder', [number]);
  const [order] = await odata.list(orderService, 'A_PurchaseOrder', heldOrder, { filter, select, expand }, signal);
  return order && withRecord(order, settings);
}

/** The order that SAP has answered a POST with; undefined where the answer is without its items, texts or what belongs to an item. */
export function orderInAnswer(entity: unknown, settings: Settings): HeldOrder | undefined {
  const { data } = heldOrder.safeParse(entity);
  if (!data) return undefined;
  const order = withRecord(data, settings);
  const { record, to_PurchaseOrderItem: items } = order;
  const isComplete = items.every(
    (item) =>
      record?.items.every(
        ({ item: number, state }) =>
          number !== itemNumber(item) ||
          ((dueIn(state) === undefined || item.to_ScheduleLine.length > 0) &&
            (accountIn(state) === undefined || item.to_AccountAssignment.length > 0)),
      ) === true,
  );
  return items.length > 0 && isComplete ? order : undefined;
}

/** The number of the order in that answer; undefined where it has none. */
export function numberInAnswer(entity: unknown): string | undefined {
  return z.object({ PurchaseOrder: z.string().min(1) }).safeParse(entity).data?.PurchaseOrder;
}

function withRecord(order: z.output<typeof heldOrder>, { note_type }: Settings): HeldOrder {
  const notes = order.to_PurchaseOrderNote.filter(({ TextObjectType }) => TextObjectType === note_type);
  const note = notes.find(({ PlainLongText }) => parseRecord(PlainLongText)) ?? notes[0];
  return { ...order, note, record: note && parseRecord(note.PlainLongText) };
}

/** The only order; undefined for none. Throws ConflictError for several: nothing may be written then. */
export function onlyOrder(key: string, orders: readonly HeldOrder[]): HeldOrder | undefined {
  if (orders.length > 1)
    throw new ConflictError(
      `SAP holds ${orders.length} purchase orders for ${key}: ${orders.map(({ PurchaseOrder }) => PurchaseOrder).join(', ')}. Delete all but one of them in SAP.`,
    );
  return orders[0];
}

/** Deleted as a whole, or item by item. */
export function isDeleted({ PurchasingDocumentDeletionCode, to_PurchaseOrderItem: items }: HeldOrder): boolean {
  return PurchasingDocumentDeletionCode !== '' || (items.length > 0 && items.every(isItemDeleted));
}

export function isItemDeleted({ PurchasingDocumentDeletionCode }: HeldItem): boolean {
  return PurchasingDocumentDeletionCode !== '';
}

/** The item's state, with those parts of it that the state `like` names. */
export function heldState(item: HeldItem | undefined, like: ItemState): ItemState {
  if (!item || isItemDeleted(item)) return noItem;
  const { OrderQuantity, PurchaseOrderQuantityUnit, NetPriceAmount, NetPriceQuantity } = item;
  return itemState({
    quantity: OrderQuantity,
    unit: PurchaseOrderQuantityUnit,
    amount: NetPriceAmount,
    per: NetPriceQuantity,
    due: dueIn(like) === undefined ? undefined : heldDays(item),
    account: accountIn(like) === undefined ? undefined : heldAccounts(item),
  });
}

/** The days of its schedule lines: several where a person has divided the delivery. */
function heldDays({ to_ScheduleLine: lines }: HeldItem): string {
  const days = lines.map(({ ScheduleLineDeliveryDate }) => dayOfDate(ScheduleLineDeliveryDate) ?? 'none');
  return days.length === 0 ? 'none' : days.join('+');
}

function heldAccounts({ to_AccountAssignment: accounts }: HeldItem): string {
  return accounts.length === 0 ? 'none' : accounts.map((fields) => accountText(fields)).join('+');
}

/** The number without leading zeros: SAP shows 10 as 00010 in some releases. */
export function itemNumber({ PurchaseOrderItem }: Pick<HeldItem, 'PurchaseOrderItem'>): string {
  return PurchaseOrderItem.replace(/^0+(?=\d)/u, '');
}

/**
 * What in the order is not as the connector wrote it, one text each. Empty for an order that no person and no rule of
 * SAP has changed.
 */
export function changesIn(order: HeldOrder): string[] {
  const { record } = order;
  if (!record) return ['its record (a text of the header) is missing'];
  const changes: string[] = [];
  if (record.supplier !== order.Supplier) changes.push(`supplier ${order.Supplier} instead of ${record.supplier}`);
  if (record.currency !== order.DocumentCurrency)
    changes.push(`currency ${order.DocumentCurrency} instead of ${record.currency}`);
  const items = new Map(order.to_PurchaseOrderItem.map((item) => [itemNumber(item), item]));
  for (const number of new Set([...record.items.map(({ item }) => item), ...items.keys()])) {
    const states = record.items.filter(({ item }) => item === number).map(({ state }) => state);
    const item = items.get(number);
    const held = heldState(item, states[0] ?? noItem);
    if (states.length === 0 ? held === noItem : states.some((state) => state === heldState(item, state))) continue;
    if (states.length === 0) changes.push(`item ${number} was added`);
    else if (held === noItem) changes.push(`item ${number} was deleted`);
    else changes.push(`item ${number} has ${held} instead of ${states.join(' or ')}`);
  }
  return changes;
}
