/** The rows of `bridge.intake_events` and their requisitions, with their lots. One operation a function. */
import { randomUUID } from 'node:crypto';
import type { Timestamp } from '#contract/timestamp.ts';
import type { Sql } from '#platform/database/sql.ts';
import { storableText } from '#platform/database/storable-text.ts';
import { isOpen } from '../submission-store.ts';
import type { LotOrigin } from './event-payload.ts';

export type EventState = 'gathering' | 'making' | 'made' | 'held' | 'failed';

/** A requisition that is to be compared, with the event that it is in. */
export interface DueRequisition {
  readonly erpKey: string;
  readonly body: string;
  readonly event: string | null;
  readonly state: EventState | null;
  readonly groupKey: string | null;
  readonly needHash: Buffer | null;
  readonly toldHash: Buffer | null;
  readonly eventError: string | null;
}

/** Returns requisitions that are to be compared, those that have waited longest first. */
export async function readDueRequisitions(tx: Sql, intake: string, now: Timestamp, limit: number) {
  return tx.query<DueRequisition>(
    `select r.erp_key as "erpKey", r.body, e.id as event, e.state, e.group_key as "groupKey",
       m.need_hash as "needHash", m.told_hash as "toldHash", e.last_error as "eventError"
     from bridge.intake_records r
     left join bridge.intake_members m on m.intake = r.intake and m.erp_key = r.erp_key and m.live
     left join bridge.intake_events e on e.id = m.event
     where r.intake = $1 and r.due <= $2 and r.action is null and r.submission is null and r.dead_since is null
     order by r.due, r.erp_key limit $3`,
    [intake, now, limit],
  );
}

/**
 * Puts a requisition into the event that its group gathers, or into a new one. An event that is full is ready. It must
 * be in no live event.
 */
export async function joinGroup(
  tx: Sql,
  given: {
    intake: string;
    source: string;
    make: string;
    groupKey: string;
    erpKey: string;
    lots: number;
    needHash: Buffer;
    most: number;
    now: Timestamp;
    ready: Timestamp;
  },
): Promise<void> {
  const { intake, source, make, groupKey, erpKey, lots, needHash, most, now, ready } = given;
  const [open] = await tx.query<{ id: string; lots: number }>(
    `select e.id, sum(m.lots)::int as lots from bridge.intake_events e
     join bridge.intake_members m on m.event = e.id and m.live
     where e.intake = $1 and e.state = 'gathering' and e.group_key = $2 and e.make = $3
     group by e.id having sum(m.lots) + $4 <= $5 order by e.created, e.id limit 1`,
    [intake, groupKey, make, lots, most],
  );
  const event = open?.id ?? (await insertIntakeEvent(tx, { intake, source, make, groupKey, now, ready }));
  await tx.query(
    `insert into bridge.intake_members (event, intake, erp_key, lots, need_hash) values ($1, $2, $3, $4, $5)
     on conflict (event, erp_key) do update set live = true, lots = $4, need_hash = $5, told_hash = null`,
    [event, intake, erpKey, lots, needHash],
  );
  if ((open?.lots ?? 0) + lots >= most)
    await tx.query('update bridge.intake_events set ready = least(ready, $2) where id = $1', [event, now]);
}

export async function insertIntakeEvent(
  tx: Sql,
  given: { intake: string; source: string; make: string; groupKey: string; now: Timestamp; ready: Timestamp },
): Promise<string> {
  const id = randomUUID();
  await tx.query(
    `insert into bridge.intake_events (id, intake, source, make, group_key, state, created, ready)
     values ($1, $2, $3, $4, $5, 'gathering', $6, $7)`,
    [id, given.intake, given.source, given.make, storableText(given.groupKey), given.now, given.ready],
  );
  return id;
}

/** Stores what a requisition wants of the event that still gathers it. */
export async function updateMember(
  tx: Sql,
  { event, erpKey, lots, needHash }: { event: string; erpKey: string; lots: number; needHash: Buffer },
): Promise<void> {
  await tx.query('update bridge.intake_members set lots = $3, need_hash = $4 where event = $1 and erp_key = $2', [
    event,
    erpKey,
    lots,
    needHash,
  ]);
}

/** Takes requisitions out of an event that gathers; an event without any is deleted. */
export async function leaveGroup(tx: Sql, event: string, erpKeys: readonly string[]): Promise<void> {
  await tx.query('delete from bridge.intake_members where event = $1 and erp_key = any($2::text[])', [event, erpKeys]);
  await tx.query(
    `delete from bridge.intake_events e where e.id = $1 and e.state = 'gathering'
       and not exists (select from bridge.intake_members m where m.event = e.id)`,
    [event],
  );
}

/** Marks an event whose requisitions want something else than was sent. */
export async function markUpdateDue(tx: Sql, event: string, now: Timestamp): Promise<void> {
  await tx.query('update bridge.intake_events set update_due = coalesce(update_due, $2) where id = $1', [event, now]);
}

export interface IntakeEvent {
  readonly id: string;
  readonly make: string;
  readonly groupKey: string;
  readonly state: EventState;
  readonly entity: string | null;
  readonly name: string | null;
  readonly reference: string | null;
}

const columns = `e.id, e.make, e.group_key as "groupKey", e.state, e.entity, e.name, e.reference_id as reference`;
/** SQL: no job for the event `e` is open. */
export const hasNoJob = `not exists (select from bridge.intake_submissions s where s.event = e.id and ${isOpen})`;

