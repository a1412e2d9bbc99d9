/**
 * A transaction on a connection of the pool. It never reports a commit that did not happen, and it runs the work again
 * only where the server has said that it rolled everything back.
 */
import pRetry from 'p-retry';
import { DatabaseError, type QueryResult } from 'pg';
import { AppError } from '#platform/errors.ts';
import { connectionLost, isConnectionError } from './connection-errors.ts';
import type { Connection, ConnectionPool } from './connection-pool.ts';
import type { Sql } from './sql.ts';
import { runStatement, send } from './statement.ts';

const attemptsMax = 5;

/** As `Database.transaction` says. */
export function runTransaction<T>(pool: ConnectionPool, work: (tx: Sql) => Promise<T>): Promise<T> {
  return pRetry(() => pool.withConnection((connection) => attempt(connection, work)), {
    retries: attemptsMax - 1,
    minTimeout: 20,
    maxTimeout: 500,
    factor: 3,
    randomize: true,
    shouldRetry: ({ error }) => wasRolledBackByServer(error),
  });
}

async function attempt<T>(connection: Connection, work: (tx: Sql) => Promise<T>): Promise<T> {
  await runStatement(connection, 'begin');
  const tx = createTransactionSql(connection);
  let result: T;
  try {
    result = await work(tx);
  } catch (error) {
    tx.end();
    await send(connection.client, { text: 'rollback' }).catch(connection.discard);
    throw error;
  }
  tx.end();
  await commit(connection);
  return result;
}

/** The connection's statements until `end`. After that the connection may be lent to another caller. */
function createTransactionSql(connection: Connection): Sql & { end(): void } {
  let ended = false;
  return {
    query: async (statement, params) => {
      if (ended) throw new AppError('internal', 'A statement was sent after its transaction had ended.');
      return runStatement(connection, statement, params);
    },
    end: () => {
      ended = true;
    },
  };
}

async function commit({ client, place, discard }: Connection): Promise<void> {
  let result: QueryResult;
  try {
    result = await send(client, { text: 'commit' });
  } catch (error) {
    discard();
    if (!isConnectionError(error)) throw error;
    throw connectionLost(place, error, 'the connection was lost during COMMIT, so that the outcome is unknown');
  }
  // Where a statement has failed before, PostgreSQL answers COMMIT with success and the word ROLLBACK.
  if (result.command !== 'COMMIT')
    throw new AppError('internal', 'The transaction was rolled back: the work ignored a statement that failed in it.');
}

/** Only a serialization failure and a deadlock: with these codes the server says that it has undone everything. */
function wasRolledBackByServer(error: unknown): boolean {
  for (let each = error; each instanceof Error; each = each.cause)
    if (each instanceof DatabaseError && (each.code === '40001' || each.code === '40P01')) return true;
  return false;
}
