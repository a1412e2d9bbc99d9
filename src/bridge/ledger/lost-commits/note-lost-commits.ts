/**
 * Notes that this database has lost commits: it was restored from a backup, or a replica that lagged was promoted. The
 * ERPs and the sources are newer than it, so it must not send what it believes to be missing. Example: the backup is of
 * 12:00, the bridge was lost at 13:00.
 *
 *     12:30  award A-17 was delivered as order 4711; the restored database does not know that
 *     13:10  noted: every flow carries the flag and sends nothing; supplier lists and intakes count as never read
 *     13:11  the feeds were read again, from the older watermark up to 13:10: award A-17 is in the mirror. Every document
 *            of the flow is uncertain and due (`catch-up.ts`)
 *     13:11  the pusher asks the ERP about each before it writes, as after a call that was cut off: `lookup` finds order
 *            4711, so A-17 is settled as `unchanged`, and no second order is made
 *     13:12  nothing that the flow held is uncertain any more: the flag is gone
 *
 * A database that was lost altogether is rebuilt in the same way: flows that are registered before it has caught up carry
 * the flag, too.
 */
import type { Timestamp } from '#contract/timestamp.ts';
import type { Database } from '#platform/database/database.ts';
import type { Sql } from '#platform/database/sql.ts';

/**
 * How it was noticed: an operator or the command `restore` has said it; the timeline of the cluster is another one; an
 * attempt is gone that a process has written.
 */
export type LossCause = 'restored' | 'timeline' | 'attempt';

export interface Loss {
  readonly lost: Timestamp;
  readonly why: LossCause;
  /** When the backup was made; null where nobody has said it. */
  readonly since: Timestamp | null;
}

/** Flags every flow and intake, in one transaction. Noted twice, it lasts until the later time. */
export function noteLostCommits(database: Database, loss: Loss): Promise<void> {
  return database.transaction((tx) => flagLostCommits(tx, loss));
}

/** As `noteLostCommits`, in the caller's transaction. */
export async function flagLostCommits(tx: Sql, { lost, why, since }: Loss): Promise<void> {
  await tx.query(
    `update bridge.lost_commits l set timeline = coalesce(bridge.cluster_timeline(), l.timeline), lost = $1, why = $2,
       since = case when l.lost is null then $3::timestamptz when l.since < $3::timestamptz then l.since
                    when l.since is not null then $3::timestamptz end,
       caught_up = null`,
    [lost, why, since],
  );
  await tx.query('update bridge.flows set commits_lost = $1, source_reread = null', [lost]);
  await tx.query('update bridge.checkpoints set next_pull = $1, throttled_until = null', [lost]);
  // Without a list that was read, an intake compares nothing and submits nothing; nor before the ERP was read.
  await tx.query('update bridge.supplier_lists set last_pull = null, next_pull = $1', [lost]);
  await tx.query('update bridge.intakes set last_read = null, compared_list = null, next_read = $1', [lost]);
  await releaseUncertain(tx, lost);
}

/**
 * Submissions whose arrival was uncertain in what is left: what became of them was found out since then, in rows that are
 * lost, and their suppliers may have changed again. So they are not repeated: what they carried is compared with what the
 * source holds now.
 */
async function releaseUncertain(tx: Sql, now: Timestamp): Promise<void> {
  const uncertain = "select id from bridge.intake_submissions where event is null and state in ('intent', 'uncertain')";
  await tx.query(
    `update bridge.intake_records set submission = null, change = null, change_base = null, action = null,
       due = coalesce(due, $1), waiting_since = coalesce(waiting_since, $1)
     where submission in (${uncertain})`,
    [now],
  );
  await tx.query(
    `update bridge.intake_attempts set outcome = 'released', message = 'the database has lost commits'
     where outcome is null and submission in (${uncertain})`,
  );
  await tx.query(
    `update bridge.intake_submissions set state = 'released', ended = $1, next_look = null,
       last_error = 'the database has lost commits' where event is null and state in ('intent', 'uncertain')`,
    [now],
  );
}
