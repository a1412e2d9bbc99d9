/**
 * Jobs: the rows of `bridge.intake_submissions` that are for an event. One
 * operation a function. What a job has in common with a submission of suppliers is in `submission-store.ts`.
 */

import { idOf } from '#bridge/documents/document-keys.ts';
import { nameOwnJob } from '#bridge/mirror/jobs-to-read.ts';
import type { Timestamp } from '#contract/timestamp.ts';
import type { Sql } from '#platform/database/sql.ts';
import { isOpen } from '../submission-store.ts';
import type { LotOrigin } from './event-payload.ts';

export type JobKind = 'create' | 'update' | 'attach';

/** What a job was made of: JSON in its row. */
export interface MadeOf {
  readonly lots: readonly LotOrigin[];
  /** Requisitions, each with the hash (hexadecimal) of what of it is sent; null: it is taken out. */
  readonly members: readonly { readonly erpKey: string; readonly hash: string | null; readonly why?: string }[];
  readonly name: string;
}

export interface OpenJob {
  readonly id: string;
  readonly event: string;
  readonly kind: JobKind;
  readonly state: 'intent' | 'sent' | 'uncertain';
  readonly payload: string;
  readonly madeOf: string;
  readonly created: Timestamp;
  /** When the last POST ends at the latest. */
  readonly ends: Timestamp;
  readonly posts: number;
  readonly uuid: string | null;
  readonly looks: number;
  readonly nextLook: Timestamp;
  readonly make: string;
  readonly reference: string | null;
  readonly entity: string | null;
}

/** Returns the jobs that have not ended, the oldest first. */
export async function readOpenJobs(sql: Sql, intake: string): Promise<OpenJob[]> {
  return sql.query<OpenJob>(
    `select s.id, s.event, s.kind, s.state, s.payload, s.made_of as "madeOf", s.created, s.ends, s.posts, s.uuid, s.looks,
       s.next_look as "nextLook", e.make, e.reference_id as reference, e.entity
     from bridge.intake_submissions s join bridge.intake_events e on e.id = s.event
     where s.intake = $1 and ${isOpen} order by s.created, s.id`,
    [intake],
  );
}

/** Commits the intent: this POST is about to be made, and ends at `ends` at the latest. Its requisitions are in it. */
export async function insertJob(
  tx: Sql,
  intent: {
    id: string;
    intake: string;
    source: string;
    event: string;
    kind: JobKind;
    payload: string;
    madeOf: MadeOf;
    now: Timestamp;
    ends: Timestamp;
    nextLook: Timestamp;
  },
): Promise<void> {
  const { id, intake, source, event, kind, payload, madeOf, now, ends, nextLook } = intent;
  await tx.query(
    `insert into bridge.intake_submissions
       (id, intake, source, event, kind, state, payload, made_of, created, ends, next_look, records)
     values ($1, $2, $3, $4, $5, 'intent', $6, $7, $8, $9, $10, $11)`,
    [id, intake, source, event, kind, payload, JSON.stringify(madeOf), now, ends, nextLook, madeOf.members.length],
  );
  await tx.query(
    `update bridge.intake_records set submission = $3, due = null, action = null
     where intake = $1 and erp_key = any($2::text[])`,
    [intake, madeOf.members.map(({ erpKey }) => erpKey), id],
  );
}

/**
 * SQL for the time since when a bridge that was lost may have made something of the requisitions of the event `e`; null
 * where that cannot be. It can be for those that were first read before a loss of commits was caught up with.
 */
export const lostSince = `(select coalesce(r.since, 'epoch') from bridge.lost_commits r
  where r.lost is not null and exists (select from bridge.intake_members m
    join bridge.intake_records x on x.intake = m.intake and x.erp_key = m.erp_key
    where m.event = e.id and m.live and x.first_seen <= coalesce(r.caught_up, 'infinity')))`;

/** Makes an intent whose POST was not made one to be searched for first: it may be at the source since then. */
export async function storeJobToSearch(tx: Sql, id: string, since: Timestamp, now: Timestamp): Promise<void> {
  await tx.query(
    `update bridge.intake_submissions set state = 'uncertain', posts = 0, created = $2, next_look = $3,
       last_error = 'the database has lost commits' where id = $1`,
    [id, since, now],
  );
}

/** Whether another update of the source may have a job there that is not known here, sent since this one's intent. */
export async function hasOtherUncertainUpdate(
  sql: Sql,
  source: string,
  { id, created }: Pick<OpenJob, 'id' | 'created'>,
  until: Timestamp,
): Promise<boolean> {
  const rows = await sql.query(
    `select from bridge.intake_submissions
     where source = $1 and kind = 'update' and id <> $2 and uuid is null and created <= $4
       and (ended is null or ended >= $3) limit 1`,
    [source, id, created, until],
  );
  return rows.length > 0;
}

/** Most jobs end sooner, and are read for their documents when the intake sees their end. */
export const unreadJobMs = 60_000;

/**
 * A job that the source has taken is read for its document, too: by `due` at the latest, so that it needs no notification.
 * Nothing happens where the source's id of it cannot be stored.
 */
export async function nameSentJob(tx: Sql, id: string, times: { now: Timestamp; due: Timestamp }): Promise<void> {
  const [row] = await tx.query<{ source: string; uuid: string | null; reference: string | null }>(
    `select s.source, s.uuid, e.reference_id as reference
     from bridge.intake_submissions s join bridge.intake_events e on e.id = s.event where s.id = $1`,
    [id],
  );
  const job = idOf(row?.uuid);
  if (row && job !== undefined) await nameOwnJob(tx, { source: row.source, job, reference: row.reference }, times);
}

/** Returns those of the source's ids of jobs that are known here. */
export async function knownJobs(sql: Sql, source: string, uuids: readonly string[]): Promise<Set<string>> {
  const rows = await sql.query<{ uuid: string }>(
    'select uuid from bridge.intake_submissions where event is not null and source = $1 and uuid = any($2::text[])',
    [source, uuids],
  );
  return new Set(rows.map(({ uuid }) => uuid));
}
