/**
 * The lane `rounds`: brings an event's rounds up to date when nobody calls, so that a round begins and ends on time.
 */
import { type Clock, timestampNow } from '#platform/clock.ts';
import type { Database } from '#platform/database/database.ts';
import { createDueTimer } from '#platform/due-timer.ts';
import type { Logger } from '#platform/log.ts';
import type { Signals } from '#platform/queue.ts';
import type { RunUnitOfWork } from '../unit-of-work.ts';
import { loadEventNow } from './apply-event-change.ts';
import { eventsWithDueRounds, nextRoundMoment } from './event-state-store.ts';

export interface RoundTimers {
  /** Brings the rounds of one event up to date. */
  work: (eventId: string) => Promise<void>;
  /** The events that have something due; also looks again for the next moment. */
  due: () => Promise<string[]>;
  /** Ends the waiting. */
  close: () => Promise<void>;
}

/** Starts the waiting at once; what fails in it is logged, and the next sweep has it look again. */
export function createRoundTimers(deps: {
  database: Database;
  runUnitOfWork: RunUnitOfWork;
  signals: Pick<Signals, 'signal'>;
  clock: Clock;
  log: Logger;
}): RoundTimers {
  const { database, runUnitOfWork, clock } = deps;
  const due = () => eventsWithDueRounds(database, timestampNow(clock));
  const keeper = createDueTimer({
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
      keeper.lookAgain();
    },
    async due() {
      const eventIds = await due();
      keeper.lookAgain();
      return eventIds;
    },
    close: () => keeper.close(),
  };
}
