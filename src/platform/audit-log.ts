/**
 * The audit log: who did what, on which object, from where, when, and whether it was allowed. One form for every program:
 * each writes to the table `actions` of its own schema, which the database itself keeps from being changed.
 *
 * An action is written before it begins. So none that has changed something is missing, also after a kill; one that did
 * not succeed has a second entry that says so. Details hold no secret: the caller names each of them.
 */
import { hostname, userInfo } from 'node:os';
import type { Timestamp } from '#contract/timestamp.ts';
import { type Clock, timestampNow } from './clock.ts';
import type { Sql } from './database/sql.ts';
import { errorText } from './errors.ts';
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
    `insert into ${program}.actions (id, at, actor, name, what, object, origin, outcome, details)
     values ($1, $2, $3, $4, $5, $6, $7, $8, $9)`,
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
const hourMs = 3_600_000;

/**
 * Returns a function that deletes the actions of more than `days` ago when it is called, one batch an hour or as long as
 * there is more. The database refuses to delete those of the last 30 days.
 */
export function createActionPruning({
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
    const nowMs = clock.nowMs();
    if (nowMs < nextMs) return;
    if ((await pruneActions(database, program, nowMs, days)) < batchSize) nextMs = nowMs + hourMs;
  };
}

async function pruneActions(sql: Sql, program: AuditedProgram, nowMs: number, days: number): Promise<number> {
  const rows = await sql.query(
    `delete from ${program}.actions where id = any(array(
       select id from ${program}.actions where id < $1 order by id limit ${batchSize} for update skip locked))
     returning 1`,
    [firstIdAt(nowMs - days * 24 * hourMs)],
  );
  return rows.length;
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
