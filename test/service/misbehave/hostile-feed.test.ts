/** Each quirk of feeds, in the model: the answer has it, and without it the same request has not. */
import { describe, expect, test } from 'vitest';
import { microsFromTimestamp, timestampFromMicros } from '#contract/timestamp.ts';
import { type FeedQuirks, plainFeed } from '#service/misbehave/feed-quirks.ts';
import { type HostileAnswer, HostileFeed } from '#service/misbehave/hostile-feed.ts';
import { changedForm, latenessOf, stampOf, undated } from '#service/misbehave/hostile-versions.ts';
import { readMisbehaviour } from '#service/misbehave/misbehaviour.ts';
import { quirkTable } from '#service/misbehave/quirk-table.ts';
import { seededFraction } from '#service/misbehave/seeded-fraction.ts';

const second = 1_000_000;
const start = Date.UTC(2030, 0, 1) * 1_000;
const origin = 'https://source.test';

/** A feed whose records r0, r1, … were written a second apart, the last one a second before `start`. */
function feedOf(list: string, { records = 12, seed = 'seed' } = {}) {
  const { feed: quirks } = readMisbehaviour(list);
  return writtenFeed(quirks, { records, seed });
}

function writtenFeed(quirks: FeedQuirks, { records = 12, seed = 'seed' } = {}) {
  const feed = new HostileFeed(quirks, { random: seededFraction(seed), startMicros: start });
  const draws = seededFraction(`${seed} versions`);
  const write = (id: string, value: number, atMicros: number) => {
    const moment = { nowMicros: atMicros, startMicros: start };
    const last = feed.last(id);
    const stampMicros = stampOf(quirks, moment, last ? [last.stampMicros] : [], draws);
    const late = latenessOf(quirks, draws) * 1_000;
    const committedMicros = Math.max(atMicros + late, last?.committedMicros ?? 0);
    feed.commit({ id, stampMicros, committedMicros, json: changedForm(quirks, moment, JSON.stringify({ id, value })) });
  };
  for (let n = 0; n < records; n += 1) write(`r${n}`, n, start - (records - n) * second + n);
  const ask = (query: Record<string, string> | string, atMicros = start, calm = false) => {
    const path = typeof query === 'string' ? query : `/api/feeds/awards?${new URLSearchParams(query).toString()}`;
    return feed.answer(new URL(path, origin), atMicros, { calm });
  };
  return { feed, write, ask, now: start };
}

interface RecordShown {
  id: string;
  value: unknown;
  modified?: string;
  [member: string]: unknown;
}

function pageIn(answer: HostileAnswer | 'cut'): { data: RecordShown[]; next: string | null } {
  if (answer === 'cut') throw new Error('The connection was cut.');
  expect(answer.status).toBe(200);
  return JSON.parse(answer.body) as { data: RecordShown[]; next: string | null };
}

const idsIn = (answer: HostileAnswer | 'cut') => pageIn(answer).data.map(({ id }) => id);

/** Follows `next` from a query on, and returns the ids of each page. */
function chain({ ask }: ReturnType<typeof feedOf>, query: Record<string, string>, atMicros = start): string[][] {
  const pages: string[][] = [];
  let at: Record<string, string> | string = query;
  for (;;) {
    const page = pageIn(ask(at, atMicros));
    pages.push(page.data.map(({ id }) => id));
    if (page.next === null) return pages;
    if (pages.length > 500) throw new Error('The pages do not end.');
    at = page.next;
  }
}

const all = Array.from({ length: 12 }, (_, n) => `r${n}`);
const sortedIds = (ids: readonly string[]) => ids.toSorted((a, b) => Number(a.slice(1)) - Number(b.slice(1)));

