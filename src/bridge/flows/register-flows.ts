import type { Timestamp } from '#contract/timestamp.ts';
import type { Database } from '#platform/database/database.ts';
import type { Sql } from '#platform/database/sql.ts';
import { markDeliveredUncertain } from '../due/mark-documents.ts';
import { markEverything } from '../due/mark-everything.ts';
import { lockSources } from '../due/source-lock.ts';
import type { FlowSettings } from '../settings.ts';
import { hasSameErp, liveFlowOf } from '../shadow/live-flow.ts';
import { fingerprintOf } from './flow-fingerprint.ts';
import { type FlowRole, type HeldFlow, readFlowRoles, whyHeld } from './held-flows.ts';

/**
 * Writes the configured flows to the database, so that changed records mark documents for them. In a flow that is new,
 * or has another fingerprint than before, every document of its source becomes due. In a flow that has another
 * connector, all delivered documents become uncertain, so that the new ERP is asked what it holds. For a flow that is
 * no longer configured nothing is marked any more; its history stays. A paused flow stays paused, as any process may
 * start at any time. All of this is one transaction.
 *
 * Which of a live flow and its shadow is the live one is changed by `bridge promote` alone: a flow whose configuration
 * says something else than the database is left as it is and returned (`held-flows.ts`).
 */
export async function registerFlows(
  database: Database,
  flows: readonly FlowSettings[],
  now: Timestamp,
): Promise<HeldFlow[]> {
  return database.transaction(async (tx) => {
    await lockSources(
      tx,
      flows.map(({ source }) => source),
    );
    const known = await readFlowRoles(tx);
    const held = flows.flatMap((flow) => whyHeld(flow, known.get(flow.name)) ?? []);
    const removed = await tx.query<{ name: string }>(
      `update bridge.flows set kinds = '{}', shadow_kinds = '{}', fingerprint = ''
       where name <> all($1) and fingerprint <> '' returning name`,
      [flows.map(({ name }) => name)],
    );
    const own = flows.filter(({ name }) => held.every(({ flow }) => flow !== name));
    const differ = own.filter((flow) => known.get(flow.name)?.fingerprint !== fingerprintOf(flow));
    // A shadow is compared with its live flow: where that one makes other documents, it is examined anew.
    const changed = own.filter(
      (flow) => differ.includes(flow) || (flow.shadow && differ.some((live) => live === liveFlowOf(flow, flows))),
    );
    for (const flow of changed) await register(tx, flow, flows, known.get(flow.name), now);
    // Documents of kinds that their flow does not take any more must not count as waiting.
    await tx.query(
      `update bridge.flow_documents d set due = null, waiting_since = null
       from bridge.flows f
       where f.name = d.flow and f.name = any($1) and d.kind <> all(f.kinds || f.shadow_kinds)
         and (d.due is not null or d.waiting_since is not null)`,
      [[...removed, ...changed].map(({ name }) => name)],
    );
    await tx.query(
      `delete from bridge.shadow_documents where flow in (select name from bridge.flows where shadow_kinds = '{}')`,
    );
    return held;
  });
}

async function register(
  tx: Sql,
  flow: FlowSettings,
  flows: readonly FlowSettings[],
  before: FlowRole | undefined,
  now: Timestamp,
): Promise<void> {
  const live = flow.shadow ? liveFlowOf(flow, flows) : undefined;
  await tx.query(
    // A flow that a backup did not have may have delivered since: it carries the flag like the others.
    `insert into bridge.flows (name, source, kinds, shadow_kinds, fingerprint, connector, beside, same_erp, commits_lost)
     values ($1, $2, $3, $4, $5, $6, $7, $8, (select lost from bridge.lost_commits where caught_up is null))
     on conflict (name) do update set source = excluded.source, kinds = excluded.kinds,
       shadow_kinds = excluded.shadow_kinds, fingerprint = excluded.fingerprint, connector = excluded.connector,
       beside = excluded.beside, same_erp = excluded.same_erp`,
    [
      flow.name,
      flow.source,
      flow.shadow ? [] : flow.documents,
      flow.shadow ? flow.documents : [],
      fingerprintOf(flow),
      flow.connector,
      live?.name ?? null,
      live !== undefined && hasSameErp(flow, live),
    ],
  );
  await markEverything(tx, flow, now);
  const connector = before?.connector ?? null;
  if (connector !== null && connector !== flow.connector) await markDeliveredUncertain(tx, flow.name, now);
}
