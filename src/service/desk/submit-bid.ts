import { randomUUID } from 'node:crypto';
import { setImmediate } from 'node:timers/promises';
import { submitBidRequest, submittedBid } from '#contract/desk.ts';
import type { Clock } from '#platform/clock.ts';
import { compileBidSheet } from '../domain/bid-sheet.ts';
import { type EnteredBid, submitBids } from '../domain/bids.ts';
import { announceBids } from '../events/announce-bids.ts';
import { cellsJson, loadBids } from '../events/event-store.ts';
import { saveBids } from '../events/save-bids.ts';
import { invitationOf, readSubmission } from './bid-entries.ts';
import { deskCommand } from './command.ts';

/** As many are computed in about a millisecond: for so long other callers wait. */
const bidsAtOnce = 100;

/**
 * POST bids: one submission of one supplier. Its values are added to the supplier's earlier values. A lot whose cost
 * cannot be computed yet is stored as a draft beside the standing bid, and named in `incomplete`.
 */
export function submitBid({ clock }: { clock: Clock }) {
  return deskCommand({
    command: 'bid',
    method: 'POST',
    path: '/bids',
    body: submitBidRequest,
    summary: "Submit a supplier's bid",
    answers: { 200: submittedBid },
    clock,
    run: async ({ event, body, unit, now }) => {
      const { supplierId } = invitationOf(event, body.supplier);
      const sheet = compileBidSheet(event);
      const entries = readSubmission(event, sheet, body);
      const before = await loadBids(unit.tx, event.id, supplierId);
      const entered: EnteredBid[] = [];
      for (const bid of submitBids({ event, sheet }, before, entries, randomUUID)) {
        entered.push(bid);
        if (entered.length % bidsAtOnce === 0) await setImmediate();
      }
      const bids = entered.map(({ bid }) => bid);
      const incomplete = entered.flatMap(({ lot, missing }) => (missing ? [{ lot: lot.name, reason: missing }] : []));
      const complete = bids.length - incomplete.length;
      await Promise.all([
        saveBids(unit.tx, event.id, {
          first: entered.filter(({ isFirst }) => isFirst).map(({ bid }) => bid),
          changed: entered.filter(({ isFirst }) => !isFirst).map(({ bid }) => bid),
          now,
        }),
        announceBids(unit, { domainEvent: 'bid-submitted', event, sheet, bids, entered, now }),
        unit.tx.query(
          `update service.invitations set accepted = true, participated = participated or $3, last_accessed = $4,
             global_values = $5, last_successful_bid = case when $3 then $4 else last_successful_bid end,
             last_failed_bid = case when $6 then $4 else last_failed_bid end
           where event_id = $1 and supplier_id = $2`,
          [event.id, supplierId, complete > 0, now, cellsJson(entries.allGlobal), incomplete.length > 0],
        ),
      ]);
      return { status: 200, body: { supplier: body.supplier, complete, incomplete } };
    },
  });
}
