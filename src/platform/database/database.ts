/**
 * A PostgreSQL database behind a few calls: one statement, one transaction, one session. Sessions run in UTC;
 * `sql-types.ts` says how values arrive. A database that cannot be reached shows as an AppError `unavailable`, which
 * the API answers with 503. What the server itself refuses (a broken constraint, say) is the driver's DatabaseError
 * with its SQLSTATE in `code`. No message holds the URL's password.
 */
import { createConnectionPool, type PoolOptions } from './connection-pool.ts';
import type { PreparedStatement, Sql } from './sql.ts';
import { countWritten, runStatement, sqlOn } from './statement.ts';
import { runTransaction } from './transaction.ts';

export interface Database extends Sql {
  /**
   * Runs one INSERT, UPDATE or DELETE and returns how many rows it has written: cheaper than to have it return something.
   * A statement that is not answered within `withinMs` rejects with `unavailable`, and its connection is closed: whether it
   * took effect is not known.
   */
  execute(
    statement: string | PreparedStatement,
    params?: readonly unknown[],
    limits?: { withinMs: number },
  ): Promise<number>;
  /**
   * Runs `work` in one transaction (READ COMMITTED) and commits. When `work` throws, the transaction is rolled back and
   * the error is thrown on. After a serialization failure or a deadlock (40001, 40P01), which the server has rolled
   * back, all of `work` runs again, up to five times in all. A connection lost during COMMIT leaves the outcome
   * unknown: then the work does not run again here, and the error is `unavailable`.
   */
  transaction<T>(work: (tx: Sql) => Promise<T>): Promise<T>;
  /**
   * Lends one connection for as long as `use` runs, outside of a transaction: for settings that a session has. When
   * `use` throws, the connection is closed, and its settings are gone.
   */
  session<T>(use: (session: Sql) => Promise<T>): Promise<T>;
  /** Waits for the running statements and closes every connection. May be called more than once. */
  close(): Promise<void>;
}

/**
 * Opens a pool of up to `poolMax` (6) connections, made when they are needed: this succeeds even while the server is
 * away. Throws an `internal` AppError when the URL is not one of PostgreSQL's.
 */
export function createDatabase(options: PoolOptions): Database {
  const pool = createConnectionPool(options);
  return {
    query: (statement, params) => pool.withConnection((connection) => runStatement(connection, statement, params)),
    execute: (statement, params, limits) =>
      pool.withConnection((connection) => countWritten(connection, statement, params, limits?.withinMs)),
    transaction: (work) => runTransaction(pool, work),
    session: (use) =>
      pool.withConnection(async (connection) => {
        try {
          return await use(sqlOn(connection));
        } catch (error) {
          connection.discard();
          throw error;
        }
      }),
    close: () => pool.close(),
  };
}
