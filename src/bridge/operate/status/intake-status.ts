/** What the intakes are doing, read from SQL along partial indexes: an intake in step costs little, however large. */

import { type IntakePause } from '#bridge/intake/intake-store.ts';
import { isOpen } from '#bridge/intake/submission-store.ts';
import { type Lag } from '#bridge/mirror/feed-lag.ts';
import { sourceLimit } from '#bridge/mirror/source/source-limit.ts';
import { type IntakeSettings } from '#bridge/settings/intake-settings.ts';
import type { BridgeSettings } from '#bridge/settings/settings.ts';
import type { ReadStream } from '#connector/records.ts';
import { msFromTimestamp, type Timestamp, timestampFromMs } from '#contract/timestamp.ts';
import type { Sql } from '#platform/database/sql.ts';
import { backlogEndMs } from './backlog-end.ts';

interface IntakeRow {
  readonly intake: string;
  readonly stream: ReadStream;
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
  /** Why the source's supplier list could not be read last; null while it can. */
  readonly listError: string | null;
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
  /** Since when the first of them is one, and why the latest is. */
  readonly deadSince: Timestamp | null;
  readonly deadWhy: string | null;
  readonly oldestWaiting: Timestamp | null;
  /** Of requisitions: the events that are to be made or updated, and when the first of them is. */
  readonly events: number;
  readonly nextEvent: Timestamp | null;
  /** Those of them that wait for no further requisitions of their group, and those that lack files. */
  readonly eventsDue: number;
}

export interface IntakeStatus extends IntakeRow {
  /** Records that are to be sent, in so many submissions or jobs. */
  readonly backlog: { readonly suppliers: number; readonly submissions: number; readonly end: Timestamp | null };
  /** An open submission is older than an hour. */
  readonly stuck: boolean;
  readonly lag: Lag;
}

const ofIntake = (condition: string) =>
  `(select count(*)::int from bridge.intake_records r where r.intake = i.name and r.dead_since is null and ${condition})`;
const toSend = (action: string) => ofIntake(`r.submission is null and r.action = '${action}'`);
const stuckMs = 60 * 60_000;

type Shown = Pick<BridgeSettings, 'sources'> & Partial<Pick<BridgeSettings, 'intakes'>>;

/** Reads the status of the configured intakes, also of those that no process has started yet. */
export async function readIntakeStatuses(
  sql: Sql,
  { sources, intakes = [] }: Shown,
  now: Timestamp,
): Promise<IntakeStatus[]> {
  if (intakes.length === 0) return [];
  const rows = await sql.query<IntakeRow>(
    `select i.name as intake, i.stream, i.source, i.paused_kind as "pausedKind", i.paused_reason as "pausedReason",
       i.paused_at as "pausedAt", i.last_read as "lastRead", i.next_read as "nextRead",
       i.read_failures as "readFailures", i.read_error as "readError", i.unreadable, l.last_pull as "listPulled",
       l.last_error as "listError", i.next_send as "nextSend", i.send_error as "sendError",
       ${ofIntake('r.due is not null and r.action is null and r.submission is null')} as "toCompare",
       ${toSend('create')} as creates, ${toSend('update')} as updates, ${toSend('archive')} as archives,
       open.submissions, open.uncertain, open.oldest as "oldestSubmission", open.error as "submissionError",
       open.records as "inSubmissions", events.count as events, events.next as "nextEvent", events.due as "eventsDue",
       (select count(*)::int from bridge.intake_records r where r.intake = i.name and r.dead_since is not null)
         as "deadLetters",
       (select min(r.dead_since) from bridge.intake_records r where r.intake = i.name and r.dead_since is not null)
         as "deadSince",
       (select r.last_error from bridge.intake_records r where r.intake = i.name and r.dead_since is not null
        order by r.dead_since desc limit 1) as "deadWhy",
       (select min(r.waiting_since) from bridge.intake_records r
        where r.intake = i.name and r.waiting_since is not null) as "oldestWaiting"
     from bridge.intakes i left join bridge.supplier_lists l on l.source = i.source
     cross join lateral (
       select count(*)::int as submissions, count(*) filter (where s.state <> 'sent')::int as uncertain,
         min(s.created) as oldest, (array_agg(s.last_error order by s.created))[1] as error,
         coalesce(sum(s.records), 0)::int as records
       from bridge.intake_submissions s where s.intake = i.name and ${isOpen}) open
     cross join lateral (
       select count(*) filter (where e.state = 'gathering' or e.update_due is not null)::int as count,
         min(case when e.state = 'gathering' then e.ready else e.update_due end) as next,
         count(*) filter (where e.state = 'made' or e.ready <= $2)::int as due
       from bridge.intake_events e
       where e.intake = i.name
         and (e.state = 'gathering'
           or e.state = 'made' and (e.update_due is not null or e.files_due is not null))) events
     where i.configured and i.name = any($1)`,
    [intakes.map(({ name }) => name), now],
  );
  return intakes.map((intake): IntakeStatus => {
    const row = rows.find((each) => each.intake === intake.name) ?? notBegun(intake, now);
    const backlog = backlogOf(row, intake, sources, now);
    const stuck = isBefore(row.oldestSubmission, now, stuckMs);
    return { ...row, backlog, stuck, lag: lagOfIntake(row, intake, backlog, now) };
  });
}

