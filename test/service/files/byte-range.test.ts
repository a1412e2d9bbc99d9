import * as fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { readRange } from '#service/files/byte-range.ts';

describe('the range of a download', () => {
  // From RFC 9110, 14.1.2, with its file of 10,000 bytes.
  test.each([
    ['bytes=0-499', { first: 0, last: 499 }],
    ['bytes=500-999', { first: 500, last: 999 }],
    ['bytes=-500', { first: 9_500, last: 9_999 }],
    ['bytes=9500-', { first: 9_500, last: 9_999 }],
    ['bytes=9999-20000', { first: 9_999, last: 9_999 }],
    ['BYTES=0-0', { first: 0, last: 0 }],
    ['bytes=10000-', 'beyond'],
    ['bytes=-0', 'beyond'],
    ['bytes=0-0,-1', undefined],
    ['bytes=500-499', undefined],
    ['items=0-5', undefined],
    [undefined, undefined],
  ])('%s is read as the standard says', (header, part) => {
    expect(readRange(header, 10_000)).toEqual(part);
  });

  test('whatever is sent, the part lies within the file', () => {
    const number = fc.oneof(fc.nat(20), fc.bigInt({ min: 0n, max: 10n ** 400n }));
    const end = fc.oneof(fc.constant(''), number.map(String));
    const headers = fc.oneof(
      fc.string(),
      fc.tuple(end, end).map(([first, last]) => `bytes=${first}-${last}`),
    );
    fc.assert(
      fc.property(headers, fc.nat(12), (header, size) => {
        const part = readRange(header, size);
        if (part === undefined || part === 'beyond') return;
        expect(part.first).toBeGreaterThanOrEqual(0);
        expect(part.last).toBeGreaterThanOrEqual(part.first);
        expect(part.last).toBeLessThan(size);
      }),
    );
  });
});
