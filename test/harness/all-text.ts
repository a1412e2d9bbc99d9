/** All that the tables of a schema hold, as text: a line a row, with what is bytes as text, too. */
import type { Sql } from '#platform/database/sql.ts';

export async function allText(sql: Sql, schema: string): Promise<string[]> {
  const tables = await sql.query<{ name: string; bytes: string[] }>(
    `select c.oid::regclass::text as name,
       array(select a.attname from pg_attribute a where a.attrelid = c.oid and a.attnum > 0 and not a.attisdropped
         and a.atttypid = 'bytea'::regtype)::text[] as bytes
     from pg_class c where c.relnamespace = $1::regnamespace and c.relkind = 'r' order by 1`,
    [schema],
  );
  const lines: string[] = [];
  for (const { name, bytes } of tables) {
    const decoded = bytes.map((column) => ` || ' ' || coalesce(encode("${column}", 'escape'), '')`).join('');
    for (const { line } of await sql.query<{ line: string }>(`select t::text${decoded} as line from ${name} t`))
      lines.push(`${name} ${line}`);
  }
  return lines;
}
