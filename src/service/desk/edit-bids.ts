import { randomUUID } from 'node:crypto';
import { editedBids, submitBidRequest } from '#contract/desk.ts';
import type { Clock } from '#platform/clock.ts';
import { throwIssues } from '#platform/errors.ts';
import { compileBidSheet } from '../domain/bid-sheet.ts';
import { applyBidEdits as applyEdit } from '../domain/bids.ts';
import { announceBids } from '../events/announce-bids.ts';
import { cellsJson, loadBids } from '../events/event-store.ts';
import { saveBids } from '../events/save-bids.ts';
import { pathsOfLots, readSubmission } from './bid-entries.ts';
import { deskCommand } from './command.ts';

/**
 * PATCH bids: the buyer enters values for one supplier after a round has closed. If the cost of a bid cannot be
 * computed with them, the whole edit is refused with the reason: a buyer's edit leaves no drafts.
 */
export function editBids({ clock }: { clock: Clock }) {
  return deskCommand({
    command: 'edit-bids',
    method: 'PATCH',
    path: '/bids',
    body: submitBidRequest,
    summary: "Edit a supplier's bid as the buyer",
    answers: { 200: editedBids },
    clock,
    run: async ({ event, body, unit, now }) => {
      const sheet = compileBidSheet(event);
      const entries = readSubmission(event, sheet, body);
      const before = await loadBids(unit.tx, event.id, entries.supplierId);
      const edited = applyEdit({ event, sheet }, before, entries, randomUUID);
      const pathOf = pathsOfLots(body.lots);
      const issues = edited.flatMap(({ lot: { name }, missing }) =>
        missing === undefined
          ? []
          : [{ path: pathOf(name), message: `the bid for lot "${name}" is incomplete: ${missing}` }],
      );
      throwIssues(issues, ({ path, message }) => `The edit is not possible: ${path}: ${message}.`);
      const bids = edited.map(({ bid }) => bid);
      const first = edited.filter(({ isFirst }) => isFirst).map(({ bid }) => bid);
      const changed = edited.filter(({ isFirst }) => !isFirst).map(({ bid }) => bid);
      await saveBids(unit.tx, event.id, { first, changed, now });
      await unit.tx.query(
        'update service.invitations set global_values = $3 where event_id = $1 and supplier_id = $2',
        [event.id, entries.supplierId, cellsJson(entries.allGlobal)],
      );
      await announceBids(unit, { domainEvent: 'bids-edited', event, sheet, bids, entered: edited, now });
      return { status: 200, body: { supplier: body.supplier, edited: edited.map(({ lot }) => lot.name) } };
    },
  });
}
