/** Whether a source keeps the bounds of a request, whether they are inclusive, and how fine they are. */

import type { SourceSettings } from '#bridge/settings/settings.ts';
import type { FeedWindow } from '#client/source-client.ts';
import { addMicros, type Timestamp } from '#contract/timestamp.ts';
import { isKeptToTheMicrosecond, provenBy, secondMicros } from '../range/finer-granularity.ts';
import { coarsestOf } from './probe-granularity.ts';
import type { ProbedPage, ProbeReader, Report } from './probe-reader.ts';

/** So many empty pages of one window are followed. */
const emptyPagesMax = 3;
/** So many requests are left for the questions after this one. */
const requestsReserved = 5;

interface Probed {
  readonly source: Pick<SourceSettings, 'page_size' | 'lateness_seconds'>;
  readonly stamp: Timestamp;
  readonly stamps: readonly Timestamp[];
}

/** Windows show only empty pages, and more follow: they say nothing about their bounds. */
class NothingShown extends Error {}

/**
 * Probes the bounds around the stamp of a record, and returns the granularity in microseconds; undefined where it was not
 * found out, as where pages come out empty: then a second is assumed. A granularity that is taken for finer than it is
 * would lose records.
 */
export async function probeBounds(reader: ProbeReader, probed: Probed, report: Report): Promise<number | undefined> {
  const read = async (at: FeedWindow): Promise<ProbedPage> => {
    if (reader.left() <= requestsReserved) throw new NothingShown();
    let page = await reader.window(at);
    for (let empty = 1; page.records.length === 0 && page.next !== undefined; empty += 1) {
      if (empty > emptyPagesMax || reader.left() <= requestsReserved) throw new NothingShown();
      page = await reader.nextOf(page);
    }
    return page;
  };
  try {
    return await readAround(reader, read, probed, report);
  } catch (error) {
    if (!(error instanceof NothingShown)) throw error;
    report(
      'bounds',
      'note',
      'windows show only empty pages at first, so their bounds cannot be probed: a second is assumed',
    );
    return undefined;
  }
}

async function readAround(
  reader: ProbeReader,
  read: (at: FeedWindow) => Promise<ProbedPage>,
  { source, stamp, stamps }: Probed,
  report: Report,
): Promise<number | undefined> {
  const { page_size: pageSize, lateness_seconds: latenessSeconds } = source;
  const has = (sample: ProbedPage) => sample.times.includes(stamp);
  const later = addMicros(stamp, 2 * 86_400 * secondMicros);
  const earlier = addMicros(stamp, -2 * 86_400 * secondMicros);
  const afterIsKept = !has(await read({ modifiedAfter: later, pageSize }));
  const beforeIsKept = !has(await read({ modifiedBefore: earlier, pageSize }));
  if (!afterIsKept || !beforeIsKept) {
    const ignored = [...(afterIsKept ? [] : ['modified_after']), ...(beforeIsKept ? [] : ['modified_before'])];
    report(
      'bounds',
      'fail',
      `it ignores ${ignored.join(' and ')}: new records cannot be distinguished from those that were read`,
    );
    return undefined;
  }
  const at = await read({ modifiedAfter: stamp, modifiedBefore: stamp, pageSize });
  const around = await read({ modifiedAfter: addMicros(stamp, -1), modifiedBefore: addMicros(stamp, 1), pageSize });
  const beyond = await read({ modifiedAfter: addMicros(stamp, 1), modifiedBefore: addMicros(stamp, 2), pageSize });
  const provenMicros = provenBy(stamp);
  // Bounds are kept to the microsecond only if moving them by one microsecond makes the difference.
  const isExact = isKeptToTheMicrosecond({ around: around.times, beyond: beyond.times }, stamp);
  const granularityMicros =
    isExact && provenMicros < secondMicros ? provenMicros : await coarsestOf(read, new Set(stamps), pageSize);
  if (granularityMicros === undefined) {
    report('bounds', 'ok', 'the answers do not show how fine they are: a second is assumed');
    return undefined;
  }
  const bounds = has(at) ? 'inclusive' : 'exclusive';
  const fine = granularityMicros < 1_000 ? 'to the microsecond' : `to ${granularityMicros / secondMicros} s`;
  const isSafe = granularityMicros <= latenessSeconds * secondMicros;
  report(
    'bounds',
    isSafe ? 'ok' : 'fail',
    isSafe
      ? `${bounds}, kept ${fine}`
      : `kept ${fine} only, which is more than lateness_seconds (${latenessSeconds}): ` +
          `set it to ${granularityMicros / secondMicros} or more`,
  );
  const crowd = await read({
    modifiedAfter: addMicros(stamp, -granularityMicros),
    modifiedBefore: addMicros(stamp, granularityMicros),
    pageSize,
  });
  if (crowd.next !== undefined) probeCrowdedStamp(crowd, await reader.nextOf(crowd), stamp, report);
  return granularityMicros;
}

/** Where one stamp holds more records than a page, its pages must be followed: finds out whether they can be. */
function probeCrowdedStamp(first: ProbedPage, second: ProbedPage, stamp: Timestamp, report: Report): void {
  const known = new Set(first.ids);
  const ok = second.ids.some((id) => !known.has(id));
  const what = `more than ${first.records.length} records have the time ${stamp} or one close to it`;
  report(
    'crowded times',
    ok ? 'ok' : 'fail',
    ok
      ? `${what}: they are read in passes until nothing new appears`
      : `${what}, and the page after the first one shows no others: ` +
          'set page_size so high that they fit into one page',
  );
}
