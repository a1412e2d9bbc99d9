/**
 * Whether the database takes work: a row is written and committed. A statement that only reads would also succeed on a
 * database that is read-only, whose disk is full, or whose commits hang because a synchronous standby is away.
 */
import type { Database } from './database/database.ts';
import { AppError, errorText, hasErrorCode } from './errors.ts';

/** Below the time that `/readyz` gives a check. */
const withinMs = 1_500;

/** By SQLSTATE: read_only_sql_transaction, disk_full. */
const reasons: Readonly<Record<string, string>> = {
  25006: 'The database is read-only.',
  53100: 'The disk of the database is full.',
};

/**
 * Creates the check; `schema` is the program's. It rejects with AppError `unavailable` that says why, and leaves no
 * connection hanging.
 */
export function createHeartbeat(database: Database, schema: 'service' | 'bridge'): () => Promise<void> {
  const beat = `insert into ${schema}.heartbeat (beat) values (clock_timestamp())
    on conflict (one) do update set beat = excluded.beat`;
  return async () => {
    try {
      await database.execute(beat, [], { withinMs });
    } catch (error) {
      const cause = error instanceof AppError ? error.cause : error;
      const code = Object.keys(reasons).find((each) => hasErrorCode(cause, each)) ?? '';
      throw new AppError('unavailable', reasons[code] ?? 'The database does not take what is written.', {
        message: errorText(error),
        cause,
      });
    }
  };
}
