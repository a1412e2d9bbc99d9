import * as fc from 'fast-check';
import { expect, test } from 'vitest';
import { z } from 'zod';
import { checkBody } from '#platform/http/check-body.ts';

const anything = { method: 'POST', path: '/x', body: z.any() };
const bytesOf = (value: unknown) => Buffer.from(typeof value === 'string' ? value : JSON.stringify(value));
/** Long enough that values are counted. */
const filler = 'x'.repeat(70_000);

test('any large body within the limits is read as JSON.parse reads it, whatever its texts hold', () => {
  const storable = fc.jsonValue({ maxDepth: 5 }).filter((value) => !/\\u0000|\\ud[89a-f]/i.test(JSON.stringify(value)));
  fc.assert(
    fc.property(storable, (value) => {
      const body = { filler: `${filler}\\"{[,`, value };
      expect(checkBody(anything, bytesOf(body))).toEqual(JSON.parse(JSON.stringify(body)));
    }),
  );
});

test('two million values are taken, more are refused before they are parsed', () => {
  const list = (count: number) => `[${'1,'.repeat(count - 1)}1]`;
  expect(checkBody(anything, bytesOf(list(1_999_998)))).toHaveLength(1_999_998);
  // Not even JSON: it is refused for its number.
  expect(() => checkBody(anything, bytesOf(`${list(2_000_000)}]`))).toThrow('more than 2000000 values');
});

test('a text that does not end, or ends in a backslash, is refused as JSON', () => {
  for (const text of [`{"${filler}`, `{"${filler}\\`, `{"${filler}\\"`])
    expect(() => checkBody(anything, bytesOf(text))).toThrow('JSON');
});
