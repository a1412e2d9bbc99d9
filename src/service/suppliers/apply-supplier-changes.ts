/**
 * The worker of the lane `supplier-changes`. It applies an organisation's submissions in the order they came, each in
 * one transaction that also marks it as processed: a crash leaves it unprocessed with nothing applied. A submission
 * that fails because of an internal error is also marked as processed, with that error, so that later ones do not wait
 * for it.
 */
import { randomUUID } from 'node:crypto';
import type { SupplierChange } from '#contract/supplier.ts';
import { addMicros, laterOf, type Timestamp } from '#contract/timestamp.ts';
import { type Clock, timestampNow } from '#platform/clock.ts';
import type { Sql } from '#platform/database/sql.ts';
import type { Logger } from '#platform/log.ts';
import type { Signals, Work } from '#platform/queue.ts';
import { applySupplierChange, emailKey, type SupplierState } from '../domain/supplier-change.ts';
import { inTurns } from '../turns.ts';
import { isWorthRepeating, type RunUnitOfWork } from '../unit-of-work.ts';

interface Deps {
  runUnitOfWork: RunUnitOfWork;
  signals: Pick<Signals, 'wakeHere'>;
  database: Sql;
  clock: Clock;
  log: Logger;
}

/** How long an organisation's submissions are applied before it is the turn of the next. */
const turnMs = 250;

/** Creates the worker: it applies the organisation's unprocessed submissions one by one; organisations take turns. */
export function applySupplierChanges(deps: Deps): Work {
  const { runUnitOfWork, database, clock, log } = deps;
  return inTurns(deps, { lane: 'supplier-changes', turnMs }, async (organisationId, signal) => {
    const submission = await readNext(database, organisationId);
    if (!submission) return false;
    try {
      await runUnitOfWork(({ tx }) => applySubmission(tx, organisationId, submission, clock));
    } catch (error) {
      if (isWorthRepeating(error) || signal.aborted) throw error;
      log.error({ err: error, submission: submission.id }, 'supplier change submission failed');
      await runUnitOfWork(({ tx }) => failSubmission(tx, organisationId, submission, clock));
    }
    return true;
  });
}

/** The organisations that have unprocessed submissions: the sweep wakes them. */
export async function organisationsWithSubmissions(sql: Sql): Promise<string[]> {
  const rows = await sql.query<{ organisation_id: string }>(
    `select distinct organisation_id from service.supplier_submissions where state = 'UNPROCESSED'`,
  );
  return rows.map((row) => row.organisation_id);
}

/** A note in a submission's summary or warnings, on one supplier. */
interface SubmissionNote {
  header: string;
  messages: string[];
}

interface Submission {
  readonly id: string;
  readonly suppliers: readonly SupplierChange[];
}

async function readNext(sql: Sql, organisationId: string): Promise<Submission | undefined> {
  const [submission] = await sql.query<Submission>(
    `select id, suppliers from service.supplier_submissions
     where organisation_id = $1 and state = 'UNPROCESSED' order by number limit 1`,
    [organisationId],
  );
  return submission;
}

/** Locks the head of the supplier list, so that two workers cannot apply an organisation's submissions out of order. */
async function lockHead(tx: Sql, organisationId: string): Promise<Timestamp | undefined> {
  const [head] = await tx.query<{ last_modified: Timestamp | null }>(
    `select last_modified from service.feed_heads where organisation_id = $1 and feed = 'suppliers' for update`,
    [organisationId],
  );
  return head?.last_modified ?? undefined;
}

async function applySubmission(tx: Sql, organisationId: string, submission: Submission, clock: Clock): Promise<void> {
  const lastModified = await lockHead(tx, organisationId);
  // Another process may have processed it since it was read.
  const waiting = await tx.query(
    `select from service.supplier_submissions where organisation_id = $1 and id = $2 and state = 'UNPROCESSED'`,
    [organisationId, submission.id],
  );
  if (waiting.length === 0) return;
  const current = await loadSuppliers(
    tx,
    organisationId,
    submission.suppliers.map((change) => change.external_id),
  );
  const attributes = await tx.query<{ name: string }>(
    'select unnest(supplier_attributes) as name from service.organisations where id = $1',
    [organisationId],
  );
  const attributeNames = new Set(attributes.map(({ name }) => name));
  // A Map, because a supplier may be called `__proto__`.
  const errors = new Map<string, string[]>();
  const summary: SubmissionNote[] = [];
  const warnings: SubmissionNote[] = [];
  const changed: { externalId: string; next: SupplierState }[] = [];
  for (const change of submission.suppliers) {
    const result = applySupplierChange(current.get(change.external_id), change, attributeNames);
    if (result.ok) {
      summary.push({ header: result.header, messages: result.messages });
      if (result.warnings.length > 0)
        warnings.push({ header: `Supplier ${change.external_id}`, messages: result.warnings });
      if (result.changed) changed.push({ externalId: change.external_id, next: result.next });
    } else {
      errors.set(change.external_id, result.errors);
      const note = notChanged(change, result.errors);
      summary.push(note);
      warnings.push(note);
    }
  }
  const now = timestampNow(clock);
  const modified = laterOf(now, lastModified && addMicros(lastModified, 1)) ?? now;
  await saveSuppliers(tx, organisationId, changed, modified);
  if (changed.length > 0)
    await tx.query(
      `update service.feed_heads set last_modified = $2, changes = changes + $3
       where organisation_id = $1 and feed = 'suppliers'`,
      [organisationId, modified, changed.length],
    );
  await markProcessed(tx, organisationId, submission, { errors, summary, warnings, now });
}

