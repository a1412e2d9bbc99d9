/** Purchases, lines and differences in words for a buyer. */
import { quoted } from './batch.ts';
import type { Difference } from './merge.ts';
import type { WantedLine } from './purchase-lines.ts';
import type { HeldLine, HeldRow } from './purchases.ts';
import type { Value } from './values.ts';

export function nameOf({ id: one, number }: HeldRow): string {
  return number === null ? `the purchase with the id ${one}` : `the purchase ${number}`;
}

export function shownLine({ lot, product, quantity, unit, unitPrice }: WantedLine): string {
  return `lot "${lot}", ${quantity} ${unit?.symbol ?? ''}${product ? ` of ${product.code}` : ''} at ${unitPrice}`.replaceAll(
    '  ',
    ' ',
  );
}

export function shownHeldLine({ quantity, 'unit.': unit, unit_price, 'product.': product }: HeldLine): string {
  return `${quantity ?? 0} ${unit?.symbol ?? ''}${product ? ` of ${product.code}` : ''} at ${unit_price ?? '0'}`.replaceAll(
    '  ',
    ' ',
  );
}

export function shownField(field: string): string {
  return field.replaceAll('_', ' ');
}

export function shownValue(value: Value): string {
  return value === null ? 'nothing' : typeof value === 'string' ? quoted(value) : String(value);
}

export function shownLineValue(field: string, value: Value, line: HeldLine): string {
  if (field === 'product') return line['product.']?.code ?? 'none';
  if (field === 'unit') return line['unit.']?.symbol ?? 'none';
  return field === 'unit_price' || field === 'quantity' ? String(value ?? 0) : shownValue(value);
}

export function shownWanted(field: string, value: Value, { product, unit }: WantedLine): string {
  if (field === 'product') return product?.code ?? 'none';
  if (field === 'unit') return unit?.symbol ?? 'none';
  return field === 'unit_price' || field === 'quantity' ? String(value ?? 0) : shownValue(value);
}

export function shownConflict({ field, held, wanted }: Difference): string {
  return `The ${shownField(field)} is ${shownValue(held)} in Tryton, and ${shownValue(wanted)} asked for.`;
}
