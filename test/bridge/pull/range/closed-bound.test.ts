import { describe, expect, test } from 'vitest';
import { closedBound, type FirstSeen, noteFirstSeen } from '#bridge/pull/range/closed-bound.ts';
import { msFromTimestamp, type Timestamp } from '#contract/timestamp.ts';

const latenessMs = 30_000;
const timeOf = (text: string): Timestamp => `2026-01-01T${text}.000000Z`;
const msOf = (text: string) => msFromTimestamp(timeOf(text));

describe('up to where a feed is closed', () => {
  test.each<[string, string, string | undefined, string | undefined, string | undefined]>([
    ['both clocks are right', '10:05:00', '10:04:58', '10:04:40', '10:04:27'],
    ['the source sends no date', '10:05:00', undefined, '10:04:40', '10:04:29'],
    ['our clock is 90 s ahead', '10:06:30', undefined, '10:04:40', '10:04:40'],
    ['our clock is 90 s behind', '10:03:30', '10:04:58', '10:04:40', '10:02:59'],
    ['both clocks are hours ahead', '17:00:00', '18:00:00', '10:04:40', '10:04:40'],
    ['nothing was seen yet', '10:05:00', '10:04:58', undefined, undefined],
  ])('%s', (_case, now, source, seen, expected) => {
    const bound = closedBound({
      nowMs: msOf(now),
      sourceMs: source === undefined ? undefined : msOf(source),
      latenessMs,
      firstSeen: seen === undefined ? {} : { bound: timeOf(seen) },
    });
    expect(bound).toBe(expected === undefined ? undefined : timeOf(expected));
  });
});

describe('the first-seen bound', () => {
  const note = (seen: FirstSeen, now: string, newest: string) =>
    noteFirstSeen(seen, { newest: timeOf(newest), nowMs: msOf(now), seenBeforeMs: msOf(now) - latenessMs });

  test('is a sample that is as old as the lateness, as the example says', () => {
    const first = note({}, '10:00:00', '09:59:58');
    expect(first.bound).toBeUndefined();
    const second = note(first, '10:00:20', '10:00:15');
    expect(second).toEqual(first);
    const third = note(second, '10:00:40', '10:00:33');
    expect(third.bound).toBe(timeOf('09:59:58'));
    expect(note(third, '10:01:10', '10:01:02').bound).toBe(timeOf('10:00:33'));
  });

  test('never goes back, also where the newest record has changed meanwhile', () => {
    const seen = { bound: timeOf('10:00:00'), sample: timeOf('09:00:00'), sampledAt: timeOf('10:00:00') };
    expect(note(seen, '10:00:40', '10:00:33').bound).toBe(timeOf('10:00:00'));
  });

  test('takes no sample for seen that was noted by a clock which was ahead', () => {
    const seen = { sample: timeOf('10:00:00'), sampledAt: timeOf('12:00:00') };
    expect(note(seen, '10:00:40', '10:00:33')).toEqual({ sample: timeOf('10:00:33'), sampledAt: timeOf('10:00:40') });
  });
});
