/**
 * The rows of `bridge.intake_records`: what an ERP holds, and what of it is to be compared or sent. One
 * operation a function; each runs in the transaction of its caller, which holds the lease on the intake.
 */
import type { ReadStream, RecordOf } from '#connector/records.ts';
import type { SupplierChange } from '#contract/supplier.ts';
import type { Timestamp } from '#contract/timestamp.ts';
import type { Sql } from '#platform/database/sql.ts';
import { storableText } from '#platform/database/storable-text.ts';
import { sha256 } from '#platform/sha256.ts';
import type { SupplierView } from './compare-supplier.ts';
import { type BadRecord, erpKeyOf } from './read-erp.ts';

/** What a record is to become at the source. */
export type IntakeAction = 'create' | 'update' | 'archive';

/**
 * Of an object with members in any order: a connector may return them in another order at each read. Half a character, as
 * of a text that was cut in the middle of an emoji, becomes U+FFFD: PostgreSQL reads no member of a JSON with one.
 */
function stableJson(value: unknown): string {
  return JSON.stringify(value, (_name, member: unknown) => {
    if (typeof member === 'string') return member.toWellFormed();
    if (typeof member !== 'object' || member === null || Array.isArray(member)) return member;
    const members = Object.entries(member).map(([name, own]) => [name.toWellFormed(), own] as const);
    return Object.fromEntries(members.sort(([a], [b]) => (a < b ? -1 : 1)));
  });
}

/**
 * Stores the records of a page. A changed record gets a new version, and is to be compared; an
 * unchanged one stays as it is, so that a page that is read twice does nothing. Returns how many have changed.
 */
export async function storePage(
  tx: Sql,
  given: {
    intake: string;
    source: string;
    records: readonly { record: RecordOf<ReadStream>; matchValues: readonly string[] }[];
    bad: readonly BadRecord[];
    /** When the page was asked for. */
    seen: Timestamp;
    now: Timestamp;
  },
): Promise<number> {
  const { intake, source, seen, now } = given;
  // Oldest change first: of a record that stands twice in a page, the later entry counts.
  const rows = new Map<string, { body: string; matchValues: readonly string[]; fault: string | null }>();
  for (const { record, matchValues } of given.records)
    rows.set(erpKeyOf(record), { body: stableJson(record), matchValues, fault: null });
  for (const { erpKey, why, body } of given.bad)
    if (erpKey !== undefined)
      rows.set(erpKey, { body: stableJson(body), matchValues: [], fault: `The ERP's record cannot be read: ${why}` });
  if (rows.size === 0) return 0;
  // In the order of the keys: two transactions cannot wait for each other.
  const sorted = [...rows].sort(([a], [b]) => (a < b ? -1 : 1));
  const changed = await tx.query(
    `with given as (
       select * from unnest($3::text[], $4::bytea[], $5::text[], $6::text[], $7::text[])
         as g (erp_key, content_hash, body, match_values, fault))
     insert into bridge.intake_records as r
       (intake, source, erp_key, content_hash, body, match_values, first_seen, seen, due, waiting_since,
        error_type, last_error, dead_since)
     select $1, $2, g.erp_key, g.content_hash, g.body, array(select json_array_elements_text(g.match_values::json)),
       $8, $8, case when g.fault is null then $9::timestamptz end, case when g.fault is null then $9::timestamptz end,
       case when g.fault is not null then 'data' end, g.fault, case when g.fault is not null then $9::timestamptz end
     from given g order by g.erp_key
     on conflict (intake, erp_key) do update
       set content_hash = excluded.content_hash, body = excluded.body, match_values = excluded.match_values,
         version = r.version + 1, seen = excluded.seen, seen_before = r.seen, due = excluded.due,
         waiting_since = case when excluded.due is not null then coalesce(r.waiting_since, excluded.due) end,
         action = null, taken = 0, error_type = excluded.error_type, last_error = excluded.last_error,
         dead_since = excluded.dead_since, missing_since = null
       where r.content_hash <> excluded.content_hash
     returning erp_key`,
    [
      intake,
      source,
      sorted.map(([erpKey]) => erpKey),
      sorted.map(([, { body }]) => sha256(body)),
      sorted.map(([, { body }]) => body),
      sorted.map(([, { matchValues }]) => JSON.stringify(matchValues)),
      sorted.map(([, { fault }]) => fault),
      seen,
      now,
    ],
  );
  return changed.length;
}

