/**
 * What SAP holds of an award that became a purchase order, field by field, beside what a write makes of it. Fields that
 * the connector does not write, releases, receipts and invoices are not compared.
 */
import { fieldsOf, type ReadBack, type ReadField, type TakenDocument } from 'sourcing-bridge/connector';
import { type HeldItem, type HeldOrder, heldState, isDeleted, isItemDeleted, itemNumber } from './held-orders.ts';
import { referenceOf } from './kind.ts';
import { accountIn, dueIn, plainCode } from './order-record.ts';
import { type Order, type OrderItem, stateOf } from './order-values.ts';

/** What SAP holds of one document; `found` are all orders of it, deleted ones included. */
export function readPurchaseOrder(
  { document, reference }: TakenDocument<'award'>,
  order: Order,
  found: readonly HeldOrder[],
): ReadBack {
  const { key } = document;
  const referenceTo = ({ PurchaseOrder }: HeldOrder) => referenceOf('PurchaseOrder', PurchaseOrder);
  const live = found.filter((held) => !isDeleted(held));
  const own = live.find((held) => referenceTo(held) === reference) ?? (live.length === 1 ? live[0] : undefined);
  if (own) {
    const fields = [...headFields(order, own), ...itemFields(order, own)];
    return { key, status: 'held', reference: referenceTo(own), fields, notCompared: ['the texts of the order'] };
  }
  if (live.length > 1)
    return { key, status: 'unclear', reason: `SAP holds ${live.length} purchase orders for it: delete all but one` };
  const deleted = found.find((held) => referenceTo(held) === reference) ?? found[0];
  return deleted ? { key, status: 'cancelled', reference: referenceTo(deleted) } : { key, status: 'missing' };
}

const headerFields = ['PaymentTerms', 'IncotermsClassification', 'IncotermsLocation1'] as const;

function headFields({ supplier, currency, marker, header }: Order, held: HeldOrder): ReadField[] {
  const wanted = {
    Supplier: plainCode(supplier),
    DocumentCurrency: currency,
    CorrespncExternalReference: marker,
    ...Object.fromEntries(headerFields.map((name) => [name, header[name]])),
  };
  const seen = {
    Supplier: plainCode(held.Supplier),
    DocumentCurrency: held.DocumentCurrency,
    CorrespncExternalReference: held.CorrespncExternalReference,
    ...Object.fromEntries(headerFields.map((name) => [name, held[name]])),
  };
  return fieldsOf(wanted, seen);
}

/** The record in the order's texts says which item is which lot; without it, the item's text does. */
function itemFields({ items }: Order, { record, to_PurchaseOrderItem: all }: HeldOrder): ReadField[] {
  const live = all.filter((item) => !isItemDeleted(item));
  const left = new Set(live);
  const take = (fits: (item: HeldItem) => boolean): HeldItem | undefined => {
    const found = [...left].find(fits);
    if (found) left.delete(found);
    return found;
  };
  const pairs = items.map((item) => {
    const numbers = (record?.items ?? []).filter(({ lot }) => lot === item.mark).map(({ item: number }) => number);
    const held = record
      ? take((candidate) => numbers.includes(itemNumber(candidate)))
      : take((candidate) => candidate.PurchaseOrderItemText === item.text);
    return { item, held };
  });
  return fieldsOf(
    { items: pairs.map(({ item }) => ({ lot: item.lot, ...wantedValues(item) })) },
    {
      items: [
        ...pairs.flatMap(({ item, held }) => (held ? [{ lot: item.lot, ...heldValues(held, item) }] : [])),
        ...[...left].map((held) => ({ lot: held.PurchaseOrderItemText, ...heldValues(held, undefined) })),
      ],
    },
    { names: ['lot'], decimals: ['OrderQuantity', 'NetPriceAmount', 'NetPriceQuantity'] },
  );
}

function wantedValues(item: OrderItem) {
  const { quantity, unit, price, text, changeable, fixed } = item;
  const state = stateOf(item);
  return {
    OrderQuantity: quantity,
    PurchaseOrderQuantityUnit: unit,
    NetPriceAmount: price.amount,
    NetPriceQuantity: price.per,
    PurchaseOrderItemText: text,
    ...changeable,
    ...Object.fromEntries(Object.entries(fixed).map(([name, value]) => [name, plainCode(value)])),
    ...placeOf(state, state),
  };
}

function heldValues(held: HeldItem, item: OrderItem | undefined) {
  const { OrderQuantity, PurchaseOrderQuantityUnit, NetPriceAmount, NetPriceQuantity, PurchaseOrderItemText } = held;
  const values: Readonly<Record<string, unknown>> = { ...held };
  const written = Object.keys({ ...item?.changeable, ...item?.fixed });
  const wanted = item ? stateOf(item) : '';
  return {
    OrderQuantity,
    PurchaseOrderQuantityUnit,
    NetPriceAmount,
    NetPriceQuantity,
    PurchaseOrderItemText,
    ...Object.fromEntries(
      written.map((name) => {
        const value = values[name];
        return [name, typeof value === 'string' && item && name in item.fixed ? plainCode(value) : value];
      }),
    ),
    ...placeOf(heldState(held, wanted), wanted),
  };
}

/** The day and the account assignment, where the connector writes them. */
function placeOf(state: string, wanted: string) {
  return {
    ...(dueIn(wanted) === undefined ? {} : { delivery_date: dueIn(state) }),
    ...(accountIn(wanted) === undefined ? {} : { account_assignment: accountIn(state) }),
  };
}
