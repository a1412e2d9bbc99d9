import { expect, test } from 'vitest';
import { upperBound } from '#bridge/pull/windows/upper-bound.ts';
import { microsFromTimestamp, type Timestamp, timestampFromMicros } from '#contract/timestamp.ts';

const second = 1_000_000;
const latenessMicros = 30 * second;

test.each([
  ['our own clock is behind', { sentMicros: 100 * second, sourceMicros: 500 * second }, 69],
  ['the clock of the source is behind', { sentMicros: 500 * second, sourceMicros: 100 * second }, 69],
  ['the source sends no date', { sentMicros: 100 * second, sourceMicros: undefined }, 69],
])('the upper bound lies the lateness and a second before the earlier clock: %s', (_case, clocks, expected) => {
  const bound = upperBound({ ...clocks, latenessMicros, firstSeenBound: '2026-01-01T00:00:00.000000Z' });
  expect(bound).toBe(timestampFromMicros(expected * second));
});

test('the upper bound does not pass the first-seen bound, so a clock in the future lets no record be passed', () => {
  const future = microsFromTimestamp('2030-01-01T00:00:00.000000Z');
  const firstSeenBound = '2026-01-01T00:00:00.000000Z';
  expect(upperBound({ sentMicros: future, sourceMicros: future, latenessMicros, firstSeenBound })).toBe(firstSeenBound);
  expect(
    upperBound({ sentMicros: future, sourceMicros: future, latenessMicros, firstSeenBound: undefined }),
  ).toBeUndefined();
});

test.each<[string, string, string | undefined, string | undefined, string | undefined]>([
  ['both clocks are right', '10:05:00', '10:04:58', '10:04:40', '10:04:27'],
  ['the source sends no date', '10:05:00', undefined, '10:04:40', '10:04:29'],
  ['our clock is 90 s ahead', '10:06:30', undefined, '10:04:40', '10:04:40'],
  ['nothing was seen yet', '10:05:00', '10:04:58', undefined, undefined],
])('the example at the head of upper-bound.ts is true: %s', (_case, sent, source, firstSeen, expected) => {
  const timeOf = (text: string): Timestamp => `2026-01-01T${text}.000000Z`;
  const microsOf = (text: string) => microsFromTimestamp(timeOf(text));
  const bound = upperBound({
    sentMicros: microsOf(sent),
    sourceMicros: source === undefined ? undefined : microsOf(source),
    latenessMicros,
    firstSeenBound: firstSeen === undefined ? undefined : timeOf(firstSeen),
  });
  expect(bound).toBe(expected === undefined ? undefined : timeOf(expected));
});