describe('a feed without quirks', () => {
  test('shows all records in the order of their stamps, page by page, each once', () => {
    expect(chain(feedOf(''), { page_size: '5' })).toEqual([all.slice(0, 5), all.slice(5, 10), all.slice(10)]);
  });

  test('keeps a reader with a cursor right while records change', () => {
    const source = feedOf('');
    const first = pageIn(source.ask({ page_size: '5' }));
    source.write('r1', 101, start + second);
    expect(chain(source, Object.fromEntries(new URL(first.next ?? '').searchParams), start + second).flat()).toEqual([
      ...all.slice(5),
      'r1',
    ]);
  });

  test('has inclusive bounds of microseconds, and writes stamps with six digits', () => {
    const { ask } = feedOf('');
    const [third] = pageIn(ask({ page_size: '1', modified_after: '2029-12-31T23:59:51.000003Z' })).data;
    expect(third).toEqual({ id: 'r3', value: 3, modified: '2029-12-31T23:59:51.000003Z' });
    expect(
      idsIn(ask({ modified_after: '2029-12-31T23:59:51.000003Z', modified_before: '2029-12-31T23:59:52.000004Z' })),
    ).toEqual(['r3', 'r4']);
    expect(
      idsIn(ask({ modified_after: '2029-12-31T23:59:51.000004Z', modified_before: '2029-12-31T23:59:52.000003Z' })),
    ).toEqual([]);
  });

  test('shows the newest version only, also of a record that is gone', () => {
    const { feed, ask, write } = feedOf('', { records: 3 });
    write('r0', 7, start);
    feed.commit({ id: 'r1', stampMicros: start, committedMicros: start, json: null });
    expect(pageIn(ask({})).data.map(({ id, value }) => [id, value])).toEqual([
      ['r2', 2],
      ['r0', 7],
    ]);
  });

  test('refuses what it does not know: a time that is none, a cursor that it has not written', () => {
    const { ask } = feedOf('');
    expect(ask({ modified_after: 'yesterday' })).toMatchObject({
      status: 400,
      body: expect.stringContaining('modified_after'),
    });
    expect(ask({ cursor: 'abc' })).toMatchObject({ status: 400 });
    expect(ask({ page_size: '-1' })).toMatchObject({ status: 400 });
    for (const number of ['0', '-1', 'two', '1.5'])
      expect(feedOf('page-numbers').ask({ page_number: number })).toMatchObject({ status: 400 });
    expect(feedOf('offsets').ask({ offset: '-1' })).toMatchObject({ status: 400 });
  });

  test('never declares an order', () => {
    expect(feedOf('').ask({})).toMatchObject({
      headers: { 'content-type': 'application/json', date: 'Tue, 01 Jan 2030 00:00:00 GMT' },
    });
    expect(feedOf('').ask({})).not.toHaveProperty('headers.feed-order');
  });
});

