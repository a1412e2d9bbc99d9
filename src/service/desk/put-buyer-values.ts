import { buyerValues, buyerValuesRequest } from '#contract/desk.ts';
import type { Clock } from '#platform/clock.ts';
import { throwIssues } from '#platform/errors.ts';
import { compileBidSheet } from '../domain/bid-sheet.ts';
import { merged, recomputeBids } from '../domain/bids.ts';
import { cellsJson, cellsOf, loadBids } from '../events/event-store.ts';
import { markParticipants, saveBids } from '../events/save-bids.ts';
import { entryIssues, pathsOfLots } from './bid-entries.ts';
import { deskCommand } from './command.ts';

/**
 * PUT buyer-values: sets the buyer's values of lots and of the event; columns that are not named keep their values. The
 * costs of standing bids are computed again; if one of them can no longer be computed, nothing is changed. Updates no
 * feed: the records of bids are updated with the next domain event that updates the latest bids feed.
 */
export function putBuyerValues({ clock }: { clock: Clock }) {
  return deskCommand({
    command: 'buyer-values',
    method: 'PUT',
    path: '/buyer-values',
    body: buyerValuesRequest,
    summary: "Set the buyer's values",
    answers: { 200: buyerValues },
    clock,
    run: async ({ event, body, unit, now }) => {
      const sheet = compileBidSheet(event);
      throwIssues(
        entryIssues(event, sheet, body, 'BUYER_INPUT'),
        ({ path, message }) => `The values are not valid: ${path}: ${message}.`,
      );
      const given = new Map(body.lots.map(({ lot, values }) => [lot, cellsOf(values)]));
      const globalValues = merged(event.globalValues, cellsOf(body.global));
      const lots = event.lots.map((lot) => ({ ...lot, values: merged(lot.values, given.get(lot.name)) }));
      const named = lots.filter((lot) => given.has(lot.name));
      const affected = new Set(Object.keys(body.global).length > 0 ? lots : named);
      const after = { ...event, globalValues, lots };
      const bids = await loadBids(unit.tx, event.id);
      const { changed, completed, broken } = recomputeBids({ event: after, sheet }, affected, bids);
      const supplierOf = new Map(event.invitations.map(({ supplierId, externalId }) => [supplierId, externalId]));
      const pathOf = pathsOfLots(body.lots);
      const issues = broken.map(({ bid, lot, missing }) => {
        const which = `the bid of "${supplierOf.get(bid.supplierId)}" for lot "${lot.name}"`;
        return { path: pathOf(lot.name), message: `${which} could no longer be computed: ${missing}` };
      });
      throwIssues(issues, ({ path, message }) => `The values were not set: ${path}: ${message}.`, 'conflict');
      await unit.tx.query(
        `update service.lots set values = given.values
         from unnest($2::uuid[], $3::jsonb[]) as given (id, values) where lots.event_id = $1 and lots.id = given.id`,
        [event.id, named.map((lot) => lot.id), named.map((lot) => cellsJson(lot.values))],
      );
      await unit.tx.query('update service.sourcing_events set global_values = $2, bids_behind = true where id = $1', [
        event.id,
        cellsJson(globalValues),
      ]);
      await saveBids(unit.tx, event.id, { changed: [...changed, ...completed], now });
      await markParticipants(unit.tx, event.id, completed);
      return { status: 200, body: { lots: affected.size, recomputed: changed.length, completed: completed.length } };
    },
  });
}
