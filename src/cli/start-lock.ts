/** At most one `npm start` or demo works on a data folder: they share its local organisation, webhook and files. */

import { hostname } from 'node:os';
import { systemClock } from '#platform/clock.ts';
import { AppError } from '#platform/errors.ts';
import { startCommand } from '#platform/own-package.ts';
import type { Installation } from './installation.ts';

/** The database notices the end of a killed process a moment later. */
const patienceMs = 3_000;
const pollMs = 50;

/**
 * Takes the lock of the data folder, in a session of the database; it is given back when the result is disposed of, and
 * by the database when this process dies. Throws an AppError `invalid` when another process has it.
 */
export async function takeStartLock({ open, dataDir }: Installation): Promise<AsyncDisposable> {
  const key = `start ${hostname()} ${dataDir}`;
  const { promise: released, resolve: release } = Promise.withResolvers<void>();
  const { promise: taken, resolve: onTaken, reject } = Promise.withResolvers<boolean>();
  const held = open.database
    .session(async (sql) => {
      const giveUpMs = systemClock.nowMs() + patienceMs;
      for (;;) {
        const [row] = await sql.query<{ locked: boolean }>(
          'select pg_try_advisory_lock(hashtextextended($1, 5)) as locked',
          [key],
        );
        if (row?.locked === true || systemClock.nowMs() > giveUpMs) {
          onTaken(row?.locked === true);
          break;
        }
        await systemClock.sleep(pollMs);
      }
      await released;
      await sql.query('select pg_advisory_unlock(hashtextextended($1, 5))', [key]);
    })
    .catch(reject);
  const isTaken = await taken;
  const lock = {
    [Symbol.asyncDispose]: async () => {
      release();
      await held;
    },
  };
  if (isTaken) return lock;
  await lock[Symbol.asyncDispose]();
  throw new AppError(
    'invalid',
    `Another ${startCommand} or demo runs on the data folder ${dataDir}: stop it first, or name another folder with --data.`,
  );
}
