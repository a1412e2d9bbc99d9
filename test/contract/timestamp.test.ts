import * as fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { addMicros, laterOf, msFromTimestamp, parseTimestamp, timestampFromMs } from '#contract/timestamp.ts';

describe('reading', () => {
  test.each([
    // The contract's three forms.
    ['2030-12-31T23:59:59Z', '2030-12-31T23:59:59.000000Z'],
    ['2030-12-31T23:59:59+00:00', '2030-12-31T23:59:59.000000Z'],
    ['2030-12-31T23:59:59.000000Z', '2030-12-31T23:59:59.000000Z'],
    // A date means 00:00 UTC.
    ['2024-02-29', '2024-02-29T00:00:00.000000Z'],
    // Other offsets are converted, over the end of a day and of a year, too.
    ['2030-12-31T23:59:59-05:30', '2031-01-01T05:29:59.000000Z'],
    ['2031-01-01T01:00:00.000001+02:00', '2030-12-31T23:00:00.000001Z'],
    ['2030-06-01T12:00:00+0200', '2030-06-01T10:00:00.000000Z'],
    ['2030-06-01T12:00:00+02', '2030-06-01T10:00:00.000000Z'],
    // Fractions keep their microseconds; finer ones are cut off, never rounded.
    ['2030-06-01T12:00:00.5Z', '2030-06-01T12:00:00.500000Z'],
    ['2030-06-01T12:00:00.123456789Z', '2030-06-01T12:00:00.123456Z'],
    ['2030-06-01T12:00:00.999999999Z', '2030-06-01T12:00:00.999999Z'],
    ['2030-06-01T12:00Z', '2030-06-01T12:00:00.000000Z'],
    ['1969-12-31T23:59:59.999999Z', '1969-12-31T23:59:59.999999Z'],
    // The earliest time of many programs, from which they read everything.
    ['0001-01-01T00:00:00Z', '0001-01-01T00:00:00.000000Z'],
    ['0099-12-31T23:59:59.000001-01:00', '0100-01-01T00:59:59.000001Z'],
  ])('%s is %s', (text, expected) => {
    expect(parseTimestamp(text)).toBe(expected);
  });

  test.each([
    ['dates that do not exist', ['2030-02-29', '2030-04-31', '2030-13-01', '2030-00-10', '2030-01-00', '2100-02-29']],
    ['times that do not exist', ['2030-01-01T24:00:00Z', '2030-01-01T23:60:00Z', '2030-01-01T23:59:60Z']],
    ['offsets that do not exist', ['2030-01-01T00:00:00+24:00', '2030-01-01T00:00:00+01:60', '2030-01-01T00:00:00+1']],
    ['a time without an offset', ['2030-01-01T00:00:00', '2030-01-01 00:00:00.5']],
    ['other forms', ['', 'now', '1893456000', '2030-1-1', '20300101', '01.01.2030', '2030-W01-1', '+002030-01-01']],
    ['anything around it', [' 2030-01-01', '2030-01-01\n', '2030-01-01T00:00:00Z\u0000', '２０３０-01-01']],
    ['a year outside of 1 to 9999', ['0001-01-01T00:00:00+01:00', '9999-12-31T23:59:59-01:00', '0000-12-31']],
  ])('%s: refused', (_what, texts) => {
    for (const text of texts) expect([text, parseTimestamp(text)]).toEqual([text, undefined]);
  });

  test('every day of the calendar exists in UTC, and no other', () => {
    const two = fc.nat({ max: 40 }).map((number) => String(number).padStart(2, '0'));
    fc.assert(
      fc.property(fc.integer({ min: 1, max: 9999 }), two, two, (year, month, day) => {
        const text = `${String(year).padStart(4, '0')}-${month}-${day}T00:00:00.000000Z`;
        // Date moves a day that does not exist to another one.
        const at = new Date(0);
        at.setUTCFullYear(year, Number(month) - 1, Number(day));
        const exists = at.toISOString().slice(0, 10) === text.slice(0, 10);
        expect(parseTimestamp(text)).toBe(exists ? text : undefined);
      }),
    );
  });

  test('text of the right alphabet is read as a Timestamp or refused, and never throws', () => {
    const digits = fc.string({ unit: fc.constantFrom(...'0123456789-+:.TZ '.split('')), maxLength: 40 });
    fc.assert(
      fc.property(digits, (text) => {
        expect(parseTimestamp(text) ?? '0001-01-01T00:00:00.000000Z').toMatch(
          /^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}Z$/,
        );
      }),
    );
  });
});

