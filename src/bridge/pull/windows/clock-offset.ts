/**
 * By how much the clock that stamps the records is ahead of the source's `Date`. A proxy may write `Date` by a clock of
 * its own: if that is 120 s behind, so is the upper bound, and every record that is committed late comes 120 s later.
 *
 * A record was stamped before an answer showed it for the first time. So its stamp less the time of that answer by
 * `Date` is never more than the offset; it is less by the record's age. Only a record that is dated in the future shows
 * more. Example: `Date` is 120 s behind the stamps, and the feed is read every 15 s.
 *
 * | new records                          | sample: stamp less `Date`, less 3 s of uncertainty |
 * |--------------------------------------|----------------------------------------------------|
 * | 40, read soon after they were stamped | 100 s to 115 s                                    |
 * | 16, committed late                   | 40 s to 70 s                                       |
 * | 4, dated 100 s ahead                 | 200 s to 215 s                                     |
 * | 1, dated a day ahead                 | none: the stamp is not credible                    |
 *
 * Of the last 60 samples the 24th highest is the offset, here one of 100 s to 115 s, and never more than 300 s. So it is
 * too high only where 24 of the last 60 new records were dated in the future. One such record does not move it, nor do
 * several; an import that stamps hundreds at once counts as five at most. Records that the window scan finds are samples
 * as well: a record that is dated in the future may hide newer ones from the live read, but not from the scan.
 *
 * A sample is made of two differences that our own clock measures: how long after its stamp the record was stored, and
 * how far `Date` was from our clock. So it does not matter what our clock shows. Where it is set, or `Date` is, the
 * second difference changes, and the samples of before are dropped. With fewer than 60 samples the offset is 0. It is
 * never below 0: where `Date` is ahead of the stamps, our own clock and the first-seen bound limit the scan.
 */
import type { ClockDifference } from '#client/read-feed.ts';
import type { OffsetSamples } from '../feed/offset-samples.ts';

const samplesKept = 60;
/** The offset is the sample at this place, counted from the highest. */
const place = 24;
const offsetMostMs = 300_000;
/** The clocks of our machines may differ by this, and `Date` may be adjusted by it. */
const toleranceMs = 2_000;

/** Returns the samples that count from now on: the newest ones, as long as no clock was set since. */
export function keepSamples(samples: readonly OffsetSamples[], now: ClockDifference): OffsetSamples[] {
  const kept: OffsetSamples[] = [];
  let count = 0;
  for (const each of samples.toReversed()) {
    if (count >= samplesKept) break;
    if (each.agesMs.length === 0 || !mayBeEqual(each.difference, now)) continue;
    kept.unshift(each);
    count += each.agesMs.length;
  }
  return kept;
}

function mayBeEqual(one: ClockDifference, other: ClockDifference): boolean {
  return one.leastMs <= other.mostMs + toleranceMs && other.leastMs <= one.mostMs + toleranceMs;
}

/** Returns the offset in milliseconds. `roundingMs` is by how much the source may round a stamp up. */
export function offsetMsOf(
  samples: readonly OffsetSamples[],
  now: ClockDifference,
  { roundingMs }: { roundingMs: number },
): number {
  const newestFirst = samples.toReversed().flatMap(({ agesMs, difference }) => {
    // The smaller difference is safe, whichever of the clocks was adjusted in between.
    const leastMs = Math.min(difference.leastMs, now.leastMs);
    return agesMs.map((ageMs) => leastMs - ageMs);
  });
  if (newestFirst.length < samplesKept) return 0;
  const highestFirst = newestFirst.slice(0, samplesKept).toSorted((a, b) => b - a);
  const offsetMs = (highestFirst[place - 1] ?? 0) - roundingMs - toleranceMs;
  return Math.min(offsetMostMs, Math.max(0, Math.floor(offsetMs)));
}
