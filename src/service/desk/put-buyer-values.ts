import { type BuyerValues, buyerValues, buyerValuesRequest } from '#contract/desk.ts';
import type { Clock } from '#platform/clock.ts';
import { AppError } from '#platform/errors.ts';
import { type BidSheet, compileBidSheet } from '../domain/bid-sheet.ts';
import { merged, recomputeBids } from '../domain/bids.ts';
import type { SourcingEvent } from '../domain/sourcing-event.ts';
import { cellsJson, loadBids } from '../events/event-store.ts';
import { saveBids } from '../events/save-bids.ts';
import { cellIssues, lotIssues } from './bid-entries.ts';
import { deskCommand } from './command.ts';

/**
 * PUT buyer-values: the buyer's values of lots and of the event; columns that are not named keep theirs. Bids that stand
 * get the cost that follows; if one had none any more, nothing is changed. Touches no feed by itself: the records of
 * bids catch up at the next point.
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
      checkValues(event, sheet, body);
      const given = new Map(body.lots.map(({ lot, values }) => [lot, new Map(Object.entries(values))]));
      const globalValues = merged(event.globalValues, new Map(Object.entries(body.global)));
      const lots = event.lots.map((lot) => ({ ...lot, values: merged(lot.values, given.get(lot.name)) }));
      const named = lots.filter((lot) => given.has(lot.name));
      const affected = new Set(Object.keys(body.global).length > 0 ? lots : named);
      const after = { ...event, globalValues, lots };
      const bids = await loadBids(unit.tx, event.id);
      const { changed, completed, broken } = recomputeBids({ event: after, sheet }, affected, bids);
      const supplierOf = new Map(event.invitations.map((one) => [one.supplierId, one.externalId]));
      const places = new Map(body.lots.map(({ lot }, index) => [lot, `lots[${index}]`]));
      const issues = broken.map(({ bid, lot, missing }) => ({
        path: places.get(lot.name) ?? 'global',
        message: `the bid of "${supplierOf.get(bid.supplierId)}" for lot "${lot.name}" could not be computed any more: ${missing}`,
      }));
      if (issues[0])
        throw new AppError('conflict', `The values were not set: ${issues[0].path}: ${issues[0].message}.`, { issues });
      await unit.tx.query(
        `update service.lots set values = given.values
         from unnest($2::uuid[], $3::jsonb[]) as given (id, values) where lots.event_id = $1 and lots.id = given.id`,
        [event.id, named.map((lot) => lot.id), named.map((lot) => cellsJson(lot.values))],
      );
      await unit.tx.query('update service.sourcing_events set global_values = $2, bids_behind = true where id = $1', [
        event.id,
        cellsJson(globalValues),
      ]);
      await saveBids(unit.tx, event.id, [...changed, ...completed], now);
      await unit.tx.query(
        `update service.invitations set participated = true
         where event_id = $1 and supplier_id = any($2) and not participated`,
        [event.id, completed.map((bid) => bid.supplierId)],
      );
      return { status: 200, body: { lots: affected.size, recomputed: changed.length, completed: completed.length } };
    },
  });
}

/** Throws `invalid` naming every lot and column that is wrong. */
function checkValues(event: SourcingEvent, sheet: BidSheet, body: BuyerValues): void {
  const issues = [
    ...lotIssues(
      event,
      body.lots.map(({ lot }) => lot),
      (index) => `lots[${index}].lot`,
    ),
    ...body.lots.flatMap(({ values }, index) =>
      cellIssues(sheet, values, ['lots', index, 'values'], 'BUYER_INPUT', 'LOT'),
    ),
    ...cellIssues(sheet, body.global, ['global'], 'BUYER_INPUT', 'EVENT'),
  ];
  if (issues[0])
    throw new AppError('invalid', `The values are not valid: ${issues[0].path}: ${issues[0].message}.`, { issues });
}
