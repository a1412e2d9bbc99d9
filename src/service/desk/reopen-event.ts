import type { Clock } from '#platform/clock.ts';
import { reopenedRound } from '../domain/rounds.ts';
import { stateCommand } from './state-command.ts';

/**
 * POST reopen: opens a closed event again. Its last round is active, without an end unless it never ran and its end is
 * still ahead. The chosen scenario stays chosen.
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
