/**
 * Makes a shadow the live flow, in one transaction: killed at any point, either the old flow is live or the new one.
 *
 * Example: `erp` is live, `erp-new` its shadow with another mapping and the same ERP. Order 4711 is of award A-17.
 *
 *     the file       `erp-new` loses `shadow: true`; `erp` is deleted, or gets `shadow: true`
 *     promote        `erp` has no kinds any more, and `erp-new` has them; `erp-new` owns 4711, with the call that may be
 *                    under way; every document of it is uncertain
 *     the next push  waits for that call, asks the ERP, finds 4711 and amends it: there is no second order
 *
 * A process that pushes `erp` meanwhile commits no intent after this transaction: `readSendingFlow` locks the row of the
 * flow that this transaction changes. What it had committed before is found here, and taken over.
 */
import type { Timestamp } from '#contract/timestamp.ts';
import type { Database } from '#platform/database/database.ts';
import type { Sql } from '#platform/database/sql.ts';
import { AppError } from '#platform/errors.ts';
import { lockSources } from '../due/source-lock.ts';
import { fingerprintOf } from '../flows/flow-fingerprint.ts';
import { type FlowRole, readFlowRoles } from '../flows/held-flows.ts';
import type { FlowSettings } from '../settings.ts';

/** What the new flow begins with. */
export interface Beginning {
  /** Whether it owns what the old flow has delivered: both write to the same ERP by the same connector. */
  readonly takesOver: boolean;
  /** In another ERP: what has not changed since then stays unwritten until it changes. */
  readonly since?: Timestamp | undefined;
}

/** A promotion that may be made. */
export interface Promotion {
  readonly flow: string;
  /** The flow whose place it takes; null where there is none. */
  readonly replaces: string | null;
  readonly takesOver: boolean;
  /** Documents that the old flow has delivered and that the new one does not take: they stay in the ERP as they are. */
  readonly leftBehind: number;
}

/**
 * Returns what `promoteFlow` would do. `configured` are all flows of the file, in which `flow` is live by now. Throws
 * AppError `invalid` that says what to change where the file does not fit, or where it is not known whether both flows
 * have the same ERP; `not-found` for a flow that was never a shadow.
 */
export async function planPromotion(
  sql: Sql,
  { flow, configured, sameErp }: { flow: FlowSettings; configured: readonly FlowSettings[]; sameErp?: boolean },
): Promise<Promotion> {
  const roles = await readFlowRoles(sql);
  const role = roles.get(flow.name);
  if (!role) throw new AppError('not-found', `No shadow "${flow.name}" is known: start the bridge once with it.`);
  if (role.isLive) throw new AppError('conflict', `"${flow.name}" is the live flow already.`);
  if (!role.isShadow)
    throw new AppError('invalid', `"${flow.name}" is no shadow: start the bridge once with shadow: true in it.`);
  const old = role.beside === null ? undefined : roles.get(role.beside);
  requireFile(flow, configured, old);
  // The fingerprint of a shadow names its live flow where its settings do.
  const examined = [undefined, role.beside ?? undefined].map((beside) =>
    fingerprintOf({ ...flow, shadow: true, beside }),
  );
  if (!examined.includes(role.fingerprint))
    throw new AppError(
      'invalid',
      `The settings of "${flow.name}" are not those that the shadow has examined. Give it shadow: true again, start the bridge, and look at bridge plan ${flow.name}.`,
    );
  const takesOver = old !== undefined && ownsObjects(flow, role, old, sameErp);
  const [left] = await sql.query<{ count: number }>(
    `select count(*)::int as count from bridge.flow_documents
     where flow = $1 and delivered_hash is not null and ($3 or kind <> all($2))`,
    [old?.name ?? '', flow.documents, !takesOver],
  );
  return { flow: flow.name, replaces: old?.name ?? null, takesOver, leftBehind: left?.count ?? 0 };
}

/** The file must say what the database will say: a process that starts with it must not begin anything else. */
function requireFile(flow: FlowSettings, configured: readonly FlowSettings[], old: FlowRole | undefined): void {
  const isOldLive = configured.some(({ name, shadow }) => name === old?.name && !shadow);
  if (!flow.shadow && !isOldLive) return;
  const ofNew = flow.shadow ? [`delete shadow: true (and beside) from the flow ${flow.name}`] : [];
  const ofOld = isOldLive ? [`delete the flow ${old?.name}, or give it shadow: true and beside: ${flow.name}`] : [];
  throw new AppError(
    'invalid',
    `The configuration must say first what is live after this: ${[...ofNew, ...ofOld].join('; ')}. Nothing changes before bridge promote; then restart the programs.`,
  );
}

