/** Writes down what became of a job, requisition by requisition, in the transaction of its caller. */

import type { JobFault } from '#bridge/documents/job-faults.ts';
import type { Timestamp } from '#contract/timestamp.ts';
import { timestampNow } from '#platform/clock.ts';
import type { Sql } from '#platform/database/sql.ts';
import { storableText } from '#platform/database/storable-text.ts';
import type { IntakeDeps } from '../intake-deps.ts';
import { type SettledRecord, settleRecords } from '../record-store.ts';
import { endSubmission } from '../submission-store.ts';
import { withdrawnHash } from './compare-requisitions.ts';
import {
  endMembers,
  type IntakeEvent,
  insertIntakeEvent,
  readIntakeEvent,
  readLots,
  storeLots,
  storeNeedHashes,
  storeTold,
} from './event-store.ts';
import { intakeEventText } from './event-texts.ts';
import type { JobKind, MadeOf } from './job-store.ts';
import { markAwards } from './mark-awards.ts';

type Deps = Pick<IntakeDeps, 'intake' | 'clock' | 'source' | 'count'>;

interface Ended {
  readonly event: string;
  readonly kind: JobKind;
  readonly made: MadeOf;
}

/** The source has done it. `entity`: of a job that creates. */
export async function jobCompleted(
  tx: Sql,
  deps: Deps,
  job: string,
  { entity, faults = [] }: { entity?: string; faults?: readonly JobFault[] },
): Promise<void> {
  const { intake, source, clock } = deps;
  const now = timestampNow(clock);
  const { event, kind, made } = await readEnded(tx, job);
  await endSubmission(tx, job, { state: 'completed', error: null, now });
  if (kind === 'create') {
    await tx.query(
      `update bridge.intake_events e set state = 'made', entity = $2, made = $3, last_error = null,
         files_due = case when exists (
           select from bridge.intake_members m join bridge.intake_records r on r.intake = m.intake and r.erp_key = m.erp_key
           where m.event = e.id and m.live and r.body like '%"files":[{%') then $3::timestamptz end
       where e.id = $1`,
      [event, entity, now],
    );
    await storeLots(tx, event, made.lots);
    await markAwards(tx, event, now);
    await settleRecords(tx, { intake: intake.name, submission: job }, made.members.map(taken), now);
    deps.count('taken', made.members.length);
    return;
  }
  const about = (await readIntakeEvent(tx, event)) ?? { name: made.name, entity: null, make: 'event' };
  if (kind === 'attach') {
    const freed = made.members.map(({ erpKey, why }) => {
      const reasons = [faultText(faults), why ?? ''].filter((text) => text !== '');
      if (reasons.length === 0) return taken({ erpKey });
      return told(erpKey, 'files', filesText(source, about, reasons.join('; ')));
    });
    await settleRecords(tx, { intake: intake.name, submission: job }, freed, now);
    return;
  }
  await tx.query('update bridge.intake_events set name = $2 where id = $1', [event, made.name]);
  await storeLots(tx, event, made.lots);
  await markAwards(tx, event, now);
  await storeNeedHashes(
    tx,
    event,
    made.members.flatMap(({ erpKey, hash }) => (hash === null ? [] : [{ erpKey, hash: Buffer.from(hash, 'hex') }])),
  );
  const gone = made.members.filter(({ hash }) => hash === null);
  await endMembers(
    tx,
    event,
    gone.map(({ erpKey }) => erpKey),
  );
  const what = intakeEventText(source, { ...about, name: made.name });
  const freed = made.members.map(({ erpKey, hash, why }) => {
    if (hash !== null) return taken({ erpKey });
    const text = `it was withdrawn (${why ?? ''}), and its lots were taken out of ${what}, which is a draft`;
    return told(erpKey, 'withdrawn', text);
  });
  await settleRecords(tx, { intake: intake.name, submission: job }, freed, now);
}

function filesText(source: Deps['source'], event: Parameters<typeof intakeEventText>[1], why: string): string {
  return `files were not attached to ${intakeEventText(source, event)}: ${why}`;
}

