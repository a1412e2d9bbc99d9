import { withdrawBidsRequest, withdrawnBids } from '#contract/desk.ts';
import type { Issue } from '#contract/issue.ts';
import type { Clock } from '#platform/clock.ts';
import { throwIssues } from '#platform/errors.ts';
import { compileBidSheet } from '../domain/bid-sheet.ts';
import { withdrawn } from '../domain/bids.ts';
import { announceBids } from '../events/announce-bids.ts';
import { loadBids } from '../events/event-store.ts';
import { saveBids } from '../events/save-bids.ts';
import { removeAwards } from '../events/scenario-store.ts';
import { invitationOf, lotIssues } from './bid-entries.ts';
import { deskCommand } from './command.ts';

/**
 * POST bids/withdraw: withdraws standing bids, and removes the awards that scenarios make to them; the answer names
 * those. The records keep their ids and show the withdrawal until the supplier bids again. All of the bids are
 * withdrawn or none.
 */
export function withdrawBids({ clock }: { clock: Clock }) {
  return deskCommand({
    command: 'withdraw-bid',
    method: 'POST',
    path: '/bids/withdraw',
    body: withdrawBidsRequest,
    summary: "Withdraw a supplier's bids while a round is reopened",
    answers: { 200: withdrawnBids },
    clock,
    run: async ({ event, body, unit, now }) => {
      const { supplierId } = invitationOf(event, body.supplier);
      throwIssues(lotIssues(event, body.lots, pathOf), refusal);
      const lotIds = new Map(event.lots.map((lot) => [lot.name, lot.id]));
      const standing = new Map(
        (await loadBids(unit.tx, event.id, supplierId))
          .filter((bid) => bid.values !== null)
          .map((bid) => [bid.lotId, bid]),
      );
      const issues: Issue[] = [];
      const bids = body.lots.flatMap((lot, index) => {
        const bid = standing.get(lotIds.get(lot) ?? '');
        if (bid) return [withdrawn(bid)];
        issues.push({ path: pathOf(index), message: `"${body.supplier}" has no bid that stands for lot "${lot}"` });
        return [];
      });
      throwIssues(issues, refusal, 'conflict');
      await saveBids(unit.tx, event.id, { changed: bids, now });
      const lotNames = new Map(event.lots.map((lot) => [lot.id, lot.name]));
      const unawarded = (await removeAwards(unit.tx, event.id, bids)).flatMap(({ name, awards }) =>
        awards.map(({ lotId }) => ({ scenario: name, lot: lotNames.get(lotId) })),
      );
      await unit.tx.query(
        'update service.invitations set last_accessed = $3 where event_id = $1 and supplier_id = $2',
        [event.id, supplierId, now],
      );
      await announceBids(unit, { domainEvent: 'bids-withdrawn', event, sheet: compileBidSheet(event), bids, now });
      return { status: 200, body: { supplier: body.supplier, withdrawn: body.lots, unawarded } };
    },
  });
}

const pathOf = (index: number) => `lots[${index}]`;
const refusal = ({ path, message }: Issue) => `Nothing was withdrawn: ${path}: ${message}.`;
