/**
 * The `award` document: what one supplier won in one event. Made of the event and of the awards of its lots as the
 * mirror holds them; the same records always give the same document.
 */
import { z } from 'zod';
import type { AwardDocument, AwardLine } from '#connector/documents.ts';
import { awardEntry, lotAward } from '#contract/award.ts';
import { bidSheetForm, bidSheetRow, type LineColumns, lineAmounts } from './bid-sheet-row.ts';
import { pairKey } from './document-keys.ts';
import { type EventInFlow, eventHead, exchangeRates, ownSupplier } from './event-parts.ts';
import { exactDecimal, sumOf } from './exact-decimal.ts';
import { type MadeDocument, making, type NotMade, readRecord, rejected } from './made-document.ts';
import { partOfQuantity } from './part-of-quantity.ts';
import type { MirroredRecord } from './shown-records.ts';
import { compareText } from './text-order.ts';

/**
 * Makes an award. `awards` are records as the source sent them, in any order; `supplier` is the supplier as a page
 * included it. Never throws for any content of the records.
 */
export function makeAwardDocument(input: {
  eventId: string;
  supplierId: string;
  event: EventInFlow | NotMade;
  supplier: unknown;
  awards: readonly MirroredRecord[];
  columns: LineColumns;
  /** How many decimals of a quantity the ERP keeps; undefined: parts are exact. */
  quantityDecimals?: number | undefined;
  requisitionOf?: RequisitionOf;
}): MadeDocument<AwardDocument> {
  const { eventId, supplierId, event } = input;
  if ('made' in event) return event;
  return making(() => {
    // A deleted event awards nothing any more, even while the source still shows its awards.
    const lines = readAwards(event.wanted ? input.awards : []).flatMap((award) =>
      awardLines(award, { ...input, event }),
    );
    const wanted = lines.length > 0;
    const supplier = ownSupplier(event, supplierId, input.supplier, wanted);
    return {
      made: 'document',
      wanted,
      document: {
        kind: 'award',
        key: pairKey(eventId, supplierId),
        event: eventHead(event, eventId),
        supplier,
        currency: event.event.primary_currency,
        exchange_rates: exchangeRates(event),
        total_cost: sumOf(lines.map(costOf)).toFixed(),
        lines,
      },
    };
  });
}

/** Returns what a lot was made of, if an intake has made its event or its request. */
export type RequisitionOf = (
  eventId: string,
  lot: string,
  sourcingRequest: string | undefined,
) => AwardLine['requisition'];

/**
 * Reads the awards that are not gone, by lot. Throws `Unmade`, rejected, for a record that cannot be read.
 */
export function readAwards(awards: readonly MirroredRecord[]): LotAward[] {
  return (
    awards
      .filter(({ gone }) => !gone)
      .map(({ record }) => readRecord(awardForm, record, "an award's record"))
      // Lot names are unique, but the order must be fixed even if the source breaks that rule.
      .sort((a, b) => compareText(a.lot_name, b.lot_name) || compareText(a.id, b.id))
  );
}

/** Empty lists may be left out, and so may `modified`, which the document does not show. */
const awardForm = lotAward.omit({ modified: true }).extend({
  awards: z.array(awardEntry.extend({ bid_sheet_values: bidSheetForm })),
});

/** A lot's award as its record says it. */
export type LotAward = z.output<typeof awardForm>;

/** How the lines of an event's awards are made. */
export interface AwardLineOptions {
  readonly eventId: string;
  readonly columns: LineColumns;
  readonly quantityDecimals?: number | undefined;
  readonly event: EventInFlow;
  readonly requisitionOf?: RequisitionOf;
}

/** Returns what the supplier won of a lot: one line, or none. Throws `Unmade`, rejected. */
export function awardLines(award: LotAward, given: AwardLineOptions & { readonly supplierId: string }): AwardLine[] {
  const { eventId, supplierId, columns, event, quantityDecimals } = given;
  const requisition = given.requisitionOf?.(eventId, award.lot_name, award.sourcing_request);
  const lot = award.lot_name;
  const shares = sharesOf(award);
  const lines = award.awards
    .filter((entry) => entry.supplier === supplierId)
    .map((entry) => {
      const { quantity, unitPrice } = lineAmounts(lot, entry.bid_sheet_values, columns, event);
      return {
        lot,
        ...(award.scenario_name === undefined ? {} : { scenario: award.scenario_name }),
        ...(award.sourcing_request === undefined ? {} : { sourcing_request: award.sourcing_request }),
        ...(requisition === undefined ? {} : { requisition }),
        share: entry.share_awarded,
        ...(quantity ? { quantity: partOfQuantity(lot, quantity, shares, entry, quantityDecimals) } : {}),
        ...(unitPrice ? { unit_price: unitPrice.toFixed() } : {}),
        cost: entry.cost,
        ...(entry.historic_cost === undefined ? {} : { historic_cost: entry.historic_cost }),
        ...(entry.savings === undefined ? {} : { savings: entry.savings }),
        values: bidSheetRow(entry.bid_sheet_values),
      };
    });
  // A supplier has one entry in a lot; if it has several, their order must be fixed, too.
  return lines.length > 1 ? lines.sort((a, b) => compareText(JSON.stringify(a), JSON.stringify(b))) : lines;
}

/** The cost of a line as a number. Throws `Unmade`, rejected, for one that is none. */
export function costOf({ lot, cost }: Pick<AwardLine, 'lot' | 'cost'>) {
  return exactDecimal(cost, `lot "${lot}": the cost`) ?? noNumber(lot, 'cost');
}

/** The shares of a lot that all suppliers have, in an order that the source cannot change. */
export function sharesOf({ lot_name: lot, awards }: LotAward) {
  const order = ({ supplier, cost }: (typeof awards)[number]) => `${supplier} ${cost}`;
  return awards
    .toSorted((a, b) => compareText(order(a), order(b)))
    .map((entry) => ({
      entry,
      share: exactDecimal(entry.share_awarded, `lot "${lot}": the share`) ?? noNumber(lot, 'share'),
    }));
}

function noNumber(lot: string, what: string): never {
  throw rejected(`lot "${lot}": the ${what} is no number`);
}
