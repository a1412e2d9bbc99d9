/**
 * `migrate service` and `migrate bridge`: brings the tables of a program up to date under the role that
 * owns them, and lets the role of `database_url` work with them. A program whose own role may change tables does the
 * same at its start, and needs no such command.
 */
import { migrateBridge } from '#bridge/migrate-bridge.ts';
import { fixActionDays } from '#platform/audit-log.ts';
import { createDatabase, type Database } from '#platform/database/database.ts';
import { parseDatabaseUrl } from '#platform/database/database-url.ts';
import { grantWork } from '#platform/database/grants.ts';
import { AppError } from '#platform/errors.ts';
import { createLogger } from '#platform/log.ts';
import { migrateService } from '#service/create-service.ts';
import { readConfiguration } from '../configuration.ts';

const programs: Readonly<Record<'service' | 'bridge', (database: Database) => Promise<void>>> = {
  service: migrateService,
  bridge: migrateBridge,
};

export type MigratedProgram = keyof typeof programs;

/** Throws an AppError `invalid` without a database server in the settings, and what the migrations throw. */
export async function runMigrate(program: MigratedProgram, options: { config?: string }): Promise<number> {
  const { database_url: workUrl, migration_database_url: ownerUrl, ...settings } = readConfiguration(options.config);
  if (workUrl === undefined)
    throw new AppError('invalid', 'migrate needs database_url: the embedded database is migrated by each start.');
  const url = ownerUrl ?? workUrl;
  const log = createLogger({ name: 'migrate', level: 'error' });
  const database = createDatabase({ url, log, applicationName: `migrate ${program}`, poolMax: 1 });
  try {
    await programs[program](database);
    await fixActionDays(database, program, settings.action_days);
    const [owner, worker] = [url, workUrl].map((text) => decodeURIComponent(parseDatabaseUrl(text).username));
    if (worker !== undefined && worker !== '' && worker !== owner) {
      await grantWork(database, [program], worker);
      console.log(`The tables of the ${program} are up to date, and ${worker} may work with them.`);
    } else console.log(`The tables of the ${program} are up to date.`);
    return 0;
  } finally {
    await database.close();
  }
}
