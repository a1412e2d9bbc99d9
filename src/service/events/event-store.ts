/** The live event in SQL: loaded whole and locked for a command, written in parts. */

import { uuid } from '#contract/scalars.ts';
import type { CreateSourcingEventPayload } from '#contract/sourcing-event.ts';
import type { Timestamp } from '#contract/timestamp.ts';
import type { Sql } from '#platform/database/database.ts';
import { AppError } from '#platform/errors.ts';
import type { Bid, Cells, Invitation, Lot, Round, ScenarioAward, SourcingEvent } from '../domain/sourcing-event.ts';
import { emailKey } from '../domain/supplier-change.ts';

type EventRow = Omit<SourcingEvent, 'globalValues' | 'scenarioCount' | 'lots' | 'rounds' | 'invitations'> & {
  globalValues: object;
  scenarioCount: number;
};

/**
 * Loads an event of this organisation with lots, rounds and invitations; throws `not-found`. `lock` holds it until the
 * transaction ends: commands on one event come one after the other.
 */
export async function loadEvent(
  sql: Sql,
  organisationId: string,
  id: string | undefined,
  lock: 'lock' | 'read',
): Promise<SourcingEvent> {
  const parsed = uuid.safeParse(id);
  const [row] = parsed.success
    ? await sql.query<EventRow>(
        `select id, organisation_id as "organisationId", name, description, reference_id as "referenceId", type, status,
           primary_currency as "primaryCurrency", secondary_currencies as "secondaryCurrencies", tags, category,
           event_contact as "eventContact", columns, column_roles as "columnRoles", global_values as "globalValues",
           primary_cost_calculation as "primaryCostCalculation", is_test as "isTest", created_by as "createdBy",
           created, published, closed, awarded_scenario as "awardedScenario",
           (select count(*)::int from service.scenarios where event_id = id) as "scenarioCount"
         from service.sourcing_events
         where id = $1 and organisation_id = $2 ${lock === 'lock' ? 'for update' : ''}`,
        [parsed.data, organisationId],
      )
    : [];
  if (!row) throw new AppError('not-found', 'There is no such sourcing event.');
  const lots = await sql.query<Omit<Lot, 'values'> & { values: object }>(
    'select id, name, values from service.lots where event_id = $1 order by position',
    [row.id],
  );
  const rounds = await sql.query<Round>(
    `select number, starts, ends, status, awarded_cost as "awardedCost", awarded_lot_count as "awardedLotCount"
     from service.rounds where event_id = $1 order by number`,
    [row.id],
  );
  return {
    ...row,
    globalValues: cellsOf(row.globalValues),
    lots: lots.map((lot) => ({ ...lot, values: cellsOf(lot.values) })),
    rounds,
    invitations: await loadInvitations(sql, row.id),
  };
}

async function loadInvitations(sql: Sql, eventId: string): Promise<Invitation[]> {
  const rows = await sql.query<Omit<Invitation, 'globalValues'> & { globalValues: object }>(
    `select i.supplier_id as "supplierId", s.external_id as "externalId", s.name, i.invite_count as "inviteCount",
       i.accepted, i.participated, i.last_successful_bid as "lastSuccessfulBid", i.last_failed_bid as "lastFailedBid",
       i.last_accessed as "lastAccessed", i.global_values as "globalValues",
       coalesce((select json_agg(json_build_object('id', c.id, 'name', c.name, 'email', c.email) order by c.email)
                 from service.supplier_contacts c
                 where c.supplier_id = s.id and (i.contacts is null or c.email_key = any(i.contacts))), '[]') as contacts
     from service.invitations i join service.suppliers s on s.id = i.supplier_id
     where i.event_id = $1 order by s.external_id`,
    [eventId],
  );
  return rows.map((row) => ({ ...row, globalValues: cellsOf(row.globalValues) }));
}

