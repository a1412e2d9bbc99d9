import { describe, expect, test } from 'vitest';
import { progressText } from '#bridge/mirror/read-progress.ts';
import type { Timestamp } from '#contract/timestamp.ts';

/** Four days are read; the reading began at noon. */
const range = { from: '2029-01-01T00:00:00.000000Z', to: '2029-01-05T00:00:00.000000Z' };
const began = '2030-01-01T12:00:00.000000Z';
const textOf = (position: Timestamp, now: Timestamp) => progressText({ ...range, position, began }, now);

describe('the progress of a reading', () => {
  test.each([
    // A quarter in a time, so three quarters in three of them.
    ['seconds', '2029-01-02T00:00:00.000000Z', '2030-01-01T12:00:10.000000Z', '25 %, about 30 s left'],
    ['minutes', '2029-01-02T00:00:00.000000Z', '2030-01-01T12:01:10.000000Z', '25 %, about 4 min left'],
    ['hours', '2029-01-02T00:00:00.000000Z', '2030-01-01T12:30:00.000000Z', '25 %, about 1.5 h left'],
  ])('is a share and the time that is left, in %s', (_unit, position, now, text) => {
    expect(textOf(position, now)).toBe(text);
  });

  test('is never called whole before it is', () => {
    expect(textOf('2029-01-04T23:59:59.000000Z', '2030-01-01T12:10:00.000000Z')).toBe('99 %, about 1 s left');
    expect(textOf(range.to, '2030-01-01T12:10:00.000000Z')).toBe('100 %');
  });

  test('is not known before something was read, nor of a range without a length', () => {
    expect(textOf(range.from, '2030-01-01T12:10:00.000000Z')).toBe('');
    expect(textOf('2028-01-01T00:00:00.000000Z', '2030-01-01T12:10:00.000000Z')).toBe('');
    expect(progressText({ from: range.to, to: range.to, position: range.to, began }, began)).toBe('');
  });

  test('says no negative time where the clock was set back', () => {
    expect(textOf('2029-01-02T00:00:00.000000Z', '2030-01-01T11:59:00.000000Z')).toBe('25 %, about 0 s left');
  });
});
