/** What the intakes are doing, read from SQL along partial indexes: an intake in step costs little, however large. */
import { effectiveLimit } from '#contract/limits.ts';
import { msFromTimestamp, type Timestamp, timestampFromMs } from '#contract/timestamp.ts';
import type { Sql } from '#platform/database/sql.ts';
import type { QuotaLeft } from '../quota/quotas-left.ts';
import type { BridgeSettings } from '../settings.ts';
import type { Lag } from '../status/lag.ts';
import { backlogEndMs } from './backlog-end.ts';
import type { IntakeSettings } from './intake-settings.ts';
import type { IntakePause } from './intake-store.ts';

interface IntakeRow {
  readonly intake: string;
  readonly source: string;
  readonly pausedKind: IntakePause | null;
  readonly pausedReason: string | null;
  readonly pausedAt: Timestamp | null;
  readonly lastRead: Timestamp | null;
  readonly nextRead: Timestamp;
  readonly readFailures: number;
  readonly readError: string | null;
  /** Records that were left out, as they have no number that can be stored. */
  readonly unreadable: number;
  readonly listPulled: Timestamp | null;
  readonly nextSend: Timestamp | null;
  readonly sendError: string | null;
  /** Suppliers that were read and not compared yet. */
  readonly toCompare: number;
  readonly creates: number;
  readonly updates: number;
  readonly archives: number;
  readonly submissions: number;
  /** Open submissions of which it is not known whether the service has them. */
  readonly uncertain: number;
  readonly oldestSubmission: Timestamp | null;
  readonly submissionError: string | null;
  readonly inSubmissions: number;
  readonly deadLetters: number;
  readonly oldestWaiting: Timestamp | null;
}

export interface IntakeStatus extends IntakeRow {
  /** Suppliers that are to be sent, in so many submissions. */
  readonly backlog: { readonly suppliers: number; readonly submissions: number; readonly end: Timestamp | null };
  /** An open submission is older than an hour. */
  readonly stuck: boolean;
  readonly lag: Lag;
}

const ofIntake = (condition: string) =>
  `(select count(*)::int from bridge.intake_records r where r.intake = i.name and r.dead_since is null and ${condition})`;
const toSend = (action: string) => ofIntake(`r.submission is null and r.action = '${action}'`);
const isOpen = "s.intake = i.name and s.state in ('intent', 'sent', 'uncertain')";
const stuckMs = 60 * 60_000;

type Shown = Pick<BridgeSettings, 'sources'> & Partial<Pick<BridgeSettings, 'intakes'>>;

/** Reads the status of the configured intakes, also of those that no process has started yet. */
export async function readIntakeStatuses(
  sql: Sql,
  { sources, intakes = [] }: Shown,
  quotas: readonly QuotaLeft[],
  now: Timestamp,
): Promise<IntakeStatus[]> {
  if (intakes.length === 0) return [];
  const rows = await sql.query<IntakeRow>(
    `select i.name as intake, i.source, i.paused_kind as "pausedKind", i.paused_reason as "pausedReason",
       i.paused_at as "pausedAt", i.last_read as "lastRead", i.next_read as "nextRead",
       i.read_failures as "readFailures", i.read_error as "readError", i.unreadable, l.last_pull as "listPulled",
       i.next_send as "nextSend", i.send_error as "sendError",
       ${ofIntake('r.due is not null and r.action is null and r.submission is null')} as "toCompare",
       ${toSend('create')} as creates, ${toSend('update')} as updates, ${toSend('archive')} as archives,
       (select count(*)::int from bridge.intake_submissions s where ${isOpen}) as submissions,
       (select count(*)::int from bridge.intake_submissions s where ${isOpen} and s.state <> 'sent') as uncertain,
       (select min(s.created) from bridge.intake_submissions s where ${isOpen}) as "oldestSubmission",
       (select s.last_error from bridge.intake_submissions s where ${isOpen} order by s.created limit 1)
         as "submissionError",
       (select coalesce(sum(s.suppliers), 0)::int from bridge.intake_submissions s where ${isOpen}) as "inSubmissions",
       (select count(*)::int from bridge.intake_records r where r.intake = i.name and r.dead_since is not null)
         as "deadLetters",
       (select min(r.waiting_since) from bridge.intake_records r
        where r.intake = i.name and r.waiting_since is not null) as "oldestWaiting"
     from bridge.intakes i left join bridge.supplier_lists l on l.source = i.source
     where i.configured and i.name = any($1)`,
    [intakes.map(({ name }) => name)],
  );
  return intakes.map((intake): IntakeStatus => {
    const row = rows.find((each) => each.intake === intake.name) ?? notBegun(intake, now);
    const backlog = backlogOf(row, intake, sources, quotas, now);
    const stuck = isBefore(row.oldestSubmission, now, stuckMs);
    return { ...row, backlog, stuck, lag: lagOfIntake(row, intake, backlog, now) };
  });
}

