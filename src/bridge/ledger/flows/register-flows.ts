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
    await register(tx, changed, known, now);
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

async function register(
  tx: Sql,
  flows: readonly FlowSettings[],
  known: ReadonlyMap<string, Registered>,
  now: Timestamp,
): Promise<void> {
  const rows = flows.map((flow) => ({
    name: flow.name,
    source: flow.source,
    kinds: flow.documents,
    fingerprint: fingerprintOf(flow),
    connector: flow.connector,
  }));
  await tx.query(
    // A flow that a backup did not have may have delivered since: it carries the flag like the others.
    `insert into bridge.flows (name, source, kinds, fingerprint, connector, commits_lost)
     select name, source, kinds, fingerprint, connector, (select lost from bridge.lost_commits where caught_up is null)
     from jsonb_to_recordset($1) as row (name text, source text, kinds text[], fingerprint text, connector text)
     on conflict (name) do update set source = excluded.source, kinds = excluded.kinds,
       fingerprint = excluded.fingerprint, connector = excluded.connector`,
    [JSON.stringify(rows)],
  );
  for (const { name } of flows.filter((flow) => flow.begins_paused && !known.has(flow.name))) {
    const reason = `it begins paused, as its settings say: bridge plan ${name} shows what it would write`;
    await setPaused(tx, name, { kind: 'operator', reason }, now);
  }
  await markEverything(tx, flows, now);
  for (const { name, connector } of flows) {
    const before = known.get(name)?.connector ?? null;
    if (before !== null && before !== connector) await markDeliveredUncertain(tx, name, now);
  }
}
