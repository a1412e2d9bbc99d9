/** The bid sheet row of a lot as a document's line shows it, and the numbers that a flow reads from its columns. */
import { z } from 'zod';
import type { BidSheetRow } from '#connector/documents.ts';
import { composed } from '#connector/human-text.ts';
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

/** What a lot is ordered by: both members, or none of them; in a Dutch auction perhaps the quantity alone. */
export interface LineAmounts {
  readonly quantity?: Decimal;
  readonly unitPrice?: Decimal;
}

/**
 * Returns the numbers in the flow's columns of the lot's row; none where both cells are empty or missing. The price is in
 * the event's primary currency, as a document has one currency and a supplier may bid in another: it is converted as the
 * service converts a cost, by the event's exchange rate, and exactly. Throws `Unmade`, rejected, for a cell that holds no
 * number, for a currency without an exchange rate, and for a row with only one of the two: one piece at the price of
 * many, or many pieces without a price, would be another order. In a Dutch auction suppliers accept a price of the lot and
 * name none of a piece: there the quantity may stand alone, beside the lot's cost.
 */
export function lineAmounts(
  lot: string,
  values: readonly BidSheetValue[],
  columns: LineColumns,
  event: EventInFlow,
): LineAmounts {
  const quantity = numberIn(lot, columns.quantity, values);
  const unitPrice = amountIn(lot, columns.unitPrice, values, event);
  if (quantity !== undefined && unitPrice !== undefined) return { quantity, unitPrice };
  if (quantity === undefined && unitPrice === undefined) return {};
  if (quantity !== undefined && event.event.type === 'DUTCH') return { quantity };
  const [has, lacks, column] =
    quantity === undefined
      ? (['unit price', 'quantity', columns.quantity] as const)
      : (['quantity', 'unit price', columns.unitPrice] as const);
  throw rejected(`lot "${lot}": it has a ${has} and no ${lacks}: ${whyEmpty(column, values)}`);
}

function whyEmpty(column: string | undefined, values: readonly BidSheetValue[]): string {
  if (column === undefined) return 'the flow names one of quantity_column and unit_price_column; it needs both';
  if (cellOf(values, column)) return `the column "${column}" is empty`;
  return `the sheet has no column "${column}"; it has: ${values.map(({ column_name: name }) => name).join(', ')}`;
}

function amountIn(
  lot: string,
  column: string | undefined,
  values: readonly BidSheetValue[],
  event: EventInFlow,
): Decimal | undefined {
  const amount = numberIn(lot, column, values);
  const code = cellOf(values, column)?.currency ?? '';
  if (amount === undefined || code === '' || code === event.event.primary_currency) return amount;
  const rate = exchangeRates(event).find((candidate) => candidate.code === code);
  const factor = exactDecimal(rate?.exchange_rate ?? '', `the exchange rate of ${code}`);
  if (factor !== undefined) return amount.times(factor);
  throw rejected(
    `lot "${lot}": the column "${column}" is in ${code}, for which its sourcing event has no exchange rate`,
  );
}

function cellOf(values: readonly BidSheetValue[], column: string | undefined): BidSheetValue | undefined {
  if (column === undefined) return undefined;
  const name = composed(column);
  return values.find((value) => composed(value.column_name) === name);
}

/** A cell that holds no number is rejected and not left out: an order without its quantity would look complete. */
function numberIn(lot: string, column: string | undefined, values: readonly BidSheetValue[]): Decimal | undefined {
  const text = cellOf(values, column)?.value.trim() ?? '';
  if (text === '') return undefined;
  const read = exactDecimal(text, `lot "${lot}": the column "${column}"`);
  if (read === undefined)
    throw rejected(`lot "${lot}": the column "${column}" holds no number; it must be written as 1234.50`);
  return read;
}
