/** The lots of an award or of bids, translated into Tryton's values: product, unit, quantity and price. */
import {
  type AwardLine,
  DataError,
  Decimal,
  formatDecimal,
  type LotAmount,
  type QuotationLine,
} from 'sourcing-bridge/connector';
import { checkFields, productCodeOf } from './mapping-fields.ts';
import type { Product, ReferenceData, Unit } from './reference-data.ts';
import type { Settings } from './settings.ts';
import { floatOf, isDate, plainDecimal } from './values.ts';

/** A lot in the form in which it is to be written to Tryton. */
export interface WantedLine<Line extends AwardLine | QuotationLine = AwardLine | QuotationLine> {
  readonly line: Line;
  /** The lot's name without line breaks, unique within the event. */
  readonly lot: string;
  readonly product: Product | undefined;
  readonly unit: Unit | undefined;
  /** Tryton keeps quantities as floating-point numbers; this number is exactly the decimal of the document. */
  readonly quantity: number;
  readonly unitPrice: string;
  readonly description: string;
  /** Such as `2030-12-31`. */
  readonly date: string | undefined;
}

export function lotName(lot: string): string {
  return /[\r\n]/u.test(lot) ? JSON.stringify(lot) : lot;
}

/**
 * Translates the lots of a document. Throws DataError, with the lot, for a value that Tryton would refuse or would not
 * keep exactly, and for a field of the mapping that this kind of document does not have.
 */
export function wantedLines<Line extends AwardLine | QuotationLine>(
  { fields, lines }: { readonly fields?: Fields; readonly lines: readonly Line[] },
  kind: 'awards' | 'quotations',
  amountOf: (line: Line) => LotAmount,
  context: { data: ReferenceData; settings: Settings; dateField: string },
): WantedLine<Line>[] {
  checkFields(fields, kind);
  for (const line of lines) checkFields(line.fields, `lines of ${kind}`);
  return lines.map((line) => wantedLine(line, amountOf, context));
}

type Fields = Record<string, string> | undefined;

function wantedLine<Line extends AwardLine | QuotationLine>(
  line: Line,
  amountOf: (line: Line) => LotAmount,
  { data, settings, dateField }: { data: ReferenceData; settings: Settings; dateField: string },
): WantedLine<Line> {
  const lot = lotName(line.lot);
  try {
    const amount = amountOf(line);
    const { fields = {} } = line;
    const code = productCodeOf(line, settings);
    const product = code === undefined ? undefined : data.product(code);
    const unitName = fields['unit'] ?? settings.unit;
    const unit = unitName === undefined ? product?.unit : data.unit(unitName);
    const productUnit = product?.unit;
    if (unit && productUnit && unit.category !== productUnit.category)
      throw new DataError(
        `the unit "${unit.name}" does not fit the product "${code}", which Tryton keeps in "${productUnit.name}"`,
      );
    const isOrderedAtCost = 'cost' in line && line.unit_price === undefined;
    const rounding = isOrderedAtCost ? 'never' : settings.rounding;
    const quantityText = fitDecimals(
      amount.quantity,
      unit?.digits ?? 2,
      rounding,
      unit ? `the unit "${unit.name}"` : 'a line without unit',
    );
    const quantity = floatOf(quantityText);
    if (quantity === undefined) throw new DataError(`the quantity ${quantityText} has more digits than Tryton keeps`);
    const unitPrice = fitDecimals(amount.unitPrice, data.priceDecimals, rounding, 'a price in Tryton');
    const date = fields[dateField];
    if (date !== undefined && !isDate(date))
      throw new DataError(`the field ${dateField} is "${date}" and not a date such as 2030-12-31`);
    return { line, lot, product, unit, quantity, unitPrice, description: fields['description'] ?? line.lot, date };
  } catch (error) {
    if (error instanceof DataError) throw new DataError(`Lot "${lot}": ${error.message}`, { cause: error });
    throw error;
  }
}

/**
 * Quantity and unit price of a bid. A bid without both counts by its single value (with its volume, else one piece).
 * Throws DataError if there is no single value, or if only one of the two is there.
 */
export function quotationAmount({ quantity, unit_price, bids }: QuotationLine): LotAmount {
  if (quantity !== undefined && unit_price !== undefined) return { quantity, unitPrice: unit_price };
  const [bid] = bids;
  if (quantity === undefined && unit_price === undefined && bids.length === 1 && bid)
    return { quantity: bid.volume ?? '1', unitPrice: bid.value };
  throw new DataError(
    'it has no quantity and unit price: name both columns in the flow (quantity_column, unit_price_column)',
  );
}

/** The value, rounded if the settings allow it. Throws DataError if it has too many decimals for `place`. */
function fitDecimals(value: string, decimals: number, rounding: Settings['rounding'] | 'never', place: string): string {
  const number = new Decimal(plainDecimal(value));
  if (number.decimalPlaces() <= decimals) return number.toFixed();
  if (rounding === 'half-up') return formatDecimal(number, decimals);
  const cure =
    rounding === 'never'
      ? 'it is not rounded, as the lot is ordered at its cost, which would change'
      : 'where the lot is shared by several suppliers, set quantity_decimals of the flow; settings.rounding: half-up would round it';
  throw new DataError(`${value} has more decimals than ${place} takes (${decimals}); ${cure}`);
}
