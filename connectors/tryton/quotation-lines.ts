/** A bid as a line of a quotation, told apart by the purchase request that it answers. */
import { markerOf } from './batch.ts';
import type { HeldQuotation } from './held-quotations.ts';
import { lotName, type WantedLine } from './purchase-lines.ts';
import { dateOf, decimalOf } from './values.ts';

/** A purchase request of Tryton's; its id is known once it is made. */
export interface Request {
  id: number | undefined;
  readonly description: string;
  /** Of one that is to be made. */
  readonly line: WantedLine | undefined;
}

export interface Line {
  readonly wanted: WantedLine;
  readonly request: Request;
}

export interface QuotationLines {
  readonly lines: readonly Line[];
  readonly held: HeldQuotation | undefined;
}

/** Of the request for one lot of an event: the second line stands for both. */
export function requestDescription(event: string, lot: string): string {
  return `${lotName(lot)}\n${markerOf('quotation', event, lot)}`;
}

export function newLine({ wanted, request }: Line, currency: number): Record<string, unknown> {
  return {
    request: request.id,
    quantity: wanted.quantity,
    unit: wanted.unit?.id ?? null,
    unit_price: decimalOf(wanted.unitPrice),
    currency,
    description: wanted.description,
    ...(wanted.date === undefined ? {} : { supply_date: dateOf(wanted.date) }),
  };
}

/** Fields that differ. */
export function lineChanges(
  held: HeldQuotation['lines.'][number],
  wanted: WantedLine,
  currency: number,
): Record<string, unknown> {
  const changes: Record<string, unknown> = {};
  if (held.quantity !== wanted.quantity) changes['quantity'] = wanted.quantity;
  if (held.unit !== (wanted.unit?.id ?? null)) changes['unit'] = wanted.unit?.id ?? null;
  if (held.unit_price !== wanted.unitPrice) changes['unit_price'] = decimalOf(wanted.unitPrice);
  if (held.currency !== currency) changes['currency'] = currency;
  if (held.description !== wanted.description) changes['description'] = wanted.description;
  if (wanted.date !== undefined && held.supply_date !== wanted.date) changes['supply_date'] = dateOf(wanted.date);
  return changes;
}

/** Those of lots that have no bid any more. */
export function goneLines({ held, lines }: QuotationLines): HeldQuotation['lines.'] {
  const wanted = new Set(lines.map(({ request }) => request.id));
  return held ? held['lines.'].filter(({ request }) => !wanted.has(request)) : [];
}

/** The commands that make the lines of the one that Tryton holds what they should be. */
export function changesOf(task: QuotationLines, currency: number): unknown[] {
  const { held } = task;
  const created: unknown[] = [];
  const commands: unknown[] = [];
  for (const line of task.lines) {
    const own = held?.['lines.'].find(({ request }) => request === line.request.id);
    if (!own) {
      created.push(newLine(line, currency));
      continue;
    }
    const changes = lineChanges(own, line.wanted, currency);
    if (Object.keys(changes).length > 0) commands.push(['write', [own.id], changes]);
  }
  const gone = goneLines(task).map((line) => line.id);
  if (created.length > 0) commands.push(['create', created]);
  if (gone.length > 0) commands.push(['delete', gone]);
  return commands;
}
