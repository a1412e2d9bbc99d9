/** What a statement is, and what runs one: the whole database, a transaction or a session. */
import { createHash } from 'node:crypto';

export interface Sql {
  /**
   * Runs one statement and returns its rows. `$1` stands for the first of `params`. A JavaScript array becomes an SQL
   * array, so an array that is meant as JSON must be passed as text. Without params the text may hold several
   * statements. In a transaction, statements are executed in the order of these calls, also when the answer to the one
   * before is still to come: what is sent behind a lock is read under it.
   */
  query<Row extends object>(statement: string | PreparedStatement, params?: readonly unknown[]): Promise<Row[]>;
}

/** A statement that each connection plans once; for the few that run thousands of times. */
export interface PreparedStatement {
  readonly name: string;
  readonly text: string;
}

/**
 * In the list that a statement returns, it lets its transaction commit without waiting for the disk: a server that crashes
 * may undo it, and nothing that was committed before it. It is called for each row, so a statement that returns many has
 * it in a condition of its own: `(select ${withoutFlush}) is not null`.
 */
export const withoutFlush = `set_config('synchronous_commit', 'off', true)`;

/** Makes a statement that is prepared once per connection. Its name is derived from its text, so two cannot collide. */
export function prepared(text: string): PreparedStatement {
  return { name: createHash('sha256').update(text).digest('base64url').slice(0, 32), text };
}
