import { Client } from 'pg';
import { afterEach, beforeEach, describe, expect, test } from 'vitest';
import type { Operation, Session } from '#connector/connector.ts';
import type { FileDocument } from '#connector/documents.ts';
import { createEmptyDatabase, type TestDatabase } from '../../harness/test-database.ts';
import { award, hashOf, messageOf, never, openSession, operationOf, statuses } from './sessions.ts';

let db: TestDatabase;
let session: Session;
beforeEach(async () => {
  db = await createEmptyDatabase();
  session = await openSession(db.url, { history: true });
});
afterEach(async () => {
  await session.close();
  await db.drop();
});

const write = (...operations: Operation[]) => session.write(operations, never);
const sql = (statement: string) => db.database.query<Record<string, unknown>>(statement);

describe('versions', () => {
  test('count changes; writing the same document again changes nothing and adds no version', async () => {
    const first = award(1, ['1.10', '2']);
    const second = award(1, ['3']);
    expect(statuses(await write(operationOf(first)))).toEqual(['created']);
    const [before] = await sql('select * from sourcing.award');
    expect(statuses(await write(operationOf(first), operationOf(award(2))))).toEqual(['unchanged', 'created']);
    expect(await sql(`select * from sourcing.award where key = 'event/0001'`)).toEqual([before]);
    expect(statuses(await write(operationOf(second, { action: 'amend' })))).toEqual(['updated']);
    expect(
      await sql('select version, lot, cost from sourcing.award join sourcing.award_line using (key) order by key'),
    ).toEqual([
      { version: 2, lot: 'Lot 0', cost: '3' },
      { version: 1, lot: 'Lot 0', cost: '12.50' },
    ]);
    expect(
      await sql(
        `select kind, version, state, content_hash, document from sourcing.document_history where key = 'event/0001' order by version`,
      ),
    ).toEqual([
      { kind: 'award', version: 1, state: 'current', content_hash: hashOf(first), document: first },
      { kind: 'award', version: 2, state: 'current', content_hash: hashOf(second), document: second },
    ]);
  });

  test('of a withdrawn document stay as a row without parts, which lookup does not find, and the document may come back', async () => {
    const document = award(1, ['1']);
    await write(operationOf(document));
    const gone = award(1, []);
    expect(
      statuses(await write(operationOf(gone, { action: 'cancel' }), operationOf(award(7, []), { action: 'cancel' }))),
    ).toEqual(['cancelled', 'cancelled']);
    expect(await sql('select key, state, version from sourcing.award')).toEqual([
      { key: 'event/0001', state: 'withdrawn', version: 2 },
    ]);
    expect(await sql('select * from sourcing.award_line')).toEqual([]);
    expect(await sql('select * from sourcing.award_value')).toEqual([]);
    expect(await session.lookup([document], never)).toEqual([]);
    expect(statuses(await write(operationOf(document)))).toEqual(['created']);
    expect(await session.lookup([document, award(7)], never)).toEqual([
      { key: document.key, reference: `award/${document.key}`, contentHash: hashOf(document) },
    ]);
    expect(await sql('select version, state from sourcing.document_history order by version')).toEqual([
      { version: 1, state: 'current' },
      { version: 2, state: 'withdrawn' },
      { version: 3, state: 'current' },
    ]);
  });

  test('that were changed by hand are corrected by writing the document again', async () => {
    await write(operationOf(award(1, ['1', '2'])));
    await sql(`update sourcing.award set currency = 'XXX'`);
    await sql('delete from sourcing.award_line where line = 2');
    expect(statuses(await write(operationOf(award(1, ['1', '2']))))).toEqual(['unchanged']);
    expect(
      await sql('select currency, line from sourcing.award join sourcing.award_line using (key) order by line'),
    ).toEqual([
      { currency: 'EUR', line: 1 },
      { currency: 'EUR', line: 2 },
    ]);
  });
});

