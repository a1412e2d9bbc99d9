import { describe, expect, test } from 'vitest';
import { z } from 'zod';
import { AppError } from '#platform/errors.ts';
import { parseInput, pathText } from '#platform/input.ts';

const sheet = z.strictObject({
  name: z.string().min(1).max(5),
  lots: z.array(z.strictObject({ price: z.number().positive(), kind: z.enum(['A', 'B']) })).min(1),
  note: z.string().optional(),
});

function refusal(schema: z.ZodType, value: unknown): AppError {
  try {
    parseInput(schema, value, 'The body');
  } catch (error) {
    if (error instanceof AppError) return error;
    throw error;
  }
  throw new Error('It was taken.');
}

describe('parseInput', () => {
  test('names each of many faults, and of endless ones their kind alone', () => {
    const either = z.array(z.literal('y'));
    const wrong = (count: number) =>
      refusal(
        either,
        Array.from({ length: count }, () => 'x'),
      );
    expect(wrong(20_000).issues).toHaveLength(20_000);
    expect(wrong(200_001).issues).toEqual([{ path: '', message: 'has more than 200000 faults, such as: must be y' }]);
  });

  test('returns the value as the schema outputs it', () => {
    const schema = z.strictObject({ size: z.coerce.number().default(20) });
    expect(parseInput(schema, { size: '5' }, 'The query')).toEqual({ size: 5 });
    expect(parseInput(schema, {}, 'The query')).toEqual({ size: 20 });
  });

  test('names every fault at once, with its path; the message holds the first and the number of others', () => {
    const error = refusal(sheet, { name: '', lots: [{ price: 0, kind: 'C' }, { price: '1' }], nota: 'x' });
    expect(error.code).toBe('invalid');
    expect(error.issues).toEqual([
      { path: 'name', message: 'must have at least 1 character' },
      { path: 'lots[0].price', message: 'must be more than 0' },
      { path: 'lots[0].kind', message: 'must be one of A, B' },
      { path: 'lots[1].price', message: 'must be a number' },
      { path: 'lots[1].kind', message: 'is missing' },
      { path: 'nota', message: 'is not a known field' },
    ]);
    expect(error.publicMessage).toBe('The body is not valid: name must have at least 1 character (and 5 more).');
  });

  test.each([
    [z.string(), undefined, 'is missing'],
    [z.string(), 4711, 'must be a string'],
    [z.object({}), 'hunter2', 'must be an object'],
    [z.array(z.string()), 'hunter2', 'must be an array'],
    [z.int(), 1.5, 'must be a whole number'],
    [z.boolean(), 'true', 'must be true or false'],
    [z.int().max(10), 11, 'must be at most 10'],
    [z.string().max(1), 'hunter2', 'must have at most 1 character'],
    [z.array(z.string()).max(2), ['a', 'b', 'c'], 'must have at most 2 entries'],
    [z.string().length(3), 'hunter2', 'must have exactly 3 characters'],
    [z.literal('a'), 'hunter2', 'must be a'],
    [z.uuid(), 'hunter2', 'must be a UUID'],
    [z.email(), 'hunter2', 'must be an e-mail address'],
    [z.url(), 'hunter2', 'must be a URL, like https://host'],
    [z.string().regex(/^[a-z]+$/), 'hunter2', 'must match /^[a-z]+$/'],
    [z.string().regex(/^[a-z]+$/, 'must be lower-case letters'), 'hunter2', 'must be lower-case letters'],
  ])('says what must be there and never what was there (%#)', (schema, value, message) => {
    const error = refusal(schema, value);
    expect(error.issues).toEqual([{ path: '', message }]);
    expect(error.publicMessage).toBe(`The body is not valid: ${message}.`);
    expect(JSON.stringify([error.message, error.issues, error.stack])).not.toMatch(/hunter2|4711/);
  });

  test('for a union it reports the branch that was meant', () => {
    const value = z.union([z.string(), z.strictObject({ value: z.string(), currency: z.string() })]);
    expect(refusal(value, { value: '1' }).issues).toEqual([{ path: 'currency', message: 'is missing' }]);
    expect(refusal(value, 1).issues).toEqual([{ path: '', message: 'must be a string, or must be an object' }]);
    const kinds = z.discriminatedUnion('type', [
      z.strictObject({ type: z.literal('A') }),
      z.strictObject({ type: z.literal('B') }),
    ]);
    expect(refusal(kinds, { type: 'hunter2' }).issues).toEqual([{ path: 'type', message: 'must be one of A, B' }]);
  });

  test('names like __proto__ are ordinary names', () => {
    const error = refusal(z.strictObject({}), JSON.parse('{"__proto__":1,"constructor":2}'));
    expect(error.issues.map(({ path }) => path)).toEqual(['__proto__', 'constructor']);
    const names = z.record(z.string(), z.number());
    expect(Object.entries(parseInput(names, JSON.parse('{"constructor":1}'), 'The body'))).toEqual([
      ['constructor', 1],
    ]);
    expect(({} as Record<string, unknown>)['polluted']).toBeUndefined();
  });
});

test.each([
  [[], ''],
  [['a', 2, 'b'], 'a[2].b'],
  [[0, 'a'], '[0].a'],
  [['bid sheet', 'x"y'], '["bid sheet"]["x\\"y"]'],
  [['a-b', '1'], 'a-b["1"]'],
])('the path %j reads %s', (path, text) => {
  expect(pathText(path)).toBe(text);
});

test('a path shows only the beginning of a long name', () => {
  expect(pathText([`${'x'.repeat(10_000)} y`]).length).toBeLessThan(200);
});
