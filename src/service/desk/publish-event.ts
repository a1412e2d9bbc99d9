import { noBody } from '#contract/desk.ts';
import type { Clock } from '#platform/clock.ts';
import { AppError } from '#platform/errors.ts';
import { announce } from '../events/announce.ts';
import { deskCommand } from './command.ts';

/** POST publish: opens the event for bids. Without a round, one is made that has no end. */
export function publishEvent({ clock }: { clock: Clock }) {
  return deskCommand({
    command: 'publish',
    method: 'POST',
    path: '/publish',
    body: noBody.optional(),
    clock,
    run: async ({ event, unit, now }) => {
      if (event.lots.length > 0 && event.primaryCostCalculation === null)
        throw new AppError('conflict', 'An event with lots needs a primary_cost_calculation before it is published.');
      await unit.tx.query(`update service.sourcing_events set status = 'OPEN', published = $2 where id = $1`, [
        event.id,
        now,
      ]);
      if (event.rounds.length === 0)
        await unit.tx.query(
          `insert into service.rounds (event_id, number, starts, status) values ($1, 1, $2, 'ACTIVE')`,
          [event.id, now],
        );
      await unit.tx.query('update service.invitations set invite_count = invite_count + 1 where event_id = $1', [
        event.id,
      ]);
      await announce(unit, { happening: 'event-published', event, now });
      return { status: 200, body: { id: event.id, status: 'OPEN' } };
    },
  });
}