/** Marks a submission as processed with nothing applied. Its errors reveal no internals. */
async function failSubmission(tx: Sql, organisationId: string, submission: Submission, clock: Clock): Promise<void> {
  await lockHead(tx, organisationId);
  const messages = ['could not be processed because of a fault on our side; send it again'];
  const notes = submission.suppliers.map((change) => notChanged(change, messages));
  const errors = new Map(submission.suppliers.map((change) => [change.external_id, messages]));
  await markProcessed(tx, organisationId, submission, {
    errors,
    summary: notes,
    warnings: notes,
    now: timestampNow(clock),
  });
}

function notChanged(change: SupplierChange, messages: string[]): SubmissionNote {
  return { header: `Supplier ${change.external_id} not changed`, messages };
}

/** Marks the submission as processed. Changes nothing when another process has done that. */
async function markProcessed(
  tx: Sql,
  organisationId: string,
  submission: Submission,
  outcome: {
    errors: ReadonlyMap<string, string[]>;
    summary: SubmissionNote[];
    warnings: SubmissionNote[];
    now: Timestamp;
  },
): Promise<void> {
  await tx.query(
    `update service.supplier_submissions
     set state = 'PROCESSED', state_errors = $3, change_summary = $4, change_warnings = $5, last_changed = $6
     where organisation_id = $1 and id = $2 and state = 'UNPROCESSED'`,
    [
      organisationId,
      submission.id,
      JSON.stringify(Object.fromEntries(outcome.errors)),
      JSON.stringify(outcome.summary),
      outcome.warnings.length > 0 ? JSON.stringify(outcome.warnings) : null,
      outcome.now,
    ],
  );
}

async function loadSuppliers(tx: Sql, organisationId: string, externalIds: readonly string[]) {
  const rows = await tx.query<{
    external_id: string;
    name: string;
    fields: Record<string, string>;
    archived: boolean;
    contacts: { name: string; email: string }[];
  }>(
    `select external_id, name, fields, archived,
       coalesce((select json_agg(json_build_object('name', c.name, 'email', c.email) order by c.email)
                 from service.supplier_contacts c where c.supplier_id = s.id), '[]') as contacts
     from service.suppliers s where organisation_id = $1 and external_id = any($2)`,
    [organisationId, externalIds],
  );
  return new Map(
    rows.map((row): [string, SupplierState] => [
      row.external_id,
      { name: row.name, fields: new Map(Object.entries(row.fields)), archived: row.archived, contacts: row.contacts },
    ]),
  );
}

/** Writes all changed suppliers and their contacts in a fixed number of statements. A contact keeps its id. */
async function saveSuppliers(
  tx: Sql,
  organisationId: string,
  changed: readonly { externalId: string; next: SupplierState }[],
  modified: Timestamp,
): Promise<void> {
  if (changed.length === 0) return;
  const saved = await tx.query<{ id: string; external_id: string }>(
    `insert into service.suppliers (id, organisation_id, external_id, name, fields, archived, modified)
     select id, $1, external_id, name, fields, archived, $2
     from unnest($3::uuid[], $4::text[], $5::text[], $6::jsonb[], $7::boolean[])
       as s (id, external_id, name, fields, archived)
     on conflict (organisation_id, external_id) do update
       set name = excluded.name, fields = excluded.fields, archived = excluded.archived, modified = excluded.modified
     returning id, external_id`,
    [
      organisationId,
      modified,
      changed.map(() => randomUUID()),
      changed.map(({ externalId }) => externalId),
      changed.map(({ next }) => next.name),
      changed.map(({ next }) => JSON.stringify(Object.fromEntries(next.fields))),
      changed.map(({ next }) => next.archived),
    ],
  );
  const idOf = new Map(saved.map((row) => [row.external_id, row.id]));
  const contacts = changed.flatMap(({ externalId, next }) =>
    next.contacts.map((contact) => ({ supplierId: idOf.get(externalId), ...contact })),
  );
  const supplierIds = saved.map(({ id }) => id);
  const contactKeys = [contacts.map(({ supplierId }) => supplierId), contacts.map(({ email }) => emailKey(email))];
  await tx.query(
    `delete from service.supplier_contacts c where supplier_id = any($1) and not exists (
       select from unnest($2::uuid[], $3::text[]) as kept (supplier_id, email_key)
       where kept.supplier_id = c.supplier_id and kept.email_key = c.email_key)`,
    [supplierIds, ...contactKeys],
  );
  await tx.query(
    `insert into service.supplier_contacts (supplier_id, email_key, id, email, name)
     select * from unnest($1::uuid[], $2::text[], $3::uuid[], $4::text[], $5::text[])
     on conflict (supplier_id, email_key) do update set name = excluded.name`,
    [
      ...contactKeys,
      contacts.map(() => randomUUID()),
      contacts.map(({ email }) => email),
      contacts.map(({ name }) => name),
    ],
  );
}
