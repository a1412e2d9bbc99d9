/**
 * Writes an event from a payload that was checked and whose suppliers and requests were looked up: a new event whole,
 * an existing event in the members that the client gave. The number of statements does not depend on the number of
 * lots.
 */
import { randomUUID } from 'node:crypto';
import { isDeepStrictEqual } from 'node:util';
import type { CreateSourcingEventPayload, EventChanges } from '#contract/sourcing-event.ts';
import type { Timestamp } from '#contract/timestamp.ts';
import type { Sql } from '#platform/database/sql.ts';
import { cellsOfValues, type InvitedContacts } from '../domain/event-payload.ts';
import { createdEntry } from '../domain/history.ts';
import type { SourcingEvent } from '../domain/sourcing-event.ts';
import { saveQuestions } from '../rfi/question-store.ts';
import { cellsJson } from './event-store.ts';

/** A payload with the suppliers and requests that it names looked up. */
export interface ResolvedPayload {
  readonly payload: CreateSourcingEventPayload;
  /** `contacts` are the e-mail keys of the invited contacts; null invites all of the supplier's contacts. */
  readonly invitations: readonly { supplierId: string; contacts: readonly string[] | null }[];
  /** The ids of the sourcing requests of the event and of its lots, each once. */
  readonly sourcingRequests: readonly string[];
}

type EventIds = Pick<SourcingEvent, 'id' | 'organisationId'>;

/** Inserts a new event with status DRAFT. Throws as `saveQuestions` does. */
export async function insertEvent(
  tx: Sql,
  event: EventIds & { createdBy: string },
  resolved: ResolvedPayload,
  now: Timestamp,
): Promise<void> {
  const { payload } = resolved;
  await tx.query(
    `insert into service.sourcing_events (id, organisation_id, created_by, created, status, name, description,
       reference_id, type, primary_currency, secondary_currencies, tags, category, event_contact, columns, column_roles,
       global_values, primary_cost_calculation, is_test, is_template, close_after_last_round, history,
       sourcing_requests)
     values ($1, $2, $3, $4, 'DRAFT', $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16, $17, $18, $19, $20, $21,
       $22)`,
    [
      event.id,
      event.organisationId,
      event.createdBy,
      now,
      ...plainMembers(payload),
      JSON.stringify([createdEntry(now)]),
      resolved.sourcingRequests,
    ],
  );
  await saveLots(tx, event.id, payload.bid_sheet.lots);
  await insertRounds(tx, event.id, payload.rounds);
  await saveInvitations(tx, event.id, resolved.invitations, 0);
  await saveQuestions(tx, event, payload.questions, now);
}

/**
 * Updates an event to the payload. The caller holds the event's lock. Only the members in `given` may differ from the
 * stored event, and only their tables are written. A lot that keeps its name keeps its id, and with it its bids and its
 * award. Throws as `saveQuestions` does.
 */
export async function updateEvent(
  tx: Sql,
  event: SourcingEvent,
  resolved: ResolvedPayload,
  given: EventChanges,
  now: Timestamp,
): Promise<void> {
  const { payload, invitations, sourcingRequests } = resolved;
  await tx.query(
    `update service.sourcing_events set name = $2, description = $3, reference_id = $4, type = $5,
       primary_currency = $6, secondary_currencies = $7, tags = $8, category = $9, event_contact = $10, columns = $11,
       column_roles = $12, global_values = $13, primary_cost_calculation = $14, is_test = $15, is_template = $16,
       close_after_last_round = $17, sourcing_requests = $18, bids_behind = true, answers_behind = true
     where id = $1`,
    [event.id, ...plainMembers(payload), sourcingRequests],
  );
  if (given.bid_sheet?.lots) {
    await tx.query('delete from service.lots where event_id = $1 and name not in (select unnest($2::text[]))', [
      event.id,
      payload.bid_sheet.lots.map(({ name }) => name),
    ]);
    // Moved to negative positions first: positions are unique, and two lots that swap places would collide.
    await tx.query('update service.lots set position = -1 - position where event_id = $1', [event.id]);
    await saveLots(tx, event.id, payload.bid_sheet.lots);
  }
  if (given.rounds && !isDeepStrictEqual(given.rounds.map(timesOf), event.rounds.map(timesOf))) {
    await tx.query('delete from service.rounds where event_id = $1', [event.id]);
    await insertRounds(tx, event.id, given.rounds);
  }
  if (given.suppliers) {
    await tx.query(
      'delete from service.invitations where event_id = $1 and supplier_id not in (select unnest($2::uuid[]))',
      [event.id, invitations.map(({ supplierId }) => supplierId)],
    );
    // A draft's invitations are sent, and counted, when it is published.
    await saveInvitations(tx, event.id, invitations, event.status === 'DRAFT' ? 0 : 1);
  }
  if (given.questions) await saveQuestions(tx, event, given.questions, now);
}

