/**
 * The worker of the lane `rounds`: begins and ends rounds on time, when no command is called on their event.
 */
import { type Clock, timestampNow } from '#platform/clock.ts';
import type { Database } from '#platform/database/database.ts';
import type { Logger } from '#platform/log.ts';
import type { Signals } from '#platform/queue.ts';
import { createDueTimer } from '../due-timer.ts';
import type { RunUnitOfWork } from '../unit-of-work.ts';
import { loadEventNow } from './apply-event-change.ts';
import { eventsWithDueRounds, nextRoundMoment } from './event-state-store.ts';

export interface RoundTimers {
  /** Begins and ends the rounds of one event that are due. */
  work: (eventId: string) => Promise<void>;
  /** The events that have a round due. Also makes the timer look for the next due round again. */
  due: () => Promise<string[]>;
  /** Stops the timer. */
  close: () => Promise<void>;
}

/** Creates the worker, and starts its timer. A failure of the timer is logged; at the next sweep it looks again. */
export function createRoundTimers(deps: {
  database: Database;
  runUnitOfWork: RunUnitOfWork;
  signals: Pick<Signals, 'wakeHere'>;
  clock: Clock;
  log: Logger;
}): RoundTimers {
  const { database, runUnitOfWork, clock } = deps;
  const due = () => eventsWithDueRounds(database, timestampNow(clock));
  const dueTimer = createDueTimer({
    ...deps,
    lane: 'rounds',
    due,
    nextMoment: (now) => nextRoundMoment(database, now),
  });
  return {
    async work(eventId) {
      await runUnitOfWork(async (unit) => {
        const [row] = await unit.tx.query<{ organisation_id: string }>(
          'select organisation_id from service.sourcing_events where id = $1',
          [eventId],
        );
        if (row) await loadEventNow(unit, row.organisation_id, eventId, clock);
      });
      dueTimer.lookAgain();
    },
    async due() {
      const eventIds = await due();
      dueTimer.lookAgain();
      return eventIds;
    },
    close: () => dueTimer.close(),
  };
}
