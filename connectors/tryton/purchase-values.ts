/**
 * An award in the values of a purchase's fields: as they are compared with what Tryton holds, and as they are sent. Ids
 * stand for records, null for an empty field; a supplier that is still to be made has no id yet.
 */
import { type AwardDocument, type AwardLine, DataError, type Operation } from 'sourcing-bridge/connector';
import type { HeldLine, HeldRow, Written } from './held-purchases.ts';
import type { WantedLine } from './lots.ts';
import { markerOf } from './markers.ts';
import type { Values } from './merge.ts';
import type { Supplier } from './parties.ts';
import type { ReferenceData } from './reference-data.ts';
import { dateOf, decimalOf, isDate, oneLine, type Value } from './values.ts';

/** What one supplier has won. */
export interface Won {
  readonly operation: Operation<'award'>;
  readonly supplier: Supplier;
  readonly lines: readonly WantedLine<AwardLine>[];
}

/** Throws DataError for what Tryton would not take. */
export function headValues({ operation, supplier }: Won, data: ReferenceData): Values {
  const { document } = operation;
  const { fields = {} } = document;
  const head: Record<string, Value> = {
    party: supplier.id ?? null,
    currency: data.currency(document.currency),
    warehouse: data.warehouse(document),
    reference: fields['reference'] === undefined ? markerOf('award', document.key) : oneLine(fields['reference']),
    description: oneLine(fields['description'] ?? document.event.name),
  };
  for (const name of ['purchase_date', 'delivery_date']) {
    const value = fields[name];
    if (value === undefined) continue;
    if (!isDate(value)) throw new DataError(`The field ${name} is "${value}" and not a date as 2030-12-31.`);
    head[name] = value;
  }
  if (fields['comment'] !== undefined) head['comment'] = fields['comment'];
  return head;
}

export function heldHeadValues(row: HeldRow): Values {
  const { party, currency, warehouse, reference, description, comment, purchase_date, delivery_date } = row;
  return { party, currency, warehouse, reference, description, comment, purchase_date, delivery_date };
}

export function encodedHead(values: Values): Record<string, unknown> {
  return Object.fromEntries(
    Object.entries(values).map(([field, value]) => [
      field,
      field.endsWith('_date') && typeof value === 'string' ? dateOf(value) : value,
    ]),
  );
}

export function lineValues({ product, unit, quantity, unitPrice, description, date: day }: WantedLine): Values {
  return {
    product: product?.id ?? null,
    unit: unit?.id ?? null,
    quantity,
    unit_price: unitPrice,
    description: description === '' ? null : description,
    ...(day === undefined ? {} : { delivery_date: day }),
  };
}

export function heldLineValues(line: HeldLine): Values {
  const { product, unit, quantity, unit_price, description, delivery_date_store } = line;
  return { product, unit, quantity, unit_price, description, delivery_date: delivery_date_store };
}

export function encodedLine(values: Values): Record<string, unknown> {
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

export function newLine({ operation, supplier }: Won, line: WantedLine<AwardLine>): Record<string, unknown> {
  const taxes = line.product?.taxes ?? [];
  return {
    type: 'line',
    ...encodedLine(lineValues(line)),
    note: noteOf(operation.document, line),
    // A supplier's tax rule may replace them, and only Tryton's own form knows how.
    ...(taxes.length === 0 || supplier.hasTaxRule ? {} : { taxes: [['add', taxes]] }),
  };
}

/** What stands in the attachment, for the next comparison. */
export function writtenOf({ operation, lines }: Won, head: Values): Written {
  return {
    content_hash: operation.contentHash,
    head: { ...head },
    lines: Object.fromEntries(lines.map((line) => [line.lot, { ...lineValues(line) }])),
  };
}

/** What a buyer wants to know of the lot; its first line tells the lot's line apart. */
function noteOf({ currency }: AwardDocument, { lot, line }: WantedLine<AwardLine>): string {
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

export function lotInNote(note: string): string | undefined {
  return /^Lot: (.*)$/mu.exec(note)?.[1];
}

/** The new note, with what users have added to the old one. */
export function amendedNote(held: string, document: AwardDocument, line: WantedLine<AwardLine>): string {
  const added = held.split('\n').filter((one) => !noteLine.test(one));
  return [noteOf(document, line), ...added].join('\n');
}
