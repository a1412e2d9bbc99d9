/**
 * How bids change when values are entered: a supplier bids, the buyer edits a bid, or the buyer's own values change. A
 * bid stands with the values and the cost with which it was last complete. Later values of the supplier that cannot be
 * computed are kept as a draft, and the bid that stands does not change. No function changes a bid in place.
 */
import type { BidSheetValue } from '#contract/bid.ts';
import type { Offer } from '#contract/desk.ts';
import type { Cell } from '#contract/sourcing-event.ts';
import { type BidSheet, computeRow, rowLayers } from './bid-sheet.ts';
import type { Bid, Cells, Lot, SourcingEvent } from './sourcing-event.ts';

/** Values of one supplier, entered by the supplier or by the buyer. */
export interface Entries {
  readonly supplierId: string;
  /** By the names of the lots. Offers replace the earlier offers; without offers, the earlier ones stay. */
  readonly lots: ReadonlyMap<string, { readonly values: Cells; readonly offers: readonly Offer[] | undefined }>;
  /** For the whole event: the values entered now, and all values of the supplier including these. */
  readonly global: Cells;
  readonly allGlobal: Cells;
}

export interface EnteredBid {
  readonly lot: Lot;
  readonly bid: Bid;
  /** Why the bid is not complete; undefined when it stands with the entered values. */
  readonly missing: string | undefined;
  /** All values of the row with the entered ones. */
  readonly values: BidSheetValue[];
  /** Whether it is the supplier's first bid for the lot, and nothing is stored of it. */
  readonly isFirst: boolean;
}

interface Sheet {
  readonly event: SourcingEvent;
  readonly sheet: BidSheet;
}

/**
 * A submission of the supplier: the entered values are added to its newest values, complete or not. Computes, one after
 * the other, the bids for the named lots; when a value for the whole event is entered, all bids of the supplier. `newId`
 * makes the id of a first bid.
 */
export function* submitBids(
  { event, sheet }: Sheet,
  before: readonly Bid[],
  entries: Entries,
  newId: () => string,
): Generator<EnteredBid, undefined, undefined> {
  for (const touched of touchedBids(event, before, entries, newId)) yield submitBid({ event, sheet }, touched, entries);
}

/**
 * The buyer's edit: it edits the bid that stands, and the draft if there is one; the draft stays a draft. Where no bid
 * stands, the edit has the effect of a supplier's bid. The caller must refuse an edit whose bids have `missing` values.
 */
export function applyBidEdits(
  { event, sheet }: Sheet,
  before: readonly Bid[],
  entries: Entries,
  newId: () => string,
): EnteredBid[] {
  return touchedBids(event, before, entries, newId).map((touched) => {
    const { lot, bid } = touched;
    if (bid.values === null) return submitBid({ event, sheet }, touched, entries);
    const entered = entries.lots.get(lot.name);
    const values = merged(bid.values, entered?.values, entries.global);
    const offers = entered?.offers ?? bid.offers;
    const row = computeRow(sheet, rowLayers(event, lot, values), offers);
    const { cost, missing } = row;
    const draft = bid.draft && merged(bid.draft, entered?.values, entries.global);
    const edited = cost === undefined ? bid : { ...bid, values, offers, cost, draft };
    return { ...touched, bid: edited, missing, values: row.values };
  });
}

function submitBid({ event, sheet }: Sheet, touched: TouchedBid, entries: Entries): EnteredBid {
  const { lot, bid } = touched;
  const entered = entries.lots.get(lot.name);
  const values = merged(bid.draft ?? bid.values, entered?.values, entries.allGlobal);
  const offers = entered?.offers ?? bid.offers;
  const row = computeRow(sheet, rowLayers(event, lot, values), offers);
  const { cost, missing } = row;
  const submitted =
    cost === undefined ? { ...bid, draft: values } : { ...bid, values, offers, cost, draft: null, withdrawn: false };
  return { ...touched, bid: submitted, missing, values: row.values };
}

type TouchedBid = Pick<EnteredBid, 'lot' | 'bid' | 'isFirst'>;

function touchedBids(
  event: SourcingEvent,
  before: readonly Bid[],
  { supplierId, lots, global }: Entries,
  newId: () => string,
): TouchedBid[] {
  const known = new Map(before.map((bid) => [bid.lotId, bid]));
  const none = { supplierId, values: null, offers: null, cost: null, draft: null, withdrawn: false };
  return event.lots.flatMap((lot) => {
    const bid = known.get(lot.id);
    // A value for the whole event is no bid for a lot that the supplier never bid for, or has withdrawn from.
    const isTouched = lots.has(lot.name) || (global.size > 0 && (bid?.values ?? bid?.draft ?? null) !== null);
    return isTouched ? [{ lot, bid: bid ?? { ...none, id: newId(), lotId: lot.id }, isFirst: !bid }] : [];
  });
}

export interface RecomputedBids {
  /** Bids that stand, with another cost. */
  readonly changed: Bid[];
  /** First bids that lacked only the values that the buyer has entered now: they stand. */
  readonly completed: Bid[];
  /** Bids that stood and can no longer be computed. If there is one, the caller must refuse the buyer's values. */
  readonly broken: { readonly bid: Bid; readonly lot: Lot; readonly missing: string }[];
}

/** Computes the bids of these lots again, with the buyer's current values. */
export function recomputeBids({ event, sheet }: Sheet, lots: ReadonlySet<Lot>, bids: readonly Bid[]): RecomputedBids {
  const byId = new Map([...lots].map((lot) => [lot.id, lot]));
  const recomputed: RecomputedBids = { changed: [], completed: [], broken: [] };
  for (const bid of bids) {
    const lot = byId.get(bid.lotId);
    const values = bid.values ?? bid.draft;
    if (!lot || !values) continue;
    const { cost, missing } = computeRow(sheet, rowLayers(event, lot, values), bid.offers);
    if (bid.values === null) {
      if (cost !== undefined) recomputed.completed.push({ ...bid, values, cost, draft: null, withdrawn: false });
    } else if (cost === undefined) recomputed.broken.push({ bid, lot, missing: missing ?? '' });
    else if (cost !== bid.cost) recomputed.changed.push({ ...bid, cost });
  }
  return recomputed;
}

/** The bid withdrawn: its record says so until the supplier bids again. */
export function withdrawn(bid: Bid): Bid {
  return { ...bid, values: null, offers: null, cost: null, draft: null, withdrawn: true };
}

/** Values by column; a value of a later layer replaces that of an earlier one. */
export function merged(...layers: readonly (Cells | null | undefined)[]): Cells {
  const values = new Map<string, Cell>();
  for (const cells of layers) cells?.forEach((cell, column) => void values.set(column, cell));
  return values;
}
