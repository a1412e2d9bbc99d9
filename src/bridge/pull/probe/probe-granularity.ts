/** To which fraction of a second a source keeps its bounds, around the stamps of records that it has shown. */
import type { FeedWindow } from '#client/source-client.ts';
import { addMicros, microsFromTimestamp, type Timestamp, timestampFromMicros } from '#contract/timestamp.ts';
import { secondMicros } from '../range/finer-granularity.ts';
import type { ProbedPage } from './probe-reader.ts';

/**
 * Returns the coarsest granularity that one of the stamps shows: the end of a step may be the end of a coarser step,
 * too. Undefined where a stamp shows none.
 */
export async function coarsestOf(
  read: (at: FeedWindow) => Promise<ProbedPage>,
  stamps: ReadonlySet<Timestamp>,
  pageSize: number,
): Promise<number | undefined> {
  let found: number | undefined;
  for (const stamp of stamps) {
    const step = await stepAround(read, stamp, pageSize);
    if (step === undefined) return undefined;
    found = Math.max(found ?? 0, step);
  }
  return found;
}

/**
 * Returns the step that bounds are truncated to, in microseconds: a second, a minute, an hour or a day. The end of the
 * step in which the stamp lies shows the record when it is the upper bound, and hides it when it is the lower one.
 * Undefined where no step does.
 */
async function stepAround(
  read: (at: FeedWindow) => Promise<ProbedPage>,
  stamp: Timestamp,
  pageSize: number,
): Promise<number | undefined> {
  for (const seconds of [1, 60, 3_600, 86_400]) {
    const step = seconds * secondMicros;
    const end = timestampFromMicros(Math.floor(microsFromTimestamp(stamp) / step) * step + step);
    const day = 86_400 * secondMicros;
    const below = await read({ modifiedAfter: addMicros(stamp, -2 * day), modifiedBefore: end, pageSize });
    const above = await read({ modifiedAfter: end, modifiedBefore: addMicros(end, 2 * day), pageSize });
    if (below.times.includes(stamp) && !above.times.includes(stamp)) return step;
  }
  return undefined;
}
