import type { Timestamp } from '#contract/timestamp.ts';
import type { Sql } from '#platform/database/sql.ts';
import type { Bid } from '../domain/sourcing-event.ts';
import { cellsJson } from './event-store.ts';

interface Saved {
  /** Of which nothing is stored. */
  readonly first?: readonly Bid[];
  /** That are stored already. */
  readonly changed: readonly Bid[];
  readonly now: Timestamp;
}

/** The caller holds the event's lock. */
export async function saveBids(sql: Sql, eventId: string, { first = [], changed, now }: Saved): Promise<void> {
  await Promise.all([
    first.length > 0 ? addBids(sql, eventId, first, now) : undefined,
    changed.length > 0 ? changeBids(sql, eventId, changed, now) : undefined,
  ]);
}

async function addBids(sql: Sql, eventId: string, bids: readonly Bid[], now: Timestamp): Promise<void> {
  await sql.query(
    `insert into service.bids (event_id, modified, id, lot_id, supplier_id, values, offers, cost, draft, withdrawn)
     select $1, $2, * from unnest($3::uuid[], $4::uuid[], $5::uuid[], $6::jsonb[], $7::jsonb[], $8::text[], $9::jsonb[],
       $10::boolean[])`,
    [
      eventId,
      now,
      bids.map((bid) => bid.id),
      bids.map((bid) => bid.lotId),
      bids.map((bid) => bid.supplierId),
      bids.map((bid) => bid.values && cellsJson(bid.values)),
      bids.map((bid) => bid.offers && JSON.stringify(bid.offers)),
      bids.map((bid) => bid.cost),
      bids.map((bid) => bid.draft && cellsJson(bid.draft)),
      bids.map((bid) => bid.withdrawn),
    ],
  );
}

async function changeBids(sql: Sql, eventId: string, bids: readonly Bid[], now: Timestamp): Promise<void> {
  await sql.query(
    `update service.bids as stored
     set values = new.values, offers = new.offers, cost = new.cost, draft = new.draft, withdrawn = new.withdrawn,
       modified = $2
     from unnest($3::uuid[], $4::jsonb[], $5::jsonb[], $6::text[], $7::jsonb[], $8::boolean[])
       as new (id, values, offers, cost, draft, withdrawn)
     where stored.event_id = $1 and stored.id = any($3) and stored.id = new.id`,
    [
      eventId,
      now,
      bids.map((bid) => bid.id),
      bids.map((bid) => bid.values && cellsJson(bid.values)),
      bids.map((bid) => bid.offers && JSON.stringify(bid.offers)),
      bids.map((bid) => bid.cost),
      bids.map((bid) => bid.draft && cellsJson(bid.draft)),
      bids.map((bid) => bid.withdrawn),
    ],
  );
}

/** Marks the suppliers of these completed bids as participants. The caller holds the event's lock. */
export async function markParticipants(sql: Sql, eventId: string, completed: readonly Bid[]): Promise<void> {
  await sql.query(
    `update service.invitations set participated = true
     where event_id = $1 and supplier_id = any($2) and not participated`,
    [eventId, completed.map((bid) => bid.supplierId)],
  );
}