/** What each quirk of feeds does to the answers. A quirk without a proof here fails. */
const proofs: Record<string, () => void> = {
  'page-numbers': () => {
    const source = feedOf('page-numbers');
    const first = pageIn(source.ask({ page_size: '5' }));
    expect(new URL(first.next ?? '').search).toBe('?page_size=5&page_number=2');
    // r0 moves to the end: r5 moves up to the first page, which has been read.
    source.write('r0', 100, start);
    expect(idsIn(source.ask(first.next ?? ''))).toEqual(['r6', 'r7', 'r8', 'r9', 'r10']);
  },
  offsets: () => {
    const source = feedOf('offsets');
    const first = pageIn(source.ask({ page_size: '5' }));
    expect(new URL(first.next ?? '').search).toBe('?page_size=5&offset=5');
    source.write('r0', 100, start);
    expect(idsIn(source.ask(first.next ?? ''))).toEqual(['r6', 'r7', 'r8', 'r9', 'r10']);
  },
  'cursors-gone': () => expect(statusOfThirdPage('cursors-gone')).toBe(410),
  'cursors-refused': () => expect(statusOfThirdPage('cursors-refused')).toBe(400),
  'shrinking-pages': () => {
    const source = feedOf('shrinking-pages=3');
    const sizes = Array.from({ length: 9 }, () => pageIn(source.ask({ page_size: '10' })).data.length);
    expect(sizes).toEqual([10, 10, 5, 5, 5, 2, 2, 2, 2]);
    expect(chain(source, { page_size: '10' }).flat()).toEqual(all);
  },
  'hidden-rows': () => {
    const pages = chain(feedOf('hidden-rows=25'), { page_size: '10' });
    expect(pages.slice(0, 3)).toEqual([[], [], ['r0']]);
    expect(pages.flat()).toEqual(all);
  },
  'page-size-ignored': () => {
    const { ask } = feedOf('page-size-ignored=7');
    expect(idsIn(ask({ page_size: '2' }))).toHaveLength(7);
    expect(idsIn(ask({ page_size: '100' }))).toHaveLength(7);
  },
  'page-size-capped': () => {
    const { ask } = feedOf('page-size-capped=7');
    expect(idsIn(ask({ page_size: '2' }))).toHaveLength(2);
    expect(idsIn(ask({ page_size: '100' }))).toHaveLength(7);
  },
  'next-missing': () => {
    const { ask } = feedOf('next-missing=0.5');
    const pages = Array.from({ length: 20 }, () => pageIn(ask({ page_size: '5' })));
    expect(pages.every(({ data }) => data.length === 5)).toBe(true);
    expect(new Set(pages.map(({ next }) => next === null))).toEqual(new Set([true, false]));
  },
  'next-loops': () => {
    const { ask } = feedOf('next-loops');
    const first = pageIn(ask({ page_size: '5' }));
    expect(idsIn(ask(first.next ?? ''))).toEqual(all.slice(0, 5));
    expect(pageIn(ask({ page_size: '50' })).next).toBeNull();
  },
  'next-other-host': () => {
    const next = new URL(pageIn(feedOf('next-other-host').ask({ page_size: '5' })).next ?? '');
    expect([next.host, next.pathname]).toEqual(['elsewhere.test', '/api/feeds/awards']);
  },
  'order-descending': () =>
    expect(chain(feedOf('order-descending'), { page_size: '5' }).flat()).toEqual(all.toReversed()),
  'order-random': () => {
    const ids = chain(feedOf('order-random'), { page_size: '5' }).flat();
    expect(ids).not.toEqual(all);
    expect(ids).not.toEqual(all.toReversed());
    expect(sortedIds(ids)).toEqual(all);
    expect(chain(feedOf('order-random', { seed: 'another' }), { page_size: '7' }).flat()).toEqual(ids);
  },
  'order-random-by-page': () => {
    const source = feedOf('order-random-by-page', { records: 40 });
    const readings = Array.from({ length: 5 }, () => chain(source, { page_size: '5' }));
    expect(readings.every((pages) => pages.length === 8)).toBe(true);
    expect(readings.every((pages) => new Set(pages.flat()).size < 40)).toBe(true);
    expect(sortedIds(idsIn(source.ask({ page_size: '50' })))).toHaveLength(40);
  },
  'unstable-ties': () => {
    const source = feedOf('unstable-ties,equal-stamps=3600', { records: 40 });
    const whole = Array.from({ length: 5 }, () => idsIn(source.ask({ page_size: '50' })));
    expect(new Set(whole.map((ids) => ids.join(' '))).size).toBeGreaterThan(1);
    expect(new Set(chain(source, { page_size: '5' }).flat()).size).toBeLessThan(40);
    // Without ties, it is the order of stamps.
    expect(chain(feedOf('unstable-ties'), { page_size: '5' }).flat()).toEqual(all);
  },
  'declares-order': () => {
    expect(feedOf('declares-order,page-numbers').ask({})).toHaveProperty('headers.feed-order', 'commit');
    expect(idsIn(feedOf('declares-order,order-descending').ask({}))).toEqual(all.toReversed());
  },
  'stamps-milliseconds': () => expect(stampIn('stamps-milliseconds', 987_654)).toBe('2029-12-31T23:59:59.987Z'),
  'stamps-seconds': () => expect(stampIn('stamps-seconds', 987_654)).toBe('2029-12-31T23:59:59Z'),
  'stamps-rounded': () => {
    expect(stampIn('stamps-rounded', 987_654)).toBe('2030-01-01T00:00:00Z');
    expect(stampIn('stamps-rounded', 487_654)).toBe('2029-12-31T23:59:59Z');
  },
  'no-modified': () => {
    const source = feedOf('no-modified=0.5', { records: 40 });
    const undatedIds = () =>
      pageIn(source.ask({ page_size: '50' }))
        .data.filter(({ modified }) => modified === undefined)
        .map(({ id }) => id);
    const before = undatedIds();
    expect(before.length).toBeGreaterThan(5);
    expect(before.length).toBeLessThan(35);
    expect(pageIn(source.ask({ page_size: '50', modified_after: '2000-01-01' })).data).toHaveLength(40 - before.length);
    source.write(before[0] ?? '', 9, start);
    expect(undatedIds()).toEqual(before.slice(1));
  },
  'future-dated': () => {
    const source = feedOf('future-dated=1', { records: 1 });
    const [shown] = pageIn(source.ask({})).data;
    const aheadHours = (microsFromTimestamp(shown?.modified ?? '') - start) / second / 3_600;
    expect(aheadHours).toBeGreaterThan(33);
    expect(aheadHours).toBeLessThan(48);
    // The next change of the record does not take the stamp back.
    source.write('r0', 1, start);
    expect(microsFromTimestamp(pageIn(source.ask({})).data[0]?.modified ?? '')).toBe(
      microsFromTimestamp(shown?.modified ?? '') + 1,
    );
  },
  'future-corrected': () => {
    const source = feedOf('future-corrected=1', { records: 1 });
    source.write('r0', 1, start);
    expect(pageIn(source.ask({})).data).toEqual([{ id: 'r0', value: 1, modified: '2030-01-01T00:00:00.000000Z' }]);
  },
  'equal-stamps': () => {
    const stamps = pageIn(feedOf('equal-stamps=5').ask({})).data.map(({ modified }) => modified);
    // The records are of 23:59:48 to 23:59:59.
    expect(stamps).toEqual([
      ...Array<string>(2).fill('2029-12-31T23:59:45.000000Z'),
      ...Array<string>(5).fill('2029-12-31T23:59:50.000000Z'),
      ...Array<string>(5).fill('2029-12-31T23:59:55.000000Z'),
    ]);
  },
  'stamp-stays': () => {
    const source = feedOf('stamp-stays=10');
    const shown = (id: string) => pageIn(source.ask({}, start + second)).data.find((record) => record.id === id);
    source.write('r11', 100, start);
    expect(shown('r11')).toEqual({ id: 'r11', value: 100, modified: '2029-12-31T23:59:59.000011Z' });
    source.write('r0', 100, start);
    expect(shown('r0')).toEqual({ id: 'r0', value: 100, modified: '2030-01-01T00:00:00.000000Z' });
  },
  'after-exclusive': () => expect(boundedIds('after-exclusive')).toEqual(['r4', 'r5']),
  'before-exclusive': () => expect(boundedIds('before-exclusive')).toEqual(['r3', 'r4']),
  'bounds-seconds': () => {
    // r3 is of 23:59:51.000003, r5 of 23:59:53.000005.
    const query = { modified_after: '2029-12-31T23:59:51.9Z', modified_before: '2029-12-31T23:59:53.9Z' };
    expect(idsIn(feedOf('bounds-seconds').ask(query))).toEqual(['r3', 'r4']);
    expect(idsIn(feedOf('').ask(query))).toEqual(['r4', 'r5']);
  },
  'date-ahead': () => {
    expect(dateOf('date-ahead=60')).toBe('Tue, 01 Jan 2030 00:01:00 GMT');
    expect(stampOfNewest('date-ahead=60')).toBe('2029-12-31T23:59:59.000011Z');
  },
  'date-behind': () => {
    expect(dateOf('date-behind=60')).toBe('Mon, 31 Dec 2029 23:59:00 GMT');
    expect(stampOfNewest('date-behind=60')).toBe('2029-12-31T23:59:59.000011Z');
  },
  'clock-ahead': () => {
    expect(dateOf('clock-ahead=60')).toBe('Tue, 01 Jan 2030 00:01:00 GMT');
    expect(stampOfNewest('clock-ahead=60')).toBe('2030-01-01T00:00:59.000011Z');
  },
  'clock-behind': () => {
    expect(dateOf('clock-behind=60')).toBe('Mon, 31 Dec 2029 23:59:00 GMT');
    expect(stampOfNewest('clock-behind=60')).toBe('2029-12-31T23:58:59.000011Z');
  },
  'no-date': () => expect(dateOf('no-date')).toBeUndefined(),
  'clock-jumps': () => {
    const source = feedOf('clock-jumps=-120');
    const dateAt = (seconds: number) => {
      const answer = source.ask({}, start + seconds * second);
      return answer === 'cut' ? undefined : answer.headers['date'];
    };
    expect(dateAt(59)).toBe('Tue, 01 Jan 2030 00:00:59 GMT');
    expect(dateAt(60)).toBe('Mon, 31 Dec 2029 23:59:00 GMT');
    source.write('new', 1, start + 60 * second);
    expect(source.feed.last('new')?.stampMicros).toBe(start - 60 * second);
  },
  'late-commits': () => {
    const source = feedOf('late-commits=20', { records: 60 });
    const shown = (seconds: number) => new Set(idsIn(source.ask({ page_size: '100' }, start + seconds * second)));
    const now = shown(0);
    expect(now.size).toBeLessThan(60);
    expect(source.feed.waiting(start)).toBe(60 - now.size);
    // Some that are not shown yet are older than some that are: a reader has passed them.
    const newest = sortedIds([...now]).at(-1) ?? '';
    const hidden = Array.from({ length: 60 }, (_, n) => `r${n}`).filter((id) => !now.has(id));
    expect(hidden.filter((id) => Number(id.slice(1)) < Number(newest.slice(1))).length).toBeGreaterThan(0);
    expect(shown(20).size).toBe(60);
    expect(source.feed.waiting(start + 20 * second)).toBe(0);
  },
  'replica-lag': () => {
    const source = feedOf('replica-lag=5');
    const counts = Array.from({ length: 30 }, () => idsIn(source.ask({})).length);
    expect(Math.min(...counts)).toBeLessThan(12);
    expect(Math.min(...counts)).toBeGreaterThanOrEqual(7);
    expect(idsIn(source.ask({}, start, true))).toHaveLength(12);
  },
  'too-many': () => {
    const answers = answersOf('too-many=0.5').filter(({ status }) => status === 429);
    expect(answers.length).toBeGreaterThan(0);
    expect(answers.every(({ headers }) => /^\d+$/.test(headers['retry-after'] ?? ''))).toBe(true);
  },
  'too-many-silent': () => {
    const answers = answersOf('too-many-silent=0.5').filter(({ status }) => status === 429);
    expect(answers.length).toBeGreaterThan(0);
    expect(answers.every(({ headers }) => headers['retry-after'] === undefined)).toBe(true);
  },
  'server-errors': () =>
    expect(new Set(answersOf('server-errors=0.5').map(({ status }) => status))).toEqual(new Set([200, 500, 502, 503])),
  cut: () => {
    const source = feedOf('cut=0.5');
    const answers = Array.from({ length: 40 }, () => source.ask({}));
    expect(answers.filter((answer) => answer === 'cut').length).toBeGreaterThan(5);
    expect(answers.filter((answer) => answer !== 'cut').length).toBeGreaterThan(5);
    expect(Array.from({ length: 40 }, () => source.ask({}, start, true))).not.toContain('cut');
  },
  truncated: () => {
    const bodies = answersOf('truncated=0.5').map(({ body }) => body);
    const whole = bodies.find((body) => body.endsWith('}')) ?? '';
    const broken = bodies.filter((body) => body !== whole);
    expect(broken.length).toBeGreaterThan(5);
    for (const body of broken) {
      expect(whole.startsWith(body)).toBe(true);
      expect(() => JSON.parse(body) as unknown).toThrow(SyntaxError);
    }
  },
  'error-body': () => {
    const bodies = answersOf('error-body=0.5').map(({ status, body }) => [status, JSON.parse(body) as object] as const);
    expect(bodies.every(([status]) => status === 200)).toBe(true);
    expect(bodies.filter(([, body]) => 'error' in body && !('data' in body)).length).toBeGreaterThan(5);
  },
  'no-rows': () => {
    const pages = answersOf('no-rows=0.5').map((answer) => pageIn(answer));
    expect(new Set(pages.map(({ data }) => data.length))).toEqual(new Set([0, 12]));
    expect(pages.every(({ next }) => next === null)).toBe(true);
  },
  slow: () => {
    const delays = answersOf('slow=0.5').map(({ delayMs }) => delayMs);
    expect(delays.filter((delay) => delay === 0).length).toBeGreaterThan(5);
    expect(delays.filter((delay) => delay > 0).length).toBeGreaterThan(5);
    expect(Math.max(...delays)).toBeLessThanOrEqual(5_000);
  },
  'new-fields': () => {
    const [before, after] = changed('new-fields=60');
    expect(Object.keys(before ?? {})).toEqual(['id', 'value', 'modified']);
    expect(Object.keys(after ?? {})).toEqual(['id', 'value', 'x_review', 'modified']);
  },
  'new-values': () => expect(changed('new-values=60').map(({ value }) => value)).toEqual([0, { en: 100 }]),
  'lost-fields': () => expect(changed('lost-fields=60').map((record) => 'value' in record)).toEqual([true, false]),
  'page-size-drops': () => {
    const { ask } = feedOf('page-size-drops=60');
    expect(idsIn(ask({ page_size: '10' }, start + 59 * second))).toHaveLength(10);
    expect(idsIn(ask({ page_size: '10' }, start + 60 * second))).toHaveLength(5);
  },
  'paging-changes': () => {
    const source = feedOf('paging-changes=60');
    const { next } = pageIn(source.ask({ page_size: '5' }));
    expect(idsIn(source.ask(next ?? '', start + 59 * second))).toEqual(all.slice(5, 10));
    expect(source.ask(next ?? '', start + 60 * second)).toMatchObject({ status: 400 });
    expect(pageIn(source.ask({ page_size: '5' }, start + 60 * second)).next).toContain('page_number=2');
  },
  'slash-redirect': () => {
    const { ask } = feedOf('slash-redirect');
    expect(ask('/api/feeds/awards?page_size=5')).toMatchObject({
      status: 301,
      headers: { location: `${origin}/api/feeds/awards/?page_size=5` },
    });
    expect(idsIn(ask('/api/feeds/awards/?page_size=5'))).toEqual(all.slice(0, 5));
  },
};

