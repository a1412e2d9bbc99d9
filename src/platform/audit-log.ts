/**
 * The audit log: who did what, on which object, from where, when, and whether it was allowed. One form for every program:
 * each appends to the table `actions` of its own schema by a function, and the database itself keeps it from being changed.
 * Each entry carries the hash of the one before: `verifyChain` says where somebody has changed it all the same.
 *
 * An action is written before it begins. So none that has changed something is missing, also after a kill; one that did
 * not succeed has a second entry that says so. Details hold no secret: the caller names each of them.
 */
import { hostname, userInfo } from 'node:os';
import { type Timestamp, timestampFromMs } from '#contract/timestamp.ts';
import { type Clock, timestampNow } from './clock.ts';
import type { Sql } from './database/sql.ts';
import { AppError, errorText } from './errors.ts';
import { firstIdAt, timeOrderedId } from './time-ordered-id.ts';

/** `user`: of the console; `cli`: a user of the machine; `key`: an API key; `token`: the operator's; `program`: itself. */
export type ActorKind = 'user' | 'cli' | 'key' | 'token' | 'program';

export interface Actor {
  readonly kind: ActorKind;
  readonly name: string;
}

/** Who does something, and from where. */
export interface ActionOrigin {
  readonly who: Actor;
  /** The address, or for the command line the machine. */
  readonly from: string | null;
}

/** What is done. */
export interface ActionSubject {
  /** Object and verb: `flow.pause`. */
  readonly what: string;
  /** The kind of object and its name: `flow erp-inbox`. */
  readonly object: string | null;
  /** Values of JSON without secrets. */
  readonly details?: Readonly<Record<string, unknown>>;
}

/** `allowed`: it was begun; `failed`: what was begun did not succeed; `refused`: it was not begun. */
export type ActionOutcome = 'allowed' | 'failed' | 'refused';

export interface Action extends ActionOrigin, ActionSubject {
  readonly when: Timestamp;
  readonly outcome: ActionOutcome;
}

export interface RecordedAction extends Action {
  /** Sorts by time. */
  readonly id: string;
  readonly details: Readonly<Record<string, unknown>>;
}

/** The programs that have an audit log; also the names of their schemas. */
export type AuditedProgram = 'service' | 'bridge';

const auditedPrograms: readonly AuditedProgram[] = ['service', 'bridge'];

/** Foreign text, such as the name of a login that was refused, has no length to rely on. */
const textMax = 200;
const detailsMax = 4_000;

/** Appends an action. Rejects when the database is not available: then the action must not be done. */
export async function recordAction(sql: Sql, program: AuditedProgram, action: Action): Promise<void> {
  const { who, what, object, from, when, outcome, details = {} } = action;
  await sql.query(
    // The database sets the time itself, for a role that owns no table.
    `select ${program}.append_action($1, $2, $3, $4, $5, $6, $7, $8, $9)`,
    [
      timeOrderedId(Date.parse(when)),
      when,
      who.kind,
      storable(who.name),
      what,
      object === null ? null : storable(object),
      from === null ? null : storable(from),
      outcome,
      detailsText(details),
    ],
  );
}

/**
 * Records the action, then does it. When `work` fails, records that too, and throws its error. Rejects without doing
 * anything when the action cannot be recorded.
 */
export async function performAction<T>(
  { database, program, clock }: { database: Sql; program: AuditedProgram; clock: Clock },
  by: ActionOrigin,
  subject: ActionSubject,
  work: () => Promise<T>,
): Promise<T> {
  await recordAction(database, program, { ...by, ...subject, when: timestampNow(clock), outcome: 'allowed' });
  try {
    return await work();
  } catch (error) {
    const details = { ...subject.details, error: errorText(error).slice(0, 500) };
    const failed = { ...by, ...subject, details, when: timestampNow(clock), outcome: 'failed' } as const;
    // The error of the action says more than that of its record.
    await recordAction(database, program, failed).catch(() => undefined);
    throw error;
  }
}

