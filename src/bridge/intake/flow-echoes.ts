/**
 * What flows have delivered to ERPs about suppliers. A value that a flow wrote into the ERP comes back with the next
 * read: it is an echo of the service's own value, and is not sent to the service again.
 */
import { msFromTimestamp, type Timestamp } from '#contract/timestamp.ts';
import type { Sql } from '#platform/database/sql.ts';
import type { SupplierView } from './compare-supplier.ts';

export interface Echo {
  readonly state: SupplierView | undefined;
  readonly deliveredMs: number;
  /** A call is under way, or its outcome is not known: the ERP may have changed already. */
  readonly isOpen: boolean;
  readonly openSinceMs: number;
}

/** Whether a flow delivers suppliers of this source. */
export async function readHasFlow(sql: Sql, source: string): Promise<boolean> {
  const rows = await sql.query(`select from bridge.flows where source = $1 and 'supplier' = any(kinds) limit 1`, [
    source,
  ]);
  return rows.length > 0;
}

/** Returns what was delivered last of these suppliers, by external id. */
export async function readEchoes(sql: Sql, source: string, keys: readonly string[]): Promise<Map<string, Echo>> {
  const rows = await sql.query<{
    key: string;
    delivered: Timestamp | null;
    intent: Timestamp | null;
    body: string | null;
  }>(
    `select d.key, d.delivered, case when d.intent_id is not null then d.intent_at end as intent, v.body
     from bridge.flows f
     join bridge.flow_documents d on d.flow = f.name and d.kind = 'supplier' and d.key = any($2::text[])
     left join bridge.document_versions v
       on v.flow = d.flow and v.kind = d.kind and v.key = d.key and v.content_hash = d.delivered_hash
     where f.source = $1 and 'supplier' = any(f.kinds)
     order by d.delivered nulls first`,
    [source, keys],
  );
  const echoes = new Map<string, Echo>();
  for (const { key, delivered, intent, body } of rows) {
    const before = echoes.get(key);
    echoes.set(key, {
      state: body === null ? before?.state : stateOf(JSON.parse(body)),
      deliveredMs: delivered === null ? 0 : msFromTimestamp(delivered),
      isOpen: intent !== null || before?.isOpen === true,
      openSinceMs: Math.max(intent === null ? 0 : msFromTimestamp(intent), before?.openSinceMs ?? 0),
    });
  }
  return echoes;
}

/** Reads a delivered `supplier` document. */
function stateOf(document: unknown): SupplierView {
  const { name, archived, attributes, contacts } = document as {
    name?: string;
    archived?: boolean;
    attributes?: { name: string; value: string }[];
    contacts?: { name: string; email: string }[];
  };
  return {
    name: name ?? '',
    archived: archived ?? false,
    fields: Object.fromEntries((attributes ?? []).map((attribute) => [attribute.name, attribute.value])),
    contacts: contacts ?? [],
  };
}
