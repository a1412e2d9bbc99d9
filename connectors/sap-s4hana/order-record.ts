/**
 * The record: a text of the order's header in which the connector keeps what it wrote, since SAP has no field for it.
 * From it `lookup` takes the hash, an amend the item of each lot, and a check whether a person has changed the order.
 * It is written together with the order, in one save:
 *
 *     Sourcing event: Steel 2030 (PR-17)
 *     Total cost: 120.5 EUR
 *     Record of sourcing-bridge (do not change):
 *     key 0b6c…/5f1e…
 *     hash 9f86d081…
 *     supplier 17300001 EUR
 *     item 10 MZXW6YTBOI23 3 PC 40.16/1 on 2030-03-31 to CostCenter=10101101
 *
 * The day and the account assignment stand there only where the flow's mapping sets them: others are a person's.
 */
import { plainCode, plainNumber } from './sap-values.ts';

/**
 * `3 PC 40.16/1`, with a unit of the price that is another one, ` on <day>` and ` to <account assignment>` where the
 * connector writes them; or `none`.
 */
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
    const [, item, lot, state] = /^item (\d+) ([A-Z2-7]+) (.+)$/u.exec(line.trimEnd()) ?? [];
    return item === undefined || lot === undefined || state === undefined ? [] : [{ item, lot, state }];
  });
  const hash = /^[0-9a-f]{64}$/u.exec(valueOf('hash') ?? '')?.[0];
  return { key, hash, supplier, currency, items };
}

/** An item's state, whatever zeros SAP shows. */
export function itemState(state: {
  quantity: string;
  unit: string;
  priceUnit: string;
  amount: string;
  per: string;
  due?: string | undefined;
  account?: string | undefined;
}): ItemState {
  const { quantity, unit, priceUnit, amount, per, due, account } = state;
  return [
    `${plainNumber(quantity)} ${unit} ${plainNumber(amount)}/${plainNumber(per)}`,
    ...(priceUnit === unit || priceUnit === '' ? [] : [priceUnit]),
    ...(due === undefined ? [] : [`on ${due}`]),
    ...(account === undefined ? [] : [`to ${account}`]),
  ].join(' ');
}

/** The day of the state; undefined where it names none. */
export function dueIn(state: ItemState): string | undefined {
  return / on (\S+)/u.exec(state)?.[1];
}

/** The account assignment of the state; undefined where it names none. */
export function accountIn(state: ItemState): string | undefined {
  return / to (.+)$/su.exec(state)?.[1];
}

const accountFields = ['CostCenter', 'GLAccount', 'OrderID', 'WBSElementExternalID'] as const;

/** `CostCenter=10101101,GLAccount=61000000`, without the zeros that SAP puts before numbers. */
export function accountText(fields: Readonly<Partial<Record<(typeof accountFields)[number], string>>>): string {
  const set = accountFields.flatMap((name) => {
    const value = fields[name] ?? '';
    return value === '' ? [] : [`${name}=${plainCode(value)}`];
  });
  return set.length === 0 ? 'none' : set.join(',');
}
