import { noBody } from '#contract/desk.ts';
import type { Clock } from '#platform/clock.ts';
import { compileBidSheet } from '../domain/bid-sheet.ts';
import { awardEvent, bidRecords } from '../domain/feed-records.ts';
import { announce } from '../events/announce.ts';
import { loadBids, loadScenarioAwards } from '../events/event-store.ts';
import { deskCommand } from './command.ts';

/** POST close: ends the rounds and publishes the awards of the chosen scenario: a LotAward for every lot that changed. */
export function closeEvent({ clock }: { clock: Clock }) {
  return deskCommand({
    command: 'close',
    method: 'POST',
    path: '/close',
    body: noBody.optional(),
    clock,
    run: async ({ event, unit, now }) => {
      const scenario = event.awardedScenario;
      const bids = await loadBids(unit.tx, event.id);
      const awards = scenario === null ? [] : await loadScenarioAwards(unit.tx, event.id, scenario);
      const sheet = compileBidSheet(event);
      const awarded = awardEvent(event, sheet, bids, awards);
      await unit.tx.query(`update service.sourcing_events set status = 'CLOSED', closed = $2 where id = $1`, [
        event.id,
        now,
      ]);
      await unit.tx.query(
        `update service.rounds set status = 'CLOSED', ends = coalesce(least(ends, $2), $2)
         where event_id = $1 and status in ('PENDING', 'ACTIVE')`,
        [event.id, now],
      );
      if (scenario !== null)
        await unit.tx.query(
          `update service.rounds set status = 'COMPLETE', awarded_cost = $2, awarded_lot_count = $3
           where event_id = $1 and number = (select max(number) from service.rounds where event_id = $1)`,
          [event.id, awarded.awardedCost, awarded.awardedLotCount],
        );
      await announce(unit, {
        happening: 'event-closed',
        event,
        now,
        records: { 'latest-bids': bidRecords(event, sheet, bids), awards: awarded.records },
      });
      return { status: 200, body: { id: event.id, status: 'CLOSED' } };
    },
  });
}
