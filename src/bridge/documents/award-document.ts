/**
 * The `award` document: what one supplier won in one event. Made of the event's record and of the awards of its lots as
 * the mirror holds them; the same records always give the same document.
 */
import type { z } from 'zod';
import type { AwardDocument, AwardLine } from '#connector/documents.ts';
import { type LotAward, lotAward } from '#contract/award.ts';
import { Decimal, parseDecimal } from '#contract/decimal.ts';
import { type SourcingEventEssentials, sourcingEventEssentials } from '#contract/sourcing-event.ts';
import { awardKey } from './document-keys.ts';

/** Which bid sheet columns a flow reads quantity and price from. */
export interface AwardColumns {
  readonly quantity: string | undefined;
  readonly unitPrice: string | undefined;
}

export type MadeDocument<Document> =
  | { made: 'document'; document: Document }
  /** Something that it is made of has not been read yet. */
  | { made: 'not-yet'; reason: string }
  /** A record cannot be understood. */
  | { made: 'rejected'; reason: string };

/** The contract's decimals round to 34 digits; sums and products of what a source sends keep all of theirs. */
const Exact = Decimal.clone({ precision: 1e9, maxE: 9e15, minE: -9e15 });

class Rejected extends Error {}

/** `event` and `awards` are records as the source sent them, in any order. */
export function makeAwardDocument(input: {
  eventId: string;
  supplierId: string;
  event: unknown;
  awards: readonly unknown[];
  columns: AwardColumns;
}): MadeDocument<AwardDocument> {
  if (input.event === undefined)
    return { made: 'not-yet', reason: 'the record of its sourcing event has not been read yet' };
  try {
    return makeOf(input, readRecord(sourcingEventEssentials, input.event, "the sourcing event's record"));
  } catch (error) {
    if (error instanceof Rejected) return { made: 'rejected', reason: error.message };
    throw error;
  }
}

function makeOf(
  input: Parameters<typeof makeAwardDocument>[0],
  event: SourcingEventEssentials,
): MadeDocument<AwardDocument> {
  const { eventId, supplierId, columns } = input;
  const supplier = event.suppliers.find(({ id }) => id === supplierId);
  // A deleted event awards nothing any more, whether or not its awards are still shown.
  const awards = event.status === 'DELETED' ? [] : input.awards;
  const lines = awards
    .map((record) => readRecord(lotAward, record, "an award's record"))
    // A lot's name is unique, but nothing here depends on the source keeping to that.
    .sort((a, b) => compare(a.lot_name, b.lot_name) || compare(a.id, b.id))
    .flatMap((award) => linesOf(award, supplierId, columns));
  if (!supplier && lines.length > 0)
    return { made: 'not-yet', reason: 'the record of its sourcing event does not name the supplier yet' };
  return {
    made: 'document',
    document: {
      kind: 'award',
      key: awardKey(eventId, supplierId),
      event: eventOf(event),
      supplier: {
        id: supplierId,
        ...(supplier?.external_id === undefined ? {} : { external_id: supplier.external_id }),
        name: supplier?.name ?? '',
      },
      currency: event.primary_currency,
      total_cost: lines.reduce((sum, { cost }) => sum.plus(cost), new Exact(0)).toFixed(),
      lines,
    },
  };
}

function readRecord<Schema extends z.ZodType>(schema: Schema, record: unknown, what: string): z.output<Schema> {
  const read = schema.safeParse(record);
  if (read.success) return read.data;
  const [issue] = read.error.issues;
  throw new Rejected(`${what}: ${issue?.path.map(String).join('.') ?? ''} ${issue?.message ?? ''}`.trim());
}

/** By code units: the same on every machine, whatever its language. */
function compare(a: string, b: string): number {
  return a < b ? -1 : a > b ? 1 : 0;
}

function eventOf(event: SourcingEventEssentials): AwardDocument['event'] {
  return {
    id: event.id,
    name: event.name,
    ...(event.reference_id === undefined ? {} : { reference_id: event.reference_id }),
    is_test: event.is_test ?? false,
    tags: event.tags.map(({ name, value }) => ({ name, value })),
  };
}

function linesOf(award: LotAward, supplierId: string, columns: AwardColumns): AwardLine[] {
  return award.awards
    .filter((entry) => entry.supplier === supplierId)
    .map((entry) => {
      const quantity = numberIn(award.lot_name, entry, columns.quantity);
      const unitPrice = numberIn(award.lot_name, entry, columns.unitPrice);
      return {
        lot: award.lot_name,
        ...(award.scenario_name === undefined ? {} : { scenario: award.scenario_name }),
        share: entry.share_awarded,
        ...(quantity ? { quantity: quantity.times(entry.share_awarded).toFixed() } : {}),
        ...(unitPrice ? { unit_price: unitPrice.toFixed() } : {}),
        cost: entry.cost,
        ...(entry.historic_cost === undefined ? {} : { historic_cost: entry.historic_cost }),
        ...(entry.savings === undefined ? {} : { savings: entry.savings }),
        values: entry.bid_sheet_values.map(({ column_name: column, value, currency }) => ({
          column,
          value,
          ...(currency === undefined ? {} : { currency }),
        })),
      };
    });
}

/**
 * The number that the lot's bid sheet has in this column; undefined where it has no such column or an empty cell. A cell
 * that holds something else is not left out: an order without its quantity would look complete.
 */
function numberIn(lot: string, entry: LotAward['awards'][number], column: string | undefined): Decimal | undefined {
  const text = entry.bid_sheet_values.find((value) => value.column_name === column)?.value.trim() ?? '';
  if (column === undefined || text === '') return undefined;
  const read = parseDecimal(text);
  if (read === undefined) throw new Rejected(`lot "${lot}": the column "${column}" holds no number`);
  return new Exact(read);
}