/** The bids of an event, or of one supplier in it. */
export async function loadBids(sql: Sql, eventId: string, supplierId?: string): Promise<Bid[]> {
  const rows = await sql.query<Omit<Bid, 'values' | 'draft'> & { values: object | null; draft: object | null }>(
    `select id, lot_id as "lotId", supplier_id as "supplierId", values, cost, draft from service.bids
     where event_id = $1 and ($2::uuid is null or supplier_id = $2) order by supplier_id, lot_id`,
    [eventId, supplierId ?? null],
  );
  return rows.map((row) => ({
    ...row,
    values: row.values && cellsOf(row.values),
    draft: row.draft && cellsOf(row.draft),
  }));
}

/** In an order that does not change: a record whose content is the same must read the same. */
export async function loadScenarioAwards(sql: Sql, eventId: string, scenario: string): Promise<ScenarioAward[]> {
  return sql.query<ScenarioAward>(
    `select lot_id as "lotId", supplier_id as "supplierId", share from service.scenario_awards
     where event_id = $1 and scenario = $2 order by lot_id, supplier_id`,
    [eventId, scenario],
  );
}

/** Writes a new event in draft. Supplier ids are resolved by the caller, lot ids made by it. */
export async function insertEvent(
  sql: Sql,
  event: {
    id: string;
    organisationId: string;
    createdBy: string;
    created: Timestamp;
    payload: CreateSourcingEventPayload;
    lotIds: readonly string[];
    invitations: readonly { supplierId: string; contacts: readonly string[] | undefined }[];
  },
): Promise<void> {
  const { payload } = event;
  await sql.query(
    `insert into service.sourcing_events (id, organisation_id, name, description, reference_id, type, status,
       primary_currency, secondary_currencies, tags, category, event_contact, columns, column_roles, global_values,
       primary_cost_calculation, is_test, created_by, created)
     values ($1, $2, $3, $4, $5, $6, 'DRAFT', $7, $8, $9, $10, $11, $12, $13, $14, $15, $16, $17, $18)`,
    [
      event.id,
      event.organisationId,
      payload.name,
      payload.description,
      payload.reference_id ?? null,
      payload.event_type,
      payload.primary_currency,
      JSON.stringify(payload.secondary_currencies),
      JSON.stringify(payload.tags),
      payload.category ?? null,
      payload.event_contact ? JSON.stringify(payload.event_contact) : null,
      JSON.stringify(payload.bid_sheet.columns),
      JSON.stringify(payload.bid_sheet.column_roles),
      valuesJson(payload.bid_sheet.global_values),
      payload.primary_cost_calculation ?? null,
      payload.settings.is_test,
      event.createdBy,
      event.created,
    ],
  );
  await sql.query(
    `insert into service.lots (id, event_id, position, name, values)
     select id, $1, position - 1, name, values
     from unnest($2::uuid[], $3::text[], $4::jsonb[]) with ordinality as lot (id, name, values, position)`,
    [
      event.id,
      event.lotIds,
      payload.bid_sheet.lots.map((lot) => lot.name),
      payload.bid_sheet.lots.map((lot) => valuesJson(lot.values)),
    ],
  );
  await sql.query(
    `insert into service.invitations (event_id, supplier_id, contacts)
     select $1, supplier_id, (select array_agg(value) from json_array_elements_text(contacts) as value)
     from unnest($2::uuid[], $3::json[]) as invited (supplier_id, contacts)`,
    [
      event.id,
      event.invitations.map((invitation) => invitation.supplierId),
      event.invitations.map(({ contacts }) => (contacts ? JSON.stringify(contacts.map(emailKey)) : null)),
    ],
  );
}

function valuesJson(values: readonly { column: string; value: string; currency?: string | undefined }[]): string {
  return JSON.stringify(
    Object.fromEntries(values.map(({ column, value, currency }) => [column, currency ? { value, currency } : value])),
  );
}

export function cellsOf(json: object): Cells {
  return new Map(Object.entries(json));
}

export function cellsJson(cells: Cells): string {
  return JSON.stringify(Object.fromEntries(cells));
}