/** A record that is to be compared or sent, with what is known of its supplier at the source. */
export interface DueRecord {
  readonly erpKey: string;
  readonly key: string | null;
  readonly version: number;
  readonly body: string;
  readonly seen: Timestamp;
  /** When the version before was asked for; null where there is none. */
  readonly seenBefore: Timestamp | null;
  readonly base: string | null;
  readonly held: string | null;
  readonly heldAt: Timestamp | null;
  /** By what suppliers at the source may be matched. */
  readonly matchValues: readonly string[];
  readonly taken: number;
  /** The entry of the supplier list; null where the list has none. */
  readonly master: string | null;
  readonly masterHash: Buffer | null;
  readonly observed: Timestamp | null;
}

const dueColumns = `r.erp_key as "erpKey", r.key, r.version, r.body, r.seen, r.base, r.held, r.held_at as "heldAt",
  r.seen_before as "seenBefore", r.match_values as "matchValues", r.taken, m.body as master, m.content_hash as "masterHash", m.observed`;
const withMaster = `bridge.intake_records r
  left join bridge.resources m on m.source = r.source and m.kind = 'supplier-master' and m.id = r.key`;
const isFree = 'r.submission is null and r.dead_since is null';

/** Returns records that are to be compared, those that have waited longest first. */
export async function readToCompare(tx: Sql, intake: string, now: Timestamp, limit: number): Promise<DueRecord[]> {
  return tx.query<DueRecord>(
    `select ${dueColumns} from ${withMaster}
     where r.intake = $1 and r.due <= $2 and r.action is null and ${isFree} order by r.due, r.erp_key limit $3`,
    [intake, now, limit],
  );
}

/** Returns records that are to be sent, with these actions, those that have waited longest first. */
export async function readToSend(
  tx: Sql,
  intake: string,
  actions: readonly IntakeAction[],
  limit: number,
): Promise<DueRecord[]> {
  return tx.query<DueRecord>(
    `select ${dueColumns} from ${withMaster}
     where r.intake = $1 and r.action = any($2) and ${isFree} order by r.due, r.erp_key limit $3`,
    [intake, actions, limit],
  );
}

/** What a comparison came to. */
export type ComparisonResult =
  /** Nothing is to be sent. `base`: both sides agree on it; `confirmed`: the list shows it. */
  | { is: 'same'; erpKey: string; base: SupplierView | undefined; confirmed: boolean; masterHash: Buffer | null }
  | { is: 'differs'; erpKey: string; action: IntakeAction; masterHash: Buffer | null }
  | { is: 'later'; erpKey: string; due: Timestamp }
  | { is: 'dead'; erpKey: string; type: string; why: string };

