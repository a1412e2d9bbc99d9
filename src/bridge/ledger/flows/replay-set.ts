/**
 * Replays of many documents: the set is fixed when a replay is asked for, its documents are handed to the pusher a batch
 * at a time, and a replay that is stopped hands over no more. Example, of 1,100 dead letters:
 *
 *     12:00:00  asked for: 1,100 documents are in the set
 *     12:00:00  500 handed over; they are due
 *     12:00:02  300 of them are through: 500 more are handed over
 *     12:00:03  stopped: 100 stay as they were
 *
 * A process that dies between two batches leaves the rest to the next call of `advanceReplays`, in any process.
 */
import type { Timestamp } from '#contract/timestamp.ts';
import type { Database } from '#platform/database/database.ts';
import type { Sql } from '#platform/database/sql.ts';
import { AppError } from '#platform/errors.ts';
import type { DocumentPlace } from '../attempts/document-rows.ts';
import { type DeadLetterFilter, deadLetterCondition } from './dead-letter-reasons.ts';

export interface Replay {
  readonly id: number;
  readonly title: string;
  readonly askedBy: string;
  readonly asked: Timestamp;
  readonly stopped: Timestamp | null;
  readonly finished: Timestamp | null;
  /** How many documents are in the set, how many are handed over, and what became of those. */
  readonly total: number;
  readonly handedOver: number;
  readonly delivered: number;
  readonly waiting: number;
  readonly refused: number;
}

/** So many documents are handed over at once, and no more while half as many of the set still wait. */
const batchMost = 500;
/** A larger set is refused: it would be written row by row. */
export const replayMost = 100_000;

/**
 * Fixes the set of the dead letters that match, and returns the id of the replay and how many they are. Where `expected`
 * is given and another number matches, nothing is done: the operator has agreed to a set of that size. Throws AppError
 * `conflict` then, and `not-found` where none matches.
 */
export async function startReplay(
  database: Database,
  filter: DeadLetterFilter,
  { title, askedBy, expected }: { title: string; askedBy: string; expected: number },
  now: Timestamp,
): Promise<{ id: number; total: number }> {
  return database.transaction(async (tx) => {
    const [replay] = await tx.query<{ id: number }>(
      'insert into bridge.replays (title, asked_by, asked) values ($1, $2, $3) returning id',
      [title, askedBy, now],
    );
    if (!replay) throw new AppError('internal', 'A replay was not stored.');
    const { condition, params } = deadLetterCondition(filter, 1);
    const [set] = await tx.query<{ total: number }>(
      `with added as (
         insert into bridge.replay_documents (replay, flow, kind, key)
         select $1, d.flow, d.kind, d.key from bridge.flow_documents d
         join bridge.flows f on f.name = d.flow and d.kind = any(f.kinds)
         where ${condition} limit ${replayMost + 1} returning 1)
       select count(*)::int as total from added`,
      [replay.id, ...params],
    );
    const total = set?.total ?? 0;
    if (total === 0) throw new AppError('not-found', 'No dead letter matches any more.');
    if (total > replayMost)
      throw new AppError('invalid', `More than ${replayMost} dead letters match: choose a flow, a kind or a reason.`);
    if (total !== expected)
      throw new AppError(
        'conflict',
        `${total} dead letters match now, and not the ${expected} that were shown. Look again, and repeat it if it is right.`,
      );
    return { id: replay.id, total };
  });
}

/** Hands the next documents of each open replay to the pusher. Returns the flows that have work now. */
export async function advanceReplays(database: Database, now: Timestamp): Promise<string[]> {
  const open = await database.query<{ id: number }>(
    'select id from bridge.replays where stopped is null and finished is null order by id',
  );
  const flows = new Set<string>();
  for (const { id } of open) for (const flow of await advance(database, id, now)) flows.add(flow);
  return [...flows];
}

async function advance(database: Database, id: number, now: Timestamp): Promise<string[]> {
  return database.transaction(async (tx) => {
    const [held] = await tx.query(
      `select id from bridge.replays where id = $1 and stopped is null and finished is null
       for update skip locked`,
      [id],
    );
    if (!held) return [];
    const [waiting] = await tx.query<{ count: number }>(
      `select count(*)::int as count from bridge.replay_documents r
       join bridge.flow_documents d on d.flow = r.flow and d.kind = r.kind and d.key = r.key
       where r.replay = $1 and r.handed_over is not null and d.due is not null and d.dead_since is null
         and d.attempts = 0`,
      [id],
    );
    if ((waiting?.count ?? 0) > batchMost / 2) return [];
    const batch = await tx.query<DocumentPlace>(
      `with batch as (
         update bridge.replay_documents r set handed_over = $2
         where (r.replay, r.flow, r.kind, r.key) in (
           select replay, flow, kind, key from bridge.replay_documents
           where replay = $1 and handed_over is null order by flow, kind, key limit ${batchMost})
         returning r.flow, r.kind, r.key)
       update bridge.flow_documents d
       set wanted = d.wanted + 1, due = least(d.due, $2), waiting_since = coalesce(d.waiting_since, $2), attempts = 0,
         dead_since = null
       from batch b where d.flow = b.flow and d.kind = b.kind and d.key = b.key and d.dead_since is not null
       returning d.flow, d.kind, d.key`,
      [id, now],
    );
    await tx.query(
      `update bridge.replays set finished = $2 where id = $1
         and not exists (select from bridge.replay_documents where replay = $1 and handed_over is null)`,
      [id, now],
    );
    return [...new Set(batch.map(({ flow }) => flow))];
  });
}

/** Hands over no more documents of this replay; those that were handed over are sent. Does nothing for an ended one. */
export async function stopReplay(database: Database, id: number, now: Timestamp): Promise<void> {
  await database.query(
    'update bridge.replays set stopped = $2 where id = $1 and stopped is null and finished is null',
    [id, now],
  );
}

/** Returns the latest replays with their progress, the newest first. With `flows` only those that touch no other flow. */
export function readReplays(
  sql: Sql,
  { limit, flows, id }: { limit: number; flows?: readonly string[] | undefined; id?: number },
): Promise<Replay[]> {
  return sql.query<Replay>(
    `select p.id, p.title, p.asked_by as "askedBy", p.asked, p.stopped, p.finished, n.* from bridge.replays p
     cross join lateral (
       select count(*)::int as total, count(r.handed_over)::int as "handedOver",
         (count(*) filter (where r.handed_over is not null and d.due is null and d.dead_since is null))::int as delivered,
         (count(*) filter (where r.handed_over is not null and d.due is not null and d.dead_since is null))::int as waiting,
         (count(*) filter (where r.handed_over is not null and d.dead_since is not null))::int as refused
       from bridge.replay_documents r
       left join bridge.flow_documents d on d.flow = r.flow and d.kind = r.kind and d.key = r.key
       where r.replay = p.id) n
     where ($1::bigint is null or p.id = $1) and ($2::text[] is null or not exists (
       select from bridge.replay_documents r where r.replay = p.id and r.flow <> all($2)))
     order by p.id desc limit ${Math.trunc(limit)}`,
    [id ?? null, flows ?? null],
  );
}

/** Deletes replays that ended before then. */
export async function pruneReplays(sql: Sql, before: Timestamp): Promise<void> {
  await sql.query('delete from bridge.replays where coalesce(finished, stopped) < $1', [before]);
}