/** How far the intakes are, as a text: while it stays the same, nothing moves. */
export function progressText(statuses: readonly IntakeStatus[]): string {
  return JSON.stringify(
    statuses.map(({ creates, updates, archives, eventsDue, inSubmissions, lastRead }) => [
      creates,
      updates,
      archives,
      eventsDue,
      inSubmissions,
      lastRead,
    ]),
  );
}

/** Whether all that was read is at the service, or waits for a person or for other requisitions of its group. */
export function isThrough(status: IntakeStatus): boolean {
  if (status.pausedReason !== null) return status.submissions === 0;
  const toSend = status.stream === 'supplier' ? status.backlog.suppliers : status.eventsDue;
  return status.lastRead !== null && toSend + status.submissions + status.toCompare === 0;
}

function backlogOf(
  { creates, updates, archives, events, nextSend, source: name }: IntakeRow,
  intake: IntakeSettings,
  sources: BridgeSettings['sources'],
  now: Timestamp,
): IntakeStatus['backlog'] {
  const suppliers = creates + updates + archives;
  const isOfSuppliers = intake.stream === 'supplier';
  const submissions = isOfSuppliers ? Math.ceil(suppliers / intake.submission_max) : events;
  const settings = sources.find((source) => source.name === name);
  if (suppliers === 0 || !settings) return { suppliers, submissions, end: null };
  const bucket = isOfSuppliers ? 'supplier_changes_write' : 'jobs_write';
  const limit = sourceLimit(settings, bucket);
  const firstMs = Math.max(msFromTimestamp(now), msFromTimestamp(nextSend ?? now));
  return { suppliers, submissions, end: timestampFromMs(firstMs + backlogEndMs(submissions, limit)) };
}

/** `1 supplier`, `12,400 suppliers`. */
export function countText(number: number, what: string): string {
  return `${number.toLocaleString('en')} ${what}${number === 1 ? '' : 's'}`;
}

/** In words: `12,400 suppliers in 13 submissions, done about 14:20`. */
export function backlogText({ backlog, stream }: Pick<IntakeStatus, 'backlog' | 'stream'>): string {
  const { suppliers, submissions, end } = backlog;
  if (suppliers === 0) return 'nothing to send';
  const until = end === null ? '' : `, done about ${end.slice(0, 16).replace('T', ' ')} UTC`;
  return `${countText(suppliers, stream)} in ${countText(submissions, stream === 'supplier' ? 'submission' : 'job')}${until}`;
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
  if (row.stream === 'supplier' && row.listPulled === null)
    return {
      seconds: null,
      inStep: false,
      why:
        row.listError === null
          ? "the source's supplier list has not been read yet"
          : `the source's supplier list cannot be read: ${row.listError}`,
    };
  if (row.uncertain > 0)
    return {
      seconds: seconds(row, since),
      inStep: false,
      why: `it is being found out whether the service has what was sent: ${row.submissionError ?? 'its answer was not seen'}`,
    };
  if (backlog.suppliers > 0) {
    const held = row.sendError !== null && row.nextSend !== null && row.nextSend > now ? `; ${row.sendError}` : '';
    const text = backlogText({ backlog, stream: row.stream });
    if (row.nextEvent !== null && row.nextEvent > now && row.updates === 0)
      return {
        seconds: since(row.lastRead),
        inStep: true,
        why: `${text}; the first waits for others of its group until ${row.nextEvent.slice(11, 16)} UTC`,
      };
    return { seconds: seconds(row, since), inStep: false, why: `${text}${held}` };
  }
  if (row.stream === 'requisition' && row.eventsDue > 0)
    return {
      seconds: seconds(row, since),
      inStep: false,
      why: `${countText(row.eventsDue, 'event')} to be changed, or without files`,
    };
  if (row.submissions > 0)
    return {
      seconds: seconds(row, since),
      inStep: true,
      why: `${countText(row.inSubmissions, row.stream)} being processed by the service`,
    };
  if (row.toCompare > 0)
    return { seconds: seconds(row, since), inStep: true, why: `${countText(row.toCompare, row.stream)} to compare` };
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

function notBegun({ name, source, stream }: IntakeSettings, now: Timestamp): IntakeRow {
  return {
    intake: name,
    stream,
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
    listError: null,
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
    deadSince: null,
    deadWhy: null,
    oldestWaiting: null,
    events: 0,
    nextEvent: null,
    eventsDue: 0,
  };
}