/** Stores what comparisons came to. */
export async function storeCompared(tx: Sql, intake: string, compared: readonly ComparisonResult[], now: Timestamp) {
  const of = <Is extends ComparisonResult['is']>(is: Is) =>
    compared.filter((each): each is Extract<ComparisonResult, { is: Is }> => each.is === is);
  const [same, differs, later, dead] = [of('same'), of('differs'), of('later'), of('dead')];
  if (same.length > 0)
    await tx.query(
      `update bridge.intake_records r
       set due = null, waiting_since = null, action = null, base = coalesce(g.base, r.base),
         compared_hash = g.master_hash, taken = case when g.confirmed then 0 else r.taken end,
         held = case when g.confirmed then null else r.held end,
         held_at = case when g.confirmed then null else r.held_at end
       from unnest($2::text[], $3::text[], $4::bool[], $5::bytea[]) as g (erp_key, base, confirmed, master_hash)
       where r.intake = $1 and r.erp_key = g.erp_key`,
      [
        intake,
        same.map(({ erpKey }) => erpKey),
        same.map(({ base }) => (base === undefined ? null : JSON.stringify(base))),
        same.map(({ confirmed }) => confirmed),
        same.map(({ masterHash }) => masterHash),
      ],
    );
  if (differs.length > 0)
    await tx.query(
      `update bridge.intake_records r set action = g.action, compared_hash = g.master_hash
       from unnest($2::text[], $3::text[], $4::bytea[]) as g (erp_key, action, master_hash)
       where r.intake = $1 and r.erp_key = g.erp_key`,
      [
        intake,
        differs.map(({ erpKey }) => erpKey),
        differs.map(({ action }) => action),
        differs.map(({ masterHash }) => masterHash),
      ],
    );
  if (later.length > 0)
    await tx.query(
      `update bridge.intake_records r set due = g.due, action = null
       from unnest($2::text[], $3::timestamptz[]) as g (erp_key, due) where r.intake = $1 and r.erp_key = g.erp_key`,
      [intake, later.map(({ erpKey }) => erpKey), later.map(({ due }) => due)],
    );
  if (dead.length > 0)
    await tx.query(
      `update bridge.intake_records r
       set due = null, waiting_since = null, action = null, error_type = g.type, last_error = g.why, dead_since = $5
       from unnest($2::text[], $3::text[], $4::text[]) as g (erp_key, type, why)
       where r.intake = $1 and r.erp_key = g.erp_key`,
      [
        intake,
        dead.map(({ erpKey }) => erpKey),
        dead.map(({ type }) => type),
        dead.map(({ why }) => storableText(why)),
        now,
      ],
    );
}

/** Links records to suppliers of the source. */
export async function linkRecords(
  tx: Sql,
  intake: string,
  links: readonly { erpKey: string; key: string; linked: 'id' | 'match' | 'new' }[],
): Promise<void> {
  if (links.length === 0) return;
  await tx.query(
    `update bridge.intake_records r set key = g.key, linked = g.linked
     from unnest($2::text[], $3::text[], $4::text[]) as g (erp_key, key, linked)
     where r.intake = $1 and r.erp_key = g.erp_key`,
    [intake, links.map(({ erpKey }) => erpKey), links.map(({ key }) => key), links.map(({ linked }) => linked)],
  );
}

/** Returns which of these suppliers of the source another record writes already, and the intake of that record. */
export async function readOwners(
  sql: Sql,
  source: string,
  keys: readonly string[],
): Promise<Map<string, { intake: string; erpKey: string }>> {
  const rows = await sql.query<{ key: string; intake: string; erpKey: string }>(
    `select key, intake, erp_key as "erpKey" from bridge.intake_records where source = $1 and key = any($2::text[])`,
    [source, keys],
  );
  return new Map(rows.map(({ key, ...owner }) => [key, owner]));
}

/** Returns which of these external ids are those of records of the intake that are linked to no supplier yet. */
export async function readOwnKeys(
  sql: Sql,
  { intake, prefix }: { intake: string; prefix: string },
  keys: readonly string[],
): Promise<string[]> {
  const numbers = keys.flatMap((key) => (key.startsWith(prefix) ? [key.slice(prefix.length)] : []));
  const rows = await sql.query<{ erpKey: string }>(
    `select erp_key as "erpKey" from bridge.intake_records
     where intake = $1 and erp_key = any($2::text[]) and key is null`,
    [intake, numbers],
  );
  return rows.map(({ erpKey }) => prefix + erpKey);
}

/**
 * Makes the records due whose supplier the list shows otherwise than it was when they were compared, and those that the
 * list does not show as the source has taken them. `since`: a supplier that was made before then must be in the list.
 */
