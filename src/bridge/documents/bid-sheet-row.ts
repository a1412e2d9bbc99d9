/** A row of the bid sheet in a document's line, and the numbers that a flow reads from it. */
import type { BidSheetRow } from '#connector/documents.ts';
import type { BidSheetValue } from '#contract/bid.ts';
import type { Decimal } from '#contract/decimal.ts';
import { exactDecimal } from './exact-decimal.ts';
import { rejected } from './made-document.ts';

/** Which bid sheet columns a flow reads quantity and price from. */
export interface LineColumns {
  readonly quantity: string | undefined;
  readonly unitPrice: string | undefined;
}

export function bidSheetRow(values: readonly BidSheetValue[]): BidSheetRow {
  return values.map(({ column_name: column, value, currency }) => ({
    column,
    value,
    ...(currency === undefined ? {} : { currency }),
  }));
}

/**
 * The number that the lot's row has in this column; undefined where it has no such column or an empty cell. A cell that
 * holds something else is not left out: an order without its quantity would look complete.
 */
export function numberIn(
  lot: string,
  values: readonly BidSheetValue[],
  column: string | undefined,
): Decimal | undefined {
  if (column === undefined) return undefined;
  const text = values.find((value) => value.column_name === column)?.value.trim() ?? '';
  if (text === '') return undefined;
  const read = exactDecimal(text, `lot "${lot}": the column "${column}"`);
  if (read === undefined)
    throw rejected(`lot "${lot}": the column "${column}" holds no number; it must be written as 1234.50`);
  return read;
}