describe('files', () => {
  const document: FileDocument = {
    kind: 'file',
    key: 'f',
    event: award(1).event,
    question: { id: 'q', categories: [] },
  };
  const bytes = Uint8Array.from({ length: 1_200_000 }, (_, index) => index % 251);
  const file = { name: 'Zeichnung Ä.pdf', read: async () => bytes };

  test('are stored with their bytes, size and checksum; a withdrawal deletes the bytes', async () => {
    const many = Array.from({ length: 8 }, (_, index) => ({ ...document, key: `f${index}` }));
    expect(statuses(await write(...many.map((other) => operationOf(other, { file }))))).toEqual(
      many.map(() => 'created'),
    );
    expect(
      await sql(`select distinct name, byte_count, sha256 = encode(sha256(bytes), 'hex') as fits, length(bytes) as length
        from sourcing.file join sourcing.file_content using (key)`),
    ).toEqual([{ name: file.name, byte_count: bytes.length, fits: true, length: bytes.length }]);
    await write(operationOf({ ...document, key: 'f3' }, { action: 'cancel' }));
    expect(
      await sql(
        `select (select count(*)::int from sourcing.file_content) as contents, state, name from sourcing.file where key = 'f3'`,
      ),
    ).toEqual([{ contents: 7, state: 'withdrawn', name: null }]);
  });

  test('that cannot be downloaded fail alone, and are not downloaded when only their names are wanted', async () => {
    const broken = { name: 'b', read: () => Promise.reject(new Error('no such file')) };
    const outcomes = await write(
      operationOf(document, { file: broken }),
      operationOf({ ...document, key: 'g' }, { file }),
    );
    expect(statuses(outcomes)).toEqual(['transient', 'created']);
    expect(messageOf(outcomes[0])).toContain('no such file');
    const names = await openSession(db.url, { file_bytes: false });
    expect(statuses(await names.write([operationOf(document, { file: broken })], never))).toEqual(['created']);
    expect(await sql(`select name, byte_count from sourcing.file where key = 'f'`)).toEqual([
      { name: 'b', byte_count: null },
    ]);
    await names.close();
  });
});