/** Makes dead letters of requisitions none of whose files can be sent. */
export async function tellOfFiles(
  tx: Sql,
  { intake, source }: Pick<Deps, 'intake' | 'source'>,
  { event, members, now }: { event: IntakeEvent; members: MadeOf['members']; now: Timestamp },
): Promise<void> {
  for (const { erpKey, why } of members)
    await tx.query(
      `update bridge.intake_records set error_type = 'files', last_error = $3, dead_since = $4
       where intake = $1 and erp_key = $2 and submission is null and due is null`,
      [intake.name, erpKey, storableText(filesText(source, event, why ?? '')), now],
    );
}

/**
 * The source refuses it, and has done nothing. Of an event of many requisitions, those that the service names are dead
 * letters, and the others are made without them; where it names none, the event is made in halves until the one is
 * found that it refuses.
 */
export async function jobFailed(
  tx: Sql,
  deps: Deps,
  job: string,
  why: string,
  faults: readonly JobFault[],
): Promise<void> {
  const { intake, clock, source } = deps;
  const now = timestampNow(clock);
  const { event, kind, made } = await readEnded(tx, job);
  await endSubmission(tx, job, { state: 'failed', error: why, now });
  if (kind !== 'create') {
    const about = await readIntakeEvent(tx, event);
    const what = about ? intakeEventText(source, about) : 'its event';
    const doing = kind === 'update' ? 'an update of' : 'files for';
    const text = `the service refused ${doing} ${what}: ${why}`;
    const type = kind === 'update' ? 'changed' : 'files';
    // Not stored as told: what a person was told of is put away by a replay, and what was refused is tried again.
    await settleRecords(
      tx,
      { intake: intake.name, submission: job },
      made.members.map(({ erpKey }) => told(erpKey, type, text)),
      now,
    );
    return;
  }
  const keys = made.members.map(({ erpKey }) => erpKey);
  const named = namedRecords(made, faults);
  const refused = keys.length === 1 ? keys : keys.filter((erpKey) => named.has(erpKey));
  const rest = keys.filter((erpKey) => !refused.includes(erpKey));
  await tx.query(`update bridge.intake_events set state = 'failed', last_error = $2 where id = $1`, [
    event,
    storableText(why),
  ]);
  await endMembers(tx, event, keys);
  const parts = refused.length > 0 ? [rest] : halves(rest);
  for (const part of parts)
    if (part.length > 0) await regather(tx, { event, part, intake: intake.name, source: source.name, now });
  await settleRecords(
    tx,
    { intake: intake.name, submission: job },
    keys.map((erpKey) => (refused.includes(erpKey) ? told(erpKey, 'data', why) : taken({ erpKey }))),
    now,
  );
  await toSend(tx, intake.name, rest, 'create', now);
  deps.count('refused', refused.length);
}

/** It certainly did not take effect: it waits again. */
export async function releaseJob(tx: Sql, { intake, clock }: Deps, job: string, why: string): Promise<void> {
  const now = timestampNow(clock);
  const { event, kind, made } = await readEnded(tx, job);
  await endSubmission(tx, job, { state: 'released', error: why, now });
  const keys = made.members.map(({ erpKey }) => erpKey);
  await settleRecords(tx, { intake: intake.name, submission: job }, made.members.map(taken), now);
  if (kind === 'create')
    await tx.query(`update bridge.intake_events set state = 'gathering', ready = least(ready, $2) where id = $1`, [
      event,
      now,
    ]);
  else
    await tx.query(
      `update bridge.intake_events set ${kind === 'update' ? 'update_due' : 'files_due'} = $2 where id = $1`,
      [event, now],
    );
  if (kind !== 'attach') await toSend(tx, intake.name, keys, kind, now);
}

