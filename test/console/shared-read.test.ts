import { describe, expect, test } from 'vitest';
import { shareRead } from '#console/shared-read.ts';
import { noStatus as nothing } from '../bridge/operate/status/statuses.ts';
import { testClock } from '../bridge/parts.ts';

describe('the status', () => {
  test('is read once for all viewers, and again when it is no longer fresh', async () => {
    const clock = testClock();
    let reads = 0;
    const status = shareRead(async () => {
      reads += 1;
      return nothing;
    }, clock);
    await Promise.all([status.read(), status.read()]);
    clock.advance(499);
    await status.read();
    expect(reads).toBe(1);
    clock.advance(2);
    await status.read();
    expect(reads).toBe(2);
  });

  test('that took long to read is kept ten times as long', async () => {
    const clock = testClock();
    let reads = 0;
    const status = shareRead(async () => {
      reads += 1;
      clock.advance(3_000);
      return nothing;
    }, clock);
    await status.read();
    clock.advance(29_999);
    await status.read();
    expect(reads).toBe(1);
    clock.advance(2);
    await status.read();
    expect(reads).toBe(2);
  });

  test('is read again once it was forgotten, also while an older read goes on', async () => {
    const clock = testClock();
    const reads: ((status: typeof nothing) => void)[] = [];
    const status = shareRead(() => new Promise((resolve) => reads.push(resolve)), clock);
    const [older, newer] = [{ ...nothing }, { ...nothing }];
    const first = status.read();
    status.forget();
    const second = status.read();
    reads[1]?.(newer);
    expect(await second).toBe(newer);
    reads[0]?.(older);
    expect(await first).toBe(older);
    expect(await status.read()).toBe(newer);
    expect(reads).toHaveLength(2);
  });

  test('that could not be read is read again by the next request', async () => {
    let reads = 0;
    const status = shareRead(async () => {
      reads += 1;
      if (reads === 1) throw new Error('the database is away');
      return nothing;
    }, testClock());
    await expect(status.read()).rejects.toThrow('away');
    expect(await status.read()).toEqual(nothing);
  });
});