export async function markChangedAtSource(
  tx: Sql,
  { intake, source, since }: { intake: string; source: string; since: Timestamp | null },
  now: Timestamp,
): Promise<void> {
  await tx.query(
    `update bridge.intake_records r
     set due = $3, waiting_since = coalesce(r.waiting_since, $3), action = null,
       held = case when m.id is null then null else r.held end,
       held_at = case when m.id is null then null else r.held_at end
     from bridge.intake_records k
     left join bridge.resources m on m.source = $2 and m.kind = 'supplier-master' and m.id = k.key
     where r.intake = $1 and k.intake = $1 and k.erp_key = r.erp_key and k.key is not null and k.dead_since is null
       and k.submission is null
       and (case when m.id is null then k.held_at < $4
                 else m.content_hash is distinct from k.compared_hash or k.held_at < m.observed end)`,
    [intake, source, now, since],
  );
}

/** A record in a submission. */
export interface SubmittedRecord {
  readonly erpKey: string;
  readonly key: string;
  readonly version: number;
  readonly change: SupplierChange;
  /** What the intake wanted then. */
  readonly base: SupplierView;
}

/** Puts records into a submission: nothing else is done with them until it has ended. */
export async function putIntoSubmission(
  tx: Sql,
  intake: string,
  submission: string,
  records: readonly SubmittedRecord[],
): Promise<void> {
  const columns = [records.map(({ erpKey }) => erpKey), records.map(({ change }) => JSON.stringify(change))];
  await tx.query(
    `update bridge.intake_records r
     set submission = $2, change = g.change, change_base = g.base, due = null, action = null
     from unnest($3::text[], $4::text[], $5::text[]) as g (erp_key, change, base)
     where r.intake = $1 and r.erp_key = g.erp_key`,
    [intake, submission, ...columns, records.map(({ base }) => JSON.stringify(base))],
  );
  await tx.query(
    `insert into bridge.intake_attempts (submission, intake, erp_key, change, version)
     select $2, $1, g.* from unnest($3::text[], $4::text[], $5::bigint[]) as g`,
    [intake, submission, ...columns, records.map(({ version }) => version)],
  );
}

/** Moves records from one submission to another, with what is to be sent of them. */
export async function moveToSubmission(
  tx: Sql,
  { intake, from, to }: { intake: string; from: string; to: string },
  erpKeys: readonly string[],
): Promise<void> {
  const moved = [from, to, erpKeys];
  await tx.query(
    `update bridge.intake_records set submission = $2
     where intake = $4 and submission = $1 and erp_key = any($3::text[])`,
    [...moved, intake],
  );
  await tx.query(
    `insert into bridge.intake_attempts (submission, intake, erp_key, change, version)
     select $2, intake, erp_key, change, version from bridge.intake_attempts
     where submission = $1 and erp_key = any($3::text[])`,
    moved,
  );
  await tx.query(
    `update bridge.intake_attempts set outcome = 'released' where submission = $1 and erp_key = any($2::text[])`,
    [from, erpKeys],
  );
}

/** Returns the records of a submission, in the order of their numbers: its body is the same at each POST. */
export async function readSubmitted(
  sql: Sql,
  intake: string,
  submission: string,
): Promise<(SubmittedRecord & { held: SupplierView | undefined })[]> {
  const rows = await sql.query<{
    erpKey: string;
    key: string;
    version: number;
    change: string;
    base: string;
    held: string | null;
    heldAt: Timestamp | null;
    master: string | null;
    observed: Timestamp | null;
  }>(
    `select r.erp_key as "erpKey", r.key, r.version, r.change, r.change_base as base, r.held, r.held_at as "heldAt",
       m.body as master, m.observed
     from ${withMaster} where r.intake = $1 and r.submission = $2 order by r.erp_key`,
    [intake, submission],
  );
  return rows.map((row) => ({
    ...row,
    change: JSON.parse(row.change) as SupplierChange,
    base: JSON.parse(row.base) as SupplierView,
    held: heldBySource(row),
  }));
}

/** What a submission or a job came to for one of its records. */
export interface SettledRecord {
  readonly erpKey: string;
  /** Null: it did not take effect, as far as can be known, and waits again. A refused one is a dead letter of a type. */
  readonly outcome: 'taken' | 'refused' | null;
  readonly errorType?: string;
  readonly message: string | null;
  /** Of a supplier that was taken: what the source holds now. */
  readonly held?: SupplierView;
  /** It was archived, or may have been. */
  readonly archives?: boolean;
}

