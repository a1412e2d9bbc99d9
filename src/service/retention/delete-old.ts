/**
 * Deletes what is older than its setting: processed submissions, the payloads of jobs that have ended, finished
 * deliveries with their attempts; and where it is set, the workings of events that closed long ago, and old
 * files. What waits, runs or is shown by a feed is never touched. Each batch is a statement of its own that waits for no
 * other one, so a request never waits for it for long.
 */
import { timestampFromMs } from '#contract/timestamp.ts';
import type { Clock } from '#platform/clock.ts';
import type { Sql } from '#platform/database/sql.ts';

/** How long things are kept, in days. */
export interface RetentionDays {
  readonly submissionDays: number;
  readonly deliveryLogDays: number;
  /** Null: for ever. */
  readonly eventDays: number | null;
  readonly fileDays: number | null;
}

const batchSize = 1_000;
/** An event may have hundreds of thousands of bids. */
const eventsAtOnce = 5;
const hourMs = 3_600_000;

/** `$1`: now; `$2`: the days of the setting. Null days give null, and nothing is older than that. */
const oldest = '$1::timestamptz - make_interval(days => $2::int)';

/** Of an event `e` that may still need its files. */
const isAlive = "e.status not in ('CLOSED', 'DELETED')";

const batches: readonly { readonly days: keyof RetentionDays; readonly sql: string; readonly size?: number }[] = [
  {
    days: 'submissionDays',
    sql: `delete from service.supplier_submissions where id = any(array(
      select due.id from service.organisations o cross join lateral (
        select s.id from service.supplier_submissions s
        where s.organisation_id = o.id and s.state = 'PROCESSED' and s.last_changed < ${oldest}
        order by s.last_changed limit ${batchSize}) as due
      limit ${batchSize})) returning 1`,
  },
  {
    // The job itself stays: lists show it, and what it has made.
    days: 'submissionDays',
    sql: `update service.jobs set payload = '{}' where id = any(array(
      select due.id from service.organisations o cross join lateral (
        select j.id from service.jobs j
        where j.organisation_id = o.id and j.status <> 'PENDING' and j.status <> 'RUNNING' and j.payload <> '{}'::jsonb
          and j.created < ${oldest}
        order by j.created limit ${batchSize}) as due
      limit ${batchSize})) returning 1`,
  },
  {
    days: 'deliveryLogDays',
    sql: `delete from service.deliveries where finished is not null and id = any(array(
      select due.id from service.organisations o join service.webhooks w on w.organisation_id = o.id
      cross join lateral (
        select d.id from service.deliveries d
        where d.webhook_id = w.id and d.finished < ${oldest}
          and d.created < ${oldest}
        order by d.created limit ${batchSize}) as due
      limit ${batchSize})) returning 1`,
  },
  {
    // The event, its lots, its questions and its records in the feeds stay.
    days: 'eventDays',
    size: eventsAtOnce,
    sql: `with due as (
        select e.id from service.organisations o cross join lateral (
          select id from service.sourcing_events e
          where e.organisation_id = o.id and e.status = 'CLOSED' and e.emptied is null and e.closed < ${oldest}
          order by e.closed limit ${eventsAtOnce} for update skip locked) as e
        limit ${eventsAtOnce}),
      answers as (delete from service.rfi_responses where event_id in (select id from due)),
      scenarios as (delete from service.scenarios where event_id in (select id from due)),
      bids as (delete from service.bids where event_id in (select id from due)),
      invitations as (
        update service.invitations set contacts = '{}', global_values = '{}' where event_id in (select id from due))
      update service.sourcing_events set emptied = $1, event_contact = null, history = '[]', awarded_scenario = null
      where id in (select id from due) returning 1`,
  },
  {
    // The sweep of uploads removes the bytes of what is abandoned, and frees their room.
    days: 'fileDays',
    size: 100,
    sql: `update service.files set state = 'abandoned' where id = any(array(
        select f.id from service.organisations o cross join lateral (
          select f.id from service.files f
          where f.organisation_id = o.id and f.state = 'file' and f.created < ${oldest}
            and f.id not in (select unnest(e.files) from service.sourcing_events e
              where e.organisation_id = o.id and ${isAlive})
            and f.id not in (select unnest(r.files) from service.sourcing_events e
              join service.sourcing_requests r on r.id = any(e.sourcing_requests)
              where e.organisation_id = o.id and ${isAlive})
            and f.id not in (select unnest(r.document_file_ids) from service.rfi_responses r
              join service.sourcing_events e on e.id = r.event_id where e.organisation_id = o.id and ${isAlive})
            and f.id::text not in (select jsonb_array_elements_text(q.definition -> 'attachment_file_uuids')
              from service.questions q join service.sourcing_events e on e.id = q.event_id
              where e.organisation_id = o.id and ${isAlive})
          order by f.created limit 100 for update of f skip locked) as f
        limit 100)) returning 1`,
  },
];

/**
 * Returns a function for the sweep: it deletes one batch of each when it is called, and where no more was left not again
 * for an hour. Two processes may do it at once. Rejects when the database is not available; the next sweep tries again.
 */
export function createRetention({
  database,
  clock,
  retention,
}: {
  database: Sql;
  clock: Clock;
  retention: RetentionDays;
}): () => Promise<void> {
  const nextMs = new Map<(typeof batches)[number], number>();
  return async () => {
    const nowMs = clock.nowMs();
    for (const batch of batches) {
      if (nowMs < (nextMs.get(batch) ?? nowMs)) continue;
      const { days, sql, size = batchSize } = batch;
      const deleted = await database.query(sql, [timestampFromMs(nowMs), retention[days]]);
      if (deleted.length < size) nextMs.set(batch, nowMs + hourMs);
    }
  };
}
