/**
 * The worker of the lane `supplier-changes`: applies an organisation's submissions in the order they came, each in one
 * transaction that also marks it processed. A crash leaves it unprocessed and unapplied, never half of each.
 */
import { randomUUID } from 'node:crypto';
import type { SupplierChange } from '#contract/supplier.ts';
import { addMicros, laterOf, type Timestamp } from '#contract/timestamp.ts';
import { type Clock, timestampNow } from '#platform/clock.ts';
import type { Sql } from '#platform/database/database.ts';
import { applySupplierChange, emailKey, type SupplierState } from '../domain/supplier-change.ts';
import type { RunUnitOfWork } from '../unit-of-work.ts';

export function applySupplierChanges(deps: { runUnitOfWork: RunUnitOfWork; clock: Clock }) {
  return async (organisationId: string, signal: AbortSignal): Promise<void> => {
    while (!signal.aborted) {
      const applied = await deps.runUnitOfWork(({ tx }) => applyNext(tx, organisationId, deps.clock));
      if (!applied) return;
    }
  };
}

/** The organisations that have submissions waiting: what the sweep wakes. */
export async function organisationsWithSubmissions(sql: Sql): Promise<string[]> {
  const rows = await sql.query<{ organisation_id: string }>(
    `select distinct organisation_id from service.supplier_submissions where state = 'UNPROCESSED'`,
  );
  return rows.map((row) => row.organisation_id);
}

/** What a submission says about one supplier. */
interface SubmissionNote {
  header: string;
  messages: string[];
}

async function applyNext(tx: Sql, organisationId: string, clock: Clock): Promise<boolean> {
  // The head's lock keeps two workers from applying submissions of one organisation in another order than they came.
  const [head] = await tx.query<{ last_modified: Timestamp | null }>(
    `select last_modified from service.feed_heads where organisation_id = $1 and feed = 'suppliers' for update`,
    [organisationId],
  );
  const [submission] = await tx.query<{ id: string; suppliers: SupplierChange[] }>(
    `select id, suppliers from service.supplier_submissions
     where organisation_id = $1 and state = 'UNPROCESSED' order by number limit 1`,
    [organisationId],
  );
  if (!submission) return false;
  const current = await loadSuppliers(
    tx,
    organisationId,
    submission.suppliers.map((change) => change.external_id),
  );
  const attributes = new Set(
    (
      await tx.query<{ name: string }>('select name from service.supplier_attributes where organisation_id = $1', [
        organisationId,
      ])
    ).map(({ name }) => name),
  );
  // A Map, because a supplier may be called `__proto__`.
  const errors = new Map<string, string[]>();
  const summary: SubmissionNote[] = [];
  const warnings: SubmissionNote[] = [];
  const changed: { externalId: string; next: SupplierState }[] = [];
  for (const change of submission.suppliers) {
    const result = applySupplierChange(current.get(change.external_id), change, attributes);
    if (result.ok) {
      summary.push({ header: result.header, messages: result.messages });
      if (result.warnings.length > 0)
        warnings.push({ header: `Supplier ${change.external_id}`, messages: result.warnings });
      if (result.changed) changed.push({ externalId: change.external_id, next: result.next });
    } else {
      errors.set(change.external_id, result.errors);
      summary.push({ header: `Supplier ${change.external_id} not changed`, messages: result.errors });
    }
  }
  const now = timestampNow(clock);
  const modified = laterOf(now, head?.last_modified ? addMicros(head.last_modified, 1) : undefined) ?? now;
  await saveSuppliers(tx, organisationId, changed, modified);
  await tx.query(
    `update service.feed_heads set last_modified = $2, changes = changes + $3
     where organisation_id = $1 and feed = 'suppliers'`,
    [organisationId, modified, changed.length],
  );
  await tx.query(
    `update service.supplier_submissions
     set state = 'PROCESSED', state_errors = $2, change_summary = $3, change_warnings = $4, last_changed = $5
     where id = $1`,
    [
      submission.id,
      JSON.stringify(Object.fromEntries(errors)),
      JSON.stringify(summary),
      warnings.length > 0 ? JSON.stringify(warnings) : null,
      now,
    ],
  );
  return true;
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

/** Writes all changed suppliers and their contacts with a fixed number of statements. A contact keeps its id. */
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
