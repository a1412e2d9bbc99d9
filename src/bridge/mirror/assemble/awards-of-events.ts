/** Reads all awards of events, and how far their feed has been read, for the documents of whole events. */
import type { AwardFeed, AwardsHeld } from '#bridge/documents/awards-complete.ts';
import type { Timestamp } from '#contract/timestamp.ts';
import type { Sql } from '#platform/database/sql.ts';
import { withoutTime } from '../read-version.ts';

const pageSize = 1_000;

/**
 * Reads the awards of these events, by event. The progress of the feed is read before the records: a record that comes in
 * between is newer than it, and so counts as one that others may follow.
 */
export async function loadAwardsOfEvents(
  sql: Sql,
  source: string,
  events: readonly string[],
): Promise<Map<string, AwardsHeld>> {
  if (events.length === 0) return new Map();
  const [feed = { watermark: null, lastPull: null }] = await sql.query<AwardFeed>(
    `select watermark, last_pull as "lastPull" from bridge.checkpoints where source = $1 and feed = 'awards'`,
    [source],
  );
  const held = new Map(events.map((event) => [event, [] as AwardsHeld['awards'][number][]]));
  for (let after = { event: '', id: '' }; ; ) {
    const rows = await sql.query<AwardRow>(
      `select sourcing_event as event, record_id as id, body, gone is not null as gone, modified, seen
       from bridge.mirror where source = $1 and feed = 'awards' and sourcing_event = any($2)
         and (sourcing_event, record_id) > ($3, $4)
       order by sourcing_event, record_id limit ${pageSize}`,
      [source, [...held.keys()], after.event, after.id],
    );
    for (const { event, body, gone, modified, seen } of rows)
      held.get(event)?.push({ record: JSON.parse(body), gone, seen, modified: stampOf(modified) });
    const last = rows.at(-1);
    if (!last || rows.length < pageSize) break;
    after = last;
  }
  return new Map([...held].map(([event, awards]) => [event, { awards, feed }]));
}

interface AwardRow {
  readonly event: string;
  readonly id: string;
  readonly body: string;
  readonly gone: boolean;
  readonly modified: Timestamp;
  readonly seen: Timestamp;
}

/** The stamp of a stored record; null where the source gave none. */
export function stampOf(modified: Timestamp): Timestamp | null {
  return modified === withoutTime ? null : modified;
}
