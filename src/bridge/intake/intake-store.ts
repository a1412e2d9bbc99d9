/**
 * The rows of `bridge.intakes`: how far each intake has read, whether it may send, and why not. All processes share this
 * state, and it outlives them.
 */
import type { IntakeSettings } from '#bridge/settings/intake-settings.ts';
import type { Timestamp } from '#contract/timestamp.ts';
import type { Sql } from '#platform/database/sql.ts';
import { storableText } from '#platform/database/storable-text.ts';
import { hasNoJob } from './requisitions/event-store.ts';
import { isOpen } from './submission-store.ts';

/**
 * Why an intake is paused; all end with `resume`:
 * - `operator`: an operator paused it.
 * - `auth`, `config`: the ERP or the service refuses everything. Ends also when the connector's settings have changed.
 * - `first-run`: the service has suppliers already, and no person has agreed to the first submission.
 * - `archives`: more suppliers are to be archived at once than the settings allow.
 * - `withdrawals`: more requisitions are missing in the ERP at once than the settings allow.
 */
export type IntakePause = 'operator' | 'auth' | 'config' | 'first-run' | 'archives' | 'withdrawals';

export interface IntakeState {
  readonly checkpoint: string | null;
  readonly nextRead: Timestamp;
  readonly lastRead: Timestamp | null;
  readonly readFailures: number;
  readonly fullBegan: Timestamp | null;
  readonly lastFull: Timestamp | null;
  readonly comparedList: Timestamp | null;
  readonly begun: Timestamp | null;
  readonly nextSend: Timestamp | null;
  readonly sendFailures: number;
  readonly pausedKind: IntakePause | null;
  /** When the source's supplier list was last read to its end. */
  readonly listPulled: Timestamp | null;
}

/** How many submissions of an intake may be open. The source works them one after the other. */
export const openMost = 10;

/** Everything in the settings that decides what is sent. */
export function intakeFingerprint(intake: IntakeSettings): string {
  const { source, connector, stream, owns, contacts, prefix, only, match, mapping } = intake;
  const ofStream = stream === 'supplier' ? [] : [intake.make, intake.template, intake.group];
  const rules = [[...owns].sort(), contacts, prefix, only, match, mapping, ...ofStream];
  return JSON.stringify([source, connector, stream, ...rules]);
}

/** Returns the state; undefined while another process's settings for the intake are in force. */
export async function readIntake(sql: Sql, intake: IntakeSettings): Promise<IntakeState | undefined> {
  const [state] = await sql.query<IntakeState>(
    `select i.checkpoint, i.next_read as "nextRead", i.last_read as "lastRead", i.read_failures as "readFailures",
       i.full_began as "fullBegan", i.last_full as "lastFull", i.compared_list as "comparedList", i.begun,
       i.next_send as "nextSend", i.send_failures as "sendFailures", i.paused_kind as "pausedKind",
       l.last_pull as "listPulled"
     from bridge.intakes i left join bridge.supplier_lists l on l.source = i.source
     where i.name = $1 and i.configured and i.fingerprint = $2`,
    [intake.name, intakeFingerprint(intake)],
  );
  return state;
}

const isFree = 'r.intake = i.name and r.submission is null and r.dead_since is null';

/** Conditions of the streams under which an intake may send something now, with `$3` as now. */
const maySend = {
  supplier: `
    l.last_pull is not null
    and not exists (select from bridge.intake_submissions s
                    where s.intake = i.name and s.state in ('intent', 'uncertain'))
    and exists (select from bridge.intake_records r where ${isFree} and r.action is not null)`,
  requisition: `
    exists (select from bridge.intake_events e
            where e.intake = i.name
              and (e.state = 'gathering' and (e.ready <= $3 or i.begun is null)
                or e.state = 'made' and (e.update_due <= $3 or e.files_due <= $3) and ${hasNoJob}))`,
} as const satisfies Record<IntakeSettings['stream'], string>;

/** The condition under which an intake has something to do besides reading. */
const isDue = `
  exists (select from bridge.intake_submissions s where s.intake = i.name and ${isOpen} and s.next_look <= $3)
  or i.stream = 'supplier' and l.last_pull is distinct from i.compared_list and i.last_read is not null
  or i.last_read is not null and (i.stream = 'requisition' or l.last_pull is not null)
    and exists (select from bridge.intake_records r where ${isFree} and r.due <= $3 and r.action is null)
  or i.paused_kind is null
    and exists (select from bridge.intake_records r
                where r.intake = i.name and r.news_state in ('intent', 'waiting') and r.news_due <= $3)
  or i.paused_kind is null and coalesce(i.next_send, $3) <= $3 and i.last_read is not null
    and (select count(*) < ${openMost} from bridge.intake_submissions s where s.intake = i.name and ${isOpen})
    and (i.stream = 'supplier' and (${maySend.supplier}) or i.stream = 'requisition' and (${maySend.requisition}))`;

