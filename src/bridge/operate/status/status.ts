/**
 * What the bridge is doing, read from SQL: for the console, the metrics, the commands, and callers that wait until the
 * bridge is idle. Every statement reads along an index or counts the rows of a partial index: for a bridge that is in
 * step with millions of documents it costs as little as for an empty one.
 */
import { readRefusedConfigurations } from '#bridge/ledger/leases/liveness.ts';
import { type LookingFlow, type OpenLoss, readOpenLoss } from '#bridge/ledger/lost-commits/open-loss.ts';
import { type FeedStatus, readFeedStatuses } from '#bridge/mirror/feed-statuses.ts';
import { readUnreadJobs } from '#bridge/mirror/jobs-to-read.ts';
import { oldestOfBackfill, type RangeReading, readingProgress } from '#bridge/mirror/read-progress.ts';
import { alertSettings } from '#bridge/settings/alert-settings.ts';
import type { BridgeSettings } from '#bridge/settings/settings.ts';
import type { Timestamp } from '#contract/timestamp.ts';
import type { Sql } from '#platform/database/sql.ts';
import { readUnsent } from '../alerts/alert-store.ts';
import { type ComparisonStatus, readComparisons } from '../reconcile/reconcile-status.ts';
import { readWebhookFaults } from '../webhooks/webhook-looks.ts';
import { type Condition, findConditions, type ShownCertificates } from './conditions.ts';
import { readFailingLogins } from './failing-logins.ts';
import { type FlowLoss, lagOfFlow } from './flow-lag.ts';
import { type IntakeStatus, readIntakeStatuses } from './intake-status.ts';
import { type AuditStatus, type FlowStatus, type RangeReadStatus } from './part-statuses.ts';

export interface BridgeStatus {
  feeds: FeedStatus[];
  flows: FlowStatus[];
  /** Commits were lost, by a restore or a failover: what is not read again or not looked up yet. Null: none. */
  lostCommits: OpenLoss | null;
  intakes: IntakeStatus[];
  backfills: BackfillStatus[];
  /** The last audit of each feed. */
  audits: AuditStatus[];
  /** How the comparisons of what was delivered with what the ERPs hold stand; only of flows that were ever compared. */
  comparisons: ComparisonStatus[];
  /** What needs a person now. */
  conditions: Condition[];
  /** The documents that were delivered last. */
  delivered: DeliveredDocument[];
  /** The documents that wait longest, of each flow. */
  waiting: WaitingDocument[];
  /** The latest dead letters of each flow. */
  deadLetters: DeadDocument[];
}

/** A backfill or audit that has not ended, or ended within the last day. */
export interface BackfillStatus extends RangeReadStatus {
  id: number;
  changed: number;
}

interface DocumentStatus {
  flow: string;
  kind: string;
  key: string;
}

export interface DeliveredDocument extends DocumentStatus {
  delivered: Timestamp;
  reference: string | null;
}

export interface WaitingDocument extends DocumentStatus {
  waitingSince: Timestamp;
  due: Timestamp | null;
  attempts: number;
  lastError: string | null;
}

export interface DeadDocument extends DocumentStatus {
  deadSince: Timestamp;
  lastError: string | null;
}

const shownMost = 20;
/** From so many tries on a document counts as stuck: about four minutes. */
const attemptsMany = 8;
/** `connector-calls.ts` could not read the connector's answer: another try gets the same answer. */
const isUnreadable = "d.error_type = 'unknown' and d.last_error like '%the connector returned %'";

const ofFlow = 'bridge.flow_documents d where d.flow = f.name and d.kind = any(f.kinds)';
const count = `select count(*)::int from ${ofFlow}`;
/** The condition of the partial indexes. */
const isWaiting = 'd.waiting_since is not null and d.dead_since is null';
/**
 * The document waits for the effect of a call that was cut off (`wait-for-effect.ts`), and not because its lookup
 * failed, which its last attempt says. The first half is the condition of a partial index.
 */
const isCutOff = `(d.intent_id is not null or d.forced or d.uncertain_since is not null) and d.intent_id is not null
  and d.due > $1 and d.error_type = 'unknown'
  and (select a.step from bridge.attempts a where a.key = d.key and a.flow = d.flow and a.kind = d.kind
       order by a.id desc limit 1) is distinct from 'look up'`;

type ShownSettings = Pick<BridgeSettings, 'sources'> & Partial<Pick<BridgeSettings, 'flows' | 'intakes' | 'alerts'>>;

