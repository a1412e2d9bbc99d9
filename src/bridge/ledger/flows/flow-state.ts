/**
 * The rows of `bridge.flows`: whether a flow may send now. All processes share this state, and it outlives them. A flow
 * may send unless it is paused, throttled or its circuit is open, another process's settings for it are
 * in force, or commits of the database were lost: then its source is read again first.
 */
import type { FlowSettings } from '#bridge/settings/settings.ts';
import type { Timestamp } from '#contract/timestamp.ts';
import { prepared, type Sql } from '#platform/database/sql.ts';
import { storableText } from '#platform/database/storable-text.ts';
import { fingerprintOf } from './flow-fingerprint.ts';

/**
 * Why a flow is paused:
 * - `operator`: an operator paused it, or it has `begins_paused`. Ends with `resume`.
 * - `auth`, `config`: the ERP refuses everything. Ends with `resume`, or when the connector's settings have changed.
 * - `withdrawals`: more cancellations at once than the flow allows. Ends with `resume`.
 */
export type PauseKind = 'operator' | 'auth' | 'config' | 'withdrawals';

/** The state of a flow that may send. */
interface SendingFlow {
  /** Whether the circuit is half open: one document is sent as a trial, and nothing else. */
  readonly isHalfOpen: boolean;
}

/** SQL: no replica was promoted since a process last looked (`ledger/lost-commits/watch-loss.ts`). */
export const isTimelineNoted =
  'exists (select from bridge.lost_commits l where coalesce(l.timeline = bridge.cluster_timeline(), true))';

/**
 * Of `bridge.flows f`; `$2` is now, `fingerprint` that of this process's settings, `$4` the newest attempt that this
 * process has written. A loss of commits that is not noted yet counts, too (`ledger/lost-commits/watch-loss.ts`).
 */
const maySend = (
  fingerprint: string,
) => `f.paused_reason is null and coalesce(f.throttled_until, $2::timestamptz) <= $2::timestamptz
  and coalesce(f.circuit_until, $2::timestamptz) <= $2::timestamptz and f.fingerprint = ${fingerprint}
  and (f.commits_lost is null or f.source_reread is not null)
  and ${isTimelineNoted}
  and ($4::uuid is null or exists (select from bridge.attempts a where a.id = $4))`;

/**
 * Returns undefined while the flow may not send. The answer holds until the end of the transaction, as the row is
 * locked: a pause that is written meanwhile waits for this transaction.
 */
export async function readSendingFlow(
  sql: Sql,
  flow: FlowSettings,
  now: Timestamp,
  newestAttempt: string | null = null,
): Promise<SendingFlow | undefined> {
  const [state] = await sql.query<SendingFlow>(sendingFlow, [flow.name, now, fingerprintOf(flow), newestAttempt]);
  return state;
}

const sendingFlow = prepared(
  `select f.circuit_until is not null as "isHalfOpen"
   from bridge.flows f where f.name = $1 and ${maySend('$3')} for share`,
);

/** Whether the flow may send and has due documents. */
export async function hasDue(
  sql: Sql,
  flow: FlowSettings,
  now: Timestamp,
  newestAttempt: string | null,
): Promise<boolean> {
  return (await flowsWithDue(sql, [flow], now, newestAttempt)).length > 0;
}

/** The first row in the order of the index: `exists` without an order could read the whole table. */
const firstDueWhere = (condition: string) =>
  `(select d.due from bridge.flow_documents d
    where d.flow = f.name and d.kind = k.kind and d.due <= $2 and ${condition} order by d.due limit 1)`;
// Prepared: to plan it takes longer than to run it.
const anyDue = prepared(
  `select f.name from unnest($1::text[], $3::text[]) as own (name, fingerprint) join bridge.flows f using (name)
   where ${maySend('own.fingerprint')} and exists (
     select from unnest(f.kinds) as k (kind)
     where coalesce(${firstDueWhere('(d.withdraws = d.wanted) is not true')},
                    ${firstDueWhere('d.withdraws = d.wanted')}) is not null)`,
);

