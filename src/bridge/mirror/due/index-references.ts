import type { DocumentKey, NamedBy } from '#bridge/documents/document-keys.ts';
import type { Sql } from '#platform/database/sql.ts';

export const referencesTable = 'bridge.record_references';

/**
 * Writes into `table` which records reference the suppliers and files among these keys. Their documents belong to no
 * single event, so this index is the only way from a record to them, and back.
 */
export async function indexReferences(
  sql: Sql,
  { source, table }: { source: string; table: string },
  keys: readonly DocumentKey[],
): Promise<void> {
  const references = new Map<string, DocumentKey & { namedBy: NamedBy }>();
  for (const key of keys) {
    if (!key.namedBy) continue;
    const id = JSON.stringify([key.kind, key.key, key.namedBy.part, key.namedBy.id]);
    // Of several versions of a record the current one counts, wherever it is in the list.
    if (key.namedBy.current || !references.has(id)) references.set(id, { ...key, namedBy: key.namedBy });
  }
  if (references.size === 0) return;
  const list = [...references.values()];
  await sql.query(
    `insert into ${table} as m (source, kind, key, part, record_id, sourcing_event, supplier, current)
     select $1, k.* from unnest($2::text[], $3::text[], $4::text[], $5::text[], $6::text[], $7::text[], $8::boolean[])
       as k (kind, key, part, record_id, sourcing_event, supplier, current)
     on conflict (source, kind, key, part, record_id) do update
       set current = excluded.current, sourcing_event = excluded.sourcing_event, supplier = excluded.supplier
       where (m.current, m.sourcing_event, m.supplier)
         is distinct from (excluded.current, excluded.sourcing_event, excluded.supplier)`,
    [
      source,
      list.map(({ kind }) => kind),
      list.map(({ key }) => key),
      list.map(({ namedBy }) => namedBy.part),
      list.map(({ namedBy }) => namedBy.id),
      list.map(({ sourcingEvent }) => sourcingEvent),
      list.map(({ supplier }) => supplier),
      list.map(({ namedBy }) => namedBy.current),
    ],
  );
}