/**
 * Returns the names of those of these intakes that have something to do now: read, look after what was submitted,
 * compare or send.
 */
export async function intakesWithDue(sql: Sql, intakes: readonly IntakeSettings[], now: Timestamp): Promise<string[]> {
  if (intakes.length === 0) return [];
  const rows = await sql.query<{ name: string }>(
    `select i.name from bridge.intakes i
     join unnest($1::text[], $2::text[]) as own (name, fingerprint)
       on own.name = i.name and own.fingerprint = i.fingerprint
     left join bridge.supplier_lists l on l.source = i.source
     where i.configured
       and (i.next_read <= $3 and (i.paused_kind is null or i.paused_kind not in ('auth', 'config'))
         or ${isDue})
     order by i.name`,
    [intakes.map(({ name }) => name), intakes.map(intakeFingerprint), now],
  );
  return rows.map(({ name }) => name);
}

/** Stores how far a read has come; `end`: it has come to its end. */
export async function storeProgress(
  tx: Sql,
  intake: string,
  progress: { checkpoint: string | null; unreadable: number; end?: { now: Timestamp; nextRead: Timestamp } },
): Promise<void> {
  const { checkpoint, unreadable, end } = progress;
  await tx.query(
    `update bridge.intakes
     set checkpoint = $2, unreadable = unreadable + $3, read_failures = 0, read_error = null,
       last_read = case when $4::timestamptz is null then last_read else $4 end,
       next_read = coalesce($5::timestamptz, next_read),
       last_full = case when $4::timestamptz is null then last_full else coalesce(full_began, last_full) end,
       full_began = case when $4::timestamptz is null then full_began end
     where name = $1`,
    [intake, checkpoint, unreadable, end?.now ?? null, end?.nextRead ?? null],
  );
}

/** Begins a read of everything. */
export async function beginFullRead(tx: Sql, intake: string, now: Timestamp): Promise<void> {
  await tx.query('update bridge.intakes set checkpoint = null, full_began = $2 where name = $1', [intake, now]);
}

export async function storeReadFailure(
  tx: Sql,
  intake: string,
  { error, next }: { error: string; next: Timestamp },
): Promise<void> {
  await tx.query(
    `update bridge.intakes set read_failures = read_failures + 1, read_error = $2, next_read = $3 where name = $1`,
    [intake, storableText(error), next],
  );
}

/** Stores with which pull of the supplier list all records were compared. */
export async function storeComparedList(tx: Sql, intake: string, pulled: Timestamp): Promise<void> {
  await tx.query('update bridge.intakes set compared_list = $2 where name = $1', [intake, pulled]);
}

/** Stores that nothing is sent before `until`; `failed`: something went wrong, and is not just a spent quota. */
export async function holdSending(
  tx: Sql,
  intake: string,
  { until, error, failed }: { until: Timestamp; error: string; failed: boolean },
): Promise<void> {
  await tx.query(
    `update bridge.intakes set next_send = greatest(next_send, $2), send_error = $3,
       send_failures = case when $4 then send_failures + 1 else send_failures end
     where name = $1`,
    [intake, until, storableText(error), failed],
  );
}

/** Stores that the source has taken a submission. */
export async function noteSent(tx: Sql, intake: string): Promise<void> {
  await tx.query(
    `update bridge.intakes set next_send = null, send_error = null, send_failures = 0
     where name = $1 and (send_error is not null or next_send is not null)`,
    [intake],
  );
}

/** Allows the first submission. */
export async function storeBegun(tx: Sql, intake: string, now: Timestamp): Promise<void> {
  await tx.query('update bridge.intakes set begun = $2 where name = $1', [intake, now]);
}

/** Pauses the intake. One that is paused already keeps its reason. */
export async function pauseIntakeFor(
  tx: Sql,
  intake: string,
  pause: { kind: IntakePause; reason: string },
  now: Timestamp,
): Promise<void> {
  await tx.query(
    `update bridge.intakes set paused_kind = $2, paused_reason = $3, paused_at = $4
     where name = $1 and paused_kind is null`,
    [intake, pause.kind, storableText(pause.reason), now],
  );
}
