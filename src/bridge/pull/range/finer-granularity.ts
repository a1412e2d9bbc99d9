/**
 * Finds out, while a range is read, whether the source keeps its bounds to a finer step than a second. A window is never shorter
 * than the granularity, and asks for as much again at either end: with a granularity of a second the shortest window
 * spans three seconds, and these may hold more than a page. Example, at the record A of 10:00:05.300250:
 *
 * | asked: after .. before              | answer   | what it says                                                |
 * |-------------------------------------|----------|-------------------------------------------------------------|
 * | 10:00:05.300249 .. 10:00:05.300251  | A        | bounds are not cut to seconds or milliseconds: that would    |
 * |                                     |          | leave nothing between them                                  |
 * | 10:00:05.300251 .. 10:00:05.300252  | no A     | nor are they widened: a microsecond decides                 |
 */
import { addMicros, microsFromTimestamp, type Timestamp } from '#contract/timestamp.ts';
import { isTimed, type RangeToRead, type ReadRow } from './range-types.ts';

export const secondMicros = 1_000_000;

/**
 * Returns the granularity that is proven when bounds tell a difference of one microsecond at this stamp: a microsecond,
 * a millisecond or a second. Near the end or the middle of a step, bounds that are truncated or rounded to that step
 * tell such a difference, too: there only a coarser granularity is proven.
 */
export function provenBy(stamp: Timestamp): number {
  const micros = microsFromTimestamp(stamp);
  const isApart = (step: number) => {
    const rest = micros % (step / 2);
    return rest > 1 && rest < step / 2 - 1;
  };
  if (!isApart(secondMicros)) return secondMicros;
  return isApart(1_000) ? 1 : 1_000;
}

/** Whether moving the bounds by one microsecond decides if the source shows this stamp: two requests. */
export function isKeptToTheMicrosecond(
  answers: { readonly around: readonly Timestamp[]; readonly beyond: readonly Timestamp[] },
  stamp: Timestamp,
): boolean {
  return answers.around.includes(stamp) && !answers.beyond.some((time) => time <= stamp);
}

/**
 * Returns the granularity that the source is proved to keep around one of these rows; undefined when none finer than
 * `granularity` is proved. Costs two requests, or none when no row could prove it.
 */
export async function proveFinerGranularity<Row extends ReadRow>(
  range: Pick<RangeToRead<Row>, 'ask' | 'pageSize'>,
  rows: readonly ReadRow[],
  granularity: number,
): Promise<number | undefined> {
  const stamp = rows
    .filter(isTimed)
    .map(({ modified }) => modified)
    .toSorted((a, b) => provenBy(a) - provenBy(b))[0];
  if (stamp === undefined || provenBy(stamp) >= granularity) return undefined;
  const timesBetween = async (after: number, before: number) => {
    const bounds = { after: addMicros(stamp, after), before: addMicros(stamp, before) };
    const { records } = await range.ask({ ...bounds, pageSize: range.pageSize() });
    return records.filter(isTimed).map(({ modified }) => modified);
  };
  const around = await timesBetween(-1, 1);
  if (!around.includes(stamp)) return undefined;
  const beyond = await timesBetween(1, 2);
  return isKeptToTheMicrosecond({ around, beyond }, stamp) ? provenBy(stamp) : undefined;
}
