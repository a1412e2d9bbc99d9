import * as fc from 'fast-check';
import { expect, test } from 'vitest';
import { createPageCap, type PageCap } from '#bridge/pull/feed/page-cap.ts';
import { closedBound } from '#bridge/pull/range/closed-bound.ts';
import {
  type Answer,
  type RangeToRead,
  ReadingStopped,
  type ReadRow,
  type WindowRead,
} from '#bridge/pull/range/range-types.ts';
import { readRange } from '#bridge/pull/range/read-range.ts';
import { microsFromTimestamp, type Timestamp, timestampFromMicros } from '#contract/timestamp.ts';
import { AppError } from '#platform/errors.ts';

/** How the simulated feed misbehaves. It has a clock of its own: each request takes time, and rows change meanwhile. */
interface Quirks {
  inclusive: boolean;
  wholeSeconds: boolean;
  order: 'ascending' | 'descending';
  paging: 'page-number' | 'snapshot';
  pageSize: number;
  /** Rows become visible up to this many seconds later than their stamp says. */
  lateSeconds: number;
}

interface Row extends ReadRow {
  version: number;
}

type Ask<Each extends ReadRow> = (
  at: { after?: Timestamp; before?: Timestamp; pageSize?: number } | { next: string },
) => Promise<Shown<Each>>;

type Shown<Each extends ReadRow> = Omit<Answer<Each>, 'tookMs'> & { tookMs?: number };

/** The news: page after page from the newest stamp seen, as any reader would. */
async function* readNews(ask: Ask<Row>, newest: Timestamp | undefined) {
  let answer = await ask(newest === undefined ? {} : { after: newest });
  for (;;) {
    yield { records: answer.records };
    if (answer.next === undefined) return;
    answer = await ask({ next: answer.next });
  }
}

/** A reading with the limits that the settings have by default, of a source that answers at once. */
function readingOf<Each extends ReadRow>(
  scan: Omit<RangeToRead<Each>, 'ask' | 'cap'> & {
    cap?: PageCap;
    ask: (at: Parameters<RangeToRead<Each>['ask']>[0]) => Promise<Shown<Each>>;
  },
): AsyncGenerator<WindowRead<Each>> {
  const { cap = createPageCap() } = scan;
  return readRange({
    ...scan,
    cap,
    ask: async (at) => {
      const answer = await scan.ask(at);
      cap.note(answer.records.length);
      return { tookMs: 0, ...answer };
    },
  });
}

const second = 1_000_000;
const latenessMicros = 30 * second;

class HostileSource {
  nowMicros = microsFromTimestamp('2026-01-01T00:00:00.000000Z');
  readonly #rows = new Map<string, { micros: number; visible: number; version: number }[]>();
  readonly #quirks: Quirks;
  readonly #random: () => number;
  writing = true;

  constructor(quirks: Quirks, random: () => number) {
    this.#quirks = quirks;
    this.#random = random;
  }

