import * as fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { createMemoryQuotas } from '#client/memory-quotas.ts';
import type { Bucket, Quotas } from '#client/quotas.ts';
import type { Limit } from '#contract/limits.ts';
import type { Clock } from '#platform/clock.ts';
import { AppError } from '#platform/errors.ts';
import { testClock } from '../bridge/parts.ts';

const bucket = 'feeds.awards';
const minuteMs = 60_000;
const dayMs = 86_400_000;
/** A window is counted in 120 slots: a request counts for up to one of them longer. */
const burstSlotMs = minuteMs / 120;
const daySlotMs = dayMs / 120;

function limitOf(burst: number, sustained = 100_000): () => Limit {
  return () => ({ burst: { requests: burst, seconds: 60 }, sustained: { requests: sustained, seconds: 86_400 } });
}

/** A clock that stands still until a test moves it; a sleep throws WaitNeeded. */
class WaitNeeded extends Error {
  readonly ms: number;
  constructor(ms: number) {
    super('a wait');
    this.ms = ms;
  }
}

function stillClock(startMs = Date.UTC(2030, 0, 1)) {
  let nowMs = startMs;
  const clock: Clock = { nowMs: () => nowMs, sleep: (ms) => Promise.reject(new WaitNeeded(ms)) };
  return Object.assign(clock, {
    advance: (ms: number) => {
      nowMs += ms;
    },
  });
}

/** How long the request would have to wait, by a sleep or by an error; 0 when it was let through. */
async function waitOf(quotas: Quotas, of: Bucket = bucket): Promise<number> {
  try {
    await (await quotas.take(of)).answered();
    return 0;
  } catch (error) {
    if (error instanceof WaitNeeded) return error.ms;
    if (error instanceof AppError && error.code === 'too-many' && error.recovery.do === 'retry')
      return error.recovery.afterMs ?? 0;
    throw error;
  }
}

/** Takes until a wait is needed, at most `most` times; returns how many were let through. */
async function takeAll(quotas: Quotas, most: number): Promise<number> {
  for (let count = 0; count < most; count += 1) if ((await waitOf(quotas)) > 0) return count;
  return most;
}

describe('a limit', () => {
  test('lets through as many requests as the window allows, and the next when the first has left it', async () => {
    const clock = stillClock();
    const quotas = createMemoryQuotas(clock, limitOf(3));
    expect(await takeAll(quotas, 10)).toBe(3);
    const waitMs = await waitOf(quotas);
    expect(waitMs).toBeGreaterThanOrEqual(minuteMs);
    expect(waitMs).toBeLessThanOrEqual(minuteMs + burstSlotMs);
    clock.advance(waitMs - 1);
    expect(await waitOf(quotas)).toBe(1);
    clock.advance(1);
    expect(await waitOf(quotas)).toBe(0);
  });

  test('that is used up rejects with too-many, the kind and the time', async () => {
    const quotas = createMemoryQuotas(testClock(), limitOf(3));
    await takeAll(quotas, 3);
    await expect(quotas.take(bucket)).rejects.toMatchObject({
      code: 'too-many',
      recovery: { do: 'retry' },
      publicMessage: expect.stringMatching(/kind feeds\.awards is sent for the next 6[01] s: the limit .* is used up/),
    });
  });

  test('that is free again within five seconds is waited for', async () => {
    const clock = testClock();
    const quotas = createMemoryQuotas(clock, limitOf(3));
    await takeAll(quotas, 3);
    clock.advance(minuteMs - 4_000);
    await quotas.take(bucket);
    expect(clock.slept).toHaveLength(1);
    expect(clock.slept[0]).toBeLessThanOrEqual(4_000 + burstSlotMs);
  });

  test('of each feed is separate', async () => {
    const quotas = createMemoryQuotas(stillClock(), limitOf(3));
    await takeAll(quotas, 3);
    expect(await waitOf(quotas)).toBeGreaterThan(0);
    expect([await waitOf(quotas, 'feeds.latest-bids'), await waitOf(quotas, 'suppliers')]).toEqual([0, 0]);
  });

  test('of the day is kept although that of the minute is free', async () => {
    const clock = stillClock();
    const quotas = createMemoryQuotas(clock, limitOf(10, 12));
    await takeAll(quotas, 10);
    clock.advance(2 * minuteMs);
    expect(await takeAll(quotas, 10)).toBe(2);
    expect(await waitOf(quotas)).toBeGreaterThan(dayMs - 3 * minuteMs);
    clock.advance(dayMs + daySlotMs);
    expect(await waitOf(quotas)).toBe(0);
  });

  test('that was used up while the clock was ahead is free again when the clock is right', async () => {
    const clock = stillClock();
    const quotas = createMemoryQuotas(clock, limitOf(3));
    clock.advance(365 * dayMs);
    await takeAll(quotas, 3);
    clock.advance(-365 * dayMs);
    expect(await waitOf(quotas)).toBe(0);
  });

  test('says how much of the minute is left; there is nothing to say without a limit', async () => {
    const clock = stillClock();
    const quotas = createMemoryQuotas(clock, limitOf(3));
    await takeAll(quotas, 2);
    expect([quotas.burstLeft(bucket), quotas.burstLeft('feeds.latest-bids')]).toEqual([1, 3]);
    const unlimited = createMemoryQuotas(clock, () => undefined);
    expect([await takeAll(unlimited, 200), unlimited.burstLeft(bucket)]).toEqual([200, undefined]);
  });

  test("is never exceeded in the service's own window, and holds nothing back without need", async () => {
    const gap = fc.oneof(
      { weight: 6, arbitrary: fc.nat(3_000) },
      { weight: 3, arbitrary: fc.integer({ min: 3_000, max: 70_000 }) },
      { weight: 1, arbitrary: fc.integer({ min: 70_000, max: 40_000_000 }) },
    );
    await fc.assert(
      fc.asyncProperty(
        fc.array(fc.record({ gap, waits: fc.boolean(), background: fc.boolean() }), { minLength: 20, maxLength: 80 }),
        async (steps) => {
          const clock = stillClock();
          const quotas = createMemoryQuotas(clock, limitOf(4, 30));
          const sent: number[] = [];
          const sentWithin = (ms: number) => sent.filter((at) => at > clock.nowMs() - ms).length;
          for (const step of steps) {
            clock.advance(step.gap);
            const of = step.background ? quotas.background : quotas;
            const waitMs = await waitOf(of);
            const [burst, sustained] = step.background ? [3, 22] : [4, 30];
            const isNeeded = sentWithin(minuteMs + burstSlotMs) >= burst || sentWithin(dayMs + daySlotMs) >= sustained;
            expect(waitMs === 0 || isNeeded).toBe(true);
            clock.advance(step.waits ? waitMs : 0);
            const isSent = waitMs === 0 || (step.waits && (await waitOf(of)) === 0);
            expect(isSent).toBe(waitMs === 0 || step.waits);
            if (isSent) sent.push(clock.nowMs());
            expect(sentWithin(minuteMs)).toBeLessThanOrEqual(4);
            expect(sentWithin(dayMs)).toBeLessThanOrEqual(30);
          }
        },
      ),
    );
  });
});

