import type { Timestamp } from '#contract/timestamp.ts';
import type { Database } from '#platform/database/database.ts';
import { markEverything } from '../due/mark-everything.ts';
import { lockSources } from '../due/source-lock.ts';
import { markDeliveredUncertain } from '../push/claim/flow-document-store.ts';
import type { FlowSettings } from '../settings.ts';
import { fingerprintOf } from './flow-fingerprint.ts';

/**
 * Makes the flows of the configuration known to SQL, so that documents are marked for them. A flow that is new, or whose
 * documents are shaped otherwise than before, gets every document of its source; one that has another connector asks it
 * what it holds of all that was delivered. One that is no longer configured is marked for nothing more, its history stays. A flow that is paused stays so: any process may start at any time.
 */
export async function registerFlows(database: Database, flows: readonly FlowSettings[], now: Timestamp): Promise<void> {
  await database.transaction(async (tx) => {
    await lockSources(
      tx,
      flows.map(({ source }) => source),
    );
    const known = new Map(
      (
        await tx.query<{ name: string; fingerprint: string; connector: string | null }>(
          'select name, fingerprint, connector from bridge.flows',
        )
      ).map((row) => [row.name, row]),
    );
    const removed = await tx.query<{ name: string }>(
      `update bridge.flows set kinds = '{}', fingerprint = '' where name <> all($1) and fingerprint <> '' returning name`,
      [flows.map(({ name }) => name)],
    );
    const changed = flows.filter((flow) => known.get(flow.name)?.fingerprint !== fingerprintOf(flow));
    for (const flow of changed) {
      await tx.query(
        `insert into bridge.flows (name, source, kinds, fingerprint, connector) values ($1, $2, $3, $4, $5)
         on conflict (name) do update set source = excluded.source, kinds = excluded.kinds, fingerprint = excluded.fingerprint,
           connector = excluded.connector`,
        [flow.name, flow.source, flow.documents, fingerprintOf(flow), flow.connector],
      );
      await markEverything(tx, flow, now);
      const { connector = null } = known.get(flow.name) ?? {};
      if (connector !== null && connector !== flow.connector) await markDeliveredUncertain(tx, flow.name, now);
    }
    // What no flow wants any more waits for nothing.
    await tx.query(
      `update bridge.flow_documents d set due = null, waiting_since = null
       from bridge.flows f
       where f.name = d.flow and f.name = any($1) and d.kind <> all(f.kinds)
         and (d.due is not null or d.waiting_since is not null)`,
      [[...removed, ...changed].map(({ name }) => name)],
    );
  });
}
