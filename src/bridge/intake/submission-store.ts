/** The rows of `bridge.intake_submissions`: submissions of suppliers, and jobs of requisitions. One operation a function. */
import type { Timestamp } from '#contract/timestamp.ts';
import type { Sql } from '#platform/database/sql.ts';
import { storableText } from '#platform/database/storable-text.ts';

export interface OpenSubmission {
  readonly id: string;
  readonly state: 'intent' | 'sent' | 'uncertain';
  readonly created: Timestamp;
  readonly posts: number;
  readonly uuid: string | null;
  readonly looks: number;
  readonly nextLook: Timestamp;
}

/** SQL: the submission `s` has not ended. */
export const isOpen = "s.state in ('intent', 'sent', 'uncertain')";

/** Returns the submissions of suppliers that have not ended, the oldest first. */
export async function readOpenSubmissions(sql: Sql, intake: string): Promise<OpenSubmission[]> {
  return sql.query<OpenSubmission>(
    `select s.id, s.state, s.created, s.posts, s.uuid, s.looks, s.next_look as "nextLook"
     from bridge.intake_submissions s where s.intake = $1 and s.event is null and ${isOpen} order by s.created, s.id`,
    [intake],
  );
}

/** Commits the intent of a submission of suppliers: this POST of it is about to be made, and ends at `ends` at the latest. */
export async function insertSubmission(
  tx: Sql,
  intent: {
    id: string;
    intake: string;
    source: string;
    records: number;
    posts: number;
    now: Timestamp;
    ends: Timestamp;
    nextLook: Timestamp;
  },
): Promise<void> {
  const { id, intake, source, records, posts, now, ends, nextLook } = intent;
  await tx.query(
    `insert into bridge.intake_submissions (id, intake, source, state, records, posts, created, ends, next_look)
     values ($1, $2, $3, 'intent', $4, $5, $6, $7, $8)`,
    [id, intake, source, records, posts, now, ends, nextLook],
  );
}

/** Commits the intent to make the POST of a submission again. */
export async function repeatIntent(
  tx: Sql,
  id: string,
  { ends, nextLook }: { ends: Timestamp; nextLook: Timestamp },
): Promise<void> {
  await tx.query(
    `update bridge.intake_submissions set state = 'intent', posts = posts + 1, ends = $2, next_look = $3, looks = 0
     where id = $1`,
    [id, ends, nextLook],
  );
}

/** Stores the id that the source has given to the submission. */
export async function storeSent(tx: Sql, id: string, uuid: string, nextLook: Timestamp): Promise<void> {
  await tx.query(
    `update bridge.intake_submissions set state = 'sent', uuid = $2, next_look = $3, looks = 0, last_error = null
     where id = $1`,
    [id, uuid, nextLook],
  );
}

/** Stores that it is not known whether the POST took effect. */
export async function storeUncertain(tx: Sql, id: string, error: string, nextLook: Timestamp): Promise<void> {
  await tx.query(
    `update bridge.intake_submissions set state = 'uncertain', last_error = $2, next_look = $3 where id = $1`,
    [id, storableText(error), nextLook],
  );
}

/** Stores that the outcome is not known yet, and when to look again. */
export async function storeLook(tx: Sql, id: string, nextLook: Timestamp, error?: string): Promise<void> {
  await tx.query(
    `update bridge.intake_submissions
     set looks = looks + 1, next_look = $2, last_error = coalesce($3, last_error) where id = $1`,
    [id, nextLook, error === undefined ? null : storableText(error)],
  );
}

/** Ends a submission. */
export async function endSubmission(
  tx: Sql,
  id: string,
  end: {
    state: 'processed' | 'released' | 'completed' | 'failed' | 'held';
    error: string | null;
    now: Timestamp;
  },
): Promise<void> {
  await tx.query(
    `update bridge.intake_submissions
     set state = $2, last_error = $3, ended = $4, next_look = null where id = $1`,
    [id, end.state, end.error === null ? null : storableText(end.error), end.now],
  );
}

/** Returns how many submissions and jobs of an intake have not ended. */
export async function countOpen(sql: Sql, intake: string): Promise<number> {
  const [open] = await sql.query<{ count: number }>(
    `select count(*)::int as count from bridge.intake_submissions s where s.intake = $1 and ${isOpen}`,
    [intake],
  );
  return open?.count ?? 0;
}
