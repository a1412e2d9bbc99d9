import type { Clock } from '#platform/clock.ts';
import type { Database } from '#platform/database/database.ts';
import { AppError } from '#platform/errors.ts';

/** The first key of these advisory locks: keeps them apart from all other advisory locks in the same database. */
const lockSpace = 0x5b_50_acf;
const tryEveryMs = 200;
const waitMs = 30_000;

/**
 * Runs `work` while no other command changes the webhooks of this source: of two commands at once, each would take the
 * other's new webhook for one whose key was lost. The lock ends with the process. Throws AppError `conflict` when
 * another command holds the lock for more than 30 seconds.
 */
export async function withWebhookLock<T>(
  deps: { database: Database; clock: Clock },
  source: string,
  work: () => Promise<T>,
): Promise<T> {
  const { database, clock } = deps;
  return database.session(async (session) => {
    const untilMs = clock.nowMs() + waitMs;
    for (;;) {
      const [row] = await session.query<{ held: boolean }>('select pg_try_advisory_lock($1, hashtext($2)) as held', [
        lockSpace,
        source,
      ]);
      if (row?.held) break;
      if (clock.nowMs() >= untilMs)
        throw new AppError(
          'conflict',
          `Another command is changing the webhooks of the source "${source}". Run this one again when it has ended.`,
        );
      await clock.sleep(tryEveryMs);
    }
    const result = await work();
    await session.query('select pg_advisory_unlock($1, hashtext($2))', [lockSpace, source]);
    return result;
  });
}
