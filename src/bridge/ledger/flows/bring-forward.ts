import { retrySchedules, retryWaitMostMs } from '#bridge/settings/retry-schedules.ts';
import { addMicros, type Timestamp } from '#contract/timestamp.ts';
import type { Sql } from '#platform/database/sql.ts';

/** What an ERP may ask for with `Retry-After`, and what a call with an unknown outcome may wait for. */
const askedWaitMostMs = 24 * 3_600_000;

/**
 * Makes the documents due now that are due later than any wait lasts: a clock that was ahead has written that time. The
 * flows' throttles and circuits of such a time end, too. Returns how many documents there were.
 */
export async function bringForwardDocuments(sql: Sql, now: Timestamp): Promise<number> {
  const latest = addMicros(now, retryWaitMostMs(retrySchedules.document) * 1000);
  const latestAsked = addMicros(now, askedWaitMostMs * 1000);
  const due = `select d.flow, d.kind, d.key from bridge.flows f cross join unnest(f.kinds) as k (kind)
    join bridge.flow_documents d on d.flow = f.name and d.kind = k.kind and d.due > $2
    where (d.due > $3 or d.error_type is null or d.error_type not in ('rate-limited', 'unknown'))`;
  // In two parts, as the documents that are due have two indexes.
  const brought = await sql.query(
    `update bridge.flow_documents set due = $1 where (flow, kind, key) in (
       ${due} and (d.withdraws = d.wanted) is not true union all ${due} and d.withdraws = d.wanted)
     returning 1`,
    [now, latest, latestAsked],
  );
  await sql.query(
    `update bridge.flows set throttled_until = case when throttled_until > $2 then $1 else throttled_until end,
       circuit_until = case when circuit_until > $2 then $1 else circuit_until end
     where throttled_until > $2 or circuit_until > $2`,
    [now, latestAsked],
  );
  return brought.length;
}
