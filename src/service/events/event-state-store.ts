/** The changing state of an event in SQL: its status, the times of its status, and its rounds. */
import type { Timestamp } from '#contract/timestamp.ts';
import type { Sql } from '#platform/database/sql.ts';
import type { Round, SourcingEvent } from '../domain/sourcing-event.ts';

type EventState = Pick<SourcingEvent, 'status' | 'published' | 'closed' | 'rounds'>;

/** Writes the differences between the two states. Returns whether there were any. The caller holds the event's lock. */
export async function saveEventState(
  sql: Sql,
  before: Pick<SourcingEvent, 'id'> & EventState,
  after: EventState,
): Promise<boolean> {
  const { status, published, closed } = after;
  const sameStatus = status === before.status && published === before.published && closed === before.closed;
  const writeStatus = 'update service.sourcing_events set status = $2, published = $3, closed = $4 where id = $1';
  const changed = after.rounds.filter((round) => !before.rounds.includes(round));
  await Promise.all([
    sameStatus ? undefined : sql.query(writeStatus, [before.id, status, published, closed]),
    changed.length > 0 ? saveRounds(sql, before.id, changed) : undefined,
  ]);
  return !sameStatus || changed.length > 0;
}

async function saveRounds(sql: Sql, eventId: string, rounds: readonly Round[]): Promise<void> {
  await sql.query(
    `insert into service.rounds
       (event_id, number, starts, ends, status, awarded_cost, awarded_lot_count, reopened)
     select $1, * from unnest($2::int[], $3::timestamptz[], $4::timestamptz[], $5::text[], $6::text[], $7::int[],
                              $8::boolean[])
     on conflict (event_id, number) do update
       set starts = excluded.starts, ends = excluded.ends, status = excluded.status,
           awarded_cost = excluded.awarded_cost, awarded_lot_count = excluded.awarded_lot_count,
           reopened = excluded.reopened`,
    [
      eventId,
      rounds.map((round) => round.number),
      rounds.map((round) => round.starts),
      rounds.map((round) => round.ends),
      rounds.map((round) => round.status),
      rounds.map((round) => round.awardedCost),
      rounds.map((round) => round.awardedLotCount),
      rounds.map((round) => round.reopened),
    ],
  );
}

/**
 * The open events in which a round should have begun or ended by now. `loadEventNow` changes each of them.
 */
export async function eventsWithDueRounds(sql: Sql, now: Timestamp): Promise<string[]> {
  const rows = await sql.query<{ event_id: string }>(
    `select r.event_id from service.rounds r join service.sourcing_events e on e.id = r.event_id
     where r.status = 'ACTIVE' and r.ends <= $1 and e.status = 'OPEN'
     union
     select r.event_id from service.rounds r join service.sourcing_events e on e.id = r.event_id
     where r.status = 'PENDING' and r.starts <= $1 and e.status = 'OPEN'
       and not exists (select from service.rounds first
                       where first.event_id = r.event_id and first.status = 'PENDING' and first.number < r.number)`,
    [now],
  );
  return rows.map((row) => row.event_id);
}

/** When the next round of an open event begins or ends after `now`; undefined when there is none. */
export async function nextRoundMoment(sql: Sql, now: Timestamp): Promise<Timestamp | undefined> {
  const [row] = await sql.query<{ moment: Timestamp | null }>(
    `select least(
       (select r.ends from service.rounds r join service.sourcing_events e on e.id = r.event_id
        where r.status = 'ACTIVE' and r.ends > $1 and e.status = 'OPEN' order by r.ends limit 1),
       (select r.starts from service.rounds r join service.sourcing_events e on e.id = r.event_id
        where r.status = 'PENDING' and r.starts > $1 and e.status = 'OPEN' order by r.starts limit 1)) as moment`,
    [now],
  );
  return row?.moment ?? undefined;
}
