import * as fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { readRateLimitMs, readRetryAfterMs } from '#platform/retry-after.ts';

const nowMs = Date.UTC(2030, 0, 1, 12, 0, 0);
const dayMs = 86_400_000;

describe('Retry-After (RFC 9110, 10.2.3)', () => {
  test.each([
    ['0', 0],
    ['5', 5_000],
    ['120', 120_000],
    [' 120 ', 120_000],
    ['Tue, 01 Jan 2030 12:00:30 GMT', 30_000],
    ['Tue, 01 Jan 2030 11:59:00 GMT', 0],
    ['999999999', dayMs],
    ['99999999999999999999', dayMs],
    ['Wed, 01 Jan 2031 12:00:00 GMT', dayMs],
  ])('%j is %i ms', (header, ms) => {
    expect(readRetryAfterMs(header, nowMs)).toBe(ms);
  });

  test.each([undefined, '', 'soon', '-5', '1.5', '5s', '0x10', '1e3', 'NaN'])('%j says nothing', (header) => {
    expect(readRetryAfterMs(header, nowMs)).toBeUndefined();
  });

  test('for any header there is no wait, or a whole number of milliseconds up to a day', () => {
    fc.assert(
      fc.property(fc.oneof(fc.string(), fc.integer().map(String), fc.date().map(String)), (header) => {
        const ms = readRetryAfterMs(header, nowMs);
        expect(ms === undefined || (Number.isInteger(ms) && ms >= 0 && ms <= dayMs)).toBe(true);
      }),
    );
  });
});

describe('the headers of limits', () => {
  test.each([
    [{ ratelimit: '"default";r=0;t=30' }, 30_000],
    // The other limit is not spent.
    [{ ratelimit: '"burst";r=0;t=30, "sustained";r=12;t=3600' }, 30_000],
    [{ ratelimit: '"burst";r=0;t=30, "sustained"; r=0; t=60' }, 60_000],
    [{ 'ratelimit-reset': '30' }, 30_000],
    [{ ratelimit: '"default";r=0;t=30', 'ratelimit-reset': '50' }, 30_000],
  ])('%j is a wait', (headers, ms) => {
    expect(readRateLimitMs(headers)).toBe(ms);
  });

  test.each([
    [{}],
    [{ ratelimit: '"default";r=5;t=30' }],
    [{ ratelimit: 'soon' }],
    [{ 'ratelimit-reset': '-1' }],
    [{ 'ratelimit-reset': 'Tue, 01 Jan 2030 12:00:30 GMT' }],
    // The second of a date, as some services send it.
    [{ 'ratelimit-reset': '1893499230' }],
  ])('%j says nothing', (headers) => {
    expect(readRateLimitMs(headers)).toBeUndefined();
  });
});
