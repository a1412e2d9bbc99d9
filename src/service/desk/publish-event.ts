import type { Clock } from '#platform/clock.ts';
import { AppError } from '#platform/errors.ts';
import { isOver, pendingRound, roundsAt } from '../domain/rounds.ts';
import type { SourcingEvent } from '../domain/sourcing-event.ts';
import { stateCommand } from './state-command.ts';

/**
 * POST publish: opens the event for bids, and sends its invitations. An event without rounds gets one that has no end.
 */
export function publishEvent({ clock }: { clock: Clock }) {
  return stateCommand({
    command: 'publish',
    summary: 'Publish an event',
    clock,
    change: async ({ event, unit, now }) => {
      // A Dutch auction needs no formula: the cost of a bid is the sum of its offers.
      if (event.type !== 'DUTCH' && event.lots.length > 0 && event.primaryCostCalculation === null)
        throw new AppError('conflict', 'An event with lots needs a primary_cost_calculation before it is published.');
      const rounds = event.rounds.length > 0 ? event.rounds : [pendingRound(1, { starts: null, ends: null })];
      const opened: SourcingEvent = { ...event, status: 'OPEN', published: now, rounds };
      if (!rounds.every(isOver) && roundsAt(opened, now).rounds.every(isOver))
        throw new AppError(
          'conflict',
          'The time of its rounds has passed, so no supplier could bid. Extend the last round, or add one, first.',
        );
      await unit.tx.query('update service.invitations set invite_count = invite_count + 1 where event_id = $1', [
        event.id,
      ]);
      return { event: opened, domainEvent: 'event-published' };
    },
  });
}