/** Which actions are read; all of what is given must fit. */
export interface ActionFilter {
  /** The name of who did it. */
  readonly name?: string | undefined;
  /** `flow`, or more of it: `flow.pause`. */
  readonly what?: string | undefined;
  /** `flow erp-inbox` */
  readonly object?: string | undefined;
  readonly outcome?: ActionOutcome | undefined;
  readonly from?: Timestamp | undefined;
  readonly to?: Timestamp | undefined;
  /** Actions before this one, by its id: the next page. */
  readonly before?: string | undefined;
  readonly limit: number;
}

/** Returns actions, the latest first. */
export async function readActions(sql: Sql, program: AuditedProgram, filter: ActionFilter): Promise<RecordedAction[]> {
  const idAt = (time: Timestamp | undefined) => (time === undefined ? null : firstIdAt(Date.parse(time)));
  const rows = await sql.query<{
    id: string;
    at: Timestamp;
    actor: ActorKind;
    name: string;
    what: string;
    object: string | null;
    origin: string | null;
    outcome: ActionOutcome;
    details: string;
  }>(
    `select id, at, actor, name, what, object, origin, outcome, details from ${program}.actions
     where ($1::text is null or name = $1) and ($2::text is null or what = $2 or starts_with(what, $2 || '.'))
       and ($3::text is null or object = $3) and ($4::text is null or outcome = $4)
       and ($5::uuid is null or id >= $5) and ($6::uuid is null or id < $6) and ($7::uuid is null or id < $7)
     order by id desc limit $8`,
    [
      filter.name ?? null,
      filter.what ?? null,
      filter.object ?? null,
      filter.outcome ?? null,
      idAt(filter.from),
      idAt(filter.to),
      filter.before ?? null,
      filter.limit,
    ],
  );
  return rows.map(({ id, at, actor, name, what, object, origin, outcome, details }) => ({
    id,
    when: at,
    who: { kind: actor, name },
    what,
    object,
    from: origin,
    outcome,
    details: JSON.parse(details) as Record<string, unknown>,
  }));
}

export interface LoggedAction extends RecordedAction {
  readonly program: AuditedProgram;
}

/** Returns actions of several logs as one page, the latest first: ids sort by time, whatever the log. */
export async function readAuditLogs(
  sql: Sql,
  programs: readonly AuditedProgram[],
  filter: ActionFilter,
): Promise<LoggedAction[]> {
  const pages: LoggedAction[] = [];
  for (const program of programs)
    for (const action of await readActions(sql, program, filter)) pages.push({ program, ...action });
  return pages.sort((one, other) => (one.id < other.id ? 1 : -1)).slice(0, filter.limit);
}

/** The programs whose audit log is in this database and may be read by its role. */
export async function findAuditLogs(sql: Sql): Promise<AuditedProgram[]> {
  // From the catalog: the shorter functions fail for a schema that the role may not use.
  const rows = await sql.query<{ program: AuditedProgram }>(
    `select n.nspname as program from pg_catalog.pg_class c join pg_catalog.pg_namespace n on n.oid = c.relnamespace
     where c.relname = 'actions' and n.nspname = any($1)
       and has_schema_privilege(n.oid, 'usage') and has_table_privilege(c.oid, 'select')
     order by n.nspname`,
    [auditedPrograms],
  );
  return rows.map(({ program }) => program);
}

const batchSize = 5_000;
/** Of one call. */
const linkedMax = 1_000;
const hourMs = 3_600_000;

/**
 * Returns a function that links new entries into the chain when it is called, and deletes those of more than `days` ago,
 * one batch an hour or as long as there is more. For a role that owns no table the database keeps them for as long as
 * `fixActionDays` says.
 */
export function createActionUpkeep({
  database,
  program,
  clock,
  days,
}: {
  database: Sql;
  program: AuditedProgram;
  clock: Clock;
  days: number;
}): () => Promise<void> {
  let nextMs = Number.NEGATIVE_INFINITY;
  return async () => {
    await database.query(`select ${program}.link_actions(${linkedMax})`);
    const nowMs = clock.nowMs();
    if (nowMs < nextMs) return;
    if ((await pruneActions(database, program, nowMs, days)) < batchSize) nextMs = nowMs + hourMs;
  };
}

