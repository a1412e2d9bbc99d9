/** At most one `npm start` or demo works on a data folder: they share its local organisation, webhook and files. */
import { hostname } from 'node:os';
import { withLock } from '#platform/database/lock.ts';
import { AppError } from '#platform/errors.ts';
import { startCommand } from '#platform/own-package.ts';
import type { Installation } from './installation.ts';

/** The database notices the end of a killed process a moment later. */
const waitMs = 3_000;

/**
 * Takes the lock of the data folder; it is given back when the result is disposed of, and by the database when this
 * process dies. Throws an AppError `invalid` when another process has it.
 */
export async function takeStartLock({ open, dataDir }: Installation): Promise<AsyncDisposable> {
  const taken = Promise.withResolvers<void>();
  const released = Promise.withResolvers<void>();
  const held = new AppError(
    'invalid',
    `Another ${startCommand} or demo runs on the data folder ${dataDir}: stop it first, or name another folder with --data.`,
  );
  const holding = withLock(open.database, { name: `start ${hostname()} ${dataDir}`, waitMs, held }, () => {
    taken.resolve();
    return released.promise;
  });
  await Promise.race([taken.promise, holding]);
  return {
    [Symbol.asyncDispose]: async () => {
      released.resolve();
      // A connection that was lost meanwhile has given the lock back already.
      await holding.catch(() => undefined);
    },
  };
}
