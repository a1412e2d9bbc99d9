/** Remembers notifications in a table of PostgreSQL, for any number of processes. The database's clock counts. */
import { anObjectWith, checkOptions } from './check-options.ts';
import { type NotificationStore, type StoreTimes, storeTimes, timeChecks } from './notification-store.ts';

export interface PostgresStoreOptions extends StoreTimes {
  /** A pool or a client of `pg`, or anything with this method. */
  readonly database: {
    query(sql: string, values?: unknown[]): Promise<{ rows: readonly Record<string, unknown>[] }>;
  };
}

/** Makes the table; run it once, with a role that may. Running it again does nothing. */
export const postgresStoreTable = `create table if not exists handled_notifications (
  id text primary key,
  token text,
  until timestamptz not null
);
create index if not exists handled_notifications_until on handled_notifications (until)`;

export function postgresStore(options: PostgresStoreOptions): NotificationStore {
  checkOptions('postgresStore', options, { ...timeChecks, database: anObjectWith('query') }, ['database']);
  const { database } = options;
  const { leaseMs, rememberMs } = storeTimes(options);
  return {
    begin: async (id, token) => {
      // A row that is handled has no token. One statement: of two deliveries at once, one gets the row. It also removes a
      // few rows whose time is over, so that the table stays small without a job.
      const { rows } = await database.query(
        `with old as (
           delete from handled_notifications
           where id in (select id from handled_notifications where until < now() and id <> $1
                        order by until limit 10 for update skip locked)
         )
         insert into handled_notifications as held (id, token, until)
         values ($1, $2, now() + $3 * interval '1 millisecond')
         on conflict (id) do update set token = excluded.token, until = excluded.until where held.until < now()
         returning id`,
        [id, token, leaseMs],
      );
      if (rows.length === 1) return 'new';
      const { rows: held } = await database.query('select token from handled_notifications where id = $1', [id]);
      // Gone in between: the other delivery has failed, and this one is tried again.
      return held[0]?.['token'] === null ? 'done' : 'running';
    },
    finish: async (id, token) => {
      await database.query(
        `update handled_notifications set token = null, until = now() + $3 * interval '1 millisecond'
         where id = $1 and token = $2`,
        [id, token, rememberMs],
      );
    },
    abandon: async (id, token) => {
      await database.query('delete from handled_notifications where id = $1 and token = $2', [id, token]);
    },
  };
}
