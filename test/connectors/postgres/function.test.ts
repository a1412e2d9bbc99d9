import { afterEach, beforeEach, describe, expect, test } from 'vitest';
import type { Operation, Session } from '#connector/connector.ts';
import { createEmptyDatabase, type TestDatabase } from '../../harness/test-database.ts';
import { award, hashOf, messageOf, never, openSession, operationOf, statuses } from './sessions.ts';

let db: TestDatabase;
let session: Session;
const settings = { mode: 'function', function: 'erp.take', schema: 'Odd$Name' };
beforeEach(async () => {
  db = await createEmptyDatabase();
  await db.database.query(`
    create schema erp;
    create table erp.calls (at bigint generated always as identity, kind text, action text, key text, hash text, idem text, document jsonb);
    create function erp.take(kind text, action text, key text, content_hash text, idempotency_key text, document jsonb)
    returns text language plpgsql as $$ begin
      if document ->> 'currency' = 'BAD' then raise exception 'no such currency: %', document ->> 'currency'; end if;
      if document ->> 'currency' = 'LCK' then raise exception 'in use' using errcode = 'lock_not_available'; end if;
      if document ->> 'currency' = 'TRY' then raise exception 'later' using errcode = 'SB001'; end if;
      if document ->> 'currency' = 'HNG' then perform pg_sleep(60); end if;
      if document ->> 'currency' = 'LNG' then return repeat('x', 2001); end if;
      insert into erp.calls (kind, action, key, hash, idem, document) values (kind, action, key, content_hash, idempotency_key, document);
      return 'PO-' || key; end $$`);
  session = await openSession(db.url, settings);
});
afterEach(async () => {
  await session.close();
  await db.drop();
});

const write = (...operations: Operation[]) => session.write(operations, never);
const calls = () =>
  db.database.query<{ action: string; key: string; idem: string }>(
    'select action, key, idem from erp.calls order by at',
  );