function statusOfThirdPage(quirk: string): number {
  const source = feedOf(`${quirk}=2`);
  const first = pageIn(source.ask({ page_size: '3' }));
  const other = pageIn(source.ask(first.next ?? ''));
  expect(other.data.map(({ id }) => id)).toEqual(['r3', 'r4', 'r5']);
  const third = source.ask(other.next ?? '');
  return third === 'cut' ? 0 : third.status;
}

/** The stamp that the feed shows of a record that was written so many microseconds after 23:59:59. */
function stampIn(list: string, micros: number): string | undefined {
  const source = feedOf(list, { records: 0 });
  source.write('r', 1, start - second + micros);
  return pageIn(source.ask({})).data[0]?.modified;
}

const stampOfNewest = (list: string) => pageIn(feedOf(list).ask({})).data.at(-1)?.modified;

function dateOf(list: string): string | undefined {
  const answer = feedOf(list).ask({});
  return answer === 'cut' ? undefined : answer.headers['date'];
}

/** What a window from the stamp of r3 to that of r5 holds. */
const boundedIds = (list: string) =>
  idsIn(
    feedOf(list).ask({ modified_after: '2029-12-31T23:59:51.000003Z', modified_before: '2029-12-31T23:59:53.000005Z' }),
  );

/** Forty answers to the same request. */
function answersOf(list: string): HostileAnswer[] {
  const source = feedOf(list);
  return Array.from({ length: 40 }, () => source.ask({}) as HostileAnswer);
}