/** It is not known whether the source has made it, and nothing tells: a person has to say. */
export async function holdJob(tx: Sql, { intake, source, clock }: Deps, job: string, why: string): Promise<void> {
  const now = timestampNow(clock);
  const { event, kind, made } = await readEnded(tx, job);
  await endSubmission(tx, job, { state: 'held', error: why, now });
  const about = await readIntakeEvent(tx, event);
  const [first] = made.members;
  const text =
    kind === 'create'
      ? `it may have become ${about ? intakeEventText(source, about) : 'an event'} or not (${why}). Look for "${about?.reference ?? ''}" ` +
        `at the service, and say which it is: bridge link ${intake.name} ${first?.erpKey ?? ''} <its id>, or --new to make it again`
      : `${kind === 'attach' ? 'its files may have been attached to' : 'its change may have been made in'} ` +
        `${about ? intakeEventText(source, about) : 'its event'} or not (${why}): look there`;
  if (kind === 'create')
    await tx.query(`update bridge.intake_events set state = 'held', last_error = $2 where id = $1`, [
      event,
      storableText(text),
    ]);
  await settleRecords(
    tx,
    { intake: intake.name, submission: job },
    made.members.map(({ erpKey }) => told(erpKey, 'uncertain', text)),
    now,
  );
  if (kind !== 'update') return;
  await keepCertainLots(tx, event, made.lots);
  await markAwards(tx, event, now);
  await storeTold(
    tx,
    event,
    made.members.map(({ erpKey, hash }) => ({
      erpKey,
      hash: hash === null ? withdrawnHash : Buffer.from(hash, 'hex'),
    })),
  );
}

/** Whichever lots the event has: one that would be of another line is of none, so that no order names a wrong one. */
async function keepCertainLots(tx: Sql, event: string, lots: MadeOf['lots']): Promise<void> {
  const held = await readLots(tx, event);
  const places = Map.groupBy([...held, ...lots], ({ lot }) => lot);
  const certain = [...places.values()].flatMap((same) => {
    const [first] = same;
    return first && same.every(({ erpKey, line }) => erpKey === first.erpKey && line === first.line) ? [first] : [];
  });
  await storeLots(tx, event, certain);
}

async function readEnded(tx: Sql, job: string): Promise<Ended> {
  const [row] = await tx.query<{ event: string; kind: JobKind; madeOf: string }>(
    'select event, kind, made_of as "madeOf" from bridge.intake_submissions where id = $1',
    [job],
  );
  if (!row) throw new TypeError(`there is no job ${job}`);
  return { event: row.event, kind: row.kind, made: JSON.parse(row.madeOf) as MadeOf };
}

const taken = ({ erpKey }: { erpKey: string }): SettledRecord => ({ erpKey, outcome: 'taken', message: null });

/** A dead letter: a person has to look. */
function told(erpKey: string, errorType: string, message: string): SettledRecord {
  return { erpKey, outcome: 'refused', errorType, message };
}

/** Those whose lots the faults name: `bid_sheet.lots[3].values[0].value`. */
function namedRecords({ lots }: MadeOf, faults: readonly JobFault[]): Set<string> {
  return new Set(
    faults.flatMap(({ path = '' }) => {
      const index = /^bid_sheet\.lots\[(\d+)\]/.exec(path)?.[1];
      return index === undefined ? [] : (lots[Number(index)]?.erpKey ?? []);
    }),
  );
}

function halves<Item>(items: readonly Item[]): Item[][] {
  const middle = Math.ceil(items.length / 2);
  return [items.slice(0, middle), items.slice(middle)];
}

/** Puts requisitions of an event that was refused into a new one, which is ready. */
async function regather(
  tx: Sql,
  {
    event,
    part,
    intake,
    source,
    now,
  }: { event: string; part: readonly string[]; intake: string; source: string; now: string },
): Promise<void> {
  const before = await readIntakeEvent(tx, event);
  if (!before) return;
  const id = await insertIntakeEvent(tx, {
    intake,
    source,
    make: before.make,
    groupKey: before.groupKey,
    now,
    ready: now,
  });
  await tx.query(
    `insert into bridge.intake_members (event, intake, erp_key, lots, need_hash)
     select $2, intake, erp_key, lots, need_hash from bridge.intake_members
     where event = $1 and erp_key = any($3::text[])`,
    [event, id, part],
  );
}

/** The requisitions wait to be sent, unless they have changed meanwhile: then they are compared. */
async function toSend(tx: Sql, intake: string, keys: readonly string[], action: string, now: string): Promise<void> {
  await tx.query(
    `update bridge.intake_records
     set action = case when due is null then $3 end, due = coalesce(due, $4), waiting_since = coalesce(waiting_since, $4)
     where intake = $1 and erp_key = any($2::text[])`,
    [intake, keys, action, now],
  );
}

export function faultText(faults: readonly JobFault[]): string {
  return faults
    .slice(0, 10)
    .map(({ path, message }) => (path === undefined ? message : `${path}: ${message}`))
    .join('; ');
}