/** Returns the next event that is to be made. */
export async function readReadyEvent(tx: Sql, intake: string, now: Timestamp): Promise<IntakeEvent | undefined> {
  const [event] = await tx.query<IntakeEvent>(
    `select ${columns} from bridge.intake_events e
     where e.intake = $1 and e.state = 'gathering' and e.ready <= $2 order by e.ready, e.created, e.id limit 1`,
    [intake, now],
  );
  return event;
}

/** Returns the next event that is to be updated, or that files are to be attached to. */
export async function readChangedEvent(tx: Sql, intake: string, now: Timestamp): Promise<IntakeEvent | undefined> {
  const [event] = await tx.query<IntakeEvent>(
    `select ${columns} from bridge.intake_events e
     where e.intake = $1 and e.state = 'made' and e.update_due <= $2 and ${hasNoJob}
     order by e.update_due, e.id limit 1`,
    [intake, now],
  );
  return event;
}

export async function readEventWithFiles(tx: Sql, intake: string, now: Timestamp): Promise<IntakeEvent | undefined> {
  const [event] = await tx.query<IntakeEvent>(
    `select ${columns} from bridge.intake_events e
     where e.intake = $1 and e.state = 'made' and e.files_due <= $2 and ${hasNoJob}
     order by e.files_due, e.id limit 1`,
    [intake, now],
  );
  return event;
}

export async function readIntakeEvent(tx: Sql, id: string): Promise<IntakeEvent | undefined> {
  const [event] = await tx.query<IntakeEvent>(`select ${columns} from bridge.intake_events e where e.id = $1`, [id]);
  return event;
}

export interface Member {
  readonly erpKey: string;
  readonly body: string;
  readonly needHash: Buffer;
  readonly toldHash: Buffer | null;
}

/** Returns the requisitions of an event, the one that was seen first before the others. */
export async function readMembers(tx: Sql, event: string): Promise<Member[]> {
  return tx.query<Member>(
    `select r.erp_key as "erpKey", r.body, m.need_hash as "needHash", m.told_hash as "toldHash"
     from bridge.intake_members m join bridge.intake_records r on r.intake = m.intake and r.erp_key = m.erp_key
     where m.event = $1 and m.live order by r.first_seen, r.erp_key`,
    [event],
  );
}

/** Stores what of the requisitions is being sent. */
export async function storeNeedHashes(
  tx: Sql,
  event: string,
  hashes: readonly { erpKey: string; hash: Buffer }[],
): Promise<void> {
  await tx.query(
    `update bridge.intake_members m set need_hash = g.hash from unnest($2::text[], $3::bytea[]) as g (erp_key, hash)
     where m.event = $1 and m.erp_key = g.erp_key`,
    [event, hashes.map(({ erpKey }) => erpKey), hashes.map(({ hash }) => hash)],
  );
}

/** Stores about what changes a person has been told: those of requisitions that are dead letters. */
export async function storeTold(
  tx: Sql,
  event: string,
  hashes: readonly { erpKey: string; hash: Buffer }[],
): Promise<void> {
  await tx.query(
    `update bridge.intake_members m set told_hash = g.hash
     from unnest($2::text[], $3::bytea[]) as g (erp_key, hash), bridge.intake_records r
     where m.event = $1 and m.erp_key = g.erp_key and r.intake = m.intake and r.erp_key = m.erp_key
       and r.dead_since is not null`,
    [event, hashes.map(({ erpKey }) => erpKey), hashes.map(({ hash }) => hash)],
  );
}

/** Ends the membership of requisitions: they may become part of another event. */
export async function endMembers(tx: Sql, event: string, erpKeys: readonly string[]): Promise<void> {
  await tx.query('update bridge.intake_members set live = false where event = $1 and erp_key = any($2::text[])', [
    event,
    erpKeys,
  ]);
}

/** Stores which lines the lots of the event are made of now. */
export async function storeLots(tx: Sql, event: string, lots: readonly LotOrigin[]): Promise<void> {
  const own = Map.groupBy(lots, ({ erpKey }) => erpKey);
  // A name that was cut in the middle of a character could not be read in SQL.
  const texts = [...own.values()].map((same) =>
    JSON.stringify(same.map(({ lot, line }) => ({ lot: lot.toWellFormed(), line: line.toWellFormed() }))),
  );
  await tx.query(
    `update bridge.intake_members m
     set made_lots = coalesce((select g.lots from unnest($2::text[], $3::text[]) as g (erp_key, lots)
                               where g.erp_key = m.erp_key), '[]')
     where m.event = $1`,
    [event, [...own.keys()], texts],
  );
}

/** Returns which lines the lots of the event are made of. */
export async function readLots(tx: Sql, event: string): Promise<LotOrigin[]> {
  const rows = await tx.query<{ erpKey: string; lots: string }>(
    'select erp_key as "erpKey", made_lots as lots from bridge.intake_members where event = $1',
    [event],
  );
  return rows.flatMap(({ erpKey, lots }) =>
    (JSON.parse(lots) as Omit<LotOrigin, 'erpKey'>[]).map((lot) => ({ ...lot, erpKey })),
  );
}

/** Whether an event of the source is known here already. */
export async function readClaimed(sql: Sql, source: string, entities: readonly string[]): Promise<Set<string>> {
  const rows = await sql.query<{ entity: string }>(
    'select entity from bridge.intake_events where source = $1 and entity = any($2::text[])',
    [source, entities],
  );
  return new Set(rows.map(({ entity }) => entity));
}
