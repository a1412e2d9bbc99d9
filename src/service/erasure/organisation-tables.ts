/**
 * Which rows of which table belong to an organisation, and in which order they can be deleted: as the foreign keys of the
 * database say, so a table that is added later is found, too.
 */
import type { Sql } from '#platform/database/sql.ts';

export interface OwnedTable {
  /** With its schema. */
  readonly table: string;
  /** A condition on its rows; `$1` is the organisation. */
  readonly owned: string;
}

interface ForeignKey {
  readonly table: string;
  readonly columns: readonly string[];
  readonly parent: string;
  readonly parentColumns: readonly string[];
}

const organisations = 'service.organisations';

/** Returns the tables, each before those that it refers to; the last is that of the organisations themselves. */
export async function findOwnedTables(sql: Sql): Promise<OwnedTable[]> {
  const keys = await sql.query<ForeignKey>(
    `select c.conrelid::regclass::text as table, c.confrelid::regclass::text as parent,
       array(select a.attname::text from unnest(c.conkey) with ordinality k (n, place)
         join pg_attribute a on a.attrelid = c.conrelid and a.attnum = k.n order by place) as columns,
       array(select a.attname::text from unnest(c.confkey) with ordinality k (n, place)
         join pg_attribute a on a.attrelid = c.confrelid and a.attnum = k.n order by place) as "parentColumns"
     from pg_constraint c where c.contype = 'f' and c.connamespace = 'service'::regnamespace
       and c.conrelid <> c.confrelid
     order by (c.confrelid = 'service.organisations'::regclass) desc, c.conname`,
  );
  const tables = new Set([...keys.map(({ table }) => table), organisations]);
  const ordered: string[] = [];
  const visit = (table: string) => {
    if (ordered.includes(table)) return;
    for (const key of keys) if (key.parent === table) visit(key.table);
    ordered.push(table);
  };
  for (const table of tables) visit(table);
  const ownedOf = (table: string): string => {
    if (table === organisations) return 'id = $1';
    const key = keys.find((each) => each.table === table);
    if (!key) throw new Error(`${table} belongs to no organisation.`);
    if (key.parent === organisations) return `${key.columns[0]} = $1`;
    return `(${key.columns.join(', ')}) in (select ${key.parentColumns.join(', ')} from ${key.parent}
      where ${ownedOf(key.parent)})`;
  };
  const owned = ordered.map((table) => ({ table, owned: ownedOf(table) }));
  // Counted without a foreign key, as each request writes a row.
  const ofKeys = {
    table: 'service.counted_requests',
    owned: 'api_key_id in (select id from service.api_keys where organisation_id = $1)',
  };
  return [ofKeys, ...owned];
}
