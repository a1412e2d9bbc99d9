/**
 * The rows of `bridge.jobs`: which jobs are to be read, and what came of it. One operation a function. A job has no feed, so
 * it is read because something has named it: a notification (`receive/store-notifications.ts` writes its row), or the
 * intake that has sent it.
 */
import { addMicros, type Timestamp } from '#contract/timestamp.ts';
import type { Sql } from '#platform/database/sql.ts';
import { storableText } from '#platform/database/storable-text.ts';

/**
 * SQL: names jobs, from the columns `source`, `job` and `received` of the rows `n`. Each is read now, also one that has
 * ended: the source says that it has changed.
 */
export const nameJobs = (n: string) => `insert into bridge.jobs as j (source, job, next_look, noticed)
  select distinct on (n.source, n.job) n.source, n.job, n.received, n.received from ${n}
  order by n.source, n.job, n.received desc
  on conflict (source, job) do update set next_look = excluded.next_look, noticed = excluded.noticed,
    notices = j.notices + 1, looks = 0, ended = null`;

/**
 * Names a job that an intake has sent, to be read at `due` at the latest. One that has been read to its end is read again
 * only for a reference that was not known then.
 */
export async function nameOwnJob(
  tx: Sql,
  own: { readonly source: string; readonly job: string; readonly reference: string | null },
  { now, due }: { now: Timestamp; due: Timestamp },
): Promise<void> {
  await tx.query(
    `insert into bridge.jobs as j (source, job, reference_id, noticed, next_look) values ($1, $2, $3, $4, $5)
     on conflict (source, job) do update set reference_id = coalesce(excluded.reference_id, j.reference_id),
       next_look = least(j.next_look, excluded.next_look), noticed = excluded.noticed, notices = j.notices + 1, looks = 0,
       ended = null
     where j.ended is null or (j.reference_id is null and excluded.reference_id is not null)`,
    [own.source, own.job, own.reference === null ? null : storableText(own.reference), now, due],
  );
}

export interface JobToRead {
  readonly job: string;
  readonly looks: number;
  readonly notices: number;
  readonly noticed: Timestamp;
}

/** Returns jobs of the source that are to be read now, those that have waited longest first. */
export async function readDueJobs(sql: Sql, source: string, now: Timestamp, limit: number): Promise<JobToRead[]> {
  return sql.query<JobToRead>(
    `select job, looks, notices, noticed from bridge.jobs where source = $1 and next_look <= $2
     order by next_look, job limit $3`,
    [source, now, limit],
  );
}

/** Returns those of the sources that have jobs to be read now. */
export async function readSourcesWithJobs(sql: Sql, sources: readonly string[], now: Timestamp): Promise<string[]> {
  const rows = await sql.query<{ source: string }>(
    `select s.source from unnest($1::text[]) as s (source)
     where exists (select from bridge.jobs j where j.source = s.source and j.next_look <= $2)`,
    [sources, now],
  );
  return rows.map(({ source }) => source);
}

/**
 * Stores what came of a read: its end, or when it is read next. A job that was named meanwhile stays due, as the answer may
 * be older than what it was named for.
 */
export async function settleJob(
  tx: Sql,
  source: string,
  { job, notices }: Pick<JobToRead, 'job' | 'notices'>,
  settled: { readonly error: string | null } & ({ readonly ended: string } | { readonly nextLook: Timestamp }),
): Promise<void> {
  await tx.query(
    `update bridge.jobs set looks = looks + 1, ended = $4, next_look = $5, last_error = $6
     where source = $1 and job = $2 and notices = $3`,
    [
      source,
      job,
      notices,
      'ended' in settled ? storableText(settled.ended) : null,
      'nextLook' in settled ? settled.nextLook : null,
      settled.error === null ? null : storableText(settled.error),
    ],
  );
}

/** What is due waits until `until`: the source could not be asked for one of them. */
export async function postponeJobs(
  tx: Sql,
  source: string,
  { now, until }: { now: Timestamp; until: Timestamp },
): Promise<void> {
  await tx.query('update bridge.jobs set next_look = $3 where source = $1 and next_look <= $2', [source, now, until]);
}

/** The clock was set back: what would wait for longer than any wait lasts is due. */
export async function makeWaitingJobsDue(tx: Sql, now: Timestamp): Promise<void> {
  await tx.query('update bridge.jobs set next_look = $1 where next_look > $1', [now]);
}

/** Jobs of a source that could not be read. */
export interface UnreadJobs {
  readonly source: string;
  readonly jobs: number;
  /** Those among them that the source does not know. */
  readonly unknown: number;
  readonly since: Timestamp;
  /** What the source said of the latest. */
  readonly why: string;
}

const looksMany = 3;
const unknownShownMicros = 86_400_000_000;

/**
 * Returns, by source, the jobs that could not be read again and again, and for a day those that the source does not know; of
 * sources whose jobs a flow takes.
 */
export async function readUnreadJobs(sql: Sql, now: Timestamp): Promise<UnreadJobs[]> {
  return sql.query<UnreadJobs>(
    `select source, count(*)::int as jobs, (count(*) filter (where ended is not null))::int as unknown,
       min(noticed) as since, (array_agg(last_error order by noticed desc, job))[1] as why
     from bridge.jobs j where last_error is not null and case when ended is null then looks >= $1 else noticed > $2 end
       and exists (select from bridge.flows f where f.source = j.source and 'job' = any(f.kinds))
     group by source order by source`,
    [looksMany, addMicros(now, -unknownShownMicros)],
  );
}

/**
 * Deletes what was named more than `keptDays` ago and is read by no flow. One that an intake has sent stays, as only its row
 * has the reference.
 */
export async function pruneJobs(sql: Sql, now: Timestamp, keptDays: number): Promise<void> {
  await sql.query(
    `delete from bridge.jobs j where j.ended is null and j.reference_id is null and j.noticed < $1
       and not exists (select from bridge.flows f where f.source = j.source and 'job' = any(f.kinds))`,
    [addMicros(now, -keptDays * 86_400_000_000)],
  );
}
