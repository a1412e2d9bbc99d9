import { markDeliveredUncertain } from '#bridge/mirror/due/mark-documents.ts';
import { markEverything } from '#bridge/mirror/due/mark-everything.ts';
import { lockSources } from '#bridge/mirror/due/source-lock.ts';
import type { FlowSettings } from '#bridge/settings/settings.ts';
import type { Timestamp } from '#contract/timestamp.ts';
import type { Database } from '#platform/database/database.ts';
import type { Sql } from '#platform/database/sql.ts';
import { fingerprintOf } from './flow-fingerprint.ts';
import { setPaused } from './flow-state.ts';

/**
 * Writes the configured flows to the database, so that changed records mark documents for them. In a flow that is new,
 * or has another fingerprint than before, every document of its source becomes due. In a flow that has another
 * connector, all delivered documents become uncertain, so that the new ERP is asked what it holds. For a flow that is
 * no longer configured nothing is marked any more; its history stays. A paused flow stays paused, as any process may
 * start at any time; a new one with `begins_paused` is paused from the moment that it is known. All of this is one
 * transaction.
 */
export async function registerFlows(database: Database, flows: readonly FlowSettings[], now: Timestamp): Promise<void> {
  await database.transaction(async (tx) => {
    await lockSources(
      tx,
      flows.map(({ source }) => source),
    );
    const known = await readRegistered(tx);
    const removed = await tx.query<{ name: string }>(
      `update bridge.flows set kinds = '{}', fingerprint = ''
       where name <> all($1) and fingerprint <> '' returning name`,
      [flows.map(({ name }) => name)],
    );
    const changed = flows.filter((flow) => known.get(flow.name)?.fingerprint !== fingerprintOf(flow));
    for (const flow of changed) await register(tx, flow, known.get(flow.name), now);
    // Documents of kinds that their flow does not take any more must not count as waiting.
    await tx.query(
      `update bridge.flow_documents d set due = null, waiting_since = null
       from bridge.flows f
       where f.name = d.flow and f.name = any($1) and d.kind <> all(f.kinds)
         and (d.due is not null or d.waiting_since is not null)`,
      [[...removed, ...changed].map(({ name }) => name)],
    );
  });
}

/** A flow as it was registered last. */
interface Registered {
  readonly name: string;
  readonly fingerprint: string;
  readonly connector: string | null;
}

async function readRegistered(tx: Sql): Promise<Map<string, Registered>> {
  const rows = await tx.query<Registered>('select name, fingerprint, connector from bridge.flows');
  return new Map(rows.map((row) => [row.name, row]));
}

async function register(tx: Sql, flow: FlowSettings, before: Registered | undefined, now: Timestamp): Promise<void> {
  await tx.query(
    // A flow that a backup did not have may have delivered since: it carries the flag like the others.
    `insert into bridge.flows (name, source, kinds, fingerprint, connector, commits_lost)
     values ($1, $2, $3, $4, $5, (select lost from bridge.lost_commits where caught_up is null))
     on conflict (name) do update set source = excluded.source, kinds = excluded.kinds,
       fingerprint = excluded.fingerprint, connector = excluded.connector`,
    [flow.name, flow.source, flow.documents, fingerprintOf(flow), flow.connector],
  );
  if (!before && flow.begins_paused) {
    const reason = `it begins paused, as its settings say: bridge plan ${flow.name} shows what it would write`;
    await setPaused(tx, flow.name, { kind: 'operator', reason }, now);
  }
  await markEverything(tx, flow, now);
  const connector = before?.connector ?? null;
  if (connector !== null && connector !== flow.connector) await markDeliveredUncertain(tx, flow.name, now);
}