/** Fixes for how long the database keeps the log, whatever a program asks; for the role that owns the tables. */
export async function fixActionDays(sql: Sql, program: AuditedProgram, days: number): Promise<void> {
  await sql.query(
    `create or replace function ${program}.action_days() returns int language sql immutable as 'select ${Math.trunc(days)}'`,
  );
}

export interface VerifiedChain {
  /** Entries that are linked, of which the hash of the last vouches for all before it; null: none is linked yet. */
  readonly entries: number;
  readonly last: { readonly number: number; readonly hash: string } | null;
  /** Entries that an erasure has changed, which left its mark in them. */
  readonly erased: number;
  /** The first entry at which the chain breaks, and why. */
  readonly broken: { readonly id: string; readonly number: number; readonly why: string } | null;
}

/** Follows the chain from the oldest entry that is kept to the newest. */
export async function verifyChain(sql: Sql, program: AuditedProgram): Promise<VerifiedChain> {
  const [found] = await sql.query<{
    entries: number;
    erased: number;
    lastNumber: number | null;
    lastHash: string | null;
    id: string | null;
    number: number | null;
    why: string | null;
  }>(
    `with linked as (
       select id, number, hash, content, lag(number) over w as before, lag(hash) over w as hash_before,
         convert_to(jsonb_build_array(id, at, actor, what, outcome)::text, 'UTF8') as fixed,
         sha256(convert_to(jsonb_build_array(name, object, origin, details)::text, 'UTF8')) as content_now,
         concat_ws(' ', name, object, origin, details) ~ 'erased-[0-9a-f]{12}@erased\\.invalid' as has_mark
       from ${program}.actions where number is not null window w as (order by number)),
     checked as (
       select *, content <> content_now and has_mark as is_erased, case
           when before is not null and number <> before + 1 then 'entries before it are missing'
           when before is not null and hash <> sha256(hash_before || content || fixed) then 'it, or the one before it, was changed'
           when before is null and number = 1 and hash <> sha256(content || fixed) then 'it was changed'
           when content <> content_now and not has_mark then 'its name, object, origin or details were changed'
         end as why
       from linked)
     select (select count(*)::int from checked) as entries, (select count(*)::int from checked where is_erased) as erased,
       last.number as "lastNumber", encode(last.hash, 'hex') as "lastHash", broken.id, broken.number, broken.why
     from (select 1) as one
       left join lateral (select number, hash from checked order by number desc limit 1) last on true
       left join lateral (select id, number, why from checked where why is not null order by number limit 1) broken on true`,
  );
  if (!found) throw new AppError('internal', 'The audit log could not be read.');
  const { entries, erased, lastNumber, lastHash, id, number, why } = found;
  return {
    entries,
    erased,
    last: lastNumber === null || lastHash === null ? null : { number: lastNumber, hash: lastHash },
    broken: id === null || number === null || why === null ? null : { id, number, why },
  };
}

async function pruneActions(sql: Sql, program: AuditedProgram, nowMs: number, days: number): Promise<number> {
  const [row] = await sql.query<{ pruned: number }>(`select ${program}.prune_actions($1, $2, ${batchSize}) as pruned`, [
    timestampFromMs(nowMs),
    days,
  ]);
  return row?.pruned ?? 0;
}

/** The user who runs a command, and the machine. */
export function machineOrigin(): ActionOrigin {
  return { who: { kind: 'cli', name: machineUser() }, from: hostname() };
}

/** The user of this machine who runs the process. Where a user id has no name, as in containers, it is the id. */
export function machineUser(): string {
  try {
    return userInfo().username;
  } catch {
    return `uid ${process.getuid?.() ?? 'unknown'}`;
  }
}

/** PostgreSQL takes neither a NUL nor half of a surrogate pair. */
function storable(text: string): string {
  return text.replaceAll('\0', '').slice(0, textMax).toWellFormed();
}

function detailsText(details: Readonly<Record<string, unknown>>): string {
  const text = JSON.stringify(details);
  return text.length <= detailsMax ? text : JSON.stringify({ shortened: text.slice(0, detailsMax) });
}
