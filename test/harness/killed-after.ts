/** A database that fails from its n-th statement on, as a process that is killed there; what was committed stays. */
import type { Database } from '#platform/database/database.ts';
import type { Sql } from '#platform/database/sql.ts';

export function killedAfter(database: Database, statements: number): Database {
  let left = statements;
  const die = () => {
    left -= 1;
    if (left < 0) throw new Error('killed');
  };
  const mortal = (sql: Sql): Sql => ({
    query: async (...args) => {
      die();
      return sql.query(...args);
    },
  });
  return {
    ...database,
    ...mortal(database),
    transaction: (work) => database.transaction((tx) => work(mortal(tx))),
    session: (use) => database.session((session) => use(mortal(session))),
  };
}
