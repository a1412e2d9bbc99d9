import { afterEach, beforeEach, expect, test } from 'vitest';
import type { Found } from '#connector/connector.ts';
import { createEmptyDatabase, type TestDatabase } from '../../harness/test-database.ts';
import { startHeldProxy } from './held-proxy.ts';
import { award, never, openSession, operationOf, statuses } from './sessions.ts';

let db: TestDatabase;
beforeEach(async () => {
  db = await createEmptyDatabase();
  const session = await openSession(db.url);
  await session.write([operationOf(award(1))], never);
  await session.close();
});
afterEach(() => db.drop());

const document = award(2, ['7', '7']);
const isCommit = (chunk: Buffer) => chunk.includes('commit\0');

async function startProxy() {
  const url = new URL(db.url);
  const proxy = await startHeldProxy(Number(url.port));
  url.port = String(proxy.port);
  return { proxy, url: url.href };
}

/** The hash that the table holds, the connector's sessions, and how many of them wait for the advisory lock. */
async function state(): Promise<{ hash: string | undefined; sessions: number; waiting: number }> {
  const [row] = await db.database.query<{ hash: string | null; sessions: number; waiting: number }>(
    `select (select content_hash from sourcing.award where key = '${document.key}') as hash,
       count(*)::int as sessions, count(*) filter (where wait_event = 'advisory')::int as waiting
     from pg_stat_activity where application_name = 'sourcing-bridge' and datname = current_database()`,
  );
  return { hash: row?.hash ?? undefined, sessions: row?.sessions ?? 0, waiting: row?.waiting ?? 0 };
}

test('lookup waits for the COMMIT of a client that has gone, and finds nothing where the network has lost it', async () => {
  const { proxy, url } = await startProxy();
  const cutOff = await openSession(url);
  // This write creates the tables.
  await cutOff.write([operationOf(award(1))], never);
  const held = proxy.hold(isCommit);
  const stop = new AbortController();
  const writing = cutOff.write([operationOf(document)], stop.signal);
  await held;
  stop.abort();
  expect(statuses(await writing)).toEqual(['unknown']);
  await cutOff.close();
  const next = await openSession(db.url);
  let hasEnded = false;
  const looking = next.lookup([document], never).finally(() => {
    hasEnded = true;
  });
  await expect.poll(async () => (await state()).waiting).toBe(1);
  expect(hasEnded).toBe(false);
  proxy.release('lose');
  expect(await looking).toEqual([]);
  expect((await state()).hash).toBeUndefined();
  await next.close();
});

test('the answer of lookup stays true, whichever part of a write is still on its way when its client has gone', async () => {
  for (let number = 1; ; number += 1) {
    let isCommitted = false;
    await db.database.query(`delete from sourcing.award where key = '${document.key}'`);
    const { proxy, url } = await startProxy();
    const cutOff = await openSession(url);
    // This write creates the tables.
    await cutOff.write([operationOf(award(1))], never);
    const held = proxy.hold((chunk, at) => {
      isCommitted = at === number && isCommit(chunk);
      return at === number;
    });
    const stop = new AbortController();
    const writing = cutOff.write([operationOf(document)], stop.signal);
    await held;
    stop.abort();
    expect(statuses(await writing)).toEqual([isCommitted ? 'unknown' : 'transient']);
    const closing = cutOff.close();
    const next = await openSession(db.url);
    let hasEnded = false;
    const looking = next.lookup([document], never).finally(() => {
      hasEnded = true;
    });
    await expect.poll(async () => hasEnded || (await state()).waiting > 0).toBe(true);
    proxy.release('send');
    const [found] = await looking;
    await closing;
    await next.close();
    await expect.poll(async () => (await state()).sessions).toBe(0);
    expect((await state()).hash).toBe((found as Found | undefined)?.contentHash);
    expect(found !== undefined).toBe(isCommitted);
    if (isCommitted) break;
  }
});
