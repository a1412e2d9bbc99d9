/** The fields of an order's item as they should be and as SAP holds them: what an amend changes and `readBack` compares. */
import { type HeldItem, heldAccounts, heldDays } from './held-orders.ts';
import { dayOfDate } from './odata.ts';
import { accountText } from './order-record.ts';
import { itemFields, type OrderItem } from './order-values.ts';
import { sapValue } from './sap-values.ts';

/** Beside SAP's fields: `delivery_date` and `account_assignment`, where the connector writes them. */
export type Fields = Readonly<Record<string, string>>;

export function wantedFields(item: OrderItem): Fields {
  const { deliveryDate, account } = item;
  return {
    ...asKept(itemFields(item)),
    ...(deliveryDate === undefined ? {} : { delivery_date: dayOfDate(deliveryDate) ?? '' }),
    ...(Object.keys(account).length === 0 ? {} : { account_assignment: accountText(account) }),
  };
}

/** The same fields as SAP holds them; `item` is what the connector writes there, undefined for an item of a person's. */
export function heldFields(held: HeldItem, item: OrderItem | undefined): Fields {
  const values: Readonly<Record<string, unknown>> = {
    ...held,
    delivery_date: heldDays(held),
    account_assignment: heldAccounts(held),
  };
  const names = Object.keys(
    item ? wantedFields(item) : { PurchaseOrderItemText: '', OrderQuantity: '', NetPriceAmount: '' },
  );
  return Object.fromEntries(
    names.map((name) => {
      const value = values[name];
      // SAP leaves the unit of the price empty where it is that of the order.
      const text = name === 'OrderPriceUnit' && value === '' ? held.PurchaseOrderQuantityUnit : value;
      return [name, /^[a-z]/u.test(name) ? String(text) : sapValue(name, text)];
    }),
  );
}

export function differingFields(item: OrderItem, held: HeldItem): string[] {
  const is = heldFields(held, item);
  return Object.entries(wantedFields(item)).flatMap(([name, value]) => (is[name] === value ? [] : [name]));
}

function asKept(fields: Fields): Fields {
  return Object.fromEntries(Object.entries(fields).map(([name, value]) => [name, sapValue(name, value)]));
}
