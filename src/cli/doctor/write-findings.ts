/**
 * Whether the database takes what is written: a read-only one, a full disk, and commits that hang show only then. Nothing
 * is left behind.
 */
import type { Database } from '#platform/database/database.ts';
import { AppError, errorText, hasErrorCode } from '#platform/errors.ts';
import { startHeartbeat } from '#platform/heartbeat.ts';
import { silentLogger } from '#platform/log.ts';
import { type DoctorFinding, fail, ok } from './finding.ts';

const name = 'database: writes';

/** By SQLSTATE. */
const known: Readonly<Record<string, readonly [message: string, todo: string]>> = {
  25006: [
    'read-only (25006, read_only_sql_transaction)',
    'DATABASE_URL names a standby, or default_transaction_read_only is on: name the primary, or switch it off.',
  ],
  53100: [
    'its disk is full (53100, disk_full)',
    'Make room on the disk of the database. Nothing is lost: all goes on by itself.',
  ],
};

const hangs: readonly [message: string, todo: string] = [
  'a commit was not answered in time: commits hang',
  'See pg_stat_activity. Where wait_event is SyncRep, a synchronous standby is away: bring it back, or correct ' +
    'synchronous_standby_names.',
];

/** Commits a heartbeat, as each process does, and asks for some room, as a row that is changed in place needs none. */
export async function findWrites(database: Database): Promise<DoctorFinding> {
  try {
    const heartbeat = await startHeartbeat({ database, schema: 'bridge', identity: '', log: silentLogger });
    await heartbeat.close();
    await takeRoom(database);
    return ok(name, 'a row was committed');
  } catch (error) {
    const cause = causeOf(error);
    const code = Object.keys(known).find((each) => hasErrorCode(cause, each));
    if (code !== undefined) return fail(name, ...(known[code] ?? hangs));
    const text = `${errorText(error)} ${errorText(cause)}`;
    if (/Query read timeout/.test(text)) return fail(name, ...hangs);
    return fail(
      name,
      `the database does not take what is written: ${errorText(cause)}`,
      'The message names the cause.',
    );
  }
}

/** Rolled back. A role that may make no temporary table does without. */
async function takeRoom(database: Database): Promise<void> {
  const done = new Error('rolled back');
  await database
    .transaction(async (tx) => {
      await tx.query(
        `create temporary table doctor_room as select n, repeat('x', 1000) as text from generate_series(1, 1000) n`,
      );
      throw done;
    })
    .catch((error: unknown) => {
      if (error !== done && !hasErrorCode(error, '42501')) throw error;
    });
}

/** The driver's error, which the errors of the database layer hold. */
function causeOf(error: unknown): unknown {
  return error instanceof AppError && error.cause !== undefined ? causeOf(error.cause) : error;
}
