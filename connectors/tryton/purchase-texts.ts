/** Texts about purchases, lines and differences, for the sentences of plans and conflicts. */
import type { PurchaseLine, PurchaseRow } from './held-purchases.ts';
import type { WantedLine } from './lots.ts';
import type { Difference } from './merge.ts';
import type { SupplierAward } from './purchase-values.ts';
import type { ReferenceData } from './reference-data.ts';
import type { FieldValue } from './values.ts';

export function purchaseName({ id, number }: PurchaseRow): string {
  return number === null ? `the purchase with the id ${id}` : `the purchase ${number}`;
}

export function fieldText(field: string): string {
  return field === 'party' ? 'supplier' : field.replaceAll('_', ' ');
}

/** The value that Tryton holds in a field of the purchase itself. */
export function heldValueText({ field, held }: Difference, row: PurchaseRow): string {
  if (field === 'party') return row['party.'].name;
  if (field === 'currency') return row['currency.'].code;
  return valueText(field === 'warehouse' ? (row['warehouse.']?.name ?? null) : held);
}

/** The value that the award asks for in a field of the purchase itself. */
export function wantedValueText(
  { field, wanted }: Difference,
  { supplier, operation }: SupplierAward,
  data: ReferenceData,
): string {
  if (field === 'party') return supplier.name;
  if (field === 'currency') return operation.document.currency;
  return valueText(field === 'warehouse' ? (data.warehouseName(Number(wanted)) ?? null) : wanted);
}

export function wantedLineText({ lot, product, quantity, unit, unitPrice }: WantedLine): string {
  return `lot "${lot}", ${amountText({ quantity, unit: unit?.symbol, product: product?.code, price: unitPrice })}`;
}

export function heldLineText({ quantity, 'unit.': unit, unit_price, 'product.': product }: PurchaseLine): string {
  return amountText({
    quantity: quantity ?? 0,
    unit: unit?.symbol,
    product: product?.code,
    price: unit_price ?? '0',
  });
}

/** The value that Tryton holds in a field of a line. */
export function heldLineValueText({ field, held }: Difference, line: PurchaseLine): string {
  if (field === 'product') return line['product.']?.code ?? 'none';
  if (field === 'unit') return line['unit.']?.symbol ?? 'none';
  return field === 'unit_price' || field === 'quantity' ? String(held ?? 0) : valueText(held);
}

/** The value that the award asks for in a field of a line. */
export function wantedLineValueText({ field, wanted }: Difference, { product, unit }: WantedLine): string {
  if (field === 'product') return product?.code ?? 'none';
  if (field === 'unit') return unit?.symbol ?? 'none';
  return field === 'unit_price' || field === 'quantity' ? String(wanted ?? 0) : valueText(wanted);
}

function valueText(value: FieldValue): string {
  return value === null ? 'nothing' : typeof value === 'string' ? `"${value}"` : String(value);
}

interface Amount {
  readonly quantity: number;
  readonly unit: string | undefined;
  readonly product: string | undefined;
  readonly price: string;
}

function amountText({ quantity, unit, product, price }: Amount): string {
  return [quantity, ...(unit ? [unit] : []), ...(product ? [`of ${product}`] : []), `at ${price}`].join(' ');
}
