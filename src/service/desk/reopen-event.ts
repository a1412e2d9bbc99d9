import type { Clock } from '#platform/clock.ts';
import { reopenedRound } from '../domain/rounds.ts';
import { stateCommand } from './state-command.ts';

/**
 * POST reopen: the last round is active again, without an end. The awarded scenario stays chosen until it is changed.
 */
export function reopenEvent({ clock }: { clock: Clock }) {
  return stateCommand({
    command: 'reopen',
    summary: 'Reopen a closed event',
    clock,
    change: ({ event, now }) => {
      const rounds = event.rounds.map((round, index) =>
        index === event.rounds.length - 1 ? reopenedRound(round, round.ends, now) : round,
      );
      return { event: { ...event, status: 'OPEN', rounds } };
    },
  });
}
