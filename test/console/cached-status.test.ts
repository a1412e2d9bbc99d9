import { describe, expect, test } from 'vitest';
import { cacheStatus } from '#console/cached-status.ts';
import { testClock } from '../bridge/parts.ts';
import { noStatus as nothing } from '../bridge/status/statuses.ts';

describe('the status', () => {
  test('is read once for all viewers, and again when it is no longer fresh', async () => {
    const clock = testClock();
    let reads = 0;
    const status = cacheStatus(async () => {
      reads += 1;
      return nothing;
    }, clock);
    await Promise.all([status(), status()]);
    clock.advance(499);
    await status();
    expect(reads).toBe(1);
    clock.advance(2);
    await status();
    expect(reads).toBe(2);
  });

  test('that took long to read is kept ten times as long', async () => {
    const clock = testClock();
    let reads = 0;
    const status = cacheStatus(async () => {
      reads += 1;
      clock.advance(3_000);
      return nothing;
    }, clock);
    await status();
    clock.advance(29_999);
    await status();
    expect(reads).toBe(1);
    clock.advance(2);
    await status();
    expect(reads).toBe(2);
  });

  test('that could not be read is read again by the next request', async () => {
    let reads = 0;
    const status = cacheStatus(async () => {
      reads += 1;
      if (reads === 1) throw new Error('the database is away');
      return nothing;
    }, testClock());
    await expect(status()).rejects.toThrow('away');
    expect(await status()).toEqual(nothing);
  });
});
