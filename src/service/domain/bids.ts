/**
 * What becomes of bids when somebody enters something: a supplier bids, the buyer edits, the buyer's own values change.
 * A bid stands with the values and the cost with which it was complete; what a supplier entered since and cannot be
 * computed is kept beside it as a draft, and takes nothing from it. Nothing here changes a bid in place.
 */
import type { Offer } from '#contract/desk.ts';
import { type BidSheet, type ComputedRow, computeRow, rowLayers } from './bid-sheet.ts';
import type { Bid, Cells, Lot, SourcingEvent } from './sourcing-event.ts';

/** Values of one supplier, entered by itself or by the buyer. */
export interface Entries {
  readonly supplierId: string;
  /** By the lots' names. Offers take the place of those before; without any, those stay. */
  readonly lots: ReadonlyMap<string, { readonly values: Cells; readonly offers: readonly Offer[] | undefined }>;
  /** For the whole event: those entered now, and all that the supplier has with them. */
  readonly global: Cells;
  readonly allGlobal: Cells;
}

export interface EnteredBid {
  readonly lot: Lot;
  readonly bid: Bid;
  /** Why it is not complete; undefined when it stands with what was entered. */
  readonly missing: string | undefined;
  /** Of what was entered. */
  readonly row: ComputedRow;
}

interface Sheet {
  readonly event: SourcingEvent;
  readonly sheet: BidSheet;
}

/**
 * A submission of the supplier: what it enters adds to its newest values, complete or not. Gives the bids of the lots it
 * names, and all that it has when a value for the whole event is entered. `newId` is asked for the id of a first bid.
 */
export function submitBids(
  { event, sheet }: Sheet,
  before: readonly Bid[],
  entries: Entries,
  newId: () => string,
): EnteredBid[] {
  return touchedBids(event, before, entries, newId).map(({ lot, bid }) =>
    submitBid({ event, sheet }, lot, bid, entries),
  );
}

/**
 * The buyer's edit: what stands is edited, and a draft beside it, which stays one; where no bid stands, it is as if the
 * supplier had bid. What is `missing` afterwards must be refused.
 */
export function applyBidEdits(
  { event, sheet }: Sheet,
  before: readonly Bid[],
  entries: Entries,
  newId: () => string,
): EnteredBid[] {
  return touchedBids(event, before, entries, newId).map(({ lot, bid }) => {
    if (bid.values === null) return submitBid({ event, sheet }, lot, bid, entries);
    const entered = entries.lots.get(lot.name);
    const values = merged(bid.values, entered?.values, entries.global);
    const offers = entered?.offers ?? bid.offers;
    const row = computeRow(sheet, rowLayers(event, lot, values), offers);
    const { cost, missing } = row;
    const draft = bid.draft && merged(bid.draft, entered?.values, entries.global);
    return { lot, bid: cost === undefined ? bid : { ...bid, values, offers, cost, draft }, missing, row };
  });
}

function submitBid({ event, sheet }: Sheet, lot: Lot, bid: Bid, entries: Entries): EnteredBid {
  const entered = entries.lots.get(lot.name);
  const values = merged(bid.draft ?? bid.values, entered?.values, entries.allGlobal);
  const offers = entered?.offers ?? bid.offers;
  const row = computeRow(sheet, rowLayers(event, lot, values), offers);
  const { cost, missing } = row;
  if (cost === undefined) return { lot, bid: { ...bid, draft: values }, missing, row };
  return { lot, bid: { ...bid, values, offers, cost, draft: null, withdrawn: false }, missing, row };
}

function touchedBids(
  event: SourcingEvent,
  before: readonly Bid[],
  { supplierId, lots, global }: Entries,
  newId: () => string,
): { lot: Lot; bid: Bid }[] {
  const known = new Map(before.map((bid) => [bid.lotId, bid]));
  const none = { supplierId, values: null, offers: null, cost: null, draft: null, withdrawn: false };
  return event.lots.flatMap((lot) => {
    const bid = known.get(lot.id);
    // A value for the whole event is no bid for a lot that the supplier never bid on, or has withdrawn from.
    const isTouched = lots.has(lot.name) || (global.size > 0 && (bid?.values ?? bid?.draft ?? null) !== null);
    return isTouched ? [{ lot, bid: bid ?? { ...none, id: newId(), lotId: lot.id } }] : [];
  });
}

export interface RecomputedBids {
  /** Bids that stand, with another cost. */
  readonly changed: Bid[];
  /** First bids that lacked only what the buyer has given now: they stand. */
  readonly completed: Bid[];
  /** Bids that stand and could not be computed any more: with one of these, the buyer's values must be refused. */
  readonly broken: { readonly bid: Bid; readonly lot: Lot; readonly missing: string }[];
}

/** Computes the bids of these lots anew, with the buyer's values as the event has them now. */
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

/** The rows of those that stand with what was entered, by the bids' ids. */
export function rowsOf(entered: readonly EnteredBid[]): Map<string, ComputedRow> {
  return new Map(entered.flatMap(({ bid, missing, row }) => (missing === undefined ? [[bid.id, row]] : [])));
}

/** The bid taken back: its record says so until it is made again. */
export function withdrawn(bid: Bid): Bid {
  return { ...bid, values: null, offers: null, cost: null, draft: null, withdrawn: true };
}

/** Values by column, later ones in place of earlier ones. */
export function merged(...layers: readonly (Cells | null | undefined)[]): Cells {
  return new Map(layers.flatMap((cells) => [...(cells ?? [])]));
}
