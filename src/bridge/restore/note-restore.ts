/**
 * Notes in the bridge's own database that it was restored from a backup. The ERPs and the sources are newer than it, so
 * it must not send what it believes to be missing. Example: the backup is of 12:00, the bridge was lost at 13:00.
 *
 *     12:30  award A-17 was delivered as order 4711; the restored database does not know that
 *     13:10  restored: every flow is held; supplier lists and intakes count as never read
 *     13:11  the feeds are read again, up to 13:10: award A-17 is in the mirror (`follow-restore.ts`)
 *     13:11  every document of the flow is uncertain, A-17 too: the ERP is asked what it holds (`confirm-documents.ts`)
 *     13:11  `lookup` finds order 4711: A-17 is settled as `unchanged`, and no second order is made
 *     13:12  the ERP was asked about every document: the flow sends what differs
 *
 * A database that was lost altogether is rebuilt in the same way: it knows no flow yet, and those that are registered
 * while the restore is open are held.
 *
 * No process of the bridge may run meanwhile: it would send what the rows of before say.
 */
import type { Timestamp } from '#contract/timestamp.ts';
import type { Database } from '#platform/database/database.ts';
import type { Sql } from '#platform/database/sql.ts';

/**
 * Holds every flow and intake until the sources were read again; one transaction, so a process that dies here has noted
 * nothing. Noted twice it holds them until the later time.
 */
export async function noteRestore(
  database: Database,
  { restored, backupMade }: { restored: Timestamp; backupMade: Timestamp | null },
): Promise<void> {
  await database.transaction(async (tx) => {
    await tx.query('update bridge.restores set ended = $1 where ended is null', [restored]);
    await tx.query('insert into bridge.restores (restored, backup_made) values ($1, $2)', [restored, backupMade]);
    await tx.query(
      'update bridge.flows set restored = $1, confirmed_kind = null, confirmed_key = null, confirm_error = null',
      [restored],
    );
    await tx.query('update bridge.checkpoints set next_pull = $1, throttled_until = null', [restored]);
    // Without a list that was read, an intake compares nothing and submits nothing; nor before the ERP was read.
    await tx.query('update bridge.supplier_lists set last_pull = null, next_pull = $1', [restored]);
    await tx.query('update bridge.intakes set last_read = null, compared_list = null, next_read = $1', [restored]);
    await releaseUncertain(tx, restored);
  });
}

/**
 * Submissions whose arrival was uncertain when the backup was made: what became of them was found out since then, in rows
 * that are lost, and their suppliers may have changed again. So they are not repeated: what they carried is compared with
 * what the source holds now.
 */
async function releaseUncertain(tx: Sql, now: Timestamp): Promise<void> {
  const uncertain = "select id from bridge.intake_submissions where state in ('intent', 'uncertain')";
  await tx.query(
    `update bridge.intake_records set submission = null, change = null, change_base = null, action = null,
       due = coalesce(due, $1), waiting_since = coalesce(waiting_since, $1)
     where submission in (${uncertain})`,
    [now],
  );
  await tx.query(
    `update bridge.intake_attempts set outcome = 'released', message = 'the database was restored from a backup'
     where outcome is null and submission in (${uncertain})`,
  );
  await tx.query(
    `update bridge.intake_submissions set state = 'released', refused = 0, ended = $1, next_look = null,
       last_error = 'the database was restored from a backup' where state in ('intent', 'uncertain')`,
    [now],
  );
}