/** A record that has not changed since the start, and one that has changed a minute after it. */
function changed(list: string): RecordShown[] {
  const source = feedOf(list);
  source.write('r1', 100, start + 60 * second);
  const records = pageIn(source.ask({}, start + 60 * second)).data;
  return ['r0', 'r1'].map((id) => records.find((record) => record.id === id) as RecordShown);
}

describe('the quirk', () => {
  const ofFeeds = quirkTable.filter(({ feed }) => feed).map(({ name }) => name);
  test.each(ofFeeds)('%s shows itself', (name) => {
    expect(Object.keys(proofs), 'the proofs of this test').toContain(name);
    proofs[name]?.();
  });

  test.each(ofFeeds)('%s changes something of a feed that is plain', (name) => {
    expect(readMisbehaviour(name).feed).not.toEqual(plainFeed);
  });
});

describe('the same seed', () => {
  test('leads to the same answers, with all quirks of chance together; another seed to others', () => {
    const list =
      'too-many,server-errors,cut,truncated,error-body,no-rows,slow,replica-lag,late-commits,unstable-ties,future-dated,equal-stamps';
    const answers = (seed: string) => {
      const source = feedOf(list, { seed, records: 30 });
      return Array.from({ length: 60 }, (_, n) => source.ask({ page_size: '7' }, start + n * second));
    };
    expect(answers('one')).toEqual(answers('one'));
    expect(answers('one')).not.toEqual(answers('two'));
  });
});

