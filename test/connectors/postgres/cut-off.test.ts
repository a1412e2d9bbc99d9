import { afterEach, beforeEach, expect, test } from 'vitest';
import type { Found } from '#connector/connector.ts';
import { createEmptyDatabase, type TestDatabase } from '../../harness/test-database.ts';
import { startHeldProxy } from './held-proxy.ts';
import { award, hashOf, never, openSession, operationOf, statuses } from './sessions.ts';

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

async function proxied() {
  const url = new URL(db.url);
  const proxy = await startHeldProxy(Number(url.port));
  url.port = String(proxy.port);
  return { proxy, url: url.href };
}

/** What is there now, and what is left of the connector's sessions. */
async function state(): Promise<{ hash: string | undefined; sessions: number; waiting: number }> {
  const [row] = await db.database.query<{ hash: string | null; sessions: number; waiting: number }>(
    `select (select content_hash from sourcing.award where key = '${document.key}') as hash,
       count(*)::int as sessions, count(*) filter (where wait_event = 'advisory')::int as waiting
     from pg_stat_activity where application_name = 'sourcing-bridge' and datname = current_database()`,
  );
  return { hash: row?.hash ?? undefined, sessions: row?.sessions ?? 0, waiting: row?.waiting ?? 0 };
}

test.each(['send', 'lose'] as const)(
  'lookup waits for a COMMIT that was sent by a client that is gone, and tells what became of it (the network: %s)',
  async (kept) => {
    const { proxy, url } = await proxied();
    const dying = await openSession(url);
    // The tables are there by then.
    await dying.write([operationOf(award(1))], never);
    const held = proxy.hold(isCommit);
    const stop = new AbortController();
    const writing = dying.write([operationOf(document)], stop.signal);
    await held;
    stop.abort();
    expect(statuses(await writing)).toEqual(['unknown']);
    await dying.close();
    const next = await openSession(db.url);
    let isOver = false;
    const asking = next.lookup([document], never).finally(() => {
      isOver = true;
    });
    await expect.poll(async () => (await state()).waiting).toBe(1);
    expect(isOver).toBe(false);
    proxy.release(kept);
    const found = kept === 'send' ? [{ contentHash: hashOf(document) }] : [];
    expect(await asking).toMatchObject(found);
    expect((await state()).hash).toBe(kept === 'send' ? hashOf(document) : undefined);
    await next.close();
  },
);

test('whatever of a write is still on its way when its client is gone, what lookup says stays true', async () => {
  for (let number = 1; ; number += 1) {
    let isCommitted = false;
    await db.database.query(`delete from sourcing.award where key = '${document.key}'`);
    const { proxy, url } = await proxied();
    const dying = await openSession(url);
    // The tables are there by then.
    await dying.write([operationOf(award(1))], never);
    const held = proxy.hold((chunk, at) => {
      isCommitted = at === number && isCommit(chunk);
      return at === number;
    });
    const stop = new AbortController();
    const writing = dying.write([operationOf(document)], stop.signal);
    await held;
    stop.abort();
    expect(statuses(await writing)).toEqual([isCommitted ? 'unknown' : 'transient']);
    const closing = dying.close();
    const next = await openSession(db.url);
    let isOver = false;
    const asking = next.lookup([document], never).finally(() => {
      isOver = true;
    });
    await expect.poll(async () => isOver || (await state()).waiting > 0).toBe(true);
    proxy.release('send');
    const [found] = await asking;
    await closing;
    await next.close();
    await expect.poll(async () => (await state()).sessions).toBe(0);
    expect((await state()).hash).toBe((found as Found | undefined)?.contentHash);
    expect(found !== undefined).toBe(isCommitted);
    if (isCommitted) break;
  }
});
