/**
 * What SAP holds of an award that became a purchase order, field by field, beside what a write makes of it. Fields that
 * the connector does not write, releases, receipts and invoices are not compared.
 */
import { fieldsOf, type ReadBack, type ReadField, type TakenDocument } from 'sourcing-bridge/connector';
import { type HeldItem, type HeldOrder, isDeleted, isItemDeleted, itemNumber } from './held-orders.ts';
import { referenceOf } from './kind.ts';
import { heldFields, wantedFields } from './order-fields.ts';
import type { Order } from './order-values.ts';
import { headerFields } from './purchasing-documents.ts';
import { plainCode, sapValue } from './sap-values.ts';

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

function headFields({ supplier, currency, marker, header }: Order, held: HeldOrder): ReadField[] {
  const wanted = {
    Supplier: plainCode(supplier),
    DocumentCurrency: currency,
    CorrespncExternalReference: marker,
    ...Object.fromEntries(headerFields.map((name) => [name, header[name] && sapValue(name, header[name])])),
  };
  const seen = {
    Supplier: plainCode(held.Supplier),
    DocumentCurrency: held.DocumentCurrency,
    CorrespncExternalReference: held.CorrespncExternalReference,
    ...Object.fromEntries(headerFields.map((name) => [name, sapValue(name, held[name])])),
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
      : take((candidate) => candidate.PurchaseOrderItemText.trimEnd() === item.text.trimEnd());
    return { item, held };
  });
  return fieldsOf(
    { items: pairs.map(({ item }) => ({ lot: item.lot, ...wantedFields(item) })) },
    {
      items: [
        ...pairs.flatMap(({ item, held }) => (held ? [{ lot: item.lot, ...heldFields(held, item) }] : [])),
        ...[...left].map((held) => ({ lot: held.PurchaseOrderItemText, ...heldFields(held, undefined) })),
      ],
    },
    { names: ['lot'], decimals: ['OrderQuantity', 'NetPriceAmount', 'NetPriceQuantity'] },
  );
}
