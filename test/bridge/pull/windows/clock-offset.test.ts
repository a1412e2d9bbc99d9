import * as fc from 'fast-check';
import { expect, test } from 'vitest';
import type { OffsetSamples } from '#bridge/pull/feed/offset-samples.ts';
import { keepSamples, offsetMsOf } from '#bridge/pull/windows/clock-offset.ts';

const exact = { leastMs: 0, mostMs: 0 };
const rounding = { roundingMs: 1_000 };
/** Samples of a source whose `Date` agrees with our clock: a record that is stamped 5 s ahead of it has the age -5 s. */
const samples = (...aheadMs: number[]): OffsetSamples => ({ agesMs: aheadMs.map((ms) => -ms), difference: exact });
const repeat = (count: number, aheadMs: number) => Array.from({ length: count }, () => samples(aheadMs));

test('the offset is the 24th highest of the last 60 samples, less the rounding and two seconds', () => {
  const all = Array.from({ length: 60 }, (_, index) => samples(index * 1_000));
  // 59 s, 58 s, … the 24th is 36 s.
  expect(offsetMsOf(all, exact, rounding)).toBe(33_000);
  expect(offsetMsOf([...repeat(100, 250_000), ...all], exact, rounding)).toBe(33_000);
});

test('with fewer than 60 samples, or samples behind `Date`, the offset is 0; it is 300 s at most', () => {
  expect(offsetMsOf(repeat(59, 100_000), exact, rounding)).toBe(0);
  expect(offsetMsOf(repeat(60, -100_000), exact, rounding)).toBe(0);
  expect(offsetMsOf(repeat(60, 4_000_000), exact, rounding)).toBe(300_000);
});

test('23 records of 60 that are dated in the future do not move the offset', () => {
  expect(offsetMsOf([...repeat(37, 0), ...repeat(23, 200_000)], exact, rounding)).toBe(0);
  expect(offsetMsOf([...repeat(36, 0), ...repeat(24, 200_000)], exact, rounding)).toBe(197_000);
});

test('samples of before a clock was set are dropped, and no more are kept than count', () => {
  const before = { agesMs: [-60_000], difference: { leastMs: 119_000, mostMs: 120_000 } };
  expect(keepSamples([before, before], { leastMs: 118_000, mostMs: 119_500 })).toHaveLength(2);
  expect(keepSamples([before, before], { leastMs: 0, mostMs: 1_000 })).toEqual([]);
  expect(keepSamples([before], { leastMs: 123_000, mostMs: 124_000 })).toEqual([]);
  // A slow answer leaves open how far the clocks differ: it proves no step.
  expect(keepSamples([before], { leastMs: 0, mostMs: 130_000 })).toEqual([before]);
  expect(keepSamples([samples(), ...repeat(100, 0)], exact)).toHaveLength(60);
});

/** A record that is new in an answer: how old it is by the clock of the stamps; negative when dated in the future. */
const newRecord = fc.oneof(
  { weight: 3, arbitrary: fc.record({ ageMs: fc.nat(60_000), future: fc.constant(false) }) },
  { weight: 1, arbitrary: fc.record({ ageMs: fc.integer({ min: -400_000, max: -1 }), future: fc.constant(true) }) },
);
const millis = (max: number) => fc.integer({ min: -max, max });

test('whatever the clocks show, the offset is never more than the true one while most records are not dated ahead', () => {
  let learnt = 0;
  fc.assert(
    fc.property(
      fc.record({
        trueOffsetMs: millis(200_000),
        oursAheadMs: millis(3_600_000),
        scans: fc.array(
          fc.record({
            records: fc.array(newRecord, { minLength: 1, maxLength: 5 }),
            roundedUpMs: fc.nat(1_000),
            /** By how much a clock is adjusted before the scan; it may be noticed or not. */
            oursStepsMs: fc.oneof({ weight: 60, arbitrary: fc.constant(0) }, millis(5_000)),
            dateStepsMs: fc.oneof({ weight: 60, arbitrary: fc.constant(0) }, millis(5_000)),
            sentEarlierMs: fc.nat(2_000),
            answeredLaterMs: fc.nat(2_000),
          }),
          { minLength: 30, maxLength: 60, size: 'max' },
        ),
      }),
      ({ trueOffsetMs, oursAheadMs, scans }) => {
        let offsetMs = trueOffsetMs;
        let aheadMs = oursAheadMs;
        let kept: OffsetSamples[] = [];
        const future = new Map<OffsetSamples, number>();
        for (const scan of scans) {
          offsetMs -= scan.dateStepsMs;
          aheadMs += scan.oursStepsMs - scan.dateStepsMs;
          const difference = {
            leastMs: aheadMs - scan.sentEarlierMs,
            mostMs: aheadMs + scan.answeredLaterMs,
          };
          // By our clock the stamps' clock is `aheadMs - offsetMs` behind.
          const agesMs = scan.records.map(({ ageMs }) => ageMs + aheadMs - offsetMs - scan.roundedUpMs);
          const taken = { agesMs, difference };
          future.set(taken, scan.records.filter((record) => record.future).length);
          kept = keepSamples([...kept, taken], difference);
          if (kept.reduce((sum, each) => sum + (future.get(each) ?? 0), 0) >= 24) continue;
          const found = offsetMsOf(kept, difference, rounding);
          if (found > 0) learnt += 1;
          expect(found).toBeLessThanOrEqual(Math.max(0, offsetMs));
        }
      },
    ),
    { numRuns: 500 },
  );
  expect(learnt, 'offsets that were learnt').toBeGreaterThan(100);
});