function ownsObjects(flow: FlowSettings, role: FlowRole, old: FlowRole, sameErp: boolean | undefined): boolean {
  if (old.connector !== flow.connector) {
    if (sameErp)
      throw new AppError(
        'invalid',
        `"${flow.name}" and "${old.name}" have different connectors, and one does not know the other's objects: use --new-erp.`,
      );
    return false;
  }
  if (sameErp !== undefined) return sameErp;
  if (role.sameErp) return true;
  throw new AppError(
    'invalid',
    `"${flow.name}" and "${old.name}" have the same connector with other settings. Say whether they write to the same ERP (--same-erp: it goes on with the objects of ${old.name}) or not (--new-erp).`,
  );
}

/**
 * Makes the flow live and retires the one that it replaces. Every document is then due and uncertain: the ERP is asked
 * before anything is written. Throws as `planPromotion` does, and AppError `conflict` where the plan is another by now.
 */
export async function promoteFlow(
  database: Database,
  given: { flow: FlowSettings; configured: readonly FlowSettings[]; plan: Promotion } & Pick<Beginning, 'since'>,
  now: Timestamp,
): Promise<void> {
  const { flow, configured, plan, since } = given;
  await database.transaction(async (tx) => {
    await lockSources(tx, [flow.source]);
    await tx.query('select from bridge.flows where name = any($1) order by name for update', [
      [flow.name, plan.replaces ?? flow.name],
    ]);
    const again = await planPromotion(tx, { flow, configured, ...(plan.replaces && { sameErp: plan.takesOver }) });
    if (again.replaces !== plan.replaces)
      throw new AppError('conflict', `"${flow.name}" is beside another flow by now: look at the plan again.`);
    if (plan.replaces !== null) await retire(tx, plan.replaces, flow.name);
    await tx.query(
      `update bridge.flows set kinds = $2, shadow_kinds = '{}', fingerprint = $3, beside = null, same_erp = false,
         promoted = $4, replaced_by = null where name = $1`,
      [flow.name, flow.documents, fingerprintOf(flow), now],
    );
    if (plan.takesOver && plan.replaces !== null) await takeOver(tx, plan.replaces, flow);
    await tx.query(
      `update bridge.flow_documents d set wanted = d.wanted + 1, due = $2, waiting_since = coalesce(d.waiting_since, $2),
         uncertain_since = $2, attempts = 0, last_error = null, error_type = null, dead_since = null
       where d.flow = $1 and d.kind = any($3)`,
      [flow.name, now, flow.documents],
    );
    // What is left out stays uncertain: when it changes, the ERP is asked as of every other document.
    if (since !== undefined)
      await tx.query(
        `update bridge.flow_documents d set due = null, waiting_since = null
         from bridge.shadow_documents s
         where d.flow = $1 and s.flow = $1 and s.kind = d.kind and s.key = d.key and s.changed < $2
           and d.delivered_hash is null and d.intent_id is null`,
        [flow.name, since],
      );
    await tx.query('delete from bridge.shadow_documents where flow = $1', [flow.name]);
  });
}

/** As if it was not configured any more, and it stays so for a process with an older file. */
async function retire(tx: Sql, old: string, by: string): Promise<void> {
  await tx.query(
    `update bridge.flows set kinds = '{}', fingerprint = '', replaced_by = $2, promoted = null where name = $1`,
    [old, by],
  );
  await tx.query('update bridge.flow_documents set due = null, waiting_since = null where flow = $1', [old]);
}

/** The old flow's objects with their references, the calls that may still be under way, and what was sent last. */
async function takeOver(tx: Sql, old: string, { name, documents }: FlowSettings): Promise<void> {
  const owned = `delivered_hash, reference, delivered, uncertain_since, intent_id, intent_hash, intent_at, intent_by,
    intent_limit_ms, call_ended, call_answered, withdrawn`;
  const set = owned
    .split(',')
    .map((column) => `${column.trim()} = excluded.${column.trim()}`)
    .join(', ');
  await tx.query(
    `insert into bridge.flow_documents (flow, kind, key, sourcing_event, supplier, ${owned})
     select $2, kind, key, sourcing_event, supplier, ${owned} from bridge.flow_documents
     where flow = $1 and kind = any($3)
       and (delivered is not null or intent_id is not null or uncertain_since is not null)
     on conflict (flow, kind, key) do update set ${set}`,
    [old, name, documents],
  );
  await tx.query(
    `insert into bridge.document_versions (flow, kind, key, content_hash, body, made_of, sent)
     select $2, v.kind, v.key, v.content_hash, v.body, v.made_of, v.sent
     from bridge.document_versions v join bridge.flow_documents d
       on d.flow = v.flow and d.kind = v.kind and d.key = v.key and d.delivered_hash = v.content_hash
     where v.flow = $1 and v.kind = any($3) on conflict do nothing`,
    [old, name, documents],
  );
}