/** Returns the names of those of these flows that may send and have due documents: the sweep wakes them. */
export async function flowsWithDue(
  sql: Sql,
  flows: readonly FlowSettings[],
  now: Timestamp,
  newestAttempt: string | null,
): Promise<string[]> {
  const own = [flows.map(({ name }) => name), now, flows.map(fingerprintOf), newestAttempt];
  const rows = await sql.query<{ name: string }>(anyDue, own);
  return rows.map(({ name }) => name);
}

/** Pauses the flow: nothing of it is sent until the pause ends. A flow that is paused already keeps its reason. */
export async function setPaused(
  tx: Sql,
  flow: string,
  pause: { kind: PauseKind; reason: string },
  now: Timestamp,
): Promise<void> {
  await tx.query(
    `update bridge.flows set paused_kind = $2, paused_reason = $3, paused_at = $4
     where name = $1 and paused_reason is null`,
    [flow, pause.kind, storableText(pause.reason), now],
  );
}

/** What the settled outcomes of a batch say of the ERP as a whole. */
export interface ErpHealth {
  /** How many documents failed after the last success; all failures when there was no success. */
  failures: number;
  /** Whether the ERP has taken at least one document. */
  succeeded: boolean;
  /** The ERP limits its callers: nothing is sent before this time. */
  throttledUntil: Timestamp | undefined;
  /** When the circuit lets one document through, if it opens now. */
  circuitUntil: Timestamp;
  /** How many failures in a row open the circuit. */
  failuresMost: number;
}

/**
 * Counts failures in a row and sets circuit and throttle. A success closes the circuit. Too many failures in a row open
 * it, and so does each further failure after them. Returns what has happened to the circuit; undefined when it stays as
 * it is.
 */
export async function noteErpHealth(
  tx: Sql,
  flow: string,
  health: ErpHealth,
): Promise<'opened' | 'closed' | undefined> {
  if (!health.succeeded && health.failures === 0 && health.throttledUntil === undefined) return undefined;
  const [noted] = await tx.query<{ was: Timestamp | null; is: Timestamp | null }>(
    `with before as (select * from bridge.flows where name = $1 for update),
     counted as (
       select *, case when $3 then 0 else failures_in_row end + $2::int as failures from before),
     after as (
       select name, circuit_until as was, failures,
         case when failures >= $4::int and $2::int > 0 then $5::timestamptz
              when $3 then null else circuit_until end as circuit_until,
         case when $6::timestamptz is null then throttled_until
              else greatest(throttled_until, $6::timestamptz) end as throttled_until
       from counted)
     update bridge.flows f
     set failures_in_row = a.failures, circuit_until = a.circuit_until, throttled_until = a.throttled_until
     from after a
     where f.name = a.name and (f.failures_in_row, f.circuit_until, f.throttled_until)
       is distinct from (a.failures, a.circuit_until, a.throttled_until)
     returning a.was, f.circuit_until as is`,
    [flow, health.failures, health.succeeded, health.failuresMost, health.circuitUntil, health.throttledUntil ?? null],
  );
  if (!noted || noted.was === noted.is) return undefined;
  return noted.is === null ? 'closed' : 'opened';
}

/**
 * Returns the names of those of these flows that another process has registered since with other settings: this process
 * must not push them.
 */
export async function flowsConfiguredElsewhere(sql: Sql, flows: readonly FlowSettings[]): Promise<string[]> {
  const rows = await sql.query<{ name: string }>(
    `select f.name from bridge.flows f
     join unnest($1::text[], $2::text[]) as own (name, fingerprint)
       on own.name = f.name and own.fingerprint <> f.fingerprint
     order by f.name`,
    [flows.map(({ name }) => name), flows.map(fingerprintOf)],
  );
  return rows.map(({ name }) => name);
}

/** Returns the names of the flows with which a process has begun, and that are still configured. */
export async function registeredFlows(sql: Sql): Promise<ReadonlySet<string>> {
  const rows = await sql.query<{ name: string }>("select name from bridge.flows where kinds <> '{}'");
  return new Set(rows.map(({ name }) => name));
}
