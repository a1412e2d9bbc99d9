/**
 * What version 3 of the generator adds: quirks of the misbehaving source that lost records once. A seed gets one or two
 * of them, as more would hide what each does. A source whose feeds are in commit order keeps that promise; another one
 * may declare it and break it.
 *
 * Left out is what no reader can make up for: a clock that goes back by more than the lateness bound, changes that keep
 * their stamp for longer, members of a record that documents need and that are gone, and records without a time where pages
 * of the size that is asked for cannot be followed.
 */
import type { Quirks } from './hostile-source.ts';
import type { Random } from './random.ts';

type Drawn = Partial<Quirks>;

interface Given {
  readonly quirks: Quirks;
  readonly settings: { readonly latenessS: number };
  readonly story: { readonly chaosMs: number; readonly lots: number };
}

const quirksMost = 2;

export function drawQuirks(random: Random, { quirks, settings, story }: Given): Drawn {
  const later = { changesAfterMs: random.fraction() * story.chaosMs };
  const anyFeed: (() => Drawn)[] = [
    () => ({ newFields: true, ...later }),
    () => ({ pageMaxLater: random.pick([2, 3, 4]), ...later }),
  ];
  const isFutureDated = quirks.futureDated !== undefined && quirks.futureDated > 0;
  const anyOrder: (() => Drawn)[] = [
    () => ({ hiddenRun: random.whole(2, 7) }),
    () => ({ order: random.pick(['descending', 'random']) }),
    () => ({ undated: 0.5, paging: random.pick(['page-number', 'offset']) }),
    // Only an audit finds that a chain of cursors shows records in order, and others late, behind the watermark.
    () => ({
      declaresOrder: true,
      commitOrdered: false,
      paging: random.pick(
        (quirks.lateMs ?? 0) > 0 || isFutureDated ? ['page-number', 'offset'] : ['page-number', 'cursor'],
      ),
    }),
    () => ({ pagingLater: 'page-number', ...later }),
    () => ({ pageFixed: random.pick([3, 20]) }),
    ...(isFutureDated ? [] : onlyPast(random, later)),
    // A stamp at the beginning of its group is that much older than its commit.
    ...(quirks.lateMs === 0 && quirks.lagMs === 0 ? [() => ({ equalStampsMs: settings.latenessS * 300 })] : []),
  ];
  const list = quirks.declaresOrder ? anyFeed : [...anyFeed, ...anyOrder, ...anyOrder];
  const count = random.chance(0.6) ? random.whole(1, quirksMost) : 0;
  const drawn = Object.assign({}, ...Array.from({ length: count }, () => random.pick(list)())) as Drawn;
  const all = { ...quirks, ...drawn };
  const {
    stamps,
    equalStampsMs = 0,
    cursorPages = null,
    boundsInSeconds = false,
    pageMax = 1_000,
    hiddenRun = 0,
    shrinksEvery = null,
  } = all;
  // Where one stamp, or one second of whole bounds, may hold more than the pages that can be read, no request shows all.
  const isSecondCrowded = boundsInSeconds && (pageMax < 1_000 || hiddenRun > 0);
  const isCrowded =
    stamps === 'seconds' ||
    stamps === 'rounded' ||
    equalStampsMs > 0 ||
    isSecondCrowded ||
    // The lots of one event are awarded at one time, and a few pages of a few rows do not show them.
    all.pageMaxLater !== undefined ||
    (cursorPages !== null && cursorPages * pageMax < story.lots) ||
    // Pages of a few rows, of which only the first can be read, do not show a millisecond with the lots of an event.
    (stamps === 'millis' && (shrinksEvery !== null || pageMax < 10));
  // Coarse stamps may be those of records that were read before. Where a chain of cursors shows them in order, only an audit
  // finds that the declared order of commits is not kept.
  const liesInCursors = all.commitOrdered === false && all.paging === 'cursor';
  const isCoarse = stamps === 'seconds' || stamps === 'rounded' || equalStampsMs > 0;
  // Records without a time lie in no window: pages alone show them, which have to be there, and to show each row once.
  const hasLostPages = all.pageFixed !== undefined || all.unstableTies === true || cursorPages !== null;
  // A look for news takes four requests there: every few seconds that is all of a small quota, and no backfill ends.
  const isDear = (all.pageMaxLater !== undefined || pageMax < 10) && hiddenRun > 0;
  return {
    ...drawn,
    ...(hasLostPages ? { undated: 0 } : {}),
    ...(isCrowded && cursorPages !== null ? { cursorPages: null } : {}),
    ...(liesInCursors && isCoarse ? { paging: 'page-number' as const } : {}),
    ...(isDear && all.perMinute !== null ? { perMinute: Math.max(all.perMinute, 100) } : {}),
  };
}

/**
 * Quirks for sources whose stamps do not lie in the future. What lies there is read by pages alone until its time has
 * come, and with these quirks pages may leave it out for as long. In some worlds with such stamps, only the source's
 * `Date` keeps the watermark back: it has to be right there.
 */
function onlyPast(random: Random, later: Drawn): (() => Drawn)[] {
  return [
    () => ({ unstableTies: true }),
    () => ({ order: 'random-by-page', undated: 0 }),
    () => ({ shrinksEvery: random.whole(10, 40) }),
    () => ({ paging: 'cursor', cursorPages: random.whole(1, 3), cursorRefusal: random.pick([400, 410]) }),
    () => ({ jumpMs: random.whole(1_000, 200_000), ...later }),
    () => ({ dateSkewMs: random.whole(-60_000, 60_000) }),
  ];
}
