/** Whether the order of commits that a feed declares can be trusted. */

import { disorderIn, placeIn } from '../commit-order.ts';
import type { FollowedPages } from './probe-pages.ts';
import type { Report } from './probe-reader.ts';

/**
 * Reports whether the order of commits that the feed declares is proved, by the same rules as the pull: `next` names no
 * place by number, and stamps strictly increase. Reports nothing for a feed that does not declare it.
 */
export function probeDeclaredOrder({ pages }: FollowedPages, report: Report): void {
  const [first] = pages;
  if (!first.commitOrdered) return;
  const name = 'declared order';
  const stamps = pages.flatMap(({ times }) => times);
  const why = placeOf(pages) ?? disorderIn(stamps, undefined);
  if (why !== undefined)
    report(
      name,
      'note',
      `it declares the order of commits, but ${why}: the declaration is not trusted, and the feed is read in windows of ` +
        'time. New records come as soon, late ones after lateness_seconds, with a few more requests',
    );
  else if (first.next === undefined)
    report(name, 'ok', 'it declares the order of commits; too few records show yet whether it keeps it');
  else
    report(
      name,
      'ok',
      `kept on the first ${stamps.length} records, with a cursor: the feed is read by following its pages, ` +
        'without a delay and with the fewest requests',
    );
}

function placeOf(pages: FollowedPages['pages']): string | undefined {
  let shown = 0;
  for (const { next, records } of pages) {
    shown += records.length;
    const place = placeIn(next, shown);
    if (place !== undefined) return place;
  }
  return undefined;
}
