/**
 * Translates an award into the field values of a purchase: in the form in which they are compared with Tryton's values,
 * and in the form in which they are sent. A record is its id, an empty field is null. A supplier that is still to be
 * created has no id yet.
 */
import { type AwardDocument, type AwardLine, DataError, type Operation } from 'sourcing-bridge/connector';
import type { LastWritten, PurchaseLine, PurchaseRow } from './held-purchases.ts';
import type { WantedLine } from './lots.ts';
import { markerOf } from './markers.ts';
import type { FieldValues } from './merge.ts';
import type { Supplier } from './parties.ts';
import type { ReferenceData } from './reference-data.ts';
import { dateOf, decimalOf, type FieldValue, isDate, oneLine } from './values.ts';

/** An award with its supplier and lots as Tryton has them. */
export interface SupplierAward {
  readonly operation: Operation<'award'>;
  readonly supplier: Supplier;
  readonly lines: readonly WantedLine<AwardLine>[];
}

/** The purchase's own fields. Throws DataError for a value that Tryton would refuse. */
export function headValues({ operation, supplier }: SupplierAward, data: ReferenceData): FieldValues {
  const { document } = operation;
  const { fields = {} } = document;
  const head: Record<string, FieldValue> = {
    party: supplier.id ?? null,
    currency: data.currency(document.currency),
    warehouse: data.warehouse(document),
    reference: fields['reference'] === undefined ? markerOf('award', document.key) : oneLine(fields['reference']),
    description: oneLine(fields['description'] ?? document.event.name),
  };
  for (const name of ['purchase_date', 'delivery_date']) {
    const value = fields[name];
    if (value === undefined) continue;
    if (!isDate(value)) throw new DataError(`The field ${name} is "${value}" and not a date such as 2030-12-31.`);
    head[name] = value;
  }
  if (fields['comment'] !== undefined) head['comment'] = fields['comment'];
  return head;
}

/** The same fields as `headValues`, as Tryton holds them. */
export function heldHeadValues(row: PurchaseRow): FieldValues {
  const { party, currency, warehouse, reference, description, comment, purchase_date, delivery_date } = row;
  return { party, currency, warehouse, reference, description, comment, purchase_date, delivery_date };
}

/** Values from `headValues` in the form in which they are sent. */
export function encodedHead(values: FieldValues): Record<string, unknown> {
  return Object.fromEntries(
    Object.entries(values).map(([field, value]) => [
      field,
      field.endsWith('_date') && typeof value === 'string' ? dateOf(value) : value,
    ]),
  );
}

/** The fields of a lot's line. */
export function lineValues({ product, unit, quantity, unitPrice, description, date }: WantedLine): FieldValues {
  return {
    product: product?.id ?? null,
    unit: unit?.id ?? null,
    quantity,
    unit_price: unitPrice,
    description: description === '' ? null : description,
    ...(date === undefined ? {} : { delivery_date: date }),
  };
}

/** The same fields as `lineValues`, as Tryton holds them. */
export function heldLineValues(line: PurchaseLine): FieldValues {
  const { product, unit, quantity, unit_price, description, delivery_date_store } = line;
  return { product, unit, quantity, unit_price, description, delivery_date: delivery_date_store };
}

/** Values from `lineValues` in the form in which they are sent. */
export function encodedLine(values: FieldValues): Record<string, unknown> {
  return Object.fromEntries(
    Object.entries(values).flatMap(([field, value]): [string, unknown][] => {
      if (field === 'unit_price') return [[field, decimalOf(String(value))]];
      if (field !== 'delivery_date') return [[field, value]];
      return [
        ['delivery_date_edit', true],
        ['delivery_date_store', dateOf(String(value))],
      ];
    }),
  );
}

/** A new line in the form in which it is sent. */
export function newPurchaseLine(
  { operation, supplier }: SupplierAward,
  line: WantedLine<AwardLine>,
): Record<string, unknown> {
  const taxes = line.product?.taxes ?? [];
  return {
    type: 'line',
    ...encodedLine(lineValues(line)),
    note: noteOf(operation.document, line),
    // If the supplier has a tax rule, the rule may replace the taxes. Only Tryton's own form can apply it.
    ...(taxes.length === 0 || supplier.hasTaxRule ? {} : { taxes: [['add', taxes]] }),
  };
}

/** What the attachment records, for the next comparison. */
export function lastWrittenOf({ operation, lines }: SupplierAward, head: FieldValues): LastWritten {
  return {
    content_hash: operation.contentHash,
    head: { ...head },
    lines: Object.fromEntries(lines.map((line) => [line.lot, { ...lineValues(line) }])),
  };
}

/** The note of a lot's line, for the buyer. By its first line, the connector recognises the lot. */
export function noteOf({ currency }: AwardDocument, { lot, line }: WantedLine<AwardLine>): string {
  const { share, cost, historic_cost, savings } = line;
  return [
    `Lot: ${lot}`,
    `Share: ${share}`,
    `Cost: ${cost} ${currency}`,
    ...(historic_cost === undefined ? [] : [`Historic cost: ${historic_cost} ${currency}`]),
    ...(savings === undefined ? [] : [`Savings: ${savings} ${currency}`]),
  ].join('\n');
}

const noteLine = /^(Lot|Share|Cost|Historic cost|Savings): /u;

/** The lot that the note names; undefined if users have removed that line. */
export function lotInNote(note: string): string | undefined {
  return /^Lot: (.*)$/mu.exec(note)?.[1];
}

/** The lines of a note that the bridge has written, without those that users have added. */
export function ownNote(held: string): string {
  return held
    .split('\n')
    .filter((line) => noteLine.test(line))
    .join('\n');
}

/** The new note, followed by the lines that users have added to the old one. */
export function amendedNote(held: string, document: AwardDocument, line: WantedLine<AwardLine>): string {
  const added = held.split('\n').filter((text) => !noteLine.test(text));
  return [noteOf(document, line), ...added].join('\n');
}
