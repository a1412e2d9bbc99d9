/**
 * The `award` document: what one supplier won in one event. Made of the event and of the awards of its lots as the mirror
 * holds them; the same records always give the same document.
 */
import { z } from 'zod';
import type { AwardDocument, AwardLine } from '#connector/documents.ts';
import { awardEntry, lotAward } from '#contract/award.ts';
import { amountIn, bidSheetForm, bidSheetRow, type LineColumns, quantityIn } from './bid-sheet-row.ts';
import { idOf, pairKey, saysWhoWon } from './document-keys.ts';
import { type EventInFlow, eventHead, exchangeRates, ownSupplier } from './event-parts.ts';
import { exactDecimal, sumOf } from './exact-decimal.ts';
import { type MadeDocument, making, type NotMade, readRecord, rejected } from './made-document.ts';
import type { MirroredRecord } from './shown-records.ts';
import { compareText } from './text-order.ts';

/** `awards` are records as the source sent them, in any order; `supplier` is the supplier as a page included it. */
export function makeAwardDocument(input: {
  eventId: string;
  supplierId: string;
  event: EventInFlow | NotMade;
  supplier: unknown;
  awards: readonly MirroredRecord[];
  columns: LineColumns;
}): MadeDocument<AwardDocument> {
  const { eventId, supplierId, event, columns } = input;
  if ('made' in event) return event;
  return making(() => {
    // A deleted event awards nothing any more, whether or not its awards are still shown.
    const lines = (event.wanted ? input.awards : [])
      .filter(({ gone }) => !gone)
      .map(({ record }) => readRecord(awardForm, record, "an award's record"))
      // A lot's name is unique, but nothing here depends on the source keeping to that.
      .sort((a, b) => compareText(a.lot_name, b.lot_name) || compareText(a.id, b.id))
      .flatMap((award) => linesOf(award, supplierId, columns, event));
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

/**
 * A lot's award as each of its winners sees it: with its own share only. Entries that name no supplier are left out; those
 * that are wrong otherwise are for the one they name. Undefined where `awards` is there and no list: that says nothing of
 * who won, and is no reason to take an award back.
 */
export function splitAward(
  record: Readonly<Record<string, unknown>>,
): { supplier: string; record: unknown }[] | undefined {
  const { awards } = record;
  if (!saysWhoWon(awards)) return undefined;
  if (!Array.isArray(awards)) return [];
  const bySupplier = Map.groupBy(awards as unknown[], (entry) =>
    typeof entry === 'object' && entry !== null ? idOf((entry as { supplier?: unknown }).supplier) : undefined,
  );
  return [...bySupplier].flatMap(([supplier, own]) =>
    supplier === undefined ? [] : [{ supplier, record: { ...record, awards: own } }],
  );
}

/** What is empty may be left out, and so may the time, which says nothing here. */
const awardForm = lotAward.omit({ modified: true }).extend({
  awards: z.array(awardEntry.extend({ bid_sheet_values: bidSheetForm })),
});

function linesOf(
  award: z.output<typeof awardForm>,
  supplierId: string,
  columns: LineColumns,
  event: EventInFlow,
): AwardLine[] {
  const lines = award.awards
    .filter((entry) => entry.supplier === supplierId)
    .map((entry) => {
      const lot = award.lot_name;
      const quantity = quantityIn(lot, entry.bid_sheet_values, columns.quantity);
      const unitPrice = amountIn(lot, entry.bid_sheet_values, columns.unitPrice, event);
      return {
        lot,
        ...(award.scenario_name === undefined ? {} : { scenario: award.scenario_name }),
        ...(award.sourcing_request === undefined ? {} : { sourcing_request: award.sourcing_request }),
        share: entry.share_awarded,
        ...(quantity ? { quantity: quantity.times(shareOf(lot, entry.share_awarded)).toFixed() } : {}),
        ...(unitPrice ? { unit_price: unitPrice.toFixed() } : {}),
        cost: entry.cost,
        ...(entry.historic_cost === undefined ? {} : { historic_cost: entry.historic_cost }),
        ...(entry.savings === undefined ? {} : { savings: entry.savings }),
        values: bidSheetRow(entry.bid_sheet_values),
      };
    });
  // One supplier stands once in a lot; where it does not, its entries have an order all the same.
  return lines.length > 1 ? lines.sort((a, b) => compareText(JSON.stringify(a), JSON.stringify(b))) : lines;
}

function costOf({ lot, cost }: AwardLine) {
  return exactDecimal(cost, `lot "${lot}": the cost`) ?? noNumber(lot, 'cost');
}

function shareOf(lot: string, share: string) {
  return exactDecimal(share, `lot "${lot}": the share`) ?? noNumber(lot, 'share');
}

function noNumber(lot: string, what: string): never {
  throw rejected(`lot "${lot}": the ${what} is no number`);
}
