/**
 * The `event-awards` document: all awards of an event in one. It is made while the event is closed and all its awards are
 * known (`awards-complete.ts`). While the event is open again, it stays as it is.
 */
import type { EventAwardsDocument, EventAwardsLine } from '#connector/documents.ts';
import {
  type AwardLineOptions,
  awardLines,
  costOf,
  type LotAward,
  type RequisitionOf,
  readAwards,
  sharesOf,
} from './award-document.ts';
import { type Arrival, type AwardsHeld, missingAwards } from './awards-complete.ts';
import { bidSheetCsv } from './bid-sheet-csv.ts';
import type { LineColumns } from './bid-sheet-row.ts';
import { plainKey } from './document-keys.ts';
import { type EventInFlow, eventHead, exchangeRates, ownSupplier } from './event-parts.ts';
import { sumOf } from './exact-decimal.ts';
import { type MadeDocument, making, type NotMade } from './made-document.ts';
import { compareText } from './text-order.ts';

interface EventAwardsInput {
  eventId: string;
  event: EventInFlow | NotMade;
  /** When the event's record came; undefined while it has not been read. */
  arrival: Arrival | undefined;
  held: AwardsHeld;
  /** Returns a supplier as a page included it. */
  includedSupplierOf: (id: string) => unknown;
  columns: LineColumns;
  quantityDecimals?: number | undefined;
  requisitionOf?: RequisitionOf;
}

/** Makes the document. Never throws for any content of the records. */
export function makeEventAwardsDocument(input: EventAwardsInput): MadeDocument<EventAwardsDocument> {
  const { event, arrival } = input;
  if ('made' in event) return event;
  // An event that the flow does not want, or that is deleted, awards nothing any more, whatever its status is.
  if (!event.wanted) return { made: 'document', wanted: false, document: documentOf(input, event, []) };
  if (!event.isRecord || arrival === undefined)
    return { made: 'not-yet', reason: 'the record of the sourcing event has not been read yet' };
  const { status } = event.event;
  if (status !== 'CLOSED')
    return { made: 'held', reason: `its sourcing event is ${status}: it is made when the event is closed` };
  return making(() => {
    const awards = readAwards(input.held.awards);
    const awardedLots = awards.filter(isAwarded).length;
    const missing = missingAwards(input.held, { record: event.event, arrival, awardedLots });
    if (missing !== undefined) return { made: 'not-yet', reason: missing };
    const lines = awards.flatMap((award) => linesOf(award, { ...input, event }));
    return { made: 'document', wanted: lines.length > 0, document: documentOf(input, event, lines) };
  });
}

/** A share of zero is no award. */
function isAwarded(award: LotAward): boolean {
  return sharesOf(award).some(({ share }) => !share.isZero());
}

function documentOf(
  { eventId }: EventAwardsInput,
  event: EventInFlow,
  lines: readonly EventAwardsLine[],
): EventAwardsDocument {
  return {
    kind: 'event-awards',
    key: plainKey(eventId),
    event: eventHead(event, eventId),
    currency: event.event.primary_currency,
    exchange_rates: exchangeRates(event),
    total_cost: sumOf(lines.map(costOf)).toFixed(),
    suppliers: suppliersOf(lines),
    lines: [...lines],
    bid_sheet_csv: lines.length === 0 ? '' : bidSheetCsv(event, lines),
  };
}

function linesOf(
  award: LotAward,
  given: AwardLineOptions & Pick<EventAwardsInput, 'includedSupplierOf'>,
): EventAwardsLine[] {
  const winners = [...new Set(award.awards.map(({ supplier }) => supplier))].sort(compareText);
  return winners.flatMap((supplierId) => {
    const supplier = ownSupplier(given.event, supplierId, given.includedSupplierOf(supplierId), true);
    return awardLines(award, { ...given, supplierId }).map(({ lot, ...line }) => ({ lot, supplier, ...line }));
  });
}

function suppliersOf(lines: readonly EventAwardsLine[]): EventAwardsDocument['suppliers'] {
  return [...Map.groupBy(lines, ({ supplier }) => supplier.id).values()]
    .flatMap((own) =>
      own.slice(0, 1).map(({ supplier }) => ({ ...supplier, total_cost: sumOf(own.map(costOf)).toFixed() })),
    )
    .sort((a, b) => compareText(a.id, b.id));
}
