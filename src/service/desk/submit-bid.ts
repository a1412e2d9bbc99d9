import { randomUUID } from 'node:crypto';
import { type SubmitBid, submitBidRequest } from '#contract/desk.ts';
import type { Cell } from '#contract/sourcing-event.ts';
import type { Clock } from '#platform/clock.ts';
import { AppError, type Issue } from '#platform/errors.ts';
import { pathText } from '#platform/input.ts';
import { type BidSheet, cellIssue, compileBidSheet, computeRow } from '../domain/bid-sheet.ts';
import { bidRecords, rowLayers } from '../domain/feed-records.ts';
import type { Bid, Cells, Invitation, Lot, SourcingEvent } from '../domain/sourcing-event.ts';
import { announce } from '../events/announce.ts';
import { cellsJson, loadBids } from '../events/event-store.ts';
import type { UnitOfWork } from '../unit-of-work.ts';
import { deskCommand } from './command.ts';

/**
 * POST bids: one submission of one supplier. Values add to those that the supplier gave before. A lot whose cost cannot
 * be computed yet is kept as a draft beside the bid that stands, and named in `incomplete`.
 */
export function submitBid({ clock }: { clock: Clock }) {
  return deskCommand({
    command: 'bid',
    method: 'POST',
    path: '/bids',
    body: submitBidRequest,
    clock,
    run: async ({ event, body, unit, now }) => {
      const invited = event.invitations.find((invitation) => invitation.externalId === body.supplier);
      if (!invited) throw new AppError('conflict', `Supplier "${body.supplier}" is not invited to this event.`);
      const sheet = compileBidSheet(event);
      checkValues(event, sheet, body);
      const globalValues = merged(invited.globalValues, new Map(Object.entries(body.global)));
      const before = new Map((await loadBids(unit.tx, event.id, invited.supplierId)).map((bid) => [bid.lotId, bid]));
      const { bids, incomplete } = computeBids(event, sheet, { ...invited, globalValues }, before, body);
      await saveBids(unit, event, bids, now);
      const complete = bids.length - incomplete.length;
      await unit.tx.query(
        `update service.invitations set accepted = true, participated = participated or $3, last_accessed = $4,
           global_values = $5, last_successful_bid = case when $3 then $4 else last_successful_bid end,
           last_failed_bid = case when $6 then $4 else last_failed_bid end
         where event_id = $1 and supplier_id = $2`,
        [event.id, invited.supplierId, complete > 0, now, cellsJson(globalValues), incomplete.length > 0],
      );
      const records = { 'latest-bids': bidRecords(event, sheet, bids) };
      await announce(unit, { happening: 'bid-submitted', event, now, records });
      return { status: 200, body: { supplier: body.supplier, complete, incomplete } };
    },
  });
}

/** Throws `invalid` naming every lot and column that the submission gets wrong. */
function checkValues(event: SourcingEvent, sheet: BidSheet, body: SubmitBid): void {
  const lotNames = new Set(event.lots.map((lot) => lot.name));
  const issues: Issue[] = [];
  const seen = new Set<string>();
  const check = (values: Record<string, Cell>, path: (string | number)[], scope: 'LOT' | 'EVENT') => {
    for (const [column, cell] of Object.entries(values)) {
      const message = cellIssue(sheet, column, cell, 'SUPPLIER_INPUT', scope);
      if (message) issues.push({ path: pathText([...path, column]), message });
    }
  };
  for (const [index, { lot, values }] of body.lots.entries()) {
    if (!lotNames.has(lot)) issues.push({ path: `lots[${index}].lot`, message: `there is no lot "${lot}"` });
    if (seen.has(lot)) issues.push({ path: `lots[${index}].lot`, message: `the lot "${lot}" stands twice` });
    seen.add(lot);
    check(values, ['lots', index, 'values'], 'LOT');
  }
  check(body.global, ['global'], 'EVENT');
  if (issues[0])
    throw new AppError('invalid', `The bid is not valid: ${issues[0].path}: ${issues[0].message}.`, { issues });
}

/** The supplier's bids after the submission: those of the lots it names, and all of them when a global value changed. */
function computeBids(
  event: SourcingEvent,
  sheet: BidSheet,
  invitation: Invitation,
  before: ReadonlyMap<string, Bid>,
  body: SubmitBid,
): { bids: Bid[]; incomplete: { lot: string; reason: string }[] } {
  const entered = new Map(body.lots.map(({ lot, values }) => [lot, new Map(Object.entries(values))]));
  const globalChanged = Object.keys(body.global).length > 0;
  const incomplete: { lot: string; reason: string }[] = [];
  const bids: Bid[] = [];
  for (const lot of event.lots) {
    const known = before.get(lot.id);
    if (!entered.has(lot.name) && !(globalChanged && known)) continue;
    const values = merged(known?.draft ?? known?.values, entered.get(lot.name), invitation.globalValues);
    const { bid, missing } = bidOf(event, sheet, invitation, lot, known, values);
    if (missing !== undefined) incomplete.push({ lot: lot.name, reason: missing });
    bids.push(bid);
  }
  return { bids, incomplete };
}

function bidOf(
  event: SourcingEvent,
  sheet: BidSheet,
  invitation: Invitation,
  lot: Lot,
  known: Bid | undefined,
  values: Cells,
): { bid: Bid; missing: string | undefined } {
  const { cost, missing } = computeRow(sheet, rowLayers(event, lot, values));
  const identity = { id: known?.id ?? randomUUID(), lotId: lot.id, supplierId: invitation.supplierId };
  if (cost !== undefined) return { bid: { ...identity, values, cost, draft: null }, missing };
  return { bid: { ...identity, values: known?.values ?? null, cost: known?.cost ?? null, draft: values }, missing };
}

async function saveBids(unit: UnitOfWork, event: SourcingEvent, bids: readonly Bid[], now: string): Promise<void> {
  await unit.tx.query(
    `insert into service.bids (event_id, modified, id, lot_id, supplier_id, values, cost, draft)
     select $1, $2, * from unnest($3::uuid[], $4::uuid[], $5::uuid[], $6::jsonb[], $7::text[], $8::jsonb[])
     on conflict (event_id, supplier_id, lot_id) do update
       set values = excluded.values, cost = excluded.cost, draft = excluded.draft, modified = excluded.modified`,
    [
      event.id,
      now,
      bids.map((bid) => bid.id),
      bids.map((bid) => bid.lotId),
      bids.map((bid) => bid.supplierId),
      bids.map((bid) => bid.values && cellsJson(bid.values)),
      bids.map((bid) => bid.cost),
      bids.map((bid) => bid.draft && cellsJson(bid.draft)),
    ],
  );
}

/** Later ones win. */
function merged(...layers: readonly (Cells | null | undefined)[]): Cells {
  return new Map(layers.flatMap((cells) => [...(cells ?? [])]));
}
