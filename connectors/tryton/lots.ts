/** A lot of an award or of bids in Tryton's values: product, unit, quantity, price. */
import { type AwardLine, DataError, type QuotationLine } from 'sourcing-bridge/connector';
import { checkFields } from './mapping-fields.ts';
import type { Product, ReferenceData, Unit } from './reference-data.ts';
import type { Settings } from './settings.ts';
import { decimalsOf, floatOf, isDate, plainDecimal, roundedHalfUp } from './values.ts';

/** A lot as Tryton takes it. */
export interface WantedLine<Line extends AwardLine | QuotationLine = AwardLine | QuotationLine> {
  readonly line: Line;
  /** Its name in one line, that no other lot of the event has. */
  readonly lot: string;
  readonly product: Product | undefined;
  readonly unit: Unit | undefined;
  /** Tryton keeps quantities as floating-point numbers; this one stands for exactly the decimal. */
  readonly quantity: number;
  readonly unitPrice: string;
  readonly description: string;
  /** `2030-12-31` */
  readonly date: string | undefined;
}

export function lotName(lot: string): string {
  return /[\r\n]/u.test(lot) ? JSON.stringify(lot) : lot;
}

/** The code of the product that the flow's mapping names, else the setting's. */
export function productCodeOf(
  line: { fields?: Record<string, string> | undefined },
  settings: Settings,
): string | undefined {
  return line.fields?.['product'] ?? settings.product;
}

/** The lots of a document, whose fields have to be known `of` its kind. Throws DataError as `wantedLine`. */
export function wantedLines<Line extends AwardLine | QuotationLine>(
  { fields, lines }: { readonly fields?: Fields; readonly lines: readonly Line[] },
  of: 'awards' | 'quotations',
  amountOf: (line: Line) => Amount,
  given: { data: ReferenceData; settings: Settings; dateField: string },
): WantedLine<Line>[] {
  checkFields(fields, of);
  for (const line of lines) checkFields(line.fields, `lines of ${of}`);
  return lines.map((line) => wantedLine(line, amountOf(line), given));
}

type Fields = Record<string, string> | undefined;

interface Amount {
  readonly quantity: string;
  readonly unitPrice: string;
}

/** Throws DataError, with the lot, for what Tryton would not take or would not keep as it is. */
function wantedLine<Line extends AwardLine | QuotationLine>(
  line: Line,
  amount: Amount,
  { data, settings, dateField }: { data: ReferenceData; settings: Settings; dateField: string },
): WantedLine<Line> {
  const lot = lotName(line.lot);
  try {
    const { fields = {} } = line;
    const code = productCodeOf(line, settings);
    const product = code === undefined ? undefined : data.product(code);
    const unitName = fields['unit'] ?? settings.unit;
    const unit = unitName === undefined ? product?.unit : data.unit(unitName);
    const productUnit = product?.unit;
    if (unit && productUnit && unit.category !== productUnit.category)
      throw new DataError(
        `the unit "${unit.name}" does not fit the product "${code}", which is kept in "${productUnit.name}"`,
      );
    const quantityText = fitted(
      amount.quantity,
      unit?.digits ?? 2,
      settings,
      unit ? `the unit "${unit.name}"` : 'a line without unit',
    );
    const quantity = floatOf(quantityText);
    if (quantity === undefined) throw new DataError(`the quantity ${quantityText} has more digits than Tryton keeps`);
    const unitPrice = fitted(amount.unitPrice, data.priceDecimals, settings, 'a price in Tryton');
    const date = fields[dateField];
    if (date !== undefined && !isDate(date))
      throw new DataError(`the field ${dateField} is "${date}" and not a date as 2030-12-31`);
    return { line, lot, product, unit, quantity, unitPrice, description: fields['description'] ?? line.lot, date };
  } catch (error) {
    if (error instanceof DataError) throw new DataError(`Lot "${lot}": ${error.message}`, { cause: error });
    throw error;
  }
}

/** What a line costs and counts; an award without both is one of the lot, at the cost of the share. */
export function awardAmount({ lot, quantity, unit_price, cost }: AwardLine): Amount {
  if (quantity !== undefined && unit_price !== undefined) return { quantity, unitPrice: unit_price };
  if (quantity === undefined && unit_price === undefined) return { quantity: '1', unitPrice: cost };
  throw new DataError(
    `Lot "${lotName(lot)}" has a ${quantity === undefined ? 'unit price and no quantity' : 'quantity and no unit price'}: name both columns in the flow (quantity_column, unit_price_column), or neither.`,
  );
}

/** As `awardAmount`, of a bid: its whole cost, where that is one value. */
export function quotationAmount({ lot, quantity, unit_price, bids }: QuotationLine): Amount {
  if (quantity !== undefined && unit_price !== undefined) return { quantity, unitPrice: unit_price };
  const [bid] = bids;
  if (quantity === undefined && unit_price === undefined && bids.length === 1 && bid)
    return { quantity: bid.volume ?? '1', unitPrice: bid.value };
  throw new DataError(
    `Lot "${lotName(lot)}" has no quantity and unit price: name both columns in the flow (quantity_column, unit_price_column).`,
  );
}

function fitted(value: string, decimals: number, { rounding }: Settings, of: string): string {
  if (decimalsOf(value) <= decimals) return plainDecimal(value);
  if (rounding === 'half-up') return roundedHalfUp(value, decimals);
  throw new DataError(
    `${value} has more decimals than ${of} takes (${decimals}); settings.rounding: half-up would round it`,
  );
}
