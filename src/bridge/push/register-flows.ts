import type { FeedName } from '#contract/feed.ts';
import type { Timestamp } from '#contract/timestamp.ts';
import type { Database, Sql } from '#platform/database/database.ts';
import { documentKeysOf } from '../documents/document-keys.ts';
import type { FlowSettings } from '../settings.ts';
import { lockSources } from '../source-lock.ts';
import { markDocuments, markDocumentsOfFlow } from './mark-documents.ts';

const pageSize = 1_000;

/**
 * Makes the flows of the configuration known to SQL, so that documents are marked for them. A flow that is new, or whose
 * documents are shaped otherwise than before, gets every document of its source; one that is no longer configured is
 * marked for nothing more, its history stays. A paused flow goes on: whoever started the process has acted.
 */
export async function registerFlows(database: Database, flows: readonly FlowSettings[], now: Timestamp): Promise<void> {
  await database.transaction(async (tx) => {
    await lockSources(
      tx,
      flows.map(({ source }) => source),
    );
    const known = new Map(
      (await tx.query<{ name: string; shape: string }>('select name, shape from bridge.flows')).map((row) => [
        row.name,
        row.shape,
      ]),
    );
    await tx.query(`update bridge.flows set kinds = '{}', shape = '' where name <> all($1)`, [
      flows.map(({ name }) => name),
    ]);
    for (const flow of flows) {
      const shape = shapeOf(flow);
      await tx.query(
        `insert into bridge.flows (name, source, kinds, shape) values ($1, $2, $3, $4)
         on conflict (name) do update
           set source = excluded.source, kinds = excluded.kinds, shape = excluded.shape, paused_reason = null`,
        [flow.name, flow.source, flow.documents, shape],
      );
      if (known.get(flow.name) !== shape) await markEverything(tx, flow, now);
    }
  });
}

/** Everything in the settings that decides what the documents are and what they hold. */
function shapeOf(flow: FlowSettings): string {
  const { source, documents, test_events, quantity_column = null, unit_price_column = null } = flow;
  return JSON.stringify([source, [...documents].sort(), test_events, quantity_column, unit_price_column]);
}

/** Documents that are marked needlessly are compared and found equal. */
async function markEverything(tx: Sql, flow: FlowSettings, now: Timestamp): Promise<void> {
  await markDocumentsOfFlow(tx, flow.name, now);
  for (let after = ''; ; ) {
    const rows = await tx.query<{ record_id: string; feed: FeedName; body: string }>(
      `select record_id, feed, body from bridge.mirror where source = $1 and feed = 'awards' and record_id > $2
       order by record_id limit ${pageSize}`,
      [flow.source, after],
    );
    const keys = rows.flatMap(({ feed, body }) => documentKeysOf(feed, JSON.parse(body) as Record<string, unknown>));
    await markDocuments(tx, { source: flow.source, flow: flow.name }, keys, now);
    const last = rows.at(-1);
    if (!last || rows.length < pageSize) return;
    after = last.record_id;
  }
}
