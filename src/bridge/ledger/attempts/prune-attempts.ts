/** Deletes old attempts, and the versions of documents that nothing compares with any more. */
import { timestampFromMs } from '#contract/timestamp.ts';
import type { Clock } from '#platform/clock.ts';
import { deleteOldRows } from '#platform/database/delete-old-rows.ts';
import type { Sql } from '#platform/database/sql.ts';
import { firstIdAt } from '#platform/time-ordered-id.ts';

const batchSize = 5_000;
/** Pruning runs within the sweep, which has other work to do. */
const batchesPerCall = 10;
const hourMs = 60 * 60_000;
const dayMs = 24 * hourMs;

/** Where a walk over the versions has come to. */
interface VersionPlace {
  readonly sent: string;
  readonly flow: string;
  readonly kind: string;
  readonly key: string;
  readonly contentHash: string;
}

/**
 * Deletes versions that were sent more than `days` before `nowMs`, except the one that each document was delivered with:
 * `plan` compares with it. Looks at one batch of them after `after`, oldest first, and returns the place to go on from;
 * undefined at the end.
 */
async function pruneVersions(
  sql: Sql,
  nowMs: number,
  days: number,
  after?: VersionPlace,
): Promise<{ deleted: number; next: VersionPlace | undefined }> {
  const [last] = await sql.query<VersionPlace & { deleted: number }>(
    `with old as materialized (
       select flow, kind, key, content_hash, sent from bridge.document_versions
       where sent < $1 and ($2::timestamptz is null or (sent, flow, kind, key, content_hash) > ($2, $3, $4, $5, $6))
       order by sent, flow, kind, key, content_hash limit ${batchSize}
     ), deleted as (
       delete from bridge.document_versions v using old
       where v.flow = old.flow and v.kind = old.kind and v.key = old.key and v.content_hash = old.content_hash
         and v.sent < $1
         and not exists (select from bridge.flow_documents d where d.flow = v.flow and d.kind = v.kind
           and d.key = v.key and v.content_hash in (d.delivered_hash, d.intent_hash))
       returning 1
     )
     select flow, kind, key, content_hash as "contentHash", sent, (select count(*)::int from deleted) as deleted
     from old order by sent desc, flow desc, kind desc, key desc, content_hash desc limit 1`,
    [
      timestampFromMs(nowMs - days * dayMs),
      after?.sent ?? null,
      after?.flow ?? null,
      after?.kind ?? null,
      after?.key ?? null,
      after?.contentHash ?? null,
    ],
  );
  if (!last) return { deleted: 0, next: undefined };
  const { deleted, ...next } = last;
  return { deleted, next };
}

/**
 * Returns a function that prunes when it is called: a bounded number of batches at a time. Attempts are pruned once an
 * hour. The versions are walked through once a day, as most old ones are still what the ERP holds.
 */
export function createAttemptPruning({
  database,
  clock,
  days,
}: {
  database: Sql;
  clock: Clock;
  days: number;
}): () => Promise<void> {
  let nextAttemptsMs = Number.NEGATIVE_INFINITY;
  let nextVersionsMs = Number.NEGATIVE_INFINITY;
  let place: VersionPlace | undefined;
  return async () => {
    const nowMs = clock.nowMs();
    if (nowMs >= nextAttemptsMs) {
      const before = firstIdAt(nowMs - days * dayMs);
      const isDone = await deleteOldRows(database, { table: 'bridge.attempts', column: 'id', before });
      if (isDone) nextAttemptsMs = nowMs + hourMs;
    }
    if (nowMs < nextVersionsMs) return;
    for (let batches = 0; batches < batchesPerCall; batches += 1) {
      ({ next: place } = await pruneVersions(database, nowMs, days, place));
      if (place) continue;
      nextVersionsMs = nowMs + dayMs;
      return;
    }
  };
}
