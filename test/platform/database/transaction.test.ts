/** What is sent when, seen from the connection. What PostgreSQL makes of it is tested in `database.test.ts`. */
import { DatabaseError } from 'pg';
import { expect, test } from 'vitest';
import type { Connection, ConnectionPool } from '#platform/database/connection-pool.ts';
import { preparedGuard } from '#platform/database/sql.ts';
import { runTransaction } from '#platform/database/transaction.ts';

const guard = preparedGuard('select 1 as guard');

/** A connection that notes what is sent over it, and answers when it is told to. */
function connectionUnderTest() {
  const sent: string[] = [];
  const answers: ((error?: Error) => void)[] = [];
  const client = {
    query: ({ text }: { text: string }, answered: (error: Error | null, result?: object) => void) => {
      sent.push(text);
      answers.push((error) => (error ? answered(error) : answered(null, { rows: [], command: text.toUpperCase() })));
    },
  };
  const connection = { client, place: 'here', discard: () => undefined } as unknown as Connection;
  const pool: ConnectionPool = { withConnection: (use) => use(connection), close: async () => undefined };
  return { pool, sent, answer: (error?: Error) => answers.shift()?.(error) };
}

const turn = () => new Promise((resolve) => setImmediate(resolve));

test('BEGIN travels with the guard; what writes waits until both are answered', async () => {
  const { pool, sent, answer } = connectionUnderTest();
  const running = runTransaction(pool, async (tx) => {
    await tx.query(guard);
    await tx.query('update something');
  });
  await turn();
  expect(sent).toEqual(['begin', 'select 1 as guard']);
  answer();
  await turn();
  expect(sent).toHaveLength(2);
  answer();
  await turn();
  expect(sent.at(-1)).toBe('update something');
  answer();
  await turn();
  expect(sent.at(-1)).toBe('commit');
  answer();
  await running;
});

test('once BEGIN is answered, a statement is sent before the call returns, behind those that have waited', async () => {
  const { pool, sent, answer } = connectionUnderTest();
  const sentAtOnce: number[] = [];
  const running = runTransaction(pool, async (tx) => {
    const waited = [tx.query('update first'), tx.query('update second')];
    await tx.query(guard);
    const known = sent.length;
    const next = tx.query('update third');
    sentAtOnce.push(sent.length - known);
    await Promise.all([...waited, next]);
  });
  await turn();
  for (let answers = 0; answers < 5; answers += 1) {
    answer();
    await turn();
  }
  expect(sent).toEqual(['begin', 'select 1 as guard', 'update first', 'update second', 'update third', 'commit']);
  expect(sentAtOnce).toEqual([1]);
  answer();
  await running;
});

test('a statement that may write is not sent before BEGIN is answered, and never when it is refused', async () => {
  const { pool, sent, answer } = connectionUnderTest();
  const running = runTransaction(pool, async (tx) => {
    await Promise.all([tx.query(guard), tx.query('update something'), tx.copy('something (id)', [])]);
  });
  running.catch(() => undefined);
  await turn();
  expect(sent).toEqual(['begin', 'select 1 as guard']);
  const refusal = new DatabaseError('canceling statement due to user request', 0, 'error');
  answer(refusal);
  answer();
  await turn();
  expect(sent).toEqual(['begin', 'select 1 as guard', 'rollback']);
  answer();
  await expect(running).rejects.toBe(refusal);
});

test('a transaction whose guard ran although BEGIN was refused is no success', async () => {
  const { pool, answer } = connectionUnderTest();
  const running = runTransaction(pool, (tx) => tx.query(guard));
  running.catch(() => undefined);
  await turn();
  const refusal = new DatabaseError('canceling statement due to user request', 0, 'error');
  answer(refusal);
  answer();
  await turn();
  answer();
  await expect(running).rejects.toBe(refusal);
});
