/** Source of the expected days and offsets: the IANA time zone database, looked up by hand. */
import * as fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { cutToMs, dayIn, repeatedMs, timeFromMs, timeToMs } from '#connector/dates.ts';
import { ConfigError, DataError } from '#connector/errors.ts';

describe('the day in a time zone', () => {
  test.each([
    ['2030-12-31T23:59:59.000000Z', 'UTC', '2030-12-31'],
    ['2030-12-31T22:59:59.999999Z', 'Europe/Berlin', '2030-12-31'],
    ['2030-12-31T23:00:00.000000Z', 'Europe/Berlin', '2031-01-01'],
    // Summer time.
    ['2030-07-01T22:00:00.000000Z', 'Europe/Berlin', '2030-07-02'],
    ['2030-01-01T04:59:59.000000Z', 'America/New_York', '2029-12-31'],
    ['2030-01-01T10:00:00.000000Z', 'Pacific/Kiritimati', '2030-01-02'],
    ['2030-01-01T18:29:59.000000Z', 'Asia/Kolkata', '2030-01-01'],
    ['2030-01-01T18:30:00.000000Z', 'Asia/Kolkata', '2030-01-02'],
  ])('at %s in %s is %s', (time, zone, day) => {
    expect(dayIn(time, zone)).toBe(day);
  });

  test('needs a known zone and a valid time', () => {
    expect(() => dayIn('2030-01-01T00:00:00Z', 'Europe/Berln')).toThrow(ConfigError);
    expect(() => dayIn('yesterday', 'UTC')).toThrow(DataError);
  });
});

describe('milliseconds', () => {
  test('and texts stand for the same time', () => {
    expect(timeToMs('2030-01-01T00:00:00.123000Z')).toBe(1_893_456_000_123);
    expect(timeFromMs(1_893_456_000_123)).toBe('2030-01-01T00:00:00.123000Z');
  });

  test('lose microseconds only through cutToMs', () => {
    expect(() => timeToMs('2030-01-01T00:00:00.123456Z')).toThrow(/microseconds, which would be lost/);
    expect(cutToMs('2030-01-01T00:00:00.123999Z')).toBe(1_893_456_000_123);
  });

  test.each([Number.NaN, 1.5, Number.POSITIVE_INFINITY, 9e15, -9e15, -62_135_596_800_000, 253_402_300_800_000])(
    'cannot be %d',
    (ms) => {
      expect(() => timeFromMs(ms)).toThrow(DataError);
    },
  );

  test('are the same after a round trip', () => {
    fc.assert(
      fc.property(fc.integer({ min: -59_011_459_200_000, max: 253_402_300_799_999 }), (ms) => {
        expect(timeToMs(timeFromMs(ms))).toBe(ms);
      }),
    );
  });
});

test.each([
  // Berlin: at 03:00 of summer clocks go back to 02:00.
  ['2026-10-25 01:59:59.999999', 'Europe/Berlin', 0],
  ['2026-10-25 02:00', 'Europe/Berlin', 3_600_000],
  ['2026-10-25 02:58:30.123456', 'Europe/Berlin', 3_600_000],
  ['2026-10-25 03:00', 'Europe/Berlin', 0],
  // In spring 02:30 is skipped.
  ['2026-03-29 02:30', 'Europe/Berlin', 0],
  ['2026-10-25 02:30', 'UTC', 0],
  // Lord Howe Island goes back by half an hour, from 02:00.
  ['2026-04-05 01:45', 'Australia/Lord_Howe', 1_800_000],
  ['infinity', 'Europe/Berlin', 0],
])('clocks showed %s in %s twice, so many ms apart: %i', (shown, zone, ms) => {
  expect(repeatedMs(shown, zone)).toBe(ms);
});