describe('a stored function', () => {
  test('is called once per document with the whole document, and its result is the reference', async () => {
    const document = award(1, ['1.50']);
    const operation = operationOf(document);
    expect(await write(operation)).toEqual([{ status: 'created', reference: 'PO-event/0001' }]);
    expect(await db.database.query('select kind, action, key, hash, idem, document from erp.calls')).toEqual([
      {
        kind: 'award',
        action: 'create',
        key: document.key,
        hash: hashOf(document),
        idem: operation.idempotencyKey,
        document,
      },
    ]);
    expect(await session.lookup([document, award(2)], never)).toEqual([
      { key: document.key, reference: 'PO-event/0001', contentHash: hashOf(document) },
    ]);
  });

  test('that hangs for one document blocks only that document: the others are written in smaller parts', async () => {
    const slow = await openSession(db.url, { ...settings, statement_timeout_ms: 1_000 });
    const currencies = ['EUR', 'EUR', 'EUR', 'HNG'];
    let due = currencies.map((currency, index) => operationOf(award(index, ['1'], { currency })));
    // Like the bridge, the test writes failed documents again.
    for (let tries = 0; tries < 4 && due.length > 0; tries += 1) {
      const outcomes = await slow.write(due, never);
      for (const status of statuses(outcomes)) expect(['created', 'transient']).toContain(status);
      due = due.filter((_, index) => outcomes[index]?.status !== 'created');
    }
    expect(due.map(({ document }) => document.key)).toEqual([award(3).key]);
    expect(await calls()).toHaveLength(3);
  });

  test('is not called again for a repeated attempt, even by several sessions at once, but is called for a replay', async () => {
    const operation = operationOf(award(1));
    const sessions = await Promise.all([1, 2, 3].map(() => openSession(db.url, settings)));
    const outcomes = await Promise.all(sessions.map((other) => other.write([operation], never)));
    expect(statuses(outcomes.flat()).sort()).toEqual(['created', 'unchanged', 'unchanged']);
    expect(await calls()).toHaveLength(1);
    expect(statuses(await write(operationOf(award(1))))).toEqual(['unchanged']);
    expect(await calls()).toHaveLength(2);
    // The same holds for an amend that all sessions have started.
    const change = operationOf(award(1, ['2']), { action: 'amend' });
    let writing: Promise<unknown[][]> | undefined;
    await db.database.transaction(async (tx) => {
      await tx.query('lock table erp.calls');
      writing = Promise.all(sessions.map((other) => other.write([change], never)));
      await expect
        .poll(async () => {
          const [row] = await db.database.query<{ count: number }>(
            `select count(*)::int as count from pg_stat_activity
             where datname = current_database() and wait_event_type = 'Lock'`,
          );
          return row?.count;
        })
        .toBe(3);
    });
    await writing;
    expect(await calls()).toHaveLength(3);
    for (const other of sessions) await other.close();
  });

  test('is called once for a withdrawal, and never for a document that it did not take', async () => {
    await write(operationOf(award(1)));
    const cancel = () => operationOf(award(1, []), { action: 'cancel' });
    expect(statuses(await write(cancel(), operationOf(award(2, []), { action: 'cancel' })))).toEqual([
      'cancelled',
      'cancelled',
    ]);
    expect(statuses(await write(cancel()))).toEqual(['cancelled']);
    expect((await calls()).map(({ action, key }) => [action, key])).toEqual([
      ['create', 'event/0001'],
      ['cancel', 'event/0001'],
    ]);
    expect(await session.lookup([award(1), award(2)], never)).toEqual([]);
    expect(statuses(await write(operationOf(award(1))))).toEqual(['created']);
  });

  test('that raises an error for a document refuses only that one, in its words; each other is taken once', async () => {
    const currencies = { 3: 'BAD', 4: 'LCK', 11: 'TRY', 12: 'LNG' } as const;
    const operations = Array.from({ length: 20 }, (_, index) => {
      const currency = currencies[index as keyof typeof currencies];
      return operationOf(award(index, ['1'], currency === undefined ? {} : { currency }));
    });
    const outcomes = await session.write(operations, never);
    const expected: string[] = operations.map(() => 'created');
    Object.assign(expected, { 3: 'data', 4: 'locked', 11: 'transient', 12: 'data' });
    expect(statuses(outcomes)).toEqual(expected);
    expect(messageOf(outcomes[3])).toMatch(
      /^PostgreSQL: no such currency: BAD \(SQLSTATE P0001; PL\/pgSQL function erp\.take/,
    );
    expect(messageOf(outcomes[12])).toContain('2001 characters');
    const taken = (await calls()).map(({ key }) => key);
    expect(taken).toHaveLength(16);
    expect(new Set(taken).size).toBe(16);
  });

  test('gets a file with its bytes', async () => {
    const bytes = Uint8Array.from([0, 1, 255]);
    const file = { name: 'a.bin', read: async () => bytes };
    await write(
      operationOf({ kind: 'file', key: 'f', event: award(1).event, question: { id: 'q', categories: [] } }, { file }),
    );
    expect(await db.database.query(`select document -> 'file' as file from erp.calls`)).toEqual([
      {
        file: {
          name: 'a.bin',
          bytes: 3,
          sha256: '26a66b061e8f48f39927c312f25293959729eee95978e2892d49d3512a5cc092',
          base64: 'AAH/',
        },
      },
    ]);
  });

  test('that is missing or has another result type is reported by check, and pauses the flow', async () => {
    const functionLine = async () => (await session.check()).find(({ name }) => name === 'function');
    expect(await functionLine()).toMatchObject({ ok: true });
    await db.database.query('drop function erp.take');
    expect(await functionLine()).toMatchObject({
      ok: false,
      message: expect.stringContaining('There is no function "erp"."take"(text'),
    });
    expect(statuses(await write(operationOf(award(1)), operationOf(award(2))))).toEqual(['config', 'config']);
    await db.database.query(
      `create function erp.take(text, text, text, text, text, jsonb) returns int language sql as 'select 1'`,
    );
    expect(await functionLine()).toMatchObject({
      ok: false,
      message: expect.stringContaining('must return text, not integer'),
    });
  });
});
