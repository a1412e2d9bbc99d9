import type { Clock } from '#platform/clock.ts';
import { closedEvent } from '../events/apply-event-change.ts';
import { stateCommand } from './state-command.ts';

/**
 * POST close: closes the rounds, and publishes the awards of the chosen scenario: a LotAward for every lot that
 * changed.
 */
export function closeEvent({ clock }: { clock: Clock }) {
  return stateCommand({
    command: 'close',
    summary: 'Close an event and publish its awards',
    clock,
    change: ({ event, unit, now }) => closedEvent(unit.tx, event, now),
  });
}
