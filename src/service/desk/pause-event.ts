import type { Clock } from '#platform/clock.ts';
import { stateCommand } from './state-command.ts';

/** POST pause: suppliers cannot bid, and no round begins or ends. */
export function pauseEvent({ clock }: { clock: Clock }) {
  return stateCommand({
    command: 'pause',
    summary: 'Pause an event',
    clock,
    change: ({ event }) => ({ event: { ...event, status: 'PAUSED' }, domainEvent: 'event-paused' }),
  });
}

/** POST resume: opens the event again. Rounds that became due during the pause begin and end now. */
export function resumeEvent({ clock }: { clock: Clock }) {
  return stateCommand({
    command: 'resume',
    summary: 'Resume a paused event',
    clock,
    change: ({ event }) => ({ event: { ...event, status: 'OPEN' }, domainEvent: 'event-resumed' }),
  });
}
