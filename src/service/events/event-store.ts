/** The event in SQL, loaded whole: lots, rounds, invitations and bids. */
import { uuid } from '#contract/scalars.ts';
import type { Column } from '#contract/sourcing-event.ts';
import { prepared, type Sql } from '#platform/database/sql.ts';
import { AppError } from '#platform/errors.ts';
import type { Bid, Cells, Invitation, Lot, Round, SourcingEvent } from '../domain/sourcing-event.ts';

type EventRow = Omit<SourcingEvent, 'globalValues' | 'lots' | 'rounds' | 'invitations'> & { globalValues: object };

// They read and lock, so they may travel with the BEGIN of a transaction.
const lockEvent = prepared('select from service.sourcing_events where id = $1 and organisation_id = $2 for update');

const findEvent = prepared(
  `select id, organisation_id as "organisationId", name, description, reference_id as "referenceId", type, status,
     primary_currency as "primaryCurrency", secondary_currencies as "secondaryCurrencies", tags, category,
     event_contact as "eventContact", columns, column_roles as "columnRoles", global_values as "globalValues",
     primary_cost_calculation as "primaryCostCalculation", is_test as "isTest",
     is_template as "isTemplate", close_after_last_round as "closeAfterLastRound",
     coalesce((select json_build_object('id', coalesce(k.user_id, k.id), 'name', k.user_name, 'email', k.user_email)
               from service.api_keys k where k.id = created_by and k.organisation_id = $2),
       json_build_object('id', created_by)) as "createdBy",
     created, published, closed, emptied, awarded_scenario as "awardedScenario", bids_behind as "bidsBehind",
     (select count(*)::int from service.scenarios where event_id = id) as "scenarioCount",
     sourcing_requests as "sourcingRequests"
   from service.sourcing_events
   where id = $1 and organisation_id = $2`,
);

const findLots = prepared(
  `select id, name, values, sourcing_request as "sourcingRequest" from service.lots
   where event_id = $1 order by position`,
);

const findRounds = prepared(
  `select number, starts, ends, status, awarded_cost as "awardedCost", awarded_lot_count as "awardedLotCount", reopened
   from service.rounds where event_id = $1 order by number`,
);

const findInvitations = prepared(
  `select i.supplier_id as "supplierId", s.external_id as "externalId", s.name, i.invite_count as "inviteCount",
     i.accepted, i.participated, i.last_successful_bid as "lastSuccessfulBid", i.last_failed_bid as "lastFailedBid",
     i.last_accessed as "lastAccessed", i.global_values as "globalValues",
     coalesce((select json_agg(json_build_object('id', c.id, 'name', c.name, 'email', c.email) order by c.email)
               from service.supplier_contacts c
               where c.supplier_id = s.id and (i.contacts is null or c.email_key = any(i.contacts))),
       '[]') as contacts
   from service.invitations i join service.suppliers s on s.id = i.supplier_id
   where i.event_id = $1 order by s.external_id`,
);

/**
 * Loads an event of this organisation with lots, rounds and invitations. Throws `not-found`. `lock` locks the event
 * until the transaction ends, so that commands on one event run one after the other.
 */
export async function loadEvent(
  sql: Sql,
  organisationId: string,
  id: string | undefined,
  lock: 'lock' | 'read',
): Promise<SourcingEvent> {
  const parsed = uuid.safeParse(id);
  if (!parsed.success) throw noSuchEvent();
  const [eventId, key] = [parsed.data, [parsed.data, organisationId]];
  // All are sent at once, and run one after the other. The lock is a statement of its own: what the locking statement
  // reads from other tables would be as old as its start.
  const [, [row], lots, rounds, invitations] = await Promise.all([
    lock === 'lock' && sql.query(lockEvent, key),
    sql.query<EventRow>(findEvent, key),
    sql.query<Omit<Lot, 'values'> & { values: object }>(findLots, [eventId]),
    sql.query<Round>(findRounds, [eventId]),
    sql.query<Omit<Invitation, 'globalValues'> & { globalValues: object }>(findInvitations, [eventId]),
  ]);
  // The other rows may be those of another organisation's event.
  if (!row) throw noSuchEvent();
  return {
    ...row,
    columns: row.columns.map(withDefaults),
    globalValues: cellsOf(row.globalValues),
    lots: lots.map((lot) => ({ ...lot, values: cellsOf(lot.values) })),
    rounds,
    invitations: invitations.map((one) => ({ ...one, globalValues: cellsOf(one.globalValues) })),
  };
}

function noSuchEvent(): AppError {
  return new AppError('not-found', 'There is no such sourcing event.');
}

/** A stored column with every member: one that was stored before it could say `allow_negative` has none. */
export function withDefaults(column: Column): Column {
  return column.column_type === 'INPUT' ? { ...column, allow_negative: column.allow_negative ?? false } : column;
}

/** The bids of an event, or of one supplier in it, in the order of the lots. */
export async function loadBids(sql: Sql, eventId: string, supplierId?: string): Promise<Bid[]> {
  const rows = await sql.query<Omit<Bid, 'values' | 'draft'> & { values: object | null; draft: object | null }>(
    `select b.id, b.lot_id as "lotId", b.supplier_id as "supplierId", b.values, b.offers, b.cost, b.draft, b.withdrawn
     from service.bids b join service.lots l on l.id = b.lot_id
     where b.event_id = $1 and ($2::uuid is null or b.supplier_id = $2) order by l.position, b.supplier_id`,
    [eventId, supplierId ?? null],
  );
  return rows.map((row) => ({
    ...row,
    values: row.values && cellsOf(row.values),
    draft: row.draft && cellsOf(row.draft),
  }));
}

/** The cells (values by column name) that are stored as a JSON object. */
export function cellsOf(json: object): Cells {
  return new Map(Object.entries(json));
}

/** Cells as the text of the JSON object that is stored. */
export function cellsJson(cells: Cells): string {
  return JSON.stringify(Object.fromEntries(cells));
}