const micros = fc.bigInt({ min: -30_000_000_000_000_000n, max: 250_000_000_000_000_000n });

/** Computed with whole numbers only, as microseconds since 1970. */
function written(at: bigint): string {
  const rest = ((at % 1000n) + 1000n) % 1000n;
  return `${new Date(Number((at - rest) / 1000n)).toISOString().slice(0, 23)}${String(rest).padStart(3, '0')}Z`;
}

describe('order and arithmetic', () => {
  test('what is written reads back unchanged, and text order is time order', () => {
    fc.assert(
      fc.property(micros, micros, (a, b) => {
        expect(parseTimestamp(written(a))).toBe(written(a));
        expect(written(a) < written(b)).toBe(a < b);
        expect(laterOf(written(a), written(b))).toBe(written(a > b ? a : b));
      }),
    );
  });

  test('adding microseconds is exact, forwards and backwards', () => {
    fc.assert(
      fc.property(micros, fc.integer({ min: -100_000_000_000, max: 100_000_000_000 }), (at, by) => {
        expect(addMicros(written(at), by)).toBe(written(at + BigInt(by)));
      }),
    );
    expect(addMicros('2030-12-31T23:59:59.999999Z', 1)).toBe('2031-01-01T00:00:00.000000Z');
    expect(addMicros('2031-01-01T00:00:00.000000Z', -1)).toBe('2030-12-31T23:59:59.999999Z');
  });

  test('no step leads out of the years 1 to 9999, which is all that can be stored and read', () => {
    const [first, last] = ['0001-01-01T00:00:00.000000Z', '9999-12-31T23:59:59.999999Z'];
    expect([addMicros(first, -1), addMicros(first, -86_400_000_000)]).toEqual([first, first]);
    expect([addMicros(last, 1), addMicros(last, 86_400_000_000)]).toEqual([last, last]);
    expect(addMicros(first, 1)).toBe('0001-01-01T00:00:00.000001Z');
    expect(addMicros(last, -1)).toBe('9999-12-31T23:59:59.999998Z');
  });

  test('an offset names the same instant', () => {
    fc.assert(
      fc.property(micros, fc.integer({ min: -1439, max: 1439 }), (at, minutes) => {
        const local = written(at + BigInt(minutes) * 60_000_000n).slice(0, -1);
        const size = Math.abs(minutes);
        const offset = `${minutes < 0 ? '-' : '+'}${String(Math.trunc(size / 60)).padStart(2, '0')}:${String(size % 60).padStart(2, '0')}`;
        expect(parseTimestamp(local + offset)).toBe(written(at));
      }),
    );
  });

  test('milliseconds are unchanged after a conversion in both directions', () => {
    fc.assert(
      fc.property(fc.integer({ min: -1_000_000_000_000, max: 9_000_000_000_000 }), (ms) => {
        expect(msFromTimestamp(timestampFromMs(ms))).toBe(ms);
      }),
    );
  });

  test('an absent time is earlier than any other', () => {
    expect(laterOf(undefined, undefined)).toBeUndefined();
    expect(laterOf(undefined, '0001-01-01T00:00:00.000000Z')).toBe('0001-01-01T00:00:00.000000Z');
    expect(laterOf('0001-01-01T00:00:00.000000Z', undefined)).toBe('0001-01-01T00:00:00.000000Z');
  });
});
