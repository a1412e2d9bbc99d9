/**
 * Erases a source from the bridge: all that was read of it, what was made of it for its flows, what its intakes have read
 * and sent, and how far each of them has come. In small steps; one that was interrupted goes on when it is run again. The
 * tables are found by their columns, so one that is added later is found, too. The ERPs keep what was delivered to them, and
 * the audit log its entries.
 */
import type { Database } from '#platform/database/database.ts';
import type { Sql } from '#platform/database/sql.ts';

const batchSize = 1_000;

interface SourceNames {
  readonly source: string;
  readonly flows: readonly string[];
  readonly intakes: readonly string[];
}

/** A condition on the rows of a table. */
interface OwnedRows {
  readonly table: string;
  readonly owned: string;
  readonly params: readonly unknown[];
}

/**
 * Returns how many rows of which table were deleted now. No process may have the source in its settings: it would make
 * its rows again.
 */
export async function eraseSource(
  database: Database,
  source: string,
  onDeleted: (rows: number) => void = () => undefined,
): Promise<Readonly<Record<string, number>>> {
  const names = await findNames(database, source);
  const removed: Record<string, number> = {};
  let deleted = 0;
  for (const { table, owned, params } of await ownedRows(database, names))
    for (;;) {
      const rows = await database.query(
        `delete from ${table} where ctid = any(array(select ctid from ${table} where ${owned} limit ${batchSize}))
         returning 1`,
        params,
      );
      if (rows.length > 0) removed[table] = (removed[table] ?? 0) + rows.length;
      deleted += rows.length;
      onDeleted(deleted);
      if (rows.length < batchSize) break;
    }
  return removed;
}

/** Whether the bridge has anything of this source. */
export async function isKnownSource(sql: Sql, source: string): Promise<boolean> {
  const [row] = await sql.query<{ known: boolean }>(
    `select exists (select from bridge.checkpoints where source = $1) or exists (select from bridge.mirror where source = $1)
       or exists (select from bridge.flows where source = $1) or exists (select from bridge.intakes where source = $1)
       or exists (select from bridge.inbox where source = $1) as known`,
    [source],
  );
  return row?.known === true;
}

async function findNames(sql: Sql, source: string): Promise<SourceNames> {
  const namesIn = async (table: string) =>
    (await sql.query<{ name: string }>(`select name from bridge.${table} where source = $1`, [source])).map(
      ({ name }) => name,
    );
  return { source, flows: await namesIn('flows'), intakes: await namesIn('intakes') };
}

/** Rows that others refer to come last, and at the very end those that say which flows and intakes there were. */
async function ownedRows(sql: Sql, { source, flows, intakes }: SourceNames): Promise<OwnedRows[]> {
  const tables = await sql.query<{ table: string; columns: string[]; named_by: number }>(
    `select n.nspname || '.' || c.relname as table, array_agg(a.attname::text) as columns,
       (select count(*)::int from pg_constraint k where k.contype = 'f' and k.confrelid = c.oid) as named_by
     from pg_class c join pg_namespace n on n.oid = c.relnamespace
     join pg_attribute a on a.attrelid = c.oid and a.attname in ('source', 'flow', 'intake') and not a.attisdropped
     where n.nspname = 'bridge' and c.relkind in ('r', 'p')
     group by n.nspname, c.relname, c.oid order by c.relname in ('flows', 'intakes'), named_by, c.relname`,
  );
  const rows = tables.flatMap(({ table, columns }): OwnedRows[] => {
    if (columns.includes('source')) return [{ table, owned: 'source = $1', params: [source] }];
    if (columns.includes('flow')) return [{ table, owned: 'flow = any($1)', params: [flows] }];
    return [{ table, owned: 'intake = any($1)', params: [intakes] }];
  });
  const subjects = [
    `source ${source}`,
    ...flows.map((flow) => `flow ${flow}`),
    ...intakes.map((one) => `intake ${one}`),
  ];
  return [
    {
      table: 'bridge.alerts',
      owned: 'subject = any($1) or starts_with(subject, $2)',
      params: [subjects, `feed ${source}/`],
    },
    ...rows,
  ];
}
