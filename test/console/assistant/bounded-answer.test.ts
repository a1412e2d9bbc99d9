import { expect, test } from 'vitest';
import { boundedAnswer } from '#console/assistant/bounded-answer.ts';

test('a short answer is left as it is', () => {
  expect(boundedAnswer({ rows: [1, 2, 3], more: null }, 100)).toBe('{"rows":[1,2,3],"more":null}');
});

test('a long list is cut to what fits, and says by how much', () => {
  const answer = boundedAnswer(
    { lines: Array.from({ length: 1_000 }, (_, number) => ({ lot: `lot ${number}` })) },
    1_000,
  );
  expect(answer.length).toBeLessThanOrEqual(1_000);
  const { lines } = JSON.parse(answer) as { lines: unknown[] };
  expect(lines.slice(0, 2)).toEqual([{ lot: 'lot 0' }, { lot: 'lot 1' }]);
  expect(lines.at(-1)).toBe(`… ${1_000 - (lines.length - 1)} more, which are left out here`);
});

test('a long text is cut, and says by how much', () => {
  expect(boundedAnswer({ text: 'x'.repeat(5_000) }, 4_000)).toBe(
    JSON.stringify({ text: `${'x'.repeat(2_000)}… (3000 more characters)` }),
  );
});

test('what cannot be cut to fit is replaced by a sentence', () => {
  const members = Object.fromEntries(Array.from({ length: 500 }, (_, number) => [`member ${number}`, number]));
  expect(boundedAnswer(members, 1_000)).toContain('which is too long: ask for less.');
});