describe('background work', () => {
  test('leaves a quarter of the limit to the others', async () => {
    const quotas = createMemoryQuotas(stillClock(), limitOf(8));
    expect(await takeAll(quotas.background, 8)).toBe(6);
    expect(await takeAll(quotas, 8)).toBe(2);
  });

  test('gets a fifth of the minute where the others would use all of it, and no more', async () => {
    const clock = stillClock();
    const quotas = createMemoryQuotas(clock, limitOf(30));
    const used = { background: 0, others: 0 };
    // Spread over the minute, so that at no time many are free.
    for (let second = 0; second < 660; second += 1) {
      clock.advance(1_000);
      if (second >= 60) used.background += await takeAll(quotas.background, 5);
      used.others += await takeAll(quotas, second < 60 ? second % 2 : 30);
    }
    // One of thirty in each ten seconds, for ten minutes.
    expect(used.background).toBeGreaterThanOrEqual(50);
    expect(used.background).toBeLessThanOrEqual(61);
    expect(used.others).toBeGreaterThanOrEqual(4 * used.background);
  });
});

describe('a refusal by the service', () => {
  test('closes its bucket to all for as long as the service asks, also without a limit', async () => {
    for (const limit of [limitOf(1_000), () => undefined]) {
      const clock = stillClock();
      const quotas = createMemoryQuotas(clock, limit);
      expect(await (await quotas.take(bucket)).refused(90_000)).toBe(90_000);
      expect([await waitOf(quotas), await waitOf(quotas.background)]).toEqual([90_000, 90_000]);
      expect(await waitOf(quotas, 'feeds.latest-bids')).toBe(0);
      await expect(quotas.take(bucket)).rejects.toMatchObject({
        publicMessage: expect.stringMatching(/next 90 s: the service has refused a request \(429\)/),
      });
      clock.advance(90_000);
      expect(await waitOf(quotas)).toBe(0);
    }
  });

  test.each([
    [
      'without a time pauses for longer each time, up to a quarter of an hour',
      undefined,
      [10, 20, 40, 80, 160, 320, 640, 900],
    ],
    ['that asks for no wait at all is obeyed only once', 0, [0, 10, 20, 40, 80, 160, 320, 640]],
  ])('%s; an answer ends the row', async (_title, asked, expected) => {
    const clock = stillClock();
    const quotas = createMemoryQuotas(clock, limitOf(1_000));
    const waits: number[] = [];
    for (const _ of expected) {
      clock.advance(1);
      const waitMs = await (await quotas.take(bucket)).refused(asked);
      waits.push(waitMs / 1000);
      clock.advance(waitMs);
    }
    expect(waits).toEqual(expected);
    clock.advance(1);
    await (await quotas.take(bucket)).answered();
    expect(await (await quotas.take(bucket)).refused(asked)).toBe((expected[0] ?? 0) * 1000);
  });

  test('of several requests that were under way together counts as one', async () => {
    const clock = stillClock();
    const quotas = createMemoryQuotas(clock, limitOf(1_000));
    const uses = [await quotas.take(bucket), await quotas.take(bucket), await quotas.take(bucket)];
    clock.advance(100);
    const waits: number[] = [];
    for (const use of uses) waits.push(await use.refused(undefined));
    expect(waits).toEqual([10_000, 10_000, 10_000]);
  });

  test('is not ended by the answer to a request that was under way before it', async () => {
    const quotas = createMemoryQuotas(stillClock(), limitOf(1_000));
    const [refused, answered] = [await quotas.take(bucket), await quotas.take(bucket)];
    await refused.refused(30_000);
    await answered.answered();
    expect(await waitOf(quotas)).toBe(30_000);
  });

  test('pauses no longer than it asked where the clock is set back', async () => {
    const clock = stillClock();
    const quotas = createMemoryQuotas(clock, limitOf(1_000));
    await (await quotas.take(bucket)).refused(30_000);
    clock.advance(-dayMs);
    expect(await waitOf(quotas)).toBe(30_000);
  });
});
