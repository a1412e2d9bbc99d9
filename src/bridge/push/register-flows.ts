import type { FeedName } from '#contract/feed.ts';
import type { Timestamp } from '#contract/timestamp.ts';
import type { Database, Sql } from '#platform/database/database.ts';
import { type DocumentKey, documentKeysOf } from '../documents/document-keys.ts';
import type { FlowSettings } from '../settings.ts';
import { flowRegistrationLock, markDocuments } from './mark-documents.ts';

const pageSize = 1_000;

/**
 * Makes the flows of the configuration known to SQL, so that documents are marked for them. A flow that is new gets
 * every document of its source; one that is no longer configured is marked for nothing more, its history stays.
 */
export async function registerFlows(database: Database, flows: readonly FlowSettings[], now: Timestamp): Promise<void> {
  await database.transaction(async (tx) => {
    await tx.query('select pg_advisory_xact_lock($1, $2)', [...flowRegistrationLock]);
    for (const flow of flows) {
      const [known] = await tx.query<{ source: string; kinds: string[] }>(
        'select source, kinds from bridge.flows where name = $1',
        [flow.name],
      );
      await tx.query(
        `insert into bridge.flows (name, source, kinds) values ($1, $2, $3)
         on conflict (name) do update set source = excluded.source, kinds = excluded.kinds, paused_reason = null`,
        [flow.name, flow.source, flow.documents],
      );
      const same = known?.source === flow.source && flow.documents.every((kind) => known.kinds.includes(kind));
      if (!same) await markEverything(tx, flow.source, now);
    }
  });
}

/** Documents that are marked needlessly are compared and found equal. */
async function markEverything(tx: Sql, source: string, now: Timestamp): Promise<void> {
  let after = '';
  for (;;) {
    const rows = await tx.query<{ record_id: string; feed: FeedName; body: string }>(
      `select record_id, feed, body from bridge.mirror where source = $1 and feed = 'awards' and record_id > $2
       order by record_id limit ${pageSize}`,
      [source, after],
    );
    const keys = new Map<string, DocumentKey>();
    for (const { feed, body } of rows)
      for (const key of documentKeysOf(feed, JSON.parse(body) as Record<string, unknown>, undefined))
        keys.set(`${key.kind} ${key.key}`, key);
    await markDocuments(tx, source, [...keys.values()], now);
    const last = rows.at(-1);
    if (!last || rows.length < pageSize) return;
    after = last.record_id;
  }
}
