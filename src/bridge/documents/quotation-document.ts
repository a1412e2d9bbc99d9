/**
 * The `quotation` document: what one supplier bids in one event. Made of the event and of its latest bids as the mirror
 * holds them; the same records always give the same document.
 */
import type { z } from 'zod';
import type { QuotationDocument, QuotationLine } from '#connector/documents.ts';
import { supplierLotBid } from '#contract/bid.ts';
import { bidSheetForm, bidSheetRow, type LineColumns, lineAmounts } from './bid-sheet-row.ts';
import { pairKey } from './document-keys.ts';
import { type EventInFlow, eventHead, exchangeRates, ownSupplier } from './event-parts.ts';
import { type MadeDocument, making, type NotMade, readRecord } from './made-document.ts';
import { type MirroredRecord, shownRecords } from './shown-records.ts';
import { compareText } from './text-order.ts';

/**
 * Makes a quotation. `bids` are all records of this supplier in this event, in any order; `supplier` is the supplier as
 * a page included it. Never throws for any content of the records.
 */
export function makeQuotationDocument(input: {
  eventId: string;
  supplierId: string;
  event: EventInFlow | NotMade;
  supplier: unknown;
  bids: readonly MirroredRecord[];
  columns: LineColumns;
}): MadeDocument<QuotationDocument> {
  const { eventId, supplierId, event, columns } = input;
  if ('made' in event) return event;
  return making(() => {
    const lines = shownRecords(event, input.bids)
      .map((record) => readRecord(bidForm, record, "a bid's record"))
      .filter((bid) => bid.supplier === supplierId && !isWithdrawn(bid))
      .sort((a, b) => compareText(a.lot_name, b.lot_name) || compareText(a.id, b.id))
      .map((bid) => lineOf(bid, columns, event));
    const wanted = lines.length > 0;
    const supplier = ownSupplier(event, supplierId, input.supplier, wanted);
    return {
      made: 'document',
      wanted,
      document: {
        kind: 'quotation',
        key: pairKey(eventId, supplierId),
        event: eventHead(event, eventId),
        supplier,
        currency: event.event.primary_currency,
        exchange_rates: exchangeRates(event),
        lines,
      },
    };
  });
}

/** Empty lists may be left out, and so may `modified`, which the document does not show. */
const bidForm = supplierLotBid.omit({ modified: true }).extend({
  bids: supplierLotBid.shape.bids.default([]),
  bid_sheet_values: bidSheetForm,
});
type Bid = z.output<typeof bidForm>;

/** Whether the supplier took the bid back after a reopening. */
function isWithdrawn(bid: Bid): boolean {
  return bid.bids.length === 0 && bid.bid_sheet_values.length === 0;
}

function lineOf(bid: Bid, columns: LineColumns, event: EventInFlow): QuotationLine {
  const { quantity, unitPrice } = lineAmounts(bid.lot_name, bid.bid_sheet_values, columns, event);
  return {
    lot: bid.lot_name,
    ...(bid.sourcing_request === undefined ? {} : { sourcing_request: bid.sourcing_request }),
    ...(quantity ? { quantity: quantity.toFixed() } : {}),
    ...(unitPrice ? { unit_price: unitPrice.toFixed() } : {}),
    bids: bid.bids.map(({ value, volume }) => ({ value, ...(volume === undefined ? {} : { volume }) })),
    values: bidSheetRow(bid.bid_sheet_values),
  };
}
