/** A lot as a line of a purchase: its values, as they are compared and as they are sent, and its note. */
import type { AwardDocument, AwardLine } from 'sourcing-bridge/connector';
import type { Values } from './merge.ts';
import type { Supplier } from './parties.ts';
import { lotName, type WantedLine } from './purchase-lines.ts';
import type { HeldLine } from './purchases.ts';
import { dateOf, decimalOf, type Value } from './values.ts';

export function lineValues({ product, unit, quantity, unitPrice, description, date: day }: WantedLine): Values {
  return {
    product: product?.id ?? null,
    unit: unit?.id ?? null,
    quantity,
    unit_price: unitPrice,
    description: description === '' ? null : description,
    ...(day === undefined ? {} : { delivery_date: day }),
  };
}

export function heldLineValues({
  product,
  unit,
  quantity,
  unit_price,
  description,
  delivery_date_store,
}: HeldLine): Values {
  return { product, unit, quantity, unit_price, description, delivery_date: delivery_date_store };
}

export function encodedLine(field: string, value: Value): Record<string, unknown> {
  if (field === 'unit_price') return { unit_price: decimalOf(String(value)) };
  if (field === 'delivery_date') return { delivery_date_edit: true, delivery_date_store: dateOf(String(value)) };
  return { [field]: value };
}

export function newLine(line: WantedLine, note: string, { hasTaxRule }: Supplier): Record<string, unknown> {
  const taxes = line.product?.taxes ?? [];
  return {
    type: 'line',
    ...Object.assign({}, ...Object.entries(lineValues(line)).map(([field, value]) => encodedLine(field, value))),
    note,
    // A supplier's tax rule may replace them, and only Tryton's own form knows how.
    ...(taxes.length === 0 || hasTaxRule ? {} : { taxes: [['add', taxes]] }),
  };
}

/** What a buyer wants to know of the lot; its first line tells the lot's line apart. */
export function noteOf(line: AwardLine, { currency }: AwardDocument): string {
  return [
    `Lot: ${lotName(line.lot)}`,
    `Share: ${line.share}`,
    `Cost: ${line.cost} ${currency}`,
    ...(line.historic_cost === undefined ? [] : [`Historic cost: ${line.historic_cost} ${currency}`]),
    ...(line.savings === undefined ? [] : [`Savings: ${line.savings} ${currency}`]),
  ].join('\n');
}

const noteLine = /^(Lot|Share|Cost|Historic cost|Savings): /u;

export function lotInNote(note: string): string | undefined {
  return /^Lot: (.*)$/mu.exec(note)?.[1];
}

/** The new note, with what users have added to the old one. */
export function withNote(held: string, note: string): string {
  const added = held.split('\n').filter((line) => !noteLine.test(line));
  return [note, ...added].join('\n');
}