/**
 * Reads the status of the feeds and flows in the settings, including those that no process has started yet, and of
 * other registered flows. Kinds and flows that are no longer configured are left out: nothing of them waits. The
 * certificate of the webhook endpoint is looked at where the caller has it. Rejects when the database is not available.
 */
export async function readStatus(
  sql: Sql,
  { settings, now, ...certificates }: { settings: ShownSettings; now: Timestamp } & ShownCertificates,
): Promise<BridgeStatus> {
  const feeds = await readFeedStatuses(sql, settings, now);
  const lostCommits = (await readOpenLoss(sql)) ?? null;
  const looked = {
    feeds,
    flows: await readFlows(sql, settings, { feeds, lostCommits }, now),
    lostCommits,
    intakes: await readIntakeStatuses(sql, settings, now),
    audits: await readAudits(sql, feeds, now),
    comparisons: await readShownComparisons(sql, settings, now),
  };
  const shown = new Set(settings.sources.map(({ name }) => name));
  const webhookFaults = (await readWebhookFaults(sql)).filter(({ source }) => shown.has(source));
  const { behind_minutes: behindMinutes } = settings.alerts ?? alertSettings.parse({});
  const unreadJobs = (await readUnreadJobs(sql, now)).filter(({ source }) => shown.has(source));
  const unsent = await readUnsent(sql);
  const failingLogins = await readFailingLogins(sql, now);
  const refusedConfigurations = await readRefusedConfigurations(sql);
  return {
    ...looked,
    conditions: findConditions(
      { ...looked, webhookFaults, unreadJobs, unsent, failingLogins, refusedConfigurations, ...certificates },
      { now, behindMinutes },
    ),
    backfills: await readBackfills(sql, now),
    delivered: await sql.query<DeliveredDocument>(
      `select flow, kind, key, delivered, reference from bridge.flow_documents where delivered is not null
       order by delivered desc limit ${shownMost}`,
    ),
    waiting: await sql.query<WaitingDocument>(
      `select d.* from bridge.flows f cross join lateral (
         select d.flow, d.kind, d.key, d.waiting_since as "waitingSince", d.due, d.attempts, d.last_error as "lastError"
         from ${ofFlow} and ${isWaiting} order by d.waiting_since limit ${shownMost}) d
       where f.kinds <> '{}' order by d."waitingSince" limit ${shownMost}`,
    ),
    deadLetters: await sql.query<DeadDocument>(
      `select d.* from bridge.flows f cross join lateral (
         select d.flow, d.kind, d.key, d.dead_since as "deadSince", d.last_error as "lastError"
         from ${ofFlow} and d.dead_since is not null order by d.dead_since desc limit ${shownMost}) d
       where f.kinds <> '{}' order by d."deadSince" desc limit ${shownMost}`,
    ),
  };
}

/** Of flows that are compared by schedule, or were compared once. */
async function readShownComparisons(sql: Sql, settings: ShownSettings, now: Timestamp): Promise<ComparisonStatus[]> {
  const all = await readComparisons(sql, settings.flows ?? [], now);
  return all.filter(({ everyHours, ended, open }) => everyHours > 0 || ended !== null || open !== null);
}

const neverPushed = {
  pausedReason: null,
  commitsLost: null,
  pausedKind: null,
  pausedAt: null,
  circuitUntil: null,
  failuresInRow: 0,
  due: 0,
  retrying: 0,
  cutOff: 0,
  cutOffUntil: null,
  stuck: 0,
  lastError: null,
  deadLetters: 0,
  deadSince: null,
  deadWhy: null,
  oldestWaiting: null,
};

