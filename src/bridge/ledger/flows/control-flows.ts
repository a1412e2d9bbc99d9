/**
 * What an operator does with a flow: pause it, resume it, read its dead letters, replay documents. All of it is SQL, so
 * that any process can do it.
 */
import type { DocumentKind } from '#connector/documents.ts';
import type { Timestamp } from '#contract/timestamp.ts';
import type { Database } from '#platform/database/database.ts';
import type { Sql } from '#platform/database/sql.ts';
import { storableText } from '#platform/database/storable-text.ts';
import { AppError } from '#platform/errors.ts';

/**
 * Pauses the flow: calls in flight are finished, and nothing more is sent until `resumeFlow`. Replaces any other pause.
 * Throws AppError `not-found` for a flow that was never registered.
 */
export async function pauseFlow(database: Database, flow: string, reason: string, now: Timestamp): Promise<void> {
  const paused = await database.query(
    `update bridge.flows set paused_kind = 'operator', paused_reason = $2, paused_at = $3
     where name = $1 returning name`,
    [flow, storableText(reason), now],
  );
  if (paused.length === 0) throw unknownFlow(flow);
}

/**
 * Resumes the flow: ends any pause, closes the circuit, and ends the throttle that the ERP asked for. An agreement to
 * withdrawals holds for the documents that differ from the ERP now; later withdrawals are counted anew. Throws AppError
 * `not-found` for a flow that was never registered.
 */
export async function resumeFlow(
  database: Database,
  flow: string,
  { agreeToWithdrawals }: { agreeToWithdrawals: boolean },
  now: Timestamp,
): Promise<void> {
  await database.transaction(async (tx) => {
    const resumed = await tx.query(
      `update bridge.flows
       set paused_kind = null, paused_reason = null, paused_at = null, failures_in_row = 0, circuit_until = null,
           throttled_until = null, withdrawals_agreed = case when $2 then $3::timestamptz else withdrawals_agreed end
       where name = $1 returning name`,
      [flow, agreeToWithdrawals, now],
    );
    if (resumed.length === 0) throw unknownFlow(flow);
    await retryRefused(tx, flow, now);
  });
}

/** Makes documents due at once that the ERP refused because of the flow's settings: their retry wait ends. */
export async function retryRefused(tx: Sql, flow: string, now: Timestamp): Promise<void> {
  await tx.query(
    `update bridge.flow_documents set due = $2 where flow = $1 and due > $2 and error_type in ('auth', 'config')`,
    [flow, now],
  );
}

export interface ReplayFilter {
  readonly flow: string;
  readonly kinds?: readonly DocumentKind[];
  readonly keys?: readonly string[];
  /** Only documents of these sourcing events. */
  readonly events?: readonly string[];
  /** Only documents about these suppliers: the service's ids. */
  readonly suppliers?: readonly string[];
  /** Only dead letters. */
  readonly dead?: boolean;
}

/**
 * Makes the matching documents of the flow due now, whatever they waited for, and returns their number. A dead letter
 * is tried again. Any other document is written although nothing differs: the ERP is asked first what it holds, so a
 * replay never makes a second object. Throws AppError `not-found` for a flow that was never registered.
 */
export async function replayDocuments(database: Database, filter: ReplayFilter, now: Timestamp): Promise<number> {
  const { flow, kinds = null, keys = null, events = null, suppliers = null, dead = false } = filter;
  return database.transaction(async (tx) => {
    const known = await tx.query('select from bridge.flows where name = $1', [flow]);
    if (known.length === 0) throw unknownFlow(flow);
    const [replayed] = await tx.query<{ count: number }>(
      `with replayed as (
         update bridge.flow_documents d
         set wanted = d.wanted + 1, due = least(d.due, $2), waiting_since = coalesce(d.waiting_since, $2), attempts = 0,
             dead_since = null, forced = d.forced or d.dead_since is null
         from bridge.flows f
         where d.flow = $1 and f.name = d.flow and d.kind = any(f.kinds)
           and ($3::text[] is null or d.kind = any($3)) and ($4::text[] is null or d.key = any($4))
           and ($5::text[] is null or d.sourcing_event = any($5)) and (not $6 or d.dead_since is not null)
           and ($7::text[] is null or d.supplier = any($7))
         returning d.key)
       select count(*)::int as count from replayed`,
      [flow, now, kinds, keys, events, dead, suppliers],
    );
    return replayed?.count ?? 0;
  });
}

export interface DeadLetter {
  readonly flow: string;
  readonly kind: DocumentKind;
  readonly key: string;
  readonly sourcingEvent: string | null;
  readonly deadSince: Timestamp;
  /** `data`: the ERP refuses the record; `conflict`: the object was changed in the ERP by another writer. */
  readonly errorType: string | null;
  /** The error text of the ERP, or of the bridge when it could not make the document. */
  readonly lastError: string | null;
  /** The ERP's own name for the object that it holds, or held. */
  readonly reference: string | null;
  /** The names that the source shows now; null where there is none. */
  readonly eventName: string | null;
  readonly supplierName: string | null;
}

/** Returns dead letters of all flows, or of one, the newest first. `after` is the last one of the page before. */
export async function readDeadLetters(
  database: Database,
  {
    flow,
    limit,
    after,
    events,
    suppliers,
  }: {
    flow?: string;
    limit: number;
    after?: Pick<DeadLetter, 'deadSince' | 'flow' | 'kind' | 'key'>;
    /** Only documents of these events, or about these suppliers: the service's ids. */
    events?: readonly string[] | undefined;
    suppliers?: readonly string[] | undefined;
  },
): Promise<DeadLetter[]> {
  return database.query<DeadLetter>(
    `select d.flow, d.kind, d.key, d.sourcing_event as "sourcingEvent", d.dead_since as "deadSince",
       d.error_type as "errorType", d.last_error as "lastError", d.reference,
       (select nullif(name, '') from bridge.subjects s
        where s.source = f.source and s.kind = 'event' and s.id = d.sourcing_event) as "eventName",
       (select nullif(name, '') from bridge.subjects s
        where s.source = f.source and s.kind = 'supplier' and s.id = d.supplier) as "supplierName"
     from bridge.flow_documents d join bridge.flows f on f.name = d.flow and d.kind = any(f.kinds)
     where ($7::text[] is null or d.sourcing_event = any($7)) and ($8::text[] is null or d.supplier = any($8)) and d.dead_since is not null and ($1::text is null or d.flow = $1)
       and ($3::timestamptz is null or (d.dead_since, d.flow, d.kind, d.key) < ($3, $4, $5, $6))
     order by d.dead_since desc, d.flow desc, d.kind desc, d.key desc limit $2`,
    [
      flow ?? null,
      limit,
      after?.deadSince ?? null,
      after?.flow ?? null,
      after?.kind ?? null,
      after?.key ?? null,
      events ?? null,
      suppliers ?? null,
    ],
  );
}

function unknownFlow(flow: string): AppError {
  return new AppError('not-found', `No flow "${flow}" is known: start the bridge once with it in the configuration.`);
}
