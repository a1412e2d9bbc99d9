/** How the comparisons of the flows stand: the latest of everything, and when the next one by schedule is due. */
import type { FlowSettings } from '#bridge/settings/settings.ts';
import { addMicros, type Timestamp } from '#contract/timestamp.ts';
import type { Sql } from '#platform/database/sql.ts';

export interface ComparisonStatus {
  flow: string;
  /** How often everything is compared by schedule; 0: only when somebody asks for it. */
  everyHours: number;
  /** The latest comparison of everything that has ended; null: none yet. */
  ended: Timestamp | null;
  run: number | null;
  documents: number;
  asDelivered: number;
  /** Documents that differ, or were unclear. */
  differing: number;
  /** When the one began that has not ended yet; null: none is under way. */
  open: Timestamp | null;
  /** Why that one could not go on last. */
  lastError: string | null;
  /** The schedule was missed twice, or the comparison fails. */
  overdue: boolean;
}

const hourMicros = 3_600_000_000;
/** A comparison by schedule that could not go on is tried again after so long. */
const againMicros = hourMicros / 4;

/** Reads it for these flows. */
export async function readComparisons(
  sql: Sql,
  flows: readonly Pick<FlowSettings, 'name' | 'reconcile'>[],
  now: Timestamp,
): Promise<ComparisonStatus[]> {
  const rows = await sql.query<Omit<ComparisonStatus, 'everyHours' | 'overdue'> & { openedBy: string | null }>(
    `select w.flow, e.ended, e.id as run, coalesce(e.documents, 0) as documents,
       coalesce(e.as_delivered, 0) as "asDelivered", coalesce(e.differing, 0) as differing,
       o.started as open, o.last_error as "lastError"
     from unnest($1::text[]) as w (flow)
     left join lateral (select * from bridge.reconciliations r
       where r.flow = w.flow and r.events is null and r.ended is not null order by r.id desc limit 1) e on true
     left join lateral (select * from bridge.reconciliations r
       where r.flow = w.flow and r.events is null and r.ended is null
       order by r.id desc limit 1) o on true
     order by w.flow`,
    [flows.map(({ name }) => name)],
  );
  const settings = new Map(flows.map((flow) => [flow.name, flow.reconcile]));
  return rows.map((row) => {
    const everyHours = settings.get(row.flow)?.every_hours ?? 0;
    const bound = addMicros(now, -2 * everyHours * hourMicros);
    // Before the first one has ended, only one that began long ago, or fails, is late.
    const isLate = everyHours > 0 && (row.ended ?? row.open ?? now) < bound;
    return { ...row, everyHours, overdue: isLate || row.lastError !== null };
  });
}

/** Returns the flows whose comparison by schedule is due: it has to begin, or to go on. */
export async function flowsToCompare(
  sql: Sql,
  flows: readonly Pick<FlowSettings, 'name' | 'reconcile'>[],
  now: Timestamp,
): Promise<string[]> {
  const scheduled = flows.filter(({ reconcile }) => reconcile.every_hours > 0);
  if (scheduled.length === 0) return [];
  const rows = await sql.query<{ flow: string }>(
    `select w.flow from unnest($1::text[], $2::timestamptz[]) as w (flow, due)
     left join lateral (select * from bridge.reconciliations r
       where r.flow = w.flow and r.events is null order by r.id desc limit 1) r on true
     where r.id is null or (r.ended is not null and r.started <= w.due)
       or (r.ended is null and (r.asked_by = $3 or r.started <= w.due) and (r.failed is null or r.failed <= $4))`,
    [
      scheduled.map(({ name }) => name),
      scheduled.map(({ reconcile }) => addMicros(now, -Math.round(reconcile.every_hours * hourMicros))),
      bySchedule,
      addMicros(now, -againMicros),
    ],
  );
  return rows.map(({ flow }) => flow);
}

/** Who has asked for a comparison that the schedule has begun. */
export const bySchedule = 'the schedule';
