/** The lots of an award or of bids in Odoo's values: product, unit, quantity, price and day. */
import {
  type AwardLine,
  awardAmount,
  DataError,
  Decimal,
  type LotAmount,
  type QuotationLine,
  readDecimal,
} from 'sourcing-bridge/connector';
import type { Product, ReferenceData, Unit } from './reference-data.ts';
import type { Settings } from './settings.ts';
import { exactNumber, odooTime, plainOf } from './values.ts';

export const orderFields = [
  'source',
  'partner_ref',
  'date_order',
  'date_planned',
  'date_start',
  'date_end',
  'warehouse',
];
export const lineFields = ['product', 'unit', 'description', 'date_planned'];

type Fields = Readonly<Record<string, string>> | undefined;

/** A lot in the form in which it is to be written to Odoo. */
export interface WantedLine {
  readonly lot: string;
  readonly product: Product | undefined;
  readonly unit: Unit | undefined;
  readonly quantity: string;
  readonly price: string;
  /** The text of the line. */
  readonly text: string;
  /** `2030-12-31 00:00:00`; undefined: Odoo decides. */
  readonly date: string | undefined;
}

/** Throws DataError for a field of the mapping that the connector does not read: the mapping contains a mistake. */
export function checkFields(fields: Fields, known: readonly string[], owner: string): void {
  for (const name of Object.keys(fields ?? {}))
    if (!known.includes(name))
      throw new DataError(
        `The flow's mapping sets for ${owner} the field "${name}", which the Odoo connector does not know. It knows: ${known.join(', ')}.`,
      );
}

/** The product that a line names: from the flow's mapping, else from `settings.product`. */
export function productNameOf(line: { fields?: Fields }, settings: Settings): string | undefined {
  return (line.fields?.['product'] ?? settings.product) || undefined;
}

/** Throws DataError, with the lot, for a value that Odoo would change in silence, or take although it is wrong. */
export function wantedLines(
  { fields: head, lines }: { readonly fields?: Fields; readonly lines: readonly (AwardLine | QuotationLine)[] },
  context: { data: ReferenceData; settings: Settings },
): WantedLine[] {
  const wanted = lines.map((line) => {
    try {
      checkFields(line.fields, lineFields, 'lines');
      return wantedLine(line, head?.['date_planned'], context);
    } catch (error) {
      if (error instanceof DataError) throw new DataError(`Lot "${line.lot}": ${error.message}`, { cause: error });
      throw error;
    }
  });
  const dated = wanted.filter(({ date }) => date !== undefined).length;
  if (dated > 0 && dated < wanted.length)
    throw new DataError(
      'The mapping sets date_planned for some lots and not for others: set it for all, or for the order.',
    );
  return wanted;
}

function wantedLine(
  line: AwardLine | QuotationLine,
  headDate: string | undefined,
  { data, settings }: { data: ReferenceData; settings: Settings },
): WantedLine {
  const { fields = {}, lot } = line;
  const amount = 'cost' in line ? awardAmount(line) : bidAmount(line);
  const name = productNameOf(line, settings);
  const product = name === undefined ? undefined : data.product(name);
  const unitName = fields['unit'];
  const unit = unitName === undefined ? product?.unit : data.unit(unitName);
  if (unit && product?.unit && !data.isSameKind(unit, product.unit))
    throw new DataError(
      `the unit "${unit.name}" does not fit the product "${product.name}", which Odoo keeps in "${product.unit.name}"`,
    );
  if (unit && !product) throw new DataError(`the unit "${unit.name}" needs a product: Odoo's text lines have no unit`);
  const date = fields['date_planned'] ?? headDate;
  return {
    lot,
    product,
    unit,
    quantity: exactNumber(fitted(amount.quantity, unit), 'the quantity'),
    price: exactNumber(amount.unitPrice, 'the price'),
    text: fields['description'] ?? lot,
    date: date === undefined ? undefined : odooTime(date, 'the field date_planned', data.zone),
  };
}

/** Odoo rounds a quantity to its unit's rounding (0.01 by default) without a word. */
function fitted(quantity: string, unit: Unit | undefined): string {
  const step = new Decimal(unit && unit.rounding > 0 ? plainOf(unit.rounding) : '0.01');
  const value = readDecimal(quantity, 'the quantity');
  if (value.modulo(step).isZero()) return quantity;
  throw new DataError(
    `the quantity ${quantity} is not a multiple of ${step.toFixed()}, to which Odoo rounds ${unit ? `the unit "${unit.name}"` : 'a line without unit'}; where several suppliers share the lot, set quantity_decimals of the flow, else raise the decimal accuracy "Product Unit" in Odoo`,
  );
}

/** A bid without quantity and price counts by its single value, with its volume, else as one piece. */
function bidAmount({ quantity, unit_price, bids }: QuotationLine): LotAmount {
  if (quantity !== undefined && unit_price !== undefined) return { quantity, unitPrice: unit_price };
  const [bid] = bids;
  if (quantity === undefined && unit_price === undefined && bids.length === 1 && bid)
    return { quantity: bid.volume ?? '1', unitPrice: bid.value };
  throw new DataError(
    'it has no quantity and unit price: name both columns in the flow (quantity_column, unit_price_column)',
  );
}
