/** Reads attempts, a page at a time: of one document, or of all in a range of time. For the commands and the console. */
import type { Attempt } from '#bridge/ledger/attempts/attempt.ts';
import type { DocumentPlace } from '#bridge/ledger/attempts/document-rows.ts';
import type { Timestamp } from '#contract/timestamp.ts';
import { msFromTimestamp } from '#contract/timestamp.ts';
import type { Sql } from '#platform/database/sql.ts';
import { firstIdAt } from '#platform/time-ordered-id.ts';

const columns = `a.id, a.flow, a.kind, a.key, a.sourcing_event as "sourcingEvent", a.event_name as "eventName",
  a.event_reference as "eventReference", a.supplier, a.supplier_name as "supplierName",
  a.supplier_external_id as "supplierExternalId", a.amount, a.currency, a.action, a.step, a.outcome, a.number,
  a.started, a.ended, a.next_try as "nextTry", a.error_type as "errorType", a.message, a.reference,
  a.content_hash as "contentHash", a.request_id as "requestId", a.pull`;

export interface AttemptPage {
  readonly limit: number;
  /** Only attempts before this one: the last of the page before. */
  readonly before?: string | undefined;
  /** Only attempts that ended in this range. */
  readonly from?: Timestamp | undefined;
  readonly to?: Timestamp | undefined;
}

/** Returns attempts of a document, the newest first. */
export function readAttemptsOf(sql: Sql, place: DocumentPlace, page: AttemptPage): Promise<Attempt[]> {
  return sql.query<Attempt>(
    `select ${columns} from bridge.attempts a
     where a.key = $1 and a.flow = $2 and a.kind = $3 and ($4::uuid is null or a.id < $4)
       and ($5::uuid is null or a.id >= $5) and ($6::uuid is null or a.id < $6)
     order by a.id desc limit $7`,
    [place.key, place.flow, place.kind, page.before ?? null, idAt(page.from), idAt(page.to), page.limit],
  );
}

/** Returns the attempts of all documents, or of one flow, the newest first; reads along the primary key. */
export function readLatestAttempts(
  sql: Sql,
  { flow, kinds, ...page }: AttemptPage & { flow?: string | undefined; kinds?: readonly string[] | undefined },
): Promise<Attempt[]> {
  return sql.query<Attempt>(
    `select ${columns} from bridge.attempts a
     where ($1::uuid is null or a.id < $1) and ($2::uuid is null or a.id >= $2) and ($3::uuid is null or a.id < $3)
       and ($4::text is null or a.flow = $4) and ($5::text[] is null or a.kind = any($5))
     order by a.id desc limit $6`,
    [page.before ?? null, idAt(page.from), idAt(page.to), flow ?? null, kinds ?? null, page.limit],
  );
}

function idAt(time: Timestamp | undefined): string | null {
  return time === undefined ? null : firstIdAt(msFromTimestamp(time));
}
