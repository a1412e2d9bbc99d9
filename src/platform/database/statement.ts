/** One statement on one connection. An error that means a lost connection is thrown as an AppError `unavailable`. */
import type { PoolClient, QueryConfig, QueryResult } from 'pg';
import { connectionLost, isConnectionError } from './connection-errors.ts';
import type { Connection } from './connection-pool.ts';
import type { PreparedStatement, Sql } from './sql.ts';

/** `Sql` on this connection. */
export function sqlOn(connection: Connection): Sql {
  return {
    query: (statement, params) => runStatement(connection, statement, params),
  };
}

/** Runs one statement and returns its rows. Rejects with the driver's DatabaseError for what the server refuses. */
export async function runStatement<Row extends object>(
  connection: Connection,
  statement: string | PreparedStatement,
  params?: readonly unknown[],
): Promise<Row[]> {
  const result = await resultOf<Row>(connection, statement, params);
  // For several statements in one text the driver returns an array of results, which its types do not say.
  return Array.isArray(result) ? [] : result.rows;
}

/**
 * Runs one statement and returns how many rows it has written; rejects as `runStatement` does, also when it is not answered
 * within `withinMs`.
 */
export async function countWritten(
  connection: Connection,
  statement: string | PreparedStatement,
  params?: readonly unknown[],
  withinMs?: number,
): Promise<number> {
  return (await resultOf(connection, statement, params, withinMs)).rowCount ?? 0;
}

async function resultOf<Row extends object>(
  { client, place, discard }: Connection,
  statement: string | PreparedStatement,
  params?: readonly unknown[],
  withinMs?: number,
): Promise<QueryResult<Row>> {
  const query = {
    ...(typeof statement === 'string' ? { text: statement } : statement),
    ...(params && { values: [...params] }),
    ...(withinMs !== undefined && { query_timeout: withinMs }),
  };
  try {
    return await send<Row>(client, query);
  } catch (error) {
    // The driver's stack ends at its socket: this one leads to the caller.
    if (error instanceof Error) Error.captureStackTrace(error);
    if (!isConnectionError(error)) throw error;
    discard();
    throw connectionLost(place, error);
  }
}

/**
 * With the driver's own promise (pg 8.23, Node 24) a statement that was answered stays in memory with its values until
 * the heap is marked, although nothing needs it: under load that is some megabytes a second, and the heap is marked every
 * second or two, during which all else is slower.
 */
export function send<Row extends object>(client: PoolClient, query: QueryConfig): Promise<QueryResult<Row>> {
  return new Promise((resolve, reject) => {
    client.query<Row>(query, (error: Error | null, result) => (error ? reject(error) : resolve(result)));
  });
}