/** True when an operator should look at the intake. */
export function intakeNeedsLook({ pausedReason, deadLetters, readFailures, stuck }: IntakeStatus): boolean {
  return pausedReason !== null || deadLetters > 0 || readFailures > 0 || stuck;
}

function backlogOf(
  { creates, updates, archives, source: name }: IntakeRow,
  intake: IntakeSettings,
  sources: BridgeSettings['sources'],
  quotas: readonly QuotaLeft[],
  now: Timestamp,
): IntakeStatus['backlog'] {
  const suppliers = creates + updates + archives;
  const submissions = Math.ceil(suppliers / intake.submission_max);
  const settings = sources.find((source) => source.name === name);
  if (suppliers === 0 || !settings) return { suppliers, submissions, end: null };
  const bucket = 'supplier_changes_write';
  const limit = effectiveLimit(settings.quotas, bucket);
  const left = (window: 'burst' | 'sustained') =>
    quotas.find((quota) => quota.source === name && quota.bucket === bucket && quota.window === window)?.left ??
    limit?.[window].requests ??
    0;
  const endMs = backlogEndMs(submissions, limit, { burst: left('burst'), sustained: left('sustained') });
  return { suppliers, submissions, end: timestampFromMs(msFromTimestamp(now) + endMs) };
}

/** In words: `12,400 suppliers in 13 submissions, done about 14:20`. */
export function backlogText({ suppliers, submissions, end }: IntakeStatus['backlog']): string {
  if (suppliers === 0) return 'nothing to send';
  const count = (number: number, what: string) => `${number.toLocaleString('en')} ${what}${number === 1 ? '' : 's'}`;
  const until = end === null ? '' : `, done about ${end.slice(0, 16).replace('T', ' ')} UTC`;
  return `${count(suppliers, 'supplier')} in ${count(submissions, 'submission')}${until}`;
}

function lagOfIntake(row: IntakeRow, intake: IntakeSettings, backlog: IntakeStatus['backlog'], now: Timestamp): Lag {
  const since = (time: Timestamp) => Math.max(0, (msFromTimestamp(now) - msFromTimestamp(time)) / 1000);
  if (row.pausedReason !== null)
    return { seconds: seconds(row, since), inStep: false, why: `paused: ${row.pausedReason}` };
  if (row.readFailures > 0) {
    const why = `the ERP could not be read (${row.readFailures} times in a row): ${row.readError ?? 'no reason known'}`;
    return { seconds: seconds(row, since), inStep: false, why };
  }
  if (row.lastRead === null)
    return {
      seconds: null,
      inStep: false,
      why: 'the ERP has not been read to its end yet: a process with the role intake does it',
    };
  if (since(row.lastRead) > 2 * intake.poll_seconds + 60)
    return {
      seconds: seconds(row, since),
      inStep: false,
      why: 'the ERP is not read: no process with the role intake runs',
    };
  if (row.listPulled === null)
    return { seconds: null, inStep: false, why: "the source's supplier list has not been read yet" };
  if (row.uncertain > 0)
    return {
      seconds: seconds(row, since),
      inStep: false,
      why: `it is being found out whether the service has a submission: ${row.submissionError ?? 'its answer was not seen'}`,
    };
  if (backlog.suppliers > 0) {
    const held = row.sendError !== null && row.nextSend !== null && row.nextSend > now ? `; ${row.sendError}` : '';
    return { seconds: seconds(row, since), inStep: false, why: `${backlogText(backlog)}${held}` };
  }
  if (row.submissions > 0)
    return {
      seconds: seconds(row, since),
      inStep: true,
      why: `${row.inSubmissions} suppliers are being processed by the service`,
    };
  if (row.toCompare > 0)
    return { seconds: seconds(row, since), inStep: true, why: `${row.toCompare} suppliers to compare` };
  return { seconds: seconds(row, since), inStep: true, why: 'in step' };
}

/** Since what waits longest differs, or since the ERP was read last. */
function seconds({ oldestWaiting, lastRead }: IntakeRow, since: (time: Timestamp) => number): number | null {
  if (lastRead === null) return null;
  return oldestWaiting === null ? since(lastRead) : Math.max(since(oldestWaiting), since(lastRead));
}

function isBefore(time: Timestamp | null, now: Timestamp, ms: number): boolean {
  return time !== null && msFromTimestamp(now) - msFromTimestamp(time) > ms;
}

function notBegun({ name, source }: IntakeSettings, now: Timestamp): IntakeRow {
  return {
    intake: name,
    source,
    pausedKind: null,
    pausedReason: null,
    pausedAt: null,
    lastRead: null,
    nextRead: now,
    readFailures: 0,
    readError: null,
    unreadable: 0,
    listPulled: null,
    nextSend: null,
    sendError: null,
    toCompare: 0,
    creates: 0,
    updates: 0,
    archives: 0,
    submissions: 0,
    uncertain: 0,
    oldestSubmission: null,
    submissionError: null,
    inSubmissions: 0,
    deadLetters: 0,
    oldestWaiting: null,
  };
}
