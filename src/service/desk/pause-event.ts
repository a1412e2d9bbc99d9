import type { Clock } from '#platform/clock.ts';
import { stateCommand } from './state-command.ts';

/** POST pause: nobody bids, and the rounds stand still. */
export function pauseEvent({ clock }: { clock: Clock }) {
  return stateCommand({
    command: 'pause',
    summary: 'Pause an event',
    clock,
    change: ({ event }) => ({ event: { ...event, status: 'PAUSED' }, domainEvent: 'event-paused' }),
  });
}

/** POST resume: goes on, with the rounds where time has brought them meanwhile. */
export function resumeEvent({ clock }: { clock: Clock }) {
  return stateCommand({
    command: 'resume',
    summary: 'Resume a paused event',
    clock,
    change: ({ event }) => ({ event: { ...event, status: 'OPEN' }, domainEvent: 'event-resumed' }),
  });
}
