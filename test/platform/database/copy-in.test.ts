import * as fc from 'fast-check';
import { beforeAll, describe, expect, test } from 'vitest';
import { addMicros, timestampFromMs } from '#contract/timestamp.ts';
import { textArray, uuidArray } from '#platform/database/binary-array.ts';
import { copyRows } from '#platform/database/copy-in.ts';
import { createEmptyDatabase, type TestDatabase } from '../../harness/test-database.ts';

let db: TestDatabase;
beforeAll(async () => {
  db = await createEmptyDatabase();
  await db.database.query(
    `create table copied (place int generated always as identity, same text not null, own text, bytes bytea not null,
       at timestamptz not null, since timestamptz not null, own_key text unique)`,
  );
});

const into = 'copied (same, own, bytes, at, since)';
const text = fc.string({ unit: 'binary' }).map((given) => given.replaceAll('\0', ''));
const time = fc
  .tuple(fc.integer({ min: Date.UTC(1970, 0, 1), max: Date.UTC(9999, 11, 31) }), fc.integer({ min: 0, max: 999 }))
  .map(([ms, micros]) => addMicros(timestampFromMs(ms), micros));

describe('rows that are copied in', () => {
  test('arrive as they were given: texts of any characters, nulls, bytes, and times to the microsecond', async () => {
    const rows = fc.array(fc.record({ own: fc.option(text), bytes: fc.uint8Array(), at: time }), { minLength: 1 });
    await fc.assert(
      fc.asyncProperty(rows, text, time, async (given, same, since) => {
        await db.database.query('truncate copied');
        await db.database.copy(
          into,
          copyRows(given.length, [
            { type: 'text', values: same },
            { type: 'text', values: given.map(({ own }) => own) },
            { type: 'bytes', values: given.map(({ bytes }) => Buffer.from(bytes)) },
            { type: 'timestamptz', values: given.map(({ at }) => at) },
            { type: 'timestamptz', values: since },
          ]),
        );
        const held = await db.database.query(
          `select same, own, encode(bytes, 'hex') as bytes, to_char(at, 'YYYY-MM-DD"T"HH24:MI:SS.US"Z"') as at,
             to_char(since, 'YYYY-MM-DD"T"HH24:MI:SS.US"Z"') as since from copied order by place`,
        );
        expect(held).toEqual(
          given.map(({ own, bytes, at }) => ({
            same: same.toWellFormed(),
            own: own?.toWellFormed() ?? null,
            bytes: Buffer.from(bytes).toString('hex'),
            at,
            since,
          })),
        );
      }),
    );
  });

  test('arrive as they were given: ids, truth values, JSON and arrays, and nulls of them', async () => {
    await db.database.query(
      `create table copied_forms (place int generated always as identity, same uuid, own uuid, truth boolean, json jsonb,
         texts text[], ids uuid[])`,
    );
    const rows = fc.array(
      fc.record({
        own: fc.uuid(),
        truth: fc.option(fc.boolean()),
        json: fc.option(fc.dictionary(fc.string({ minLength: 1 }), fc.oneof(fc.string(), fc.integer(), fc.boolean()))),
        texts: fc.option(fc.array(text, { minLength: 1 })),
        ids: fc.option(fc.array(fc.uuid(), { minLength: 1 })),
      }),
      { minLength: 1 },
    );
    await fc.assert(
      fc.asyncProperty(rows, fc.uuid(), async (given, same) => {
        await db.database.query('truncate copied_forms');
        await db.database.copy(
          'copied_forms (same, own, truth, json, texts, ids)',
          copyRows(given.length, [
            { type: 'uuid', values: same },
            { type: 'uuid', values: given.map(({ own }) => own) },
            { type: 'boolean', values: given.map(({ truth }) => truth) },
            { type: 'jsonb', values: given.map(({ json }) => json && JSON.stringify(json)) },
            { type: 'bytes', values: given.map(({ texts }) => texts && textArray(texts)) },
            { type: 'bytes', values: given.map(({ ids }) => ids && uuidArray(ids)) },
          ]),
        );
        const held = await db.database.query(
          'select same, own, truth, json::text as json, texts, ids::text[] as ids from copied_forms order by place',
        );
        expect(held.map((row) => ({ ...row, json: parsed(row) }))).toEqual(
          given.map(({ texts, json, ...row }) => ({
            ...row,
            same,
            json: json && { ...json },
            texts: texts && texts.map((each) => each.toWellFormed()),
          })),
        );
      }),
    );
  });
  const parsed = (row: object) => ('json' in row && typeof row.json === 'string' ? JSON.parse(row.json) : null);

  const keys = (...values: string[]) =>
    copyRows(values.length, [
      { type: 'text', values: '' },
      { type: 'bytes', values: values.map(() => Buffer.alloc(0)) },
      { type: 'timestamptz', values: '2026-11-21T00:00:00.000001Z' },
      { type: 'timestamptz', values: '2026-11-21T00:00:00.000001Z' },
      { type: 'text', values },
    ]);
  const intoKeys = 'copied (same, bytes, at, since, own_key)';
  const heldKeys = async () =>
    (
      await db.database.query<{ own_key: string }>('select own_key from copied where own_key is not null order by 1')
    ).map((row) => row.own_key);

  test('are ignored where the server refuses the statement itself: the next statement gets its own answer', async () => {
    // Larger than what the sockets hold: the refusal comes while the rows are still being sent.
    const many = keys(...Array.from({ length: 50_000 }, (_, index) => `${index} ${'x'.repeat(200)}`));
    await db.database.session(async (session) => {
      await expect(session.copy('absent (same)', many)).rejects.toMatchObject({ code: '42P01' });
      expect(await session.query('select 1 as one')).toEqual([{ one: 1 }]);
      await session.query('begin');
      await expect(session.query('select 1 / 0')).rejects.toMatchObject({ code: '22012' });
      await expect(session.copy(intoKeys, many)).rejects.toMatchObject({ code: '25P02' });
      await session.query('rollback');
      expect(await session.query('select 2 as two')).toEqual([{ two: 2 }]);
    });
    expect(await heldKeys()).toEqual([]);
  });

  test('belong to the transaction: all of them or none, and the connection works on after a refusal', async () => {
    await db.database.copy(intoKeys, keys('a'));
    const refused = db.database.transaction(async (tx) => {
      await tx.copy(intoKeys, keys('b'));
      await tx.copy(intoKeys, keys('c', 'a'));
    });
    await expect(refused).rejects.toMatchObject({ code: '23505' });
    expect(await heldKeys()).toEqual(['a']);
    await db.database.transaction((tx) => tx.copy(intoKeys, keys('b', 'c')));
    expect(await heldKeys()).toEqual(['a', 'b', 'c']);
  });

  test('arrive all and in order when they take many parts, and can be sent again', async () => {
    const values = Array.from({ length: 3_000 }, (_, index) => `${index} ${'ü€𝄞'.repeat(index % 200)}`);
    await db.database.query('create table copied_parts (place int generated always as identity, own text)');
    const rows = copyRows(values.length, [{ type: 'text', values }]);
    expect([...rows].length).toBeGreaterThan(10);
    for (let times = 1; times <= 2; times += 1) {
      await db.database.query('truncate copied_parts');
      await db.database.copy('copied_parts (own)', rows);
      const held = await db.database.query<{ own: string }>('select own from copied_parts order by place');
      expect(held.map(({ own }) => own)).toEqual(values);
    }
  });

  test('that cannot be made reject with the reason: none of them is stored, and the connection works on', async () => {
    const failing = {
      *[Symbol.iterator]() {
        const [first] = keys('h');
        yield (first as Buffer).subarray(0, -2);
        throw new RangeError('no such time');
      },
    };
    await db.database.session(async (session) => {
      const [copied, next] = await Promise.allSettled([
        session.copy(intoKeys, failing),
        session.query('select 3 as three'),
      ]);
      expect(copied).toMatchObject({ status: 'rejected', reason: { message: 'no such time' } });
      expect(next).toEqual({ status: 'fulfilled', value: [{ three: 3 }] });
    });
    expect(await heldKeys()).not.toContain('h');
  });

  test('are refused with a NUL character, not cut off', async () => {
    await expect(db.database.copy(intoKeys, keys('d\0e'))).rejects.toMatchObject({ code: '22021' });
  });

  test('are not taken after the end of their transaction', async () => {
    const over = Promise.withResolvers<void>();
    let late: Promise<void> | undefined;
    await db.database.transaction(async (tx) => {
      late = over.promise.then(() => tx.copy(intoKeys, keys('f')));
    });
    over.resolve();
    await expect(late).rejects.toThrow('after its transaction had ended');
    expect(await heldKeys()).not.toContain('f');
  });

  test('reject with `unavailable` when the connection is lost under them', async () => {
    const lost = db.database.transaction(async (tx) => {
      const [row] = await tx.query<{ pid: number }>('select pg_backend_pid() as pid');
      await db.database.query('select pg_terminate_backend($1)', [row?.pid]);
      await tx.copy(intoKeys, keys('g'));
    });
    await expect(lost).rejects.toMatchObject({ code: 'unavailable' });
    expect(await heldKeys()).not.toContain('g');
  });
});