  /** Lets time pass, with so many writes in it. */
  live(seconds: number, writes: number): void {
    for (let count = 0; count < writes; count += 1) {
      this.nowMicros += Math.floor((seconds * second) / writes);
      if (!this.writing) continue;
      const id = `r${Math.floor(this.#random() * 40)}`;
      const versions = this.#rows.get(id) ?? [];
      const visible = this.nowMicros + Math.floor(this.#random() * this.#quirks.lateSeconds * second);
      // The versions of one row are committed in the order of their stamps.
      const before = versions.at(-1);
      if (before && (before.visible >= visible || before.micros >= this.nowMicros)) continue;
      versions.push({ micros: this.nowMicros, visible, version: versions.length });
      this.#rows.set(id, versions);
    }
  }

  get pageSize(): number {
    return this.#quirks.pageSize;
  }

  get state(): Map<string, number> {
    return new Map([...this.#rows].map(([id, versions]) => [id, versions.at(-1)?.version ?? 0]));
  }

  #stamp(micros: number): number {
    return this.#quirks.wholeSeconds ? Math.floor(micros / second) * second : micros;
  }

  #visibleRows(): Row[] {
    const rows: Row[] = [];
    for (const [id, versions] of this.#rows) {
      const shown = versions.filter(({ visible }) => visible <= this.nowMicros).at(-1);
      if (shown) rows.push({ id, version: shown.version, modified: timestampFromMicros(this.#stamp(shown.micros)) });
    }
    const direction = this.#quirks.order === 'ascending' ? 1 : -1;
    return rows.sort((a, b) =>
      a.modified < b.modified ? -direction : a.modified > b.modified ? direction : a.id < b.id ? -1 : 1,
    );
  }

  readonly #snapshots = new Map<string, Row[]>();

  readonly ask: Ask<Row> = async (at) => {
    this.live(this.#random() * 2, 3);
    const { paging, inclusive } = this.#quirks;
    const query = 'next' in at ? JSON.parse(at.next) : { ...at, page: 0, snapshot: String(this.nowMicros) };
    const pageSize = Math.min(this.#quirks.pageSize, query.pageSize ?? this.#quirks.pageSize);
    const bound = (text: Timestamp | undefined) =>
      text === undefined ? undefined : this.#stamp(microsFromTimestamp(text));
    const after = bound(query.after);
    const before = bound(query.before);
    let rows = this.#snapshots.get(query.snapshot);
    if (paging === 'page-number' || rows === undefined) {
      rows = this.#visibleRows().filter(({ modified }) => {
        const micros = microsFromTimestamp(modified);
        const from = after === undefined || (inclusive ? micros >= after : micros > after);
        return from && (before === undefined || (inclusive ? micros <= before : micros < before));
      });
      this.#snapshots.set(query.snapshot, rows);
    }
    const records = rows.slice(query.page * pageSize, (query.page + 1) * pageSize);
    const more = rows.length > (query.page + 1) * pageSize;
    return { records, next: more ? JSON.stringify({ ...query, page: query.page + 1 }) : undefined };
  };
}

/** A reader in memory, in place of the bridge's mirror and checkpoint. */
class Reader {
  readonly held = new Map<string, Row & { seenMicros: number }>();
  readonly firstSeen: { modified: Timestamp; micros: number }[] = [];
  watermark: Timestamp = '1970-01-01T00:00:00.000000Z';
  #scannedMicros = 0;

  store(records: readonly Row[], nowMicros: number): void {
    for (const row of records) {
      const known = this.held.get(row.id);
      if (
        known &&
        (known.modified > row.modified || (known.modified === row.modified && known.version === row.version))
      )
        continue;
      this.held.set(row.id, { ...row, seenMicros: nowMicros });
      this.firstSeen.push({ modified: row.modified, micros: nowMicros });
    }
  }

  async pull(source: HostileSource, withNews: boolean): Promise<void> {
    const newest = [...this.held.values()]
      .map(({ modified }) => modified)
      .sort()
      .at(-1);
    if (withNews || newest === undefined)
      for await (const { records } of readNews(source.ask, newest)) this.store(records, source.nowMicros);
    if (source.nowMicros - this.#scannedMicros < latenessMicros / 2) return;
    this.#scannedMicros = source.nowMicros;
    const firstSeenBefore = source.nowMicros - latenessMicros;
    const bound = this.firstSeen
      .filter(({ micros }) => micros <= firstSeenBefore)
      .map(({ modified }) => modified)
      .sort()
      .at(-1);
    const to = closedBound({
      nowMs: source.nowMicros / 1_000,
      sourceMs: undefined,
      latenessMs: latenessMicros / 1_000,
      firstSeen: bound === undefined ? {} : { bound },
    });
    if (to === undefined || to <= this.watermark) return;
    try {
      await this.#readUpTo(source, to);
    } catch (error) {
      // The next pull asks again.
      if (!(error instanceof ReadingStopped)) throw error;
    }
  }

  async #readUpTo(source: HostileSource, to: Timestamp): Promise<void> {
    const held = () => [...this.held.values()];
    for await (const { records, complete } of readingOf({
      ask: source.ask,
      from: this.watermark,
      to,
      newest: newestOf(held()),
      anchor: async (time) => newestOf(held().filter(({ modified }) => modified <= time)),
      knownIds: async ({ after = '', to: end }) =>
        new Set(held().flatMap(({ id, modified }) => (modified > after && modified <= end ? [id] : []))),
      pageSize: () => source.pageSize,
    })) {
      this.store(records, source.nowMicros);
      if (complete !== undefined && complete.to > this.watermark) this.watermark = complete.to;
    }
  }

  get state(): Map<string, number> {
    return new Map([...this.held].map(([id, { version }]) => [id, version]));
  }
}

function newestOf(rows: readonly Row[]): Timestamp | undefined {
  return rows
    .map(({ modified }) => modified)
    .sort()
    .at(-1);
}

function seeded(seed: number): () => number {
  let state = seed;
  return () => {
    state = (state * 1_103_515_245 + 12_345) % 2_147_483_648;
    return state / 2_147_483_648;
  };
}

const quirks = fc.record({
  inclusive: fc.boolean(),
  wholeSeconds: fc.boolean(),
  order: fc.constantFrom('ascending' as const, 'descending' as const),
  paging: fc.constantFrom('page-number' as const, 'snapshot' as const),
  pageSize: fc.integer({ min: 3, max: 12 }),
  lateSeconds: fc.constantFrom(0, 5, 20),
});

test('once a feed with any quirks is quiet, the reader holds the last state of every row', async () => {
  await fc.assert(
    fc.asyncProperty(quirks, fc.integer({ min: 1, max: 2 ** 31 }), async (quirk, seed) => {
      const source = new HostileSource(quirk, seeded(seed));
      const reader = new Reader();
      for (let round = 0; round < 30; round += 1) {
        source.live(8, 10);
        await reader.pull(source, true);
      }
      // No live read shows older rows from here on: only window scans can find those that are missing.
      source.writing = false;
      const end = source.nowMicros;
      source.live(60, 1);
      for await (const { records } of readNews(source.ask, undefined))
        reader.store(
          records.filter(({ modified }) => microsFromTimestamp(modified) >= end),
          source.nowMicros,
        );
      for (let round = 0; round < 8; round += 1) {
        source.live(40, 1);
        await reader.pull(source, true);
      }
      expect(reader.state).toEqual(source.state);
    }),
    { numRuns: 100 },
  );
});

test('the reader holds every row that the watermark has passed, at every moment', async () => {
  await fc.assert(
    fc.asyncProperty(quirks, fc.integer({ min: 1, max: 2 ** 31 }), async (quirk, seed) => {
      const source = new HostileSource(quirk, seeded(seed));
      const reader = new Reader();
      for (let round = 0; round < 25; round += 1) {
        source.live(8, 10);
        // A live read every third round only: the watermark must keep its promise without it.
        await reader.pull(source, round % 3 === 0);
        const passed = microsFromTimestamp(reader.watermark);
        source.writing = false;
        source.live(quirk.lateSeconds + 1, 1);
        const everything = new Map<string, Row>();
        for await (const { records } of readNews(source.ask, undefined))
          for (const row of records) everything.set(row.id, row);
        source.writing = true;
        for (const row of everything.values()) {
          if (microsFromTimestamp(row.modified) > passed) continue;
          expect(reader.held.get(row.id)?.version).toBe(row.version);
        }
      }
    }),
    { numRuns: 60 },
  );
});

test('complete windows leave no row out between them, wherever their bounds fall', async () => {
  await fc.assert(
    fc.asyncProperty(
      quirks,
      // Half seconds: with whole seconds two rows share a stamp, and bounds fall on stamps.
      fc.uniqueArray(fc.integer({ min: 0, max: 60 }), { minLength: 1, maxLength: 40 }),
      async (quirk, halfSeconds) => {
        const base = microsFromTimestamp('2026-01-01T00:00:00.000000Z');
        const stampOf = (micros: number) => (quirk.wholeSeconds ? Math.floor(micros / second) * second : micros);
        const rows = halfSeconds.map((half, index) => ({
          id: `r${index}`,
          version: 0,
          modified: timestampFromMicros(stampOf(base + (half * second) / 2)),
        }));
        // Later than the range: an empty window counts only where a longer one shows a row.
        const later = { id: 'later', version: 0, modified: '2026-01-01T00:02:00.000000Z' };
        rows.push(later);
        rows.sort((a, b) => (a.modified < b.modified ? -1 : 1) * (quirk.order === 'ascending' ? 1 : -1));
        const ask: Ask<Row> = async (at) => {
          const query = 'next' in at ? JSON.parse(at.next) : { ...at, page: 0 };
          const bound = (text?: string) => (text === undefined ? undefined : stampOf(microsFromTimestamp(text)));
          const [after, before] = [bound(query.after), bound(query.before)];
          const found = rows.filter(({ modified }) => {
            const micros = microsFromTimestamp(modified);
            if (quirk.inclusive) return micros >= (after ?? 0) && micros <= (before ?? Number.MAX_SAFE_INTEGER);
            return micros > (after ?? 0) && micros < (before ?? Number.MAX_SAFE_INTEGER);
          });
          const { page, pageSize } = { pageSize: quirk.pageSize, ...query };
          const records = found.slice(page * pageSize, (page + 1) * pageSize);
          const more = found.length > (page + 1) * pageSize;
          return { records, next: more ? JSON.stringify({ ...query, page: query.page + 1 }) : undefined };
        };
        const found = new Set<string>();
        let completeTo = '';
        for await (const scanned of readingOf({
          ask,
          pageSize: () => quirk.pageSize,
          from: '1970-01-01T00:00:00.000000Z',
          to: '2026-01-01T00:01:00.000000Z',
          newest: later.modified,
        })) {
          // Rows of an incomplete window arrive sooner, but only a complete window proves something.
          if (scanned.complete === undefined) continue;
          for (const { id } of scanned.records) if (id !== later.id) found.add(id);
          completeTo = scanned.complete.to;
        }
        expect(found).toEqual(new Set(rows.filter((row) => row !== later).map(({ id }) => id)));
        expect(completeTo).toBe('2026-01-01T00:01:00.000000Z');
      },
    ),
    { numRuns: 200 },
  );
});

test('a range that fits a page costs one request', async () => {
  const rows: Row[] = Array.from({ length: 50 }, (_, index) => ({
    id: `r${index}`,
    version: 0,
    modified: timestampFromMicros(1_700_000_000_000_000 + index * 10 * second),
  }));
  let asked = 0;
  const ask: Ask<Row> = async () => {
    asked += 1;
    return { records: rows, next: undefined };
  };
  const scanned = [];
  for await (const window of readingOf({
    ask,
    pageSize: () => 100,
    cap: createPageCap(100),
    from: '2023-11-14T00:00:00.000000Z',
    to: '2023-11-15T00:00:00.000000Z',
  }))
    scanned.push(window);
  expect(asked).toBe(1);
  expect(scanned).toEqual([
    {
      records: rows,
      complete: { after: '2023-11-14T00:00:00.000000Z', to: '2023-11-15T00:00:00.000000Z' },
    },
  ]);
});

/**
 * Scans twelve rows of one second in pages of five; `answerOf` answers. Returns how many rows each complete window has.
 */
function scanCrowd(answerOf: (records: readonly Row[], at: Parameters<Ask<Row>>[0]) => Shown<Row>) {
  const rows: Row[] = Array.from({ length: 12 }, (_, index) => ({
    id: `r${index}`,
    version: 0,
    modified: '2026-01-01T00:00:00.000000Z',
  }));
  let asked = 0;
  const ask: Ask<Row> = async (at) => {
    asked += 1;
    expect(asked, 'the scan ends').toBeLessThan(1_000);
    return answerOf(rows, at);
  };
  return async () => {
    const completed: number[] = [];
    let read = new Set<string>();
    const range = { from: '2025-12-31T23:59:58.000000Z', to: '2026-01-01T00:00:02.000000Z' };
    for await (const { records, complete, shown } of readingOf({ ask, pageSize: () => 5, ...range })) {
      for (const { id } of records) read.add(id);
      if (!complete) continue;
      expect(shown ?? read).toEqual(read);
      completed.push(read.size);
      read = new Set();
    }
    return completed;
  };
}

const pageFrom = (records: readonly Row[], skip: number): Shown<Row> => ({
  records: records.slice(skip, skip + 5),
  next: skip + 5 < records.length ? String(skip + 5) : undefined,
});

test.each<[string, string, (records: readonly Row[], at: Parameters<Ask<Row>>[0]) => Shown<Row>]>([
  [
    'returns to the same page',
    '"next" returns to what was shown already',
    (rows) => ({ records: rows.slice(0, 5), next: 'again' }),
  ],
  [
    'is new each time and shows nothing new',
    '"next" returns to what was shown already',
    (rows) => ({ records: rows.slice(0, 5), next: String(Math.random()) }),
  ],
  [
    'shows empty pages without an end',
    '50 pages in a row show no record and name a next page',
    (rows, at) => ('next' in at ? { records: [], next: `${at.next}x` } : { records: rows.slice(0, 5), next: 'x' }),
  ],
  [
    'is missing although there are more',
    'names no next page',
    (rows, at) => ({ records: rows.slice(0, (at as { pageSize?: number }).pageSize ?? 5), next: undefined }),
  ],
  [
    'never shows the same rows twice',
    '80 passes have shown new records',
    (rows, at) => ({
      records: rows.slice(0, 5).map((row) => ({ ...row, id: `${row.id}-${Math.random()}` })),
      next: 'next' in at ? undefined : 'more',
    }),
  ],
])('a crowded second whose "next" %s is refused, not skipped', async (_what, message, answerOf) => {
  await expect(scanCrowd(answerOf)()).rejects.toThrow(message);
});

test('a crowded second is read whole, even when a page in between is empty', async () => {
  const completed = await scanCrowd((rows, at) => {
    if (!('next' in at)) return pageFrom(rows, 0);
    return at.next === '5' ? { records: [], next: '5b' } : pageFrom(rows, Number.parseInt(at.next, 10));
  })();
  expect(Math.max(...completed)).toBe(12);
});

/**
 * A feed in order that hides rows after it has cut its pages of three, and whose next pages cannot be read. Four hidden
 * rows lie closer together than the shortest window is long.
 */
function hidingFeed(hidden: readonly number[], visible: readonly number[]) {
  const begin = microsFromTimestamp('2026-01-01T00:00:00.000000Z');
  const rows = [...hidden, ...visible]
    .toSorted((a, b) => a - b)
    .map((micros) => ({
      id: `r${micros}`,
      version: 0,
      modified: timestampFromMicros(begin + micros),
      isHidden: hidden.includes(micros),
    }));
  let asked = 0;
  const ask: Ask<Row> = async (at) => {
    asked += 1;
    expect(asked, 'the scan ends').toBeLessThan(500);
    if ('next' in at) throw new AppError('not-found', 'The cursor has expired.', { recovery: { do: 'halt' } });
    const { after = '', before = '9' } = at;
    const all = rows.filter(({ modified }) => modified > after && modified < before);
    const page = all.slice(0, 3);
    return { records: page.filter(({ isHidden }) => !isHidden), next: all.length > 3 ? 'expired' : undefined };
  };
  return async () => {
    const read = new Set<string>();
    const range = {
      from: undefined,
      to: timestampFromMicros(begin + 600 * second),
      newest: rows.findLast(({ isHidden }) => !isHidden)?.modified,
    };
    let end = '';
    for await (const { records, complete } of readingOf({ ask, pageSize: () => 3, ...range })) {
      for (const { id } of records) read.add(id);
      end = complete?.to ?? end;
    }
    return { read: [...read], end };
  };
}

test('rows that are hidden close together are passed, with a row of later on to prove that short windows work', async () => {
  const hidden = [5_100_017, 5_200_017, 5_300_017, 5_400_017];
  const { read, end } = await hidingFeed(hidden, [300_123_457, 300_223_459])();
  expect([read, end]).toEqual([['r300123457', 'r300223459'], '2026-01-01T00:10:00.000000Z']);
});

test('rows that are hidden close together, with nothing after them to prove anything by, are said to stand still', async () => {
  await expect(hidingFeed([5_100_017, 5_200_017, 5_300_017, 5_400_017], [])()).rejects.toThrow(
    'Its pages cannot be followed',
  );
});

/** Forty pages without a record come before each page that shows some; each takes so long. */
const scanBehindEmptyPages = (tookMs: number) =>
  scanCrowd((rows, at) => {
    if (!('next' in at)) return { ...pageFrom(rows, 0), tookMs };
    const [place = '', empty = '0'] = at.next.split('+');
    return Number(empty) < 40
      ? { records: [], next: `${place}+${Number(empty) + 1}`, tookMs }
      : { ...pageFrom(rows, Number(place)), tookMs };
  });

test('empty pages are followed until they have taken a minute together', async () => {
  await expect(scanBehindEmptyPages(2_000)()).rejects.toThrow('31 pages in a row show no record');
  expect(Math.max(...(await scanBehindEmptyPages(1_000)()))).toBe(12);
});

test.each(['the upper bound', 'the lower bound'])('a feed that ignores %s is refused', async (which) => {
  const rows: Row[] = Array.from({ length: 40 }, (_, index) => ({
    id: `r${index}`,
    version: 0,
    modified: timestampFromMicros(microsFromTimestamp('2026-01-01T00:00:00.000000Z') + index * 60 * second),
  }));
  const ask: Ask<Row> = async (at) => {
    const { after = '', before = '9' } = at as { after?: Timestamp; before?: Timestamp };
    const shown = rows.filter(({ modified }) => (which === 'the upper bound' ? modified >= after : modified <= before));
    return { records: shown.slice(0, 5), next: shown.length > 5 ? 'more' : undefined };
  };
  const scan = async () => {
    const range = { from: '2026-01-01T00:10:00.000000Z', to: '2026-01-01T00:20:00.000000Z' };
    for await (const { records } of readingOf({ ask, pageSize: () => 5, ...range })) expect(records).not.toEqual([]);
  };
  await expect(scan()).rejects.toThrow('does not keep modified_after or modified_before');
});

test('a window that lacks a known row is asked for again, three times in all', async () => {
  const row: Row = { id: 'known', version: 0, modified: '2026-01-01T00:00:10.000000Z' };
  const other: Row = { id: 'other', version: 0, modified: '2026-01-01T00:00:11.000000Z' };
  for (const [missingTimes, expected] of [
    [2, ['known', 'other']],
    [3, ['other']],
  ] as const) {
    let asked = 0;
    const ask: Ask<Row> = async () => {
      asked += 1;
      return { records: asked > missingTimes ? [row, other] : [other], next: undefined };
    };
    const knownIds = async () => new Set(['known']);
    const range = { from: '2026-01-01T00:00:00.000000Z', to: '2026-01-01T00:00:20.000000Z' };
    for await (const { records } of readingOf({ ask, knownIds, pageSize: () => 5, ...range }))
      expect(records.map(({ id }) => id)).toEqual(expected);
    expect(asked).toBe(3);
  }
});

test.each([
  ['some', 1],
  ['a page of', 3],
])('a window is empty although the feed first shows %s records without a time', async (_many, count) => {
  const undated = Array.from({ length: count }, (_, n) => ({
    id: `u${n}`,
    modified: '1970-01-01T00:00:00.000000Z',
    version: 0,
  }));
  const dated = [1, 2, 3, 4].map((n) => ({ id: `r${n}`, modified: `2026-01-01T00:00:${n}0.000000Z`, version: n }));
  const ask: Ask<Row> = async (at) => {
    if ('next' in at) throw new Error('every window fits a page');
    const shown = dated
      .filter(({ modified }) => modified >= (at.after ?? '') && modified <= (at.before ?? '9'))
      // With the newest first, a window that is too long is halved.
      .toReversed();
    const all = [...(at.after === undefined && at.before === undefined ? undated : []), ...shown];
    const size = Math.min(3, at.pageSize ?? 3);
    return { records: all.slice(0, size), next: all.length > size ? 'more' : undefined };
  };
  const read = new Set<string>();
  let reached: Timestamp | undefined;
  const range = {
    from: undefined,
    to: '2026-01-01T00:00:50.000000Z',
    oldest: '2026-01-01T00:00:10.000000Z',
    newest: '2026-01-01T00:00:40.000000Z',
  };
  for await (const { records, complete } of readingOf({ ask, pageSize: () => 3, ...range })) {
    for (const { id } of records) read.add(id);
    reached = complete?.to ?? reached;
  }
  expect([...read].sort()).toEqual(['r1', 'r2', 'r3', 'r4']);
  expect(reached).toBe(range.to);
});

/** A feed of these rows, oldest first and inclusive, that answers in pages of five. */
function listed(rows: readonly Row[]): Ask<Row> {
  return async (at) => {
    const { after = '', before = '9', skip = 0 } = 'next' in at ? JSON.parse(at.next) : at;
    const shown = rows.filter(({ modified }) => modified >= after && modified <= before);
    const next = JSON.stringify({ after, before, skip: skip + 5 });
    return { records: shown.slice(skip, skip + 5), next: skip + 5 < shown.length ? next : undefined };
  };
}

const rowAt = (id: string, time: string): Row => ({ id, version: 0, modified: `2026-01-01T00:${time}Z` });

test('an empty answer does not count where more than a page of rows lies before its range', async () => {
  const rowsBefore = [1, 2, 3, 4, 5, 6].map((n) => rowAt(`before-${n}`, `00:09.${n}00000`));
  const list = listed([...rowsBefore, rowAt('missed', '00:15.000000')]);
  let blank = 1;
  const ask: Ask<Row> = async (at) => ('before' in at && blank-- > 0 ? { records: [], next: undefined } : list(at));
  const read = new Set<string>();
  const range = {
    from: '2026-01-01T00:00:10.000000Z',
    to: '2026-01-01T00:00:20.000000Z',
    anchor: async () => '2026-01-01T00:00:09.600000Z',
  };
  const passed = new Set<string>();
  for await (const { records, complete } of readingOf({ ask, pageSize: () => 5, ...range })) {
    for (const { id } of records) read.add(id);
    if (complete && complete.to >= '2026-01-01T00:00:15.000000Z') passed.add(String(read.has('missed')));
  }
  expect([...passed]).toEqual(['true']);
});

test('an empty end of a range counts when the feed still shows a row that the scan has read before', async () => {
  // The source has deleted the newest rows; the reader does not know it, and offers their stamps as anchors.
  const rows = Array.from({ length: 12 }, (_, n) => rowAt(`r${n}`, `${10 + n}:00.000000`));
  const anchor = async (time: Timestamp) =>
    ['2026-01-01T00:10:00.000000Z', '2026-01-01T00:21:30.000000Z', '2026-01-01T00:40:00.000000Z'].findLast(
      (held) => held <= time,
    );
  const range = { from: '2026-01-01T00:00:00.000000Z', to: '2026-01-01T00:59:00.000000Z' };
  let reached: Timestamp | undefined;
  for await (const { complete } of readingOf({ ask: listed(rows), anchor, pageSize: () => 5, ...range }))
    reached = complete?.to ?? reached;
  expect(reached).toBe(range.to);
});

/** The ids that the complete windows have shown, and how far they reach. */
async function completedOf(
  ask: Ask<Row>,
  {
    anchor,
    newest,
    from = '2026-01-01T00:00:10.000000Z',
  }: { anchor?: Timestamp; newest?: Timestamp; from?: Timestamp } = {},
) {
  const ids = new Set<string>();
  let reached: Timestamp | undefined;
  const range = { from, to: '2026-01-01T00:00:20.000000Z', newest };
  const reading = readingOf({ ask, pageSize: () => 5, anchor: async () => anchor, ...range });
  for await (const { records, complete, shown } of reading) {
    if (!complete) continue;
    for (const id of shown ?? records.map((row) => row.id)) ids.add(id);
    reached = complete.to;
  }
  return { ids: [...ids].sort(), reached };
}

const perSecond = (count: number) =>
  Array.from({ length: count }, (_, n) => rowAt(`r${n}`, `${11 + n}.000000`.padStart(12, '00:0')));

test('an empty window counts although the pages that would contradict it can no longer be read', async () => {
  // Pages of one row, and cursors that have expired when they are used.
  const later = [rowAt('later-1', '01:10.000000'), rowAt('later-2', '01:20.000000')];
  const ask: Ask<Row> = async (at) => {
    if ('next' in at) throw new AppError('invalid', 'The cursor has expired.', { recovery: { do: 'halt' } });
    const { after = '', before = '9' } = at;
    const shown = later.filter(({ modified }) => modified >= after && modified <= before);
    return { records: shown.slice(0, 1), next: shown.length > 1 ? 'cursor' : undefined };
  };
  const newest = '2026-01-01T00:01:20.000000Z';
  const { ids, reached } = await completedOf(ask, { newest });
  expect([ids, reached]).toEqual([['later-1'], '2026-01-01T00:00:20.000000Z']);
});

test('a window is asked for with so early a bound that a stamp which was rounded up is shown', async () => {
  const row = rowAt('rounded', '00:12.000000');
  // The source shows a rounded stamp, and compares the bounds with the exact one.
  const exact = '2026-01-01T00:00:11.600000Z';
  const ask: Ask<Row> = async (at) => {
    const { after = '', before = '9' } = at as { after?: Timestamp; before?: Timestamp };
    return { records: exact > after && exact < before ? [row] : [], next: undefined };
  };
  expect((await completedOf(ask, { from: '2026-01-01T00:00:11.999999Z' })).ids).toEqual(['rounded']);
});

test('a full page without "next" does not prove its window: a shorter one is asked for', async () => {
  const rows = perSecond(8);
  const list = listed(rows);
  const ask: Ask<Row> = async (at) => ({ ...(await list(at)), next: undefined });
  expect(await completedOf(ask)).toEqual({
    ids: rows.map(({ id }) => id),
    reached: '2026-01-01T00:00:20.000000Z',
  });
});

test('two passes over a crowded second that agree do not count when they have seen a row twice', async () => {
  let movedPasses = 2;
  const completed = await scanCrowd((rows, at) => {
    if (!('next' in at)) return pageFrom(rows, 0);
    // Row 4 has moved to the second page, and row 9 has left it.
    if (at.next === '5' && movedPasses-- > 0) return { records: rows.slice(4, 9), next: 'third' };
    if (at.next === 'third') return { records: rows.slice(10), next: undefined };
    return pageFrom(rows, Number(at.next));
  })();
  expect(new Set(completed.filter((count) => count > 5))).toEqual(new Set([12]));
});

test('an empty answer does not count where more than a page of rows follows the anchor', async () => {
  const crowded = [1, 2, 3, 4, 5, 6].map((n) => rowAt(`r${n}`, `00:0${n}.000000`));
  const list = listed([...crowded, rowAt('missed', '00:15.000000')]);
  const ask: Ask<Row> = async (at) =>
    'next' in at || ('before' in at && (at.after ?? '') < '2026-01-01T00:00:05')
      ? list(at)
      : { records: [], next: undefined };
  // Only the pages that begin at the anchor lead to it.
  expect((await completedOf(ask, { anchor: '2026-01-01T00:00:01.000000Z' })).ids).toContain('missed');
});

test('the example at the head of read-range.ts is true', async () => {
  const rows = ['05', '15', '25', '40', '48'].map((seconds, n) => ({
    id: 'ABCDE'.charAt(n),
    version: 0,
    modified: `2026-01-01T10:00:${seconds}.000000Z`,
  }));
  const steps: unknown[] = [];
  const secondOf = (time: Timestamp | undefined) => time?.slice(11, 19);
  let asked: unknown[] = [];
  const reading = readingOf<Row>({
    ask: async (at) => {
      if ('next' in at) throw new Error('every window fits a page');
      const { after = '', before = '9', pageSize } = at;
      const shown = rows.filter(({ modified }) => modified >= after && modified <= before);
      asked = [secondOf(after), secondOf(before)];
      return { records: shown.slice(0, pageSize), next: shown.length > pageSize ? 'more' : undefined };
    },
    from: '2026-01-01T10:00:05.000000Z',
    to: '2026-01-01T10:00:50.000000Z',
    anchor: async () => '2026-01-01T10:00:05.000000Z',
    pageSize: () => 4,
  });
  for await (const { records, complete } of reading)
    steps.push([...asked, records.map(({ id }) => id).join(''), secondOf(complete?.after), secondOf(complete?.to)]);
  expect(steps).toEqual([
    ['10:00:04', '10:00:51', 'ABCD', undefined, undefined],
    ['10:00:04', '10:00:25', 'ABC', '10:00:05', '10:00:24'],
    ['10:00:14', '10:00:51', 'BCDE', undefined, undefined],
    ['10:00:14', '10:00:40', 'BCD', '10:00:24', '10:00:39'],
    ['10:00:24', '10:00:51', 'CDE', '10:00:39', '10:00:50'],
  ]);
});