/** The lag before any process has worked on a feed or flow: unknown, and not in step. */
async function readFlows(
  sql: Sql,
  { sources, flows: configured = [] }: ShownSettings,
  { feeds, lostCommits }: Pick<BridgeStatus, 'feeds' | 'lostCommits'>,
  now: Timestamp,
): Promise<FlowStatus[]> {
  const read = await sql.query<Omit<FlowStatus, 'lag' | 'commitsLost'>>(
    `select f.name as flow, f.source, f.paused_reason as "pausedReason", f.paused_kind as "pausedKind",
       f.paused_at as "pausedAt", f.circuit_until as "circuitUntil", f.failures_in_row as "failuresInRow",
       (${count} and ${isWaiting}) as due,
       (${count} and ${isWaiting} and d.attempts > 0)
         - (${count} and ${isWaiting} and d.attempts > 0 and ${isCutOff}) as retrying,
       (${count} and ${isWaiting} and ${isCutOff}) as "cutOff",
       (select max(d.due) from ${ofFlow} and ${isWaiting} and ${isCutOff}) as "cutOffUntil",
       (${count} and ${isWaiting} and (d.attempts >= ${attemptsMany} or ${isUnreadable})) as stuck,
       (select d.last_error from ${ofFlow} and ${isWaiting} and d.attempts > 0 and (${isCutOff}) is not true
        order by d.attempts desc, d.waiting_since limit 1) as "lastError",
       (${count} and d.dead_since is not null) as "deadLetters",
       (select min(d.dead_since) from ${ofFlow} and d.dead_since is not null) as "deadSince",
       (select d.last_error from ${ofFlow} and d.dead_since is not null
        order by d.dead_since desc limit 1) as "deadWhy",
       (select d.waiting_since from ${ofFlow} and ${isWaiting} order by d.waiting_since limit 1) as "oldestWaiting"
     from bridge.flows f where f.kinds <> '{}' order by f.name`,
    [now],
  );
  const lookingFlows = new Map(lostCommits?.flows.map((flow) => [flow.flow, flow]));
  const rows = read.map((row) => {
    const looking = lookingFlows.get(row.flow);
    return { ...row, commitsLost: lostCommits && looking ? lossOf(lostCommits, looking) : null };
  });
  const feedsOf = Map.groupBy(feeds, ({ source }) => source);
  const shown = new Set(sources.map(({ name }) => name));
  const flows = rows.map((row) => {
    if (shown.has(row.source)) return { ...row, lag: lagOfFlow(row, feedsOf.get(row.source) ?? [], now) };
    return { ...row, lag: { seconds: null, inStep: false, why: `its source ${row.source} is not configured here` } };
  });
  const begun = new Set(rows.map(({ flow }) => flow));
  const waiting = configured.filter(({ name }) => !begun.has(name));
  const unknown = waiting.map(({ name, source }) => ({
    flow: name,
    source,
    ...neverPushed,
    lag: { seconds: null, inStep: false, why: 'no process with the role push has begun with it yet' },
  }));
  return [...flows, ...unknown];
}

function lossOf({ lost, why }: OpenLoss, { isSourceRead, documents, toLookUp }: LookingFlow): FlowLoss {
  return { lost, why, isSourceRead, documents, toLookUp };
}

/** The columns of what all reads of a range have in common. */
const rangeRead = `b.kind, b.source, b.feed, b.range_start as "from", b.range_end as "to", b.position, b.records, b.asked,
  b.finished, b.cancelled, b.last_error as "lastError", ${oldestOfBackfill}`;

function withProgress<Reading extends RangeReading>(readings: readonly Reading[], now: Timestamp) {
  return readings.map((reading) => ({ ...reading, progress: readingProgress(reading, now) }));
}

async function readBackfills(sql: Sql, now: Timestamp): Promise<BackfillStatus[]> {
  const backfills = await sql.query<Omit<BackfillStatus, 'progress'>>(
    `select ${rangeRead}, id, changed from bridge.backfills b
     where finished is null and cancelled is null or greatest(finished, cancelled) > $1::timestamptz - interval '1 day'
     order by id`,
    [now],
  );
  return withProgress(backfills, now);
}

async function readAudits(sql: Sql, feeds: readonly FeedStatus[], now: Timestamp): Promise<AuditStatus[]> {
  const audits = await sql.query<Omit<AuditStatus, 'progress'>>(
    `select b.* from bridge.checkpoints c cross join (values (true), (false)) k (untimed) cross join lateral (
       select ${rangeRead}, late_arrivals as "lateArrivals", failures, next_try as "nextTry"
       from bridge.backfills b where b.source = c.source and b.feed = c.feed and b.kind <> 'range'
         and (b.kind = 'untimed') = k.untimed
       order by id desc limit 1) b
     where b.kind <> 'untimed' or b.finished is null and b.cancelled is null
     order by source, feed, kind`,
  );
  const shown = new Set(feeds.map(({ source, feed }) => `${source}/${feed}`));
  return withProgress(
    audits.filter(({ source, feed }) => shown.has(`${source}/${feed}`)),
    now,
  );
}

/**
 * True when nothing waits: no feed is due, every notification was answered, and no document is to be pushed except dead
 * letters.
 */
export function isIdle({ feeds, flows }: Pick<BridgeStatus, 'feeds' | 'flows'>, now: Timestamp): boolean {
  return feeds.every(({ waiting, nextPull }) => waiting === 0 && nextPull > now) && flows.every(({ due }) => due === 0);
}
