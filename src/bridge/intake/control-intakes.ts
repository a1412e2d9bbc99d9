/** What an operator does with an intake. All of it is SQL, so that any process can do it. */
import type { Timestamp } from '#contract/timestamp.ts';
import type { Database } from '#platform/database/database.ts';
import type { Sql } from '#platform/database/sql.ts';
import { storableText } from '#platform/database/storable-text.ts';
import { AppError } from '#platform/errors.ts';

/**
 * Pauses the intake: submissions that are open are looked after, the ERP is read, and nothing more is submitted. Throws
 * AppError `not-found` for an intake that was never registered.
 */
export async function pauseIntake(database: Database, intake: string, reason: string, now: Timestamp): Promise<void> {
  const paused = await database.query(
    `update bridge.intakes set paused_kind = 'operator', paused_reason = $2, paused_at = $3
     where name = $1 returning name`,
    [intake, storableText(reason), now],
  );
  if (paused.length === 0) throw unknownIntake(intake);
}

/**
 * Ends any pause, and what was waited for. The end of the pause of a first run is the agreement to go on. Archivings need one of their own: it holds for those that wait now.
 */
export async function resumeIntake(
  database: Database,
  intake: string,
  { agreeToArchive }: { agreeToArchive: boolean },
  now: Timestamp,
): Promise<void> {
  await database.transaction(async (tx) => {
    const [before] = await tx.query<{ kind: string | null }>(
      'select paused_kind as kind from bridge.intakes where name = $1 for update',
      [intake],
    );
    if (!before) throw unknownIntake(intake);
    await tx.query(
      `update bridge.intakes
       set paused_kind = null, paused_reason = null, paused_at = null, next_send = null, send_failures = 0,
         next_read = case when read_failures > 0 then $2 else next_read end,
         begun = case when $3 = 'first-run' then coalesce(begun, $2) else begun end,
         archives_agreed = case when $4 then $2::timestamptz else archives_agreed end
       where name = $1`,
      [intake, now, before.kind ?? '', agreeToArchive],
    );
  });
}

export interface IntakeReplay {
  readonly intake: string;
  /** The ERP's numbers, or external ids of the service. */
  readonly keys?: readonly string[];
  /** Only dead letters. */
  readonly dead?: boolean;
}

/**
 * Compares the matching records again, whatever they waited for, and returns their number. A dead letter is tried again.
 * What the service holds already is not sent.
 */
export async function replayIntake(database: Database, filter: IntakeReplay, now: Timestamp): Promise<number> {
  const { intake, keys = null, dead = false } = filter;
  await knownIntake(database, intake);
  const replayed = await database.query(
    `update bridge.intake_records
     set due = $2, waiting_since = coalesce(waiting_since, $2), action = null, dead_since = null, taken = 0,
       error_type = null, last_error = null
     where intake = $1 and ($3::text[] is null or erp_key = any($3) or key = any($3))
       and (not $4 or dead_since is not null)
     returning erp_key`,
    [intake, now, keys, dead],
  );
  return replayed.length;
}

/**
 * Says which supplier of the service a record is: `key`, or undefined for a new one. Throws AppError `not-found` for an
 * unknown record, `conflict` when another record writes that supplier.
 */
export async function linkIntakeRecord(
  database: Database,
  { intake, erpKey, key, prefix }: { intake: string; erpKey: string; key: string | undefined; prefix: string },
  now: Timestamp,
): Promise<void> {
  await knownIntake(database, intake);
  await database.transaction(async (tx) => {
    const wanted = key ?? prefix + erpKey;
    const [owner] = await tx.query<{ intake: string; erpKey: string }>(
      `select r.intake, r.erp_key as "erpKey" from bridge.intake_records r
       join bridge.intakes i on i.name = $1 and i.source = r.source
       where r.key = $3 and (r.intake, r.erp_key) <> ($1, $2)`,
      [intake, erpKey, wanted],
    );
    if (owner)
      throw new AppError(
        'conflict',
        `The supplier ${wanted} belongs to ${owner.erpKey} of the intake "${owner.intake}".`,
      );
    const linked = await tx.query(
      `update bridge.intake_records
       set key = $3, linked = case when $4 then 'new' else 'person' end, base = null, held = null, held_at = null,
         due = $5, waiting_since = coalesce(waiting_since, $5), action = null, dead_since = null,
         error_type = null, last_error = null
       where intake = $1 and erp_key = $2 and submission is null returning erp_key`,
      [intake, erpKey, wanted, key === undefined, now],
    );
    if (linked.length === 0)
      throw new AppError('not-found', `The intake "${intake}" has no supplier ${erpKey} that is not being submitted.`);
  });
}

/** Makes the ERP be read at once. */
export async function readIntakeNow(database: Database, intake: string, now: Timestamp): Promise<void> {
  await database.query('update bridge.intakes set next_read = least(next_read, $2) where name = $1', [intake, now]);
}

export interface IntakeDeadLetter {
  readonly intake: string;
  readonly erpKey: string;
  /** The external id at the service; null where it is not known which supplier it is. */
  readonly key: string | null;
  readonly name: string | null;
  readonly deadSince: Timestamp;
  /**
   * `data`: the service or its API refuses it; of suppliers `ambiguous`, `overlap`, `not-kept`; of requisitions
   * `withdrawn`, `changed`, `files`, `uncertain`; `not-told`: the ERP refuses what became of it.
   */
  readonly errorType: string;
  readonly lastError: string;
}

/** Returns the dead letters of all configured intakes, or of one, the newest first. */
export async function readIntakeDeadLetters(
  sql: Sql,
  { intake, limit }: { intake?: string | undefined; limit: number },
): Promise<IntakeDeadLetter[]> {
  const rows = await sql.query<Omit<IntakeDeadLetter, 'name'> & { body: string }>(
    `select r.intake, r.erp_key as "erpKey", r.key, r.body, r.dead_since as "deadSince", r.error_type as "errorType",
       r.last_error as "lastError"
     from bridge.intake_records r join bridge.intakes i on i.name = r.intake and i.configured
     where r.dead_since is not null and ($1::text is null or r.intake = $1)
     order by r.dead_since desc, r.intake, r.erp_key limit $2`,
    [intake ?? null, limit],
  );
  return rows.map(({ body, ...row }) => ({ ...row, name: nameInRecord(body) }));
}

/** The name in a record's JSON; null where it has none. */
export function nameInRecord(body: string): string | null {
  const { name } = JSON.parse(body) as { name?: unknown };
  return typeof name === 'string' ? name : null;
}

async function knownIntake(sql: Sql, intake: string): Promise<void> {
  const known = await sql.query('select from bridge.intakes where name = $1', [intake]);
  if (known.length === 0) throw unknownIntake(intake);
}

function unknownIntake(intake: string): AppError {
  return new AppError(
    'not-found',
    `No intake "${intake}" is known: start the bridge once with it in the configuration, or use bridge run.`,
  );
}
