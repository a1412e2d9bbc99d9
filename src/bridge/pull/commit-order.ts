/**
 * Whether a feed that declares the order of commits (`Feed-Order: commit`) may be read by following it. A declaration
 * alone proves nothing: a feed that pages by number skips records that move, whatever it declares. So the order is
 * proved once, by two more requests, and every later page is watched. Example, with A 10:01, B 10:02, C 10:03, D 10:04:
 *
 * | asked                  | answer              | what it says                                               |
 * |------------------------|---------------------|------------------------------------------------------------|
 * | the first page         | A B C D             | each stamp is later than the one before                    |
 * | the same, 2 at once    | A B, next: cursor=B | the same order; `next` names no page number and no offset  |
 * | that next page         | C D                 | the order goes on where it stopped: proved                 |
 *
 * A feed that shows fewer than two records proves nothing yet, and is read as any other feed. One that refuses its own
 * next page twice cannot be followed.
 */
import { readVersionKey, type VersionKey, withoutTime } from '#bridge/mirror/read-version.ts';
import type { FeedName } from '#contract/feed.ts';
import { addMicros, type Timestamp } from '#contract/timestamp.ts';
import { AppError } from '#platform/errors.ts';
import type { FeedReader, PulledPage, ReadPosition } from './feed/feed-reader.ts';
import type { Bounds } from './feed/time-range.ts';
import { isRefusal } from './range/range-types.ts';

/** Undefined while nothing is decided. */
export type OrderVerdict = { readonly isProved: true } | { readonly isProved: false; readonly why: string } | undefined;

/** The most records that are read again. */
const recordsMax = 100;

/** Decides by the first page of a read, which began at `from`, and by two more requests. Rejects as the reader does. */
export async function proveOrder(
  reader: FeedReader,
  { from, page, feed }: { from: Bounds; page: PulledPage; feed: FeedName },
): Promise<OrderVerdict> {
  const first = keysOf(page, feed);
  const disorder = disorderIn(stampsOf(first), undefined) ?? placeIn(page.next, first.length);
  if (disorder !== undefined) return { isProved: false, why: disorder };
  const half = Math.min(Math.floor(first.length / 2), recordsMax / 2);
  if (half === 0) return undefined;
  const reading = async () => {
    const again = await readOrRefusal(reader, { ...from, pageSize: half });
    if (again instanceof AppError || again.next === undefined) return undefined;
    return { again, rest: await readOrRefusal(reader, { next: again.next }) };
  };
  const once = await reading();
  const read = once?.rest instanceof AppError ? await reading() : once;
  // A service that ignores or refuses the page size shows no second page here; the pages of a longer read will decide.
  if (read === undefined) return undefined;
  const { again, rest } = read;
  if (rest instanceof AppError) return { isProved: false, why: `its next page is refused (${rest.publicMessage})` };
  const second = [...keysOf(again, feed), ...keysOf(rest, feed)];
  const place = placeIn(again.next, again.records.length) ?? placeIn(rest.next, second.length);
  const why = place ?? disorderIn(stampsOf(second), undefined) ?? differenceOf(first, second);
  if (why !== undefined) return { isProved: false, why };
  const skipped = skippedOf(first, second);
  if (skipped === undefined) return { isProved: true };
  // A record that the second reading lacks has changed since, and is shown later; or the pages have skipped it.
  const around = { after: addMicros(skipped.modified, -1), before: addMicros(skipped.modified, 1) };
  const now = await reader.read({ ...around, pageSize: half });
  return keysOf(now, feed).some(({ id, modified }) => id === skipped.id && modified === skipped.modified)
    ? { isProved: false, why: `its pages have skipped the record ${skipped.id} of ${skipped.modified}` }
    : { isProved: true };
}

async function readOrRefusal(reader: FeedReader, at: ReadPosition): Promise<PulledPage | AppError> {
  try {
    return await reader.read(at);
  } catch (error) {
    if (isRefusal(error)) return error;
    throw error;
  }
}

function keysOf({ records }: PulledPage, feed: FeedName): VersionKey[] {
  return records.map((record, index) => readVersionKey(record, feed, index));
}

function stampsOf(keys: readonly VersionKey[]): Timestamp[] {
  return keys.map(({ modified }) => modified);
}

/**
 * Says where the stamps do not increase; undefined when they do. The record that was shown last before may be shown
 * once more, as the bounds may be inclusive.
 */
export function disorderIn(stamps: readonly Timestamp[], before: Timestamp | undefined): string | undefined {
  let last = before;
  for (const [index, modified] of stamps.entries()) {
    if (modified === withoutTime) return 'a record has no time';
    const isRepeated = index === 0 && modified === before;
    if (last !== undefined && modified <= last && !isRepeated)
      return modified === last ? `two records have the time ${modified}` : `${modified} comes after ${last}`;
    last = modified;
  }
  return undefined;
}

const placeNames = /^(page|page_?(number|no|index|num)|p|offset|skip|start|start_?(index|at)|from)$/i;
const placeWords = /"?(page|page_?(number|no|index)|offset|skip|start)"?\s*[:=]/i;

/**
 * Says which member of `next` names a place in the feed, by number, instead of a record; undefined when none does.
 * `shown` is the number of records up to this page: a cursor that is this number counts records.
 */
export function placeIn(next: string | undefined, shown: number): string | undefined {
  for (const [name, value] of new URLSearchParams(next)) {
    if (placeNames.test(name)) return `it pages by number ("${name}"), so records that move may be skipped`;
    if (/cursor|token|continu|scroll/i.test(name) && namesPlace(value, shown))
      return `its cursor is a number of a page or of records ("${name}"), so records that move may be skipped`;
  }
  return undefined;
}

/** A number that counts pages or records, or a text that names a page or an offset; encoded or not. */
function namesPlace(value: string, shown: number): boolean {
  return [value, Buffer.from(value, 'base64url').toString('latin1')].some((text) => {
    const number = /^\d{1,9}$/.test(text) ? Number(text) : undefined;
    return number === undefined ? placeWords.test(text) : number <= 10 || number === shown || number === shown + 1;
  });
}

/** Says where the second reading shows a record within the time of the first one that the first one did not show. */
function differenceOf(first: readonly VersionKey[], second: readonly VersionKey[]): string | undefined {
  const last = first.at(-1)?.modified ?? '';
  const shown = new Set(first.map(({ id, modified }) => `${id} ${modified}`));
  const other = second.find(({ id, modified }) => modified <= last && !shown.has(`${id} ${modified}`));
  return other === undefined
    ? undefined
    : `read again, it shows the record ${other.id} of ${other.modified}, which it did not show before`;
}

/** The first record of the first reading that the second one should have shown, by its time, and did not. */
function skippedOf(first: readonly VersionKey[], second: readonly VersionKey[]): VersionKey | undefined {
  const last = second.at(-1)?.modified ?? '';
  const shown = new Set(second.map(({ id, modified }) => `${id} ${modified}`));
  return first.find(({ id, modified }) => modified <= last && !shown.has(`${id} ${modified}`));
}

/** The feed has broken the order that it declares: nothing that it showed counts as complete. */
export class OrderBroken extends Error {
  readonly why: string;

  constructor(why: string) {
    super(`The feed declares the order of commits and does not keep it: ${why}.`);
    this.why = why;
    this.name = 'OrderBroken';
  }
}
