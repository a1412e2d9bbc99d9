/**
 * What a role needs that works on tables which another role owns: it reads and writes rows, and changes no table. So a
 * program that is taken over can neither drop its tables nor make functions that the owner would run.
 */
import { escapeIdentifier } from 'pg';
import type { Database } from './database.ts';

/**
 * Lets `role` work in the schemas, also with what later migrations of the current role make there. A schema that does
 * not exist is left out. May be called again at any time. Rejects when the current role does not own the schemas, or
 * when there is no such role.
 */
export async function grantWork(database: Database, schemas: readonly string[], role: string): Promise<void> {
  const to = escapeIdentifier(role);
  for (const name of schemas) {
    const [row] = await database.query<{ there: boolean; maintains: boolean }>(
      `select to_regnamespace($1) is not null as there,
         current_setting('server_version_num')::int >= 170000 as maintains`,
      [name],
    );
    if (row?.there !== true) continue;
    const schema = escapeIdentifier(name);
    // Since version 17 a role other than the owner can be allowed to refresh statistics.
    const rows = `select, insert, update, delete, truncate${row.maintains ? ', maintain' : ''}`;
    await database.transaction(async (tx) => {
      for (const statement of [
        `grant usage on schema ${schema} to ${to}`,
        `grant ${rows} on all tables in schema ${schema} to ${to}`,
        `grant usage, select on all sequences in schema ${schema} to ${to}`,
        `grant execute on all routines in schema ${schema} to ${to}`,
        `alter default privileges in schema ${schema} grant ${rows} on tables to ${to}`,
        `alter default privileges in schema ${schema} grant usage, select on sequences to ${to}`,
        `alter default privileges in schema ${schema} grant execute on routines to ${to}`,
      ])
        await tx.query(statement);
    });
  }
}
