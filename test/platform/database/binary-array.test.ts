import * as fc from 'fast-check';
import { beforeAll, describe, expect, test } from 'vitest';
import { byteaArray, intArray, textArray, timeArray } from '#platform/database/binary-array.ts';
import { createEmptyDatabase, type TestDatabase } from '../../harness/test-database.ts';

let db: TestDatabase;
beforeAll(async () => {
  db = await createEmptyDatabase();
});

describe('arrays in binary form', () => {
  test('arrive as they were given: texts of any characters, and nulls', async () => {
    const values = fc.array(
      fc.option(
        fc.string({ unit: 'binary' }).map((text) => text.replaceAll('\0', '')),
        { nil: null },
      ),
    );
    await fc.assert(
      fc.asyncProperty(values, async (given) => {
        const [row] = await db.database.query<{ read: string[] }>('select $1::text[] as read', [textArray(given)]);
        expect(row?.read).toEqual(given.map((text) => text?.toWellFormed() ?? null));
      }),
    );
  });

  test('arrive as they were given: bytes, and nulls', async () => {
    const values = fc.array(
      fc.option(
        fc.uint8Array().map((bytes) => Buffer.from(bytes)),
        { nil: null },
      ),
    );
    await fc.assert(
      fc.asyncProperty(values, async (given) => {
        const [row] = await db.database.query<{ read: string[] }>(
          `select array(select encode(b, 'hex') from unnest($1::bytea[]) with ordinality as u (b, n) order by n) as read`,
          [byteaArray(given)],
        );
        expect(row?.read).toEqual(given.map((bytes) => bytes?.toString('hex') ?? null));
      }),
    );
  });

  test('arrive as they were given: whole numbers, and nulls', async () => {
    const values = fc.array(fc.option(fc.integer(), { nil: null }));
    await fc.assert(
      fc.asyncProperty(values, async (given) => {
        const [row] = await db.database.query<{ read: number[] }>('select $1::int[] as read', [intArray(given)]);
        expect(row?.read).toEqual(given);
      }),
    );
  });

  test('arrive as they were given: times, also before 2000', async () => {
    const range = { min: new Date('1800-01-01T00:00:00Z'), max: new Date('2200-12-31T23:59:59Z'), noInvalidDate: true };
    await fc.assert(
      fc.asyncProperty(fc.array(fc.date(range)), async (given) => {
        const [row] = await db.database.query<{ read: string[] }>('select $1::timestamptz[] as read', [
          timeArray(given.map((date) => date.getTime())),
        ]);
        expect(row?.read).toEqual(given.map((date) => `${date.toISOString().slice(0, 23)}000Z`));
      }),
    );
  });

  test('keep every byte of a long text with characters of several bytes', async () => {
    const long = '株式会社 Ä🔩'.repeat(1_000);
    const [row] = await db.database.query<{ read: string[] }>('select $1::text[] as read', [textArray([long, 'a'])]);
    expect(row?.read).toEqual([long, 'a']);
  });

  test('an empty one is an empty array', async () => {
    const [row] = await db.database.query<{ texts: unknown; bytes: unknown }>(
      'select $1::text[] as texts, cardinality($2::bytea[]) as bytes',
      [textArray([]), byteaArray([])],
    );
    expect(row).toEqual({ texts: [], bytes: 0 });
  });

  test('a NUL character is refused by the server, not cut off', async () => {
    await expect(db.database.query('select $1::text[]', [textArray(['a\0b'])])).rejects.toMatchObject({
      code: '22021',
    });
  });
});
