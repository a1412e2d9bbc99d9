/** Which supplier attributes a source is known to have. The API does not list them: suppliers show them. */
import type { Sql } from '#platform/database/sql.ts';
import type { IntakeSettings } from './intake-settings.ts';

/** Returns those of these attributes that no supplier of the source has shown, and that it has not taken before. */
export async function unseenAttributes(tx: Sql, source: string, names: readonly string[]): Promise<string[]> {
  const unknown = await notKnown(tx, source, names);
  if (unknown.length === 0) return [];
  const shown = new Set<string>();
  for (let after = ''; ; ) {
    const rows = await tx.query<{ id: string; body: string }>(
      `select id, body from bridge.resources where source = $1 and kind = 'supplier-master' and id > $2
       order by id limit 1000`,
      [source, after],
    );
    for (const { body } of rows) {
      const { fields } = JSON.parse(body) as { fields?: unknown };
      if (typeof fields === 'object' && fields !== null) for (const name of Object.keys(fields)) shown.add(name);
    }
    const last = rows.at(-1);
    if (rows.length < 1_000 || !last) break;
    after = last.id;
  }
  const found = unknown.filter((name) => shown.has(name));
  await learnAttributes(tx, source, found);
  return unknown.filter((name) => !shown.has(name));
}

/**
 * Returns the attributes that the suppliers which wait to be sent may carry, and that no supplier of the source shows:
 * of all that wait, however many a plan lists. Stores what it finds known.
 */
export async function readUnseenInPlan(
  sql: Sql,
  { name, source, owns, mapping }: Pick<IntakeSettings, 'name' | 'source' | 'owns' | 'mapping'>,
): Promise<string[]> {
  if (!owns.includes('fields')) return [];
  const waits = `r.intake = $1 and r.action is not null and r.submission is null and r.dead_since is null`;
  const mapped = mapping.supplier && Object.keys(mapping.supplier.fields);
  // With a mapping its attributes; without one those that the ERP's records have.
  const rows = await sql.query<{ name: string }>(
    mapped
      ? `select m.name from unnest($2::text[]) as m (name) where exists (select from bridge.intake_records r where ${waits})`
      : `select distinct f.key as name from bridge.intake_records r
         cross join lateral json_each_text(r.body::json -> 'fields') f where ${waits} and f.value <> ''`,
    mapped ? [name, mapped] : [name],
  );
  return unseenAttributes(sql, source, rows.map((row) => row.name).sort());
}

async function notKnown(sql: Sql, source: string, names: readonly string[]): Promise<string[]> {
  const rows = await sql.query<{ name: string }>(
    `select n.name from unnest($2::text[]) as n (name)
     where not exists (select from bridge.intake_attributes a where a.source = $1 and a.name = n.name)`,
    [source, names],
  );
  return rows.map(({ name }) => name);
}

/** Stores that the source has these attributes. */
export async function learnAttributes(tx: Sql, source: string, names: readonly string[]): Promise<void> {
  if (names.length === 0) return;
  await tx.query(
    `insert into bridge.intake_attributes (source, name) select $1, n from unnest($2::text[]) as n
     on conflict do nothing`,
    [source, names],
  );
}