/** Rounds with the same times are the same rounds: the rounds of a published event keep their status and results. */
function timesOf({ starts, ends }: { starts?: Timestamp | null | undefined; ends?: Timestamp | null | undefined }) {
  return { starts: starts ?? null, ends: ends ?? null };
}

/** The columns of `sourcing_events` that are members of the payload, from `name` to `close_after_last_round`. */
function plainMembers(payload: CreateSourcingEventPayload): unknown[] {
  return [
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
    cellsJson(cellsOfValues(payload.bid_sheet.global_values)),
    payload.primary_cost_calculation ?? null,
    payload.settings.is_test,
    payload.settings.is_template,
    payload.settings.close_after_last_round,
  ];
}

async function saveLots(tx: Sql, eventId: string, lots: CreateSourcingEventPayload['bid_sheet']['lots']) {
  await tx.query(
    `insert into service.lots (event_id, position, id, name, values, sourcing_request)
     select $1, position - 1, id, name, values, sourcing_request
     from unnest($2::uuid[], $3::text[], $4::jsonb[], $5::uuid[]) with ordinality
       as lot (id, name, values, sourcing_request, position)
     on conflict (event_id, name) do update
       set position = excluded.position, values = excluded.values, sourcing_request = excluded.sourcing_request`,
    [
      eventId,
      lots.map(() => randomUUID()),
      lots.map((lot) => lot.name),
      lots.map((lot) => cellsJson(cellsOfValues(lot.values))),
      lots.map((lot) => lot.sourcing_request ?? null),
    ],
  );
}

async function insertRounds(tx: Sql, eventId: string, rounds: CreateSourcingEventPayload['rounds']): Promise<void> {
  await tx.query(
    `insert into service.rounds (event_id, number, starts, ends, status)
     select $1, number, starts, ends, 'PENDING'
     from unnest($2::timestamptz[], $3::timestamptz[]) with ordinality as round (starts, ends, number)`,
    [eventId, rounds.map(({ starts }) => starts ?? null), rounds.map(({ ends }) => ends ?? null)],
  );
}

async function saveInvitations(
  tx: Sql,
  eventId: string,
  invitations: ResolvedPayload['invitations'],
  inviteCount: number,
): Promise<void> {
  await tx.query(
    `insert into service.invitations (event_id, invite_count, supplier_id, contacts)
     select $1, $2, supplier_id, case when contacts is not null
       then array(select value from jsonb_array_elements_text(contacts) with ordinality as key (value, place)
                  order by place) end
     from unnest($3::uuid[], $4::jsonb[]) as invited (supplier_id, contacts)
     on conflict (event_id, supplier_id) do update set contacts = excluded.contacts`,
    [
      eventId,
      inviteCount,
      invitations.map(({ supplierId }) => supplierId),
      invitations.map(({ contacts }) => contacts && JSON.stringify(contacts)),
    ],
  );
}

/** The invited contacts (e-mail keys) of each invited supplier of an event; null for all of them. */
export async function loadInvitedContacts(sql: Sql, eventId: string): Promise<InvitedContacts> {
  const rows = await sql.query<{ supplier_id: string; contacts: string[] | null }>(
    'select supplier_id, contacts from service.invitations where event_id = $1',
    [eventId],
  );
  return new Map(rows.map((row) => [row.supplier_id, row.contacts]));
}
