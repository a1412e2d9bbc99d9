/** The bridge's tables, for its start and for commands that need nothing else of it. */
import { fileURLToPath } from 'node:url';
import type { Database } from '#platform/database/database.ts';
import { migrate, pendingMigrations } from '#platform/database/migrations.ts';
import type { Sql } from '#platform/database/sql.ts';

const migrations = { schema: 'bridge', directory: fileURLToPath(new URL('migrations', import.meta.url)) };

/** Brings the bridge's tables up to date. Several processes may call it at once. */
export async function migrateBridge(database: Database): Promise<void> {
  await migrate(database, migrations);
}

/**
 * Returns the names of the migrations that the next start applies; changes nothing. Rejects when the tables do not fit
 * this program's migrations.
 */
export function pendingBridgeMigrations(sql: Sql): Promise<readonly string[]> {
  return pendingMigrations(sql, migrations);
}
