/** Purchases, lines and differences in words for a buyer. */
import type { HeldLine, HeldRow } from './held-purchases.ts';
import type { WantedLine } from './lots.ts';
import type { Difference } from './merge.ts';
import type { Won } from './purchase-values.ts';
import type { ReferenceData } from './reference-data.ts';
import type { Value } from './values.ts';

export function nameOf({ id: one, number }: HeldRow): string {
  return number === null ? `the purchase with the id ${one}` : `the purchase ${number}`;
}

export function shownField(field: string): string {
  return field === 'party' ? 'supplier' : field.replaceAll('_', ' ');
}

/** Of the purchase itself, as Tryton holds it. */
export function shownHeldValue({ field, held }: Difference, row: HeldRow): string {
  if (field === 'party') return row['party.'].name;
  if (field === 'currency') return row['currency.'].code;
  return shownValue(field === 'warehouse' ? (row['warehouse.']?.name ?? null) : held);
}

export function shownWantedValue(
  { field, wanted }: Difference,
  { supplier, operation }: Won,
  data: ReferenceData,
): string {
  if (field === 'party') return supplier.name;
  if (field === 'currency') return operation.document.currency;
  return shownValue(field === 'warehouse' ? (data.warehouseName(Number(wanted)) ?? null) : wanted);
}

export function shownLine({ lot, product, quantity, unit, unitPrice }: WantedLine): string {
  return `lot "${lot}", ${shownAmount({ quantity, unit: unit?.symbol, product: product?.code, price: unitPrice })}`;
}

export function shownHeldLine({ quantity, 'unit.': unit, unit_price, 'product.': product }: HeldLine): string {
  return shownAmount({
    quantity: quantity ?? 0,
    unit: unit?.symbol,
    product: product?.code,
    price: unit_price ?? '0',
  });
}

export function shownLineValue({ field, held }: Difference, line: HeldLine): string {
  if (field === 'product') return line['product.']?.code ?? 'none';
  if (field === 'unit') return line['unit.']?.symbol ?? 'none';
  return field === 'unit_price' || field === 'quantity' ? String(held ?? 0) : shownValue(held);
}

export function shownWanted({ field, wanted }: Difference, { product, unit }: WantedLine): string {
  if (field === 'product') return product?.code ?? 'none';
  if (field === 'unit') return unit?.symbol ?? 'none';
  return field === 'unit_price' || field === 'quantity' ? String(wanted ?? 0) : shownValue(wanted);
}

function shownValue(value: Value): string {
  return value === null ? 'nothing' : typeof value === 'string' ? `"${value}"` : String(value);
}

interface Amount {
  readonly quantity: number;
  readonly unit: string | undefined;
  readonly product: string | undefined;
  readonly price: string;
}

function shownAmount({ quantity, unit, product, price }: Amount): string {
  return [quantity, ...(unit ? [unit] : []), ...(product ? [`of ${product}`] : []), `at ${price}`].join(' ');
}
