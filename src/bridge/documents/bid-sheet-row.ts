/** A row of the bid sheet in a document's line, and the numbers that a flow reads from it. */
import { z } from 'zod';
import type { BidSheetRow } from '#connector/documents.ts';
import { type BidSheetValue, bidSheetValue } from '#contract/bid.ts';
import type { Decimal } from '#contract/decimal.ts';
import { type EventInFlow, exchangeRates } from './event-parts.ts';
import { exactDecimal } from './exact-decimal.ts';
import { rejected } from './made-document.ts';

/** Which bid sheet columns a flow reads quantity and price from. */
export interface LineColumns {
  readonly quantity: string | undefined;
  readonly unitPrice: string | undefined;
}

/** A cell that holds nothing may come without its value, and a lot without cells without its row. */
export const bidSheetForm = z.array(bidSheetValue.extend({ value: z.string().default('') })).default([]);

export function bidSheetRow(values: readonly BidSheetValue[]): BidSheetRow {
  return values.map(({ column_name: column, value, currency }) => ({
    column,
    value,
    ...(currency === undefined ? {} : { currency }),
  }));
}

/** The number that the lot's row has in this column; undefined where it has no such column or an empty cell. */
export function quantityIn(
  lot: string,
  values: readonly BidSheetValue[],
  column: string | undefined,
): Decimal | undefined {
  return column === undefined ? undefined : numberIn(lot, column, cellOf(values, column));
}

/**
 * The same of an amount, in the event's primary currency: a document has one currency, and a supplier may bid in another.
 * Converted as the service converts a cost, by the event's exchange rate; exact.
 */
export function amountIn(
  lot: string,
  values: readonly BidSheetValue[],
  column: string | undefined,
  event: EventInFlow,
): Decimal | undefined {
  if (column === undefined) return undefined;
  const cell = cellOf(values, column);
  const amount = numberIn(lot, column, cell);
  const code = cell?.currency ?? '';
  if (amount === undefined || code === '' || code === event.event.primary_currency) return amount;
  const [rate] = exchangeRates(event).filter((one) => one.code === code);
  const factor = exactDecimal(rate?.exchange_rate ?? '', `the exchange rate of ${code}`);
  if (factor !== undefined) return amount.times(factor);
  throw rejected(
    `lot "${lot}": the column "${column}" is in ${code}, of which its sourcing event has no exchange rate`,
  );
}

function cellOf(values: readonly BidSheetValue[], column: string): BidSheetValue | undefined {
  return values.find((value) => value.column_name === column);
}

/** A cell that holds something else is not left out: an order without its quantity would look complete. */
function numberIn(lot: string, column: string, cell: BidSheetValue | undefined): Decimal | undefined {
  const text = cell?.value.trim() ?? '';
  if (text === '') return undefined;
  const read = exactDecimal(text, `lot "${lot}": the column "${column}"`);
  if (read === undefined)
    throw rejected(`lot "${lot}": the column "${column}" holds no number; it must be written as 1234.50`);
  return read;
}