/** Takes the records out of their submission. A refused one is a dead letter, unless it has changed meanwhile. */
export async function settleRecords(
  tx: Sql,
  { intake, submission }: { intake: string; submission: string },
  settled: readonly SettledRecord[],
  now: Timestamp,
): Promise<void> {
  const columns = [
    settled.map(({ erpKey }) => erpKey),
    settled.map(({ outcome }) => outcome ?? 'released'),
    settled.map(({ message }) => (message === null ? null : storableText(message).toWellFormed())),
  ];
  await tx.query(
    `update bridge.intake_records r
     set submission = null, change = null, change_base = null,
       base = case when g.outcome = 'taken' then r.change_base else r.base end,
       held = case when g.outcome = 'taken' then g.held else r.held end,
       held_at = case when g.outcome = 'taken' and g.held is not null then $7::timestamptz else r.held_at end,
       taken = case when g.outcome = 'taken' and r.due is null then r.taken + 1 else r.taken end,
       submitted = case when g.outcome = 'taken' then $7 else r.submitted end,
       archived_at = case when g.archives and (r.waiting_since <=
           (select i.archives_agreed from bridge.intakes i where i.name = $1)) is not true then $7 else r.archived_at end,
       note = case when g.outcome = 'taken' then g.message else r.note end,
       due = case when g.outcome = 'released' then coalesce(r.due, $7) else r.due end,
       waiting_since = case when g.outcome = 'released' then coalesce(r.waiting_since, $7)
                            when r.due is null then null else r.waiting_since end,
       error_type = case when g.outcome = 'refused' and r.due is null then g.type end,
       last_error = case when g.outcome = 'refused' and r.due is null then g.message end,
       dead_since = case when g.outcome = 'refused' and r.due is null then $7::timestamptz end
     from unnest($3::text[], $4::text[], $5::text[], $6::text[], $8::bool[], $9::text[])
       as g (erp_key, outcome, message, held, archives, type)
     where r.intake = $1 and r.submission = $2 and r.erp_key = g.erp_key`,
    [
      intake,
      submission,
      ...columns,
      settled.map(({ held }) => (held === undefined ? null : JSON.stringify(held))),
      now,
      settled.map(({ archives }) => archives === true),
      settled.map(({ errorType = 'data' }) => errorType),
    ],
  );
  await tx.query(
    `update bridge.intake_attempts a set outcome = g.outcome, message = g.message
     from unnest($2::text[], $3::text[], $4::text[]) as g (erp_key, outcome, message)
     where a.submission = $1 and a.erp_key = g.erp_key`,
    [submission, ...columns],
  );
}

/** What the source holds, by the later of two: the list, and what it has taken since. */
export function heldBySource({
  held,
  heldAt,
  master,
  observed,
}: Pick<DueRecord, 'held' | 'heldAt' | 'master' | 'observed'>): SupplierView | undefined {
  if (held !== null && heldAt !== null && (observed === null || observed <= heldAt))
    return JSON.parse(held) as SupplierView;
  return master === null ? undefined : stateOfMaster(JSON.parse(master));
}

/** Reads an entry of the supplier list. Another service may leave out what is empty. */
function stateOfMaster(entry: unknown): SupplierView {
  const { name, fields, archived, contacts } = entry as Record<string, unknown>;
  const values = typeof fields === 'object' && fields !== null ? Object.entries(fields) : [];
  return {
    name: typeof name === 'string' ? name : '',
    fields: Object.fromEntries(
      values.filter((pair): pair is [string, string] => typeof pair[1] === 'string' && pair[1] !== ''),
    ),
    archived: archived === true,
    contacts: (Array.isArray(contacts) ? (contacts as unknown[]) : []).flatMap((contact) => {
      if (typeof contact !== 'object' || contact === null) return [];
      const { name: person, email } = contact as Record<string, unknown>;
      return typeof email === 'string' ? [{ name: typeof person === 'string' ? person : '', email }] : [];
    }),
  };
}