describe('a document that PostgreSQL refuses', () => {
  beforeEach(async () => {
    await write(operationOf(award(0)));
  });

  test('by a check, a trigger or a deferred trigger fails alone, with its words; all others are written', async () => {
    await sql('alter table sourcing.award_line add constraint positive check (cost > 0)');
    await sql(`create function public.guard() returns trigger language plpgsql as $$ begin
        if new.currency = 'ZZZ' then raise exception 'currency % is closed', new.currency using hint = 'use EUR'; end if;
        if new.currency = 'LCK' then raise exception 'later' using errcode = 'SB002'; end if;
        if new.currency = 'CON' then raise exception 'changed by hand' using errcode = 'SB003'; end if;
        if new.currency = 'RLS' then raise exception 'row is not yours' using errcode = '42501'; end if;
        return new; end $$`);
    await sql(
      'create trigger guard before insert or update on sourcing.award for each row execute function public.guard()',
    );
    await sql(`create function public.late() returns trigger language plpgsql as $$ begin
        if new.currency = 'LAT' then raise exception 'late refusal'; end if; return null; end $$`);
    await sql(`create constraint trigger late after insert on sourcing.award deferrable initially deferred
        for each row execute function public.late()`);
    const many = Array.from({ length: 60 }, (_, index) => award(index + 1));
    const bad = { 7: ['-1'], 20: 'ZZZ', 21: 'LAT', 40: 'LCK', 41: 'CON', 59: 'RLS' } as const;
    const operations = many.map((document, index) => {
      const fault = bad[index as keyof typeof bad];
      if (fault === undefined) return operationOf(document);
      return operationOf(
        typeof fault === 'string' ? award(index + 1, ['1'], { currency: fault }) : award(index + 1, fault),
      );
    });
    const outcomes = await session.write(operations, never);
    const expected = many.map(() => 'created');
    Object.assign(expected, { 7: 'data', 20: 'data', 21: 'data', 40: 'locked', 41: 'conflict', 59: 'data' });
    expect(statuses(outcomes)).toEqual(expected);
    expect(messageOf(outcomes[7])).toMatch(/"positive".*SQLSTATE 23514/);
    expect(messageOf(outcomes[20])).toMatch(
      /^PostgreSQL: currency ZZZ is closed\. use EUR \(SQLSTATE P0001; .*public\.guard\(\)|guard\(\)/,
    );
    expect(messageOf(outcomes[21])).toContain('late refusal');
    expect(await sql('select count(*)::int as count from sourcing.award')).toEqual([{ count: 55 }]);
    expect(await sql('select count(distinct key)::int as count from sourcing.award_line')).toEqual([{ count: 55 }]);
  });

  test('by a trigger that drops a row and says nothing fails alone, too: no document is half there', async () => {
    await sql(`create function public.drop_row() returns trigger language plpgsql as $$ begin
        if to_jsonb(new) ->> 'cost' = '13' or to_jsonb(new) ->> 'total_cost' = '9' then return null; end if;
        return new; end $$`);
    for (const table of ['award', 'award_line'])
      await sql(`create trigger drop_row before insert or update on sourcing.${table}
        for each row execute function public.drop_row()`);
    const outcomes = await write(
      operationOf(award(0, ['9'])),
      operationOf(award(1)),
      operationOf(award(2, ['1', '13'])),
      operationOf(award(3)),
    );
    expect(statuses(outcomes)).toEqual(['data', 'created', 'data', 'created']);
    expect(messageOf(outcomes[0])).toContain('a trigger has dropped 1 of 1 rows for "sourcing"."award"');
    expect(messageOf(outcomes[2])).toContain('a trigger has dropped 1 of 4 rows for "sourcing"."award_line"');
    expect(await sql('select key, total_cost from sourcing.award order by key')).toEqual([
      { key: 'event/0000', total_cost: '12.50' },
      { key: 'event/0001', total_cost: '12.50' },
      { key: 'event/0003', total_cost: '12.50' },
    ]);
    expect(await sql('select key from sourcing.award_line order by key')).toEqual([
      { key: 'event/0000' },
      { key: 'event/0001' },
      { key: 'event/0003' },
    ]);
  });

  test('for a reason that concerns every document is a config error, which pauses the flow', async () => {
    await sql('drop table sourcing.award_value');
    expect(statuses(await write(operationOf(award(1)), operationOf(award(2))))).toEqual(['config', 'config']);
  });
});

describe('a row that another transaction has locked', () => {
  test('fails only its document as locked; a lock that is released in time only delays the write', async () => {
    await write(operationOf(award(1)), operationOf(award(2)));
    const quick = await openSession(db.url, { lock_timeout_ms: 100 });
    await db.database.transaction(async (tx) => {
      await tx.query(`select from sourcing.award where key = 'event/0002' for update`);
      const outcomes = await quick.write(
        [1, 2, 3].map((number) => operationOf(award(number, ['9']))),
        never,
      );
      expect(statuses(outcomes)).toEqual(['updated', 'locked', 'created']);
    });
    await quick.close();
    const held = Promise.withResolvers<void>();
    const released = Promise.withResolvers<void>();
    const holding = db.database.transaction(async (tx) => {
      await tx.query(`select from sourcing.award where key = 'event/0002' for update`);
      held.resolve();
      await released.promise;
    });
    await held.promise;
    const writing = write(operationOf(award(2, ['10'])));
    await untilWaiting(1);
    released.resolve();
    expect(statuses(await writing)).toEqual(['updated']);
    await holding;
  });

  test('does not delay an aborted call, and the statement in the server ends, too', async () => {
    await write(operationOf(award(1)));
    const patient = await openSession(db.url, { lock_timeout_ms: 60_000 });
    await db.database.transaction(async (tx) => {
      await tx.query(`select from sourcing.award where key = 'event/0001' for update`);
      const stop = new AbortController();
      const writing = patient.write([operationOf(award(1, ['9']))], stop.signal);
      await untilWaiting(1);
      stop.abort();
      expect(statuses(await writing)).toEqual(['transient']);
      await untilWaiting(0);
    });
    await patient.close();
    expect(await session.lookup([award(1)], never)).toMatchObject([{ contentHash: hashOf(award(1)) }]);
  });

  test('cannot cause a deadlock: two batches of the same documents in different orders do not block each other', async () => {
    const numbers = [1, 2, 3];
    await write(...numbers.map((number) => operationOf(award(number))));
    const [sessionA, sessionB] = [await openSession(db.url), await openSession(db.url)];
    const batch = (by: Session, order: readonly number[], cost: string) =>
      by.write(
        order.map((number) => operationOf(award(number, [cost, cost]))),
        never,
      );
    for (const by of [sessionA, sessionB]) await batch(by, [2], '5');
    let writing: Promise<unknown> | undefined;
    await db.database.transaction(async (tx) => {
      await tx.query(`select from sourcing.award where key = 'event/0003' for update`);
      const first = batch(sessionA, [1, 3, 2], '6');
      await untilWaiting(1);
      const second = batch(sessionB, [2, 1], '7');
      await untilWaiting(2);
      writing = Promise.all([first, second]);
    });
    expect(await writing).toMatchObject([
      numbers.map(() => ({ status: 'updated' })),
      [{ status: 'updated' }, { status: 'updated' }],
    ]);
    // Whichever batch was later, all parts of a document are from the same batch.
    expect(
      await sql(`select key, total_cost, min(cost) as least, max(cost) as most, count(*)::int as lines
        from sourcing.award join sourcing.award_line using (key) group by key order by key`),
    ).toEqual([
      { key: 'event/0001', total_cost: '7', least: '7', most: '7', lines: 2 },
      { key: 'event/0002', total_cost: '7', least: '7', most: '7', lines: 2 },
      { key: 'event/0003', total_cost: '6', least: '6', most: '6', lines: 2 },
    ]);
    // The server counts deadlocks at the end of a session at the latest.
    for (const by of [sessionA, sessionB]) await by.close();
    await expect
      .poll(async () =>
        sql(`select (select count(*)::int from pg_stat_activity where application_name = 'sourcing-bridge'
              and datname = current_database()) as sessions, deadlocks::int from pg_stat_database
            where datname = current_database()`),
      )
      .toEqual([{ sessions: 1, deadlocks: 0 }]);
  });
});

/** Resolves when `count` statements wait for a lock in this database. */
async function untilWaiting(count: number): Promise<void> {
  await expect
    .poll(async () => {
      const [row] = await sql(
        `select count(*)::int as count from pg_stat_activity where datname = current_database() and wait_event_type = 'Lock'`,
      );
      return row?.['count'];
    })
    .toBe(count);
}

test('a lost server causes only retries, and the session works again when the server is back', async () => {
  await write(operationOf(award(1)));
  const admin = new Client({ connectionString: db.url });
  await admin.connect();
  await admin.query(
    `select pg_terminate_backend(pid) from pg_stat_activity where application_name = 'sourcing-bridge' and datname = current_database()`,
  );
  await admin.end();
  const outcomes = [
    ...(await write(operationOf(award(2)))),
    ...(await write(operationOf(award(2)))),
    ...(await write(operationOf(award(2)))),
  ];
  expect(statuses(outcomes).at(-1)).toMatch(/created|unchanged/);
  for (const status of statuses(outcomes)) expect(['transient', 'created', 'unchanged']).toContain(status);
});

test('plan describes what would be written, and changes nothing', async () => {
  const plan = (...operations: Operation[]) => session.plan?.(operations, never);
  expect(await plan(operationOf(award(1, ['1', '2'])))).toEqual([
    {
      key: 'event/0001',
      action: 'create',
      steps: ['insert sourcing.award event/0001, with rows: 2 in award_line, 2 in award_value'],
    },
  ]);
  expect(await sql(`select to_regnamespace('sourcing') as schema`)).toEqual([{ schema: null }]);
  await write(operationOf(award(1)), operationOf(award(2)));
  expect(
    await plan(
      operationOf(award(1)),
      operationOf(award(2, ['7'])),
      operationOf(award(2, []), { action: 'cancel' }),
      operationOf(award(3, []), { action: 'cancel' }),
    ),
  ).toMatchObject([{ action: 'none' }, { action: 'amend' }, { action: 'cancel' }, { action: 'none' }]);
});
