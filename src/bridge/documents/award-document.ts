/**
 * The `award` document: what one supplier won in one event. Made of the event's record and of the awards of its lots as
 * the mirror holds them; the same records always give the same document.
 */
import type { AwardDocument, AwardLine } from '#connector/documents.ts';
import { type LotAward, lotAward } from '#contract/award.ts';
import { Decimal, parseDecimal } from '#contract/decimal.ts';
import { type SourcingEventRecord, sourcingEventRecord } from '#contract/sourcing-event.ts';
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

/** `event` and `awards` are records as the source sent them. */
export function makeAwardDocument(input: {
  eventId: string;
  supplierId: string;
  event: unknown;
  awards: readonly unknown[];
  columns: AwardColumns;
}): MadeDocument<AwardDocument> {
  if (input.event === undefined)
    return { made: 'not-yet', reason: 'the record of its sourcing event has not been read yet' };
  const event = sourcingEventRecord.safeParse(input.event);
  if (!event.success) return { made: 'rejected', reason: `the sourcing event's record: ${firstIssue(event.error)}` };
  const supplier = event.data.suppliers.find(({ id }) => id === input.supplierId);
  const lines: AwardLine[] = [];
  for (const record of input.awards) {
    const award = lotAward.safeParse(record);
    if (!award.success) return { made: 'rejected', reason: `an award's record: ${firstIssue(award.error)}` };
    lines.push(...linesOf(award.data, input.supplierId, input.columns));
  }
  if (!supplier && lines.length > 0)
    return { made: 'not-yet', reason: 'the record of its sourcing event does not name the supplier yet' };
  lines.sort((a, b) => (a.lot < b.lot ? -1 : 1));
  const total = lines.reduce((sum: Decimal, line) => sum.plus(line.cost), new Decimal(0));
  return {
    made: 'document',
    document: {
      kind: 'award',
      key: awardKey(input.eventId, input.supplierId),
      event: eventOf(event.data),
      supplier: {
        id: input.supplierId,
        ...(supplier?.external_id === undefined ? {} : { external_id: supplier.external_id }),
        name: supplier?.name ?? '',
      },
      currency: event.data.primary_currency,
      total_cost: total.toFixed(),
      lines,
    },
  };
}

function eventOf(event: SourcingEventRecord): AwardDocument['event'] {
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
      const cell = (column: string | undefined) =>
        column === undefined ? undefined : entry.bid_sheet_values.find((value) => value.column_name === column)?.value;
      const quantity = asDecimal(cell(columns.quantity));
      const unitPrice = asDecimal(cell(columns.unitPrice));
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

function asDecimal(text: string | undefined): Decimal | undefined {
  return text === undefined ? undefined : parseDecimal(text);
}

function firstIssue(error: { issues: readonly { path: readonly PropertyKey[]; message: string }[] }): string {
  const [issue] = error.issues;
  return `${issue?.path.map(String).join('.') ?? ''} ${issue?.message ?? ''}`.trim();
}