describe('versions', () => {
  test('are forgotten when no replica shows them any more, and not before', () => {
    const { feed: quirks } = readMisbehaviour('late-commits=20,replica-lag=5');
    const source = writtenFeed(quirks, { records: 0 });
    const commit = (value: number, seconds: number) =>
      source.feed.commit({
        id: 'r',
        stampMicros: start + value,
        committedMicros: start + seconds * second,
        json: `{"value":${value}}`,
      });
    commit(1, 0);
    commit(2, 25);
    // A late version that was announced at 5 s: until 25 s, and on replicas until 30 s, the first one is shown.
    const valuesAt = (seconds: number) =>
      new Set(Array.from({ length: 30 }, () => pageIn(source.ask({}, start + seconds * second)).data[0]?.value));
    expect(valuesAt(10)).toEqual(new Set([1]));
    expect(valuesAt(27)).toEqual(new Set([1, 2]));
    for (let value = 3; value < 100; value += 1) commit(value, value * 30);
    expect(valuesAt(99 * 30 + 2)).toEqual(new Set([98, 99]));
    // Two versions, each with its id, its text of 12 characters and what every version takes.
    expect(source.feed.textLength).toBe(2 * (200 + 1 + '{"value":99}'.length));
  });

  test('of one record must be committed in their order', () => {
    const { feed } = feedOf('');
    expect(() =>
      feed.commit({ id: 'r3', stampMicros: start, committedMicros: start - 60 * second, json: '{}' }),
    ).toThrow('r3');
  });

  test('without a stamp come before all others', () => {
    const { feed, ask } = feedOf('', { records: 2 });
    feed.commit({ id: 'old', stampMicros: undated, committedMicros: start, json: '{"id":"old"}' });
    expect(pageIn(ask({})).data[0]).toEqual({ id: 'old' });
    expect(idsIn(ask({ modified_before: timestampFromMicros(start) }))).toEqual(['r0', 'r1']);
  });
});
