/**
 * Awards as purchase orders. SAP determines prices when it makes an item (KBA 3753433), so an order is read after it was
 * written; a wrong price is changed once, and a new order that keeps it is deleted again.
 */
import type { Found, Kind } from 'sourcing-bridge/connector';
import { changesIn, findDelivered, findOrders, type HeldOrder } from './held-orders.ts';
import { type Deps, kindOfParts, referenceOf } from './kind.ts';
import { itemNumbers, type Order, orderBody, orderOf } from './order-values.ts';
import { findSuppliers, type PartnerOf } from './partners.ts';
import { expectChangeable, planChange } from './plan-order.ts';
import { decideDocument, type Shape } from './purchasing-documents.ts';
import { readPurchaseOrder } from './read-back.ts';
import { isSameCode } from './sap-values.ts';

interface Held {
  readonly orders: ReadonlyMap<string, readonly HeldOrder[]>;
  readonly partnerOf: PartnerOf;
}

const object = 'PurchaseOrder';

export function createPurchaseOrders(deps: Deps): Kind<'award'> {
  const { odata, orders: service, settings } = deps;
  return kindOfParts<'award', Held>(
    {
      async read(operations, signal) {
        const documents = operations.map(({ document }) => document);
        const written = operations.filter(({ action }) => action !== 'cancel');
        const orders = await findOrders(service, documents, settings, signal);
        const suppliers = written.map(({ document }) => document.supplier);
        return { orders, partnerOf: await findSuppliers(odata, suppliers, signal) };
      },
      decideOn: (operation, { orders, partnerOf }, isWritten) =>
        decideDocument(shapeWith(deps, partnerOf), operation, orders.get(operation.document.key) ?? [], isWritten),
      async lookup(documents, signal) {
        const held = await findOrders(service, documents, settings, signal);
        return [...held].flatMap(([key, orders]) => orders.map((order) => foundOf(key, order)));
      },
      async readBack(deliveries, signal) {
        const held = await findDelivered(service, deliveries, settings, signal);
        const suppliers = deliveries.map(({ document }) => document.supplier);
        const partnerOf = await findSuppliers(odata, suppliers, signal);
        return deliveries.map((delivery) => {
          const { document } = delivery;
          const order = orderOf(document, '', partnerOf(document.supplier), settings);
          return readPurchaseOrder(delivery, order, held.get(document.key) ?? []);
        });
      },
      async undo({ document: { key } }, { orders }, signal) {
        for (const order of orders.get(key) ?? []) await remove(deps, order, signal);
        return 'The order was deleted: look for a price in its contract, info record or requisition, then replay the document.';
      },
    },
    deps,
  );
}

function shapeWith(deps: Deps, partnerOf: PartnerOf): Shape<HeldOrder, Order> {
  const { orders, settings } = deps;
  return {
    name: 'purchase order',
    object,
    numberOf: ({ PurchaseOrder }) => PurchaseOrder,
    wantedOf: ({ document, contentHash }) => orderOf(document, contentHash, partnerOf(document.supplier), settings),
    changesOf: (order, held, isWritten) =>
      // SAP changes neither of both.
      held.DocumentCurrency === order.currency && isSameCode(held.Supplier, order.supplier)
        ? planChange(order, held, settings, isWritten)
        : undefined,
    expectChangeable: (held) => expectChangeable(held, held.to_PurchaseOrderItem),
    create: (order, signal) => {
      const body = orderBody(order, itemNumbers(order.items.length), settings);
      return orders.change({ what: 'create', method: 'POST', set: 'A_PurchaseOrder', body }, signal);
    },
    change: (changes, signal) => orders.changeAll(changes, signal),
    removal: 'delete',
    remove: (held, signal) => remove(deps, held, signal),
  };
}

async function remove({ orders }: Deps, held: HeldOrder, signal: AbortSignal): Promise<void> {
  const entity = { set: 'A_PurchaseOrder', key: held.PurchaseOrder, etag: held.__metadata?.etag };
  await orders.change({ what: 'delete', method: 'DELETE', ...entity }, signal);
}

function foundOf(key: string, order: HeldOrder): Found {
  // An order that is not as it was written has no hash: the bridge amends it, or reports what a person has changed.
  const isAsWritten = changesIn(order).length === 0;
  const reference = referenceOf(object, order.PurchaseOrder);
  return { key, reference, contentHash: isAsWritten ? order.record?.hash : undefined };
}
