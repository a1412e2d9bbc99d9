import type { Clock } from '#platform/clock.ts';
import type { Database } from '#platform/database/database.ts';
import { AppError } from '#platform/errors.ts';

/** Keeps these locks apart from anybody else's advisory locks in the same database. */
const lockSpace = 0x5b_50_acf;
const tryEveryMs = 200;
const waitMs = 30_000;

/**
 * Runs `work` while nobody else changes the webhooks of this source: two at once would take each other's new webhook for
 * one that nobody knows the key of. The lock is gone with the process. Throws `conflict` when another holds it for long.
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
