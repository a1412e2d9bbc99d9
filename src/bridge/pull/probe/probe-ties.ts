/** Whether records of one stamp come in the same order each time: where they do not, pages may skip some of them. */

import { withoutTime } from '#bridge/mirror/read-version.ts';
import type { Timestamp } from '#contract/timestamp.ts';
import { samplePageSize } from './probe-pages.ts';
import type { ProbedPage, ProbeReader, Report } from './probe-reader.ts';

/** Asks for the full page again, and once with another page size. Sends nothing where no two records share a stamp. */
export async function probeTies(reader: ProbeReader, full: ProbedPage, report: Report): Promise<void> {
  const name = 'order of ties';
  const ties = [...tiesOf(full)];
  if (ties.length === 0) {
    report(name, 'ok', `not known: no two of ${full.records.length} records have the same time`);
    return;
  }
  const again = [
    await reader.window({ pageSize: full.requested }),
    // Some services sort by another key when the page size changes.
    await reader.window({ pageSize: Math.max(samplePageSize, full.records.length - 1) }),
  ];
  const unstable = again.flatMap((sample) => {
    const now = tiesOf(sample);
    return ties.filter(([time, ids]) => differs(ids, now.get(time) ?? []));
  });
  const [first] = unstable;
  if (first === undefined)
    report(name, 'ok', `the same in ${again.length + 1} answers, for ${ties.length} times that several records share`);
  else
    report(
      name,
      'note',
      `records of the time ${first[0]} came in another order when they were asked for again, so pages may skip some of ` +
        'them. Where they fill more than a page, they are read in passes until nothing new appears: more requests, no ' +
        'further delay',
    );
}

/** The ids of the records that share a stamp, in the order in which they were shown. */
function tiesOf({ times, ids }: ProbedPage): Map<Timestamp, string[]> {
  const byTime = new Map<Timestamp, string[]>();
  for (const [index, time] of times.entries())
    if (time !== withoutTime) byTime.set(time, [...(byTime.get(time) ?? []), ids[index] ?? '']);
  return new Map([...byTime].filter(([, tied]) => tied.length > 1));
}

/** Whether the ids that both answers show are in another order. */
function differs(before: readonly string[], now: readonly string[]): boolean {
  const common = before.filter((id) => now.includes(id));
  const order = now.filter((id) => common.includes(id));
  return common.some((id, index) => id !== order[index]);
}
