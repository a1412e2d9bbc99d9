/** The bid sheet row of a lot as a document's line shows it, and the numbers that a flow reads from its columns. */
import { z } from 'zod';
import type { BidSheetRow } from '#connector/documents.ts';
import { type BidSheetValue, bidSheetValue } from '#contract/bid.ts';
import type { Decimal } from '#contract/decimal.ts';
import { type EventInFlow, exchangeRates } from './event-parts.ts';
import { exactDecimal } from './exact-decimal.ts';
import { rejected } from './made-document.ts';

/** The bid sheet columns from which a flow reads quantity and unit price. */
export interface LineColumns {
  readonly quantity: string | undefined;
  readonly unitPrice: string | undefined;
}

/** A source may leave out the value of an empty cell, and the row of a lot without cells. */
export const bidSheetForm = z.array(bidSheetValue.extend({ value: z.string().default('') })).default([]);

export function bidSheetRow(values: readonly BidSheetValue[]): BidSheetRow {
  return values.map(({ column_name: column, value, currency }) => ({
    column,
    value,
    ...(currency === undefined ? {} : { currency }),
  }));
}

/**
 * Returns the number in this column of the lot's row; undefined when there is no such column or its cell is empty.
 * Throws `Unmade`, rejected, for a cell that holds anything else.
 */
export function quantityIn(
  lot: string,
  values: readonly BidSheetValue[],
  column: string | undefined,
): Decimal | undefined {
  return column === undefined ? undefined : numberIn(lot, column, cellOf(values, column));
}

/**
 * Returns the amount in this column in the event's primary currency, as a document has one currency and a supplier may
 * bid in another. It is converted as the service converts a cost, by the event's exchange rate, and exactly. Undefined
 * and throws as `quantityIn`; also rejected when the event has no exchange rate of the currency.
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
  const rate = exchangeRates(event).find((candidate) => candidate.code === code);
  const factor = exactDecimal(rate?.exchange_rate ?? '', `the exchange rate of ${code}`);
  if (factor !== undefined) return amount.times(factor);
  throw rejected(
    `lot "${lot}": the column "${column}" is in ${code}, for which its sourcing event has no exchange rate`,
  );
}

function cellOf(values: readonly BidSheetValue[], column: string): BidSheetValue | undefined {
  return values.find((value) => value.column_name === column);
}

/** A cell that holds no number is rejected and not left out: an order without its quantity would look complete. */
function numberIn(lot: string, column: string, cell: BidSheetValue | undefined): Decimal | undefined {
  const text = cell?.value.trim() ?? '';
  if (text === '') return undefined;
  const read = exactDecimal(text, `lot "${lot}": the column "${column}"`);
  if (read === undefined)
    throw rejected(`lot "${lot}": the column "${column}" holds no number; it must be written as 1234.50`);
  return read;
}
