/**
 * The record: a text of the order's header in which the connector keeps what it wrote, since SAP has no field for it.
 * From it `lookup` takes the hash, an amend the item of each lot, and a check whether a person has changed the order.
 * For two lots, of which the second was removed later, it reads:
 *
 *     Sourcing event: Steel 2030 (PR-17)
 *     Total cost: 120.5 EUR
 *     Record of sourcing-bridge (do not change):
 *     key 0b6c…/5f1e…
 *     hash 9f86d081…
 *     supplier 17300001 EUR
 *     item 10 MZXW6YTBOI23 3 PC 40.16/1
 *
 * While an amend is under way, the hash is missing, and an item has a line for each state in which a kill may leave it:
 * the old one and the new one, where `none` is an item that does not exist or is deleted.
 */
import { plain } from './prices.ts';

/** `3 PC 40.16/1`, or `none`. */
export type ItemState = string;
export const noItem: ItemState = 'none';

export interface RecordedItem {
  readonly item: string;
  readonly lot: string;
  readonly state: ItemState;
}

export interface OrderRecord {
  readonly key: string;
  readonly hash: string | undefined;
  readonly supplier: string;
  readonly currency: string;
  readonly items: readonly RecordedItem[];
}

const head = 'Record of sourcing-bridge (do not change):';

/** `remarks` are lines for the person who reads the order. */
export function recordText(record: OrderRecord, remarks: readonly string[]): string {
  const { key, hash, supplier, currency, items } = record;
  return [
    ...remarks.map((line) => line.replaceAll(/[\r\n]+/gu, ' ')),
    head,
    `key ${key}`,
    ...(hash === undefined ? [] : [`hash ${hash}`]),
    `supplier ${supplier} ${currency}`,
    ...items.map(({ item, lot, state }) => `item ${item} ${lot} ${state}`),
  ].join('\n');
}

/** Undefined for a text without a record. */
export function parseRecord(text: string): OrderRecord | undefined {
  const start = text.indexOf(head);
  if (start < 0) return undefined;
  const lines = text.slice(start + head.length).split(/\r?\n/u);
  const valueOf = (name: string) =>
    lines
      .find((line) => line.startsWith(`${name} `))
      ?.slice(name.length + 1)
      .trimEnd();
  const key = valueOf('key');
  const [, supplier, currency] = /^(\S+) (\S+)$/u.exec(valueOf('supplier') ?? '') ?? [];
  if (key === undefined || supplier === undefined || currency === undefined) return undefined;
  const items = lines.flatMap((line) => {
    const [, item, lot, state] = /^item (\d+) ([A-Z2-7]+) (.+?)\s*$/u.exec(line) ?? [];
    return item === undefined || lot === undefined || state === undefined ? [] : [{ item, lot, state }];
  });
  const hash = /^[0-9a-f]{64}$/u.exec(valueOf('hash') ?? '')?.[0];
  return { key, hash, supplier, currency, items };
}

/** An item's state in the record, whatever zeros SAP shows. */
export function itemState({
  quantity,
  unit,
  amount,
  per,
}: {
  quantity: string;
  unit: string;
  amount: string;
  per: string;
}): ItemState {
  return `${plain(quantity)} ${unit} ${plain(amount)}/${plain(per)}`;
}
