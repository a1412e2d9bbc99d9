/**
 * How people at the console read the database without taking it from the programs: over connections of its own, each
 * statement for a limited time, each person a few calls at once. A reader who goes away ends the statement.
 */
import { AsyncLocalStorage } from 'node:async_hooks';
import { createDatabase, type Database } from '#platform/database/database.ts';
import { AppError, hasErrorCode } from '#platform/errors.ts';
import { createFairSlots } from '#platform/fair-slots.ts';
import type { Logger } from '#platform/log.ts';

/** Calls at once, of all people and of one of them; one connection more is for what they share, such as the status. */
const turns = 3;
const turnsEach = 2;
/** Pages ask for a few things at once, and again every few seconds. */
const waitingEach = 20;
/** Below the 10 s that a call waits for a connection. */
const statementMs = 5_000;

const waiters = new AsyncLocalStorage<AbortSignal | undefined>();

/** Opens the connections for reading; close it like any other database. */
export function openReading(options: { url: string; log: Logger; applicationName: string }): Database {
  return createDatabase({ ...options, poolMax: turns + 1, statementMs, waiter: () => waiters.getStore() });
}

export interface ReadingTurns {
  /**
   * Runs `read` when it is the person's turn. Throws `too-many` when too many of their calls wait already, and
   * `unavailable` for a statement that took too long. When `left` aborts, what runs of it ends.
   */
  take<T>(person: string, left: AbortSignal | undefined, read: () => Promise<T>): Promise<T>;
}

export function createReadingTurns(): ReadingTurns {
  const slots = createFairSlots({ slots: turns, slotsEach: turnsEach, waitingEach });
  return {
    async take(person, left, read) {
      const free = await slots.enter(person, left ? { signal: left } : {});
      try {
        return await waiters.run(left, read);
      } catch (error) {
        left?.throwIfAborted();
        throw tookTooLong(error) ?? error;
      } finally {
        free();
      }
    },
  };
}

/** For what all readers share: it goes on when the one who asked first goes away. */
export function readForAll<T>(read: () => Promise<T>): Promise<T> {
  return waiters.run(undefined, read);
}

function tookTooLong(error: unknown): AppError | undefined {
  if (!(error instanceof Error) || !hasErrorCode(error.cause ?? error, '57014')) return undefined;
  const text = `This was stopped, since the database took longer than ${statementMs / 1_000} s for it. Narrow it: name a flow, an event, a supplier or a time, or give longer words.`;
  return new AppError('unavailable', text, { cause: error });
}
