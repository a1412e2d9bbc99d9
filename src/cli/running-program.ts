import type { Sql } from '#platform/database/sql.ts';

/** The name of a program that is connected to the database, as `openInstallation` has made it; undefined for none. */
export async function runningProgram(sql: Sql): Promise<string | undefined> {
  const [found] = await sql.query<{ name: string }>(
    `select application_name as name from pg_stat_activity
     where datname = current_database() and application_name ~ '^(sourcing-bridge|demo|service|bridge(-[a-z]+)?) [^ ]+ [0-9]+$'
       and application_name !~ '^bridge-command ' order by 1 limit 1`,
  );
  return found?.name;
}
