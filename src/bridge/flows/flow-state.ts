/** The rows of `bridge.flows`: whether a flow may send anything now. Shared by all processes, and outlives them. */
import type { Timestamp } from '#contract/timestamp.ts';
import type { Sql } from '#platform/database/database.ts';
import type { FlowSettings } from '../settings.ts';
import { storableText } from '../storable-text.ts';
import { fingerprintOf } from './flow-fingerprint.ts';

/**
 * - `operator`: a person did; ends with `resume`.
 * - `auth`, `config`: the ERP refuses everything; ends with `resume`, or when the connector's settings have changed.
 * - `withdrawals`: more cancellations at once than is usual; ends with `resume`.
 */
export type PauseKind = 'operator' | 'auth' | 'config' | 'withdrawals';

/** How a flow that may send stands. */
export interface FlowState {
  readonly failuresInRow: number;
  /** Whether the circuit is half open: one document is tried, and nothing else is sent. */
  readonly isHalfOpen: boolean;
  readonly withdrawalsAgreed: Timestamp | null;
}

/** `$2` is now, `$3` the fingerprint that the process works with. */
const maySend = `f.paused_reason is null and coalesce(f.throttled_until, $2::timestamptz) <= $2::timestamptz
  and coalesce(f.circuit_until, $2::timestamptz) <= $2::timestamptz and f.fingerprint = $3`;

/**
 * Undefined while nothing may be sent: paused, resting, the circuit open, or another process's settings in force. What
 * it says holds until the transaction's end: a pause that comes meanwhile waits for what is begun in it.
 */
export async function readSendingFlow(sql: Sql, flow: FlowSettings, now: Timestamp): Promise<FlowState | undefined> {
  const [state] = await sql.query<FlowState>(
    `select f.failures_in_row as "failuresInRow", f.circuit_until is not null as "isHalfOpen",
       f.withdrawals_agreed as "withdrawalsAgreed"
     from bridge.flows f where f.name = $1 and ${maySend} for share`,
    [flow.name, now, fingerprintOf(flow)],
  );
  return state;
}

/** Whether the flow may send and has something due. */
export async function hasDue(sql: Sql, flow: FlowSettings, now: Timestamp): Promise<boolean> {
  // The first in the order of the index: a search for any could read the whole table.
  const firstDue = (condition: string) =>
    `(select d.due from bridge.flow_documents d
      where d.flow = $1 and d.kind = k.kind and d.due <= $2 and ${condition} order by d.due limit 1)`;
  const rows = await sql.query(
    `select from bridge.flows f cross join unnest(f.kinds) as k (kind)
     where f.name = $1 and ${maySend}
       and coalesce(${firstDue('(d.withdraws = d.wanted) is not true')}, ${firstDue('d.withdraws = d.wanted')}) is not null
     limit 1`,
    [flow.name, now, fingerprintOf(flow)],
  );
  return rows.length > 0;
}

/** Of these flows, the names of those that may send and have something due: what the sweep wakes. */
export async function flowsWithDue(sql: Sql, flows: readonly FlowSettings[], now: Timestamp): Promise<string[]> {
  const names: string[] = [];
  for (const flow of flows) if (await hasDue(sql, flow, now)) names.push(flow.name);
  return names;
}

/** Nothing of this flow is sent until the pause ends. One that stands already keeps its reason. */
export async function haltFlow(
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

/** What a settled batch says of the ERP as a whole. */
export interface ErpHealth {
  /** Failures after the last success, or all of them. */
  failures: number;
  /** Whether the ERP has taken anything. */
  succeeded: boolean;
  /** The ERP asks to be left alone until then. */
  throttledUntil: Timestamp | undefined;
  /** When the circuit would let one document through, should it open now. */
  circuitUntil: Timestamp;
  failuresMost: number;
}

/**
 * Counts failures in a row. Gives what became of the circuit: a success closes it, too many failures open it, as does one
 * more after them.
 */
export async function noteErpHealth(tx: Sql, flow: string, news: ErpHealth): Promise<'opened' | 'closed' | undefined> {
  if (!news.succeeded && news.failures === 0 && news.throttledUntil === undefined) return undefined;
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
    [flow, news.failures, news.succeeded, news.failuresMost, news.circuitUntil, news.throttledUntil ?? null],
  );
  if (!noted || noted.was === noted.is) return undefined;
  return noted.is === null ? 'closed' : 'opened';
}

/** Of these flows, the names of those that a process with other settings has registered since: this one must not push. */
export async function flowsConfiguredElsewhere(sql: Sql, flows: readonly FlowSettings[]): Promise<string[]> {
  const rows = await sql.query<{ name: string }>(
    `select f.name from bridge.flows f
     join unnest($1::text[], $2::text[]) as own (name, fingerprint) on own.name = f.name and own.fingerprint <> f.fingerprint
     order by f.name`,
    [flows.map(({ name }) => name), flows.map(fingerprintOf)],
  );
  return rows.map(({ name }) => name);
}
