import type { Timestamp } from '#contract/timestamp.ts';
import { uuidArray } from '#platform/database/binary-array.ts';
import { copyRows } from '#platform/database/copy-in.ts';
import type { Sql } from '#platform/database/sql.ts';
import type { Bid } from '../domain/sourcing-event.ts';
import { cellsJson } from './event-store.ts';

interface Saved {
  readonly bids: readonly Bid[];
  /** Those that are stored already; undefined: all of them. */
  readonly before?: readonly Bid[];
  readonly now: Timestamp;
}

/** Stores bids: first ones and changed ones; sends all it has to send at once. The caller holds the event's lock. */
export async function saveBids(sql: Sql, eventId: string, { bids, before = bids, now }: Saved): Promise<void> {
  const known = new Set(before.map(({ id }) => id));
  const added = bids.filter(({ id }) => !known.has(id));
  const changed = bids.filter(({ id }) => known.has(id));
  await Promise.all([
    added.length > 0 ? addBids(sql, eventId, added, now) : undefined,
    changed.length > 0 ? changeBids(sql, eventId, changed, now) : undefined,
  ]);
}

async function addBids(sql: Sql, eventId: string, bids: readonly Bid[], now: Timestamp): Promise<void> {
  await sql.copy(
    'service.bids (event_id, modified, id, lot_id, supplier_id, values, offers, cost, draft, withdrawn)',
    copyRows(bids.length, [
      { type: 'uuid', values: eventId },
      { type: 'timestamptz', values: now },
      { type: 'uuid', values: bids.map((bid) => bid.id) },
      { type: 'uuid', values: bids.map((bid) => bid.lotId) },
      { type: 'uuid', values: bids.map((bid) => bid.supplierId) },
      { type: 'jsonb', values: bids.map((bid) => bid.values && cellsJson(bid.values)) },
      { type: 'jsonb', values: bids.map((bid) => bid.offers && JSON.stringify(bid.offers)) },
      { type: 'text', values: bids.map((bid) => bid.cost) },
      { type: 'jsonb', values: bids.map((bid) => bid.draft && cellsJson(bid.draft)) },
      { type: 'boolean', values: bids.map((bid) => bid.withdrawn) },
    ]),
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
      uuidArray(bids.map((bid) => bid.id)),
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
