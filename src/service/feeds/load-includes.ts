/**
 * The related objects that a page shows besides its records: each object once, only objects of the organisation, and
 * one statement for each name however many records the page has. Source: API document, "Included objects".
 */
import type { IncludeName } from '#contract/feed.ts';
import type { Column, includedColumn } from '#contract/sourcing-event.ts';
import type { includedSupplier } from '#contract/supplier.ts';
import type { Written } from '#contract/written.ts';
import type { Sql } from '#platform/database/sql.ts';
import { withDefaults } from '../events/event-store.ts';
import { loadQuestionsByIds } from '../rfi/question-store.ts';
import { type RelatedIds, relatedIds } from './stored-record.ts';

/** Returns the JSON of `includes`: a member for each name, an empty list when nothing is related. */
export async function loadIncludes(
  sql: Sql,
  organisationId: string,
  names: readonly IncludeName[],
  bodies: readonly string[],
): Promise<string> {
  // A page without records is related to nothing: it costs no statement.
  if (bodies.length === 0) return `{${[...new Set(names)].map((name) => `"${name}":[]`).join(',')}}`;
  const related = relatedIds(bodies);
  const members = await Promise.all(
    [...new Set(names)].map(async (name) => `"${name}":${await loaders[name](sql, organisationId, related)}`),
  );
  return `{${members.join(',')}}`;
}

type Loader = (sql: Sql, organisationId: string, related: RelatedIds) => Promise<string>;

const loaders: Record<IncludeName, Loader> = {
  sourcing_events: loadEvents,
  suppliers: async (...of) => JSON.stringify(await loadSuppliers(...of)),
  questions: async (sql, organisationId, { question_uuid: ids }) =>
    JSON.stringify(await loadQuestionsByIds(sql, organisationId, [...ids])),
  columns: async (...of) => JSON.stringify(await loadColumns(...of)),
};

/** The events as the events feed shows them. Like all records, they may lag behind the live event. */
async function loadEvents(sql: Sql, organisationId: string, { sourcing_event: ids }: RelatedIds): Promise<string> {
  const rows = await sql.query<{ summary: string }>(
    `select summary from service.feed_records
     where organisation_id = $1 and feed = 'sourcing-events' and visible and id = any($2) order by id`,
    [organisationId, [...ids]],
  );
  return `[${rows.map(({ summary }) => summary).join(',')}]`;
}

/**
 * The suppliers as they are now. `bidder_contacts` are the contacts that are invited to bid in the page's events. An
 * invitation is sent when its event is published, or when the supplier is added to an open event.
 */
async function loadSuppliers(
  sql: Sql,
  organisationId: string,
  { supplier: ids, sourcing_event: events }: RelatedIds,
): Promise<Written<typeof includedSupplier>[]> {
  return sql.query(
    `with bidder as (
       select c.id, bool_or(i.invite_count > 0) as invited
       from service.invitations i
       join service.supplier_contacts c
         on c.supplier_id = i.supplier_id and (i.contacts is null or c.email_key = any(i.contacts))
       where i.event_id = any($3) and i.supplier_id = any($2)
       group by c.id)
     select s.id, s.name, s.external_id,
       coalesce(json_agg(json_build_object('name', c.name, 'email', c.email, 'invitation_state',
         case when bidder.invited then 'SENT' else 'UNSENT' end) order by c.email_key)
         filter (where bidder.id is not null), '[]') as bidder_contacts,
       coalesce(json_agg(json_build_object('id', c.id, 'name', c.name, 'email', c.email) order by c.email_key)
         filter (where c.id is not null), '[]') as contacts
     from service.suppliers s
     left join service.supplier_contacts c on c.supplier_id = s.id
     left join bidder on bidder.id = c.id
     where s.organisation_id = $1 and s.id = any($2)
     group by s.id order by s.id`,
    [organisationId, [...ids], [...events]],
  );
}

/** The columns of the page's events, as they are now. */
async function loadColumns(
  sql: Sql,
  organisationId: string,
  { sourcing_event: ids }: RelatedIds,
): Promise<Written<typeof includedColumn>[]> {
  const rows = await sql.query<{ id: string; columns: Column[] }>(
    'select id, columns from service.sourcing_events where organisation_id = $1 and id = any($2) order by id',
    [organisationId, [...ids]],
  );
  return rows.flatMap(({ id, columns }) => columns.map((column) => ({ sourcing_event: id, ...withDefaults(column) })));
}
