/** How the comparisons of the flows stand: the latest one of everything that has ended. */
import type { Timestamp } from '#contract/timestamp.ts';
import type { Sql } from '#platform/database/sql.ts';

export interface ComparisonStatus {
  readonly flow: string;
  readonly ended: Timestamp;
  readonly run: number;
  readonly documents: number;
  readonly asDelivered: number;
  /** Documents that differ, or were unclear. */
  readonly differing: number;
}

/** Reads it for those of these flows that were compared. */
export function readComparisons(sql: Sql, flows: readonly string[]): Promise<ComparisonStatus[]> {
  return sql.query<ComparisonStatus>(
    `select w.flow, e.ended, e.id as run, e.documents, e.as_delivered as "asDelivered",
       coalesce(e.differing, 0) as differing
     from unnest($1::text[]) as w (flow)
     cross join lateral (select * from bridge.reconciliations r
       where r.flow = w.flow and r.events is null and r.ended is not null order by r.id desc limit 1) e
     order by w.flow`,
    [flows],
  );
}
