/** The history of an event in SQL: a list in the event's row, written in the transaction of the change. */
import type { Sql } from '#platform/database/sql.ts';
import { type HistoryEntry, historyEntriesMax } from '../domain/history.ts';
import type { SourcingEvent } from '../domain/sourcing-event.ts';

type EventKey = Pick<SourcingEvent, 'id' | 'organisationId'>;

/** Adds entries, and drops the oldest beyond the bound. The caller holds the event's lock. */
export async function appendHistory(sql: Sql, event: EventKey, entries: readonly HistoryEntry[]): Promise<void> {
  if (entries.length === 0) return;
  await sql.query(
    `update service.sourcing_events
     set history = (
       select jsonb_agg(entry order by place) from (
         select entry, place from jsonb_array_elements(history || $3::jsonb) with ordinality as given (entry, place)
         order by place desc limit $4) as newest)
     where id = $1 and organisation_id = $2`,
    [event.id, event.organisationId, JSON.stringify(entries), historyEntriesMax],
  );
}

/** The entries, oldest first. */
export async function loadHistory(sql: Sql, event: EventKey): Promise<HistoryEntry[]> {
  const [row] = await sql.query<{ history: HistoryEntry[] }>(
    'select history from service.sourcing_events where id = $1 and organisation_id = $2',
    [event.id, event.organisationId],
  );
  return row?.history ?? [];
}
