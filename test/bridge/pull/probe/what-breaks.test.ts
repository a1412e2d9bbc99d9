/** What `bridge check` says of sources that break what a reader relies on. */
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { type Liveness, startLiveness } from '#bridge/ledger/leases/liveness.ts';
import { probeSource } from '#bridge/pull/probe/probe-source.ts';
import type { FeedPage } from '#client/source-client.ts';
import { AppError } from '#platform/errors.ts';
import { silentLogger } from '#platform/log.ts';
import { createTestDatabase, type TestDatabase } from '../../../harness/test-database.ts';
import { testClock } from '../../parts.ts';
import { type FeedQuery, type ListedRow, ListSource } from '../list-source.ts';
import { startReader } from '../reader.ts';

let db: TestDatabase;
let liveness: Liveness;
const never = new AbortController().signal;

beforeAll(async () => {
  db = await createTestDatabase();
  liveness = await startLiveness({ database: db.database, log: silentLogger });
});
afterAll(async () => {
  await liveness.close();
  await db.drop();
});

/** The rows that a query selects, the oldest first. */
function rowsOf(source: ListSource, at: { modifiedAfter?: string | undefined; modifiedBefore?: string | undefined }) {
  const { modifiedAfter = '', modifiedBefore = '9999' } = at;
  const stampOf = ({ modified = '' }: ListedRow) => modified;
  return [...source.rows]
    .filter(([, row]) => stampOf(row) >= modifiedAfter && stampOf(row) <= modifiedBefore)
    .map(([id, row]) => ({ id, ...row }))
    .sort((a, b) => (stampOf(a) < stampOf(b) ? -1 : 1));
}

interface Paged {
  modifiedAfter?: string | undefined;
  modifiedBefore?: string | undefined;
  pageSize: number;
  skip: number;
}

/** Pages of the rows, where `next` names the place as `parameter` says; `cut` decides what a page shows of its rows. */
function paged(
  source: ListSource,
  parameter: string,
  cut: (rows: Record<string, unknown>[], at: Paged) => Record<string, unknown>[] = (rows) => rows,
) {
  return (at: FeedQuery): Partial<FeedPage> => {
    const query =
      'next' in at ? (JSON.parse(new URLSearchParams(at.next).get('q') ?? '') as Paged) : { ...at, skip: 0 };
    const all = rowsOf(source, query);
    const end = query.skip + query.pageSize;
    const rest = { ...query, skip: end };
    return {
      records: cut(all.slice(query.skip, end), query),
      next:
        end < all.length
          ? `${parameter}=${parameter === 'cursor' ? 'c' : ''}${end}&q=${encodeURIComponent(JSON.stringify(rest))}`
          : undefined,
    };
  };
}

/** Probes a feed of forty rows, a minute apart, that `prepare` changes; returns its lines by their names. */
async function linesOf(prepare: (source: ListSource) => void) {
  const clock = testClock();
  const source = new ListSource(clock);
  for (let n = 0; n < 40; n += 1) source.put(`r${n}`, n, 3_600 - n * 60);
  prepare(source);
  const reader = await startReader({ database: db.database, liveness, client: source.client, clock });
  const results = await probeSource(
    { client: source.client, source: reader.source, feed: 'awards', clock, database: db.database },
    never,
  );
  const lines = new Map(
    results.map(({ name, ok, note, message }) => [
      name.replace('awards: ', ''),
      { verdict: ok ? (note ? 'note' : 'ok') : 'fail', message },
    ]),
  );
  return { lines, asked: source.asked.length, profile: (await reader.checkpoint()).source_profile };
}

describe('the order of ties', () => {
  const tie = (source: ListSource) => {
    const stamp = source.put('tied-0', 0, 7_200);
    for (let n = 1; n < 5; n += 1) source.rows.set(`tied-${n}`, { modified: stamp, value: n });
  };

  test('that differs from answer to answer is noted, with what it costs', async () => {
    let answers = 0;
    const { lines } = await linesOf((source) => {
      tie(source);
      source.answer = paged(source, 'cursor', (rows) => {
        answers += 1;
        const tied = rows.filter(({ id }) => String(id).startsWith('tied'));
        const turned = answers % 2 === 0 ? tied : tied.toReversed();
        return [...turned, ...rows.filter((row) => !tied.includes(row))];
      });
    });
    expect(lines.get('order of ties')).toEqual({
      verdict: 'note',
      message: expect.stringMatching(/another order .* pages may skip some .* more requests, no further delay/),
    });
  });

  test('that stays is ok, and a feed without ties says that it is not known', async () => {
    const stable = await linesOf((source) => {
      tie(source);
      source.answer = paged(source, 'cursor');
    });
    expect(stable.lines.get('order of ties')).toMatchObject({
      verdict: 'ok',
      message: expect.stringMatching(/^the same in 3 answers/),
    });
    const none = await linesOf((source) => {
      source.answer = paged(source, 'cursor');
    });
    expect(none.lines.get('order of ties')).toMatchObject({
      verdict: 'ok',
      message: expect.stringMatching(/^not known/),
    });
  });
});

describe('empty pages that have a "next"', () => {
  const hidden = (source: ListSource, from: number, to: number) =>
    paged(source, 'cursor', (rows) => rows.filter(({ value }) => Number(value) < from || Number(value) >= to));

  test('are noted', async () => {
    const { lines } = await linesOf((source) => {
      source.answer = hidden(source, 10, 30);
    });
    expect(lines.get('empty pages')).toMatchObject({
      verdict: 'note',
      message: expect.stringMatching(/^2 of \d+ pages .* Each costs a request/),
    });
  });

  test('at the beginning of the feed do not look like a feed without records', async () => {
    const { lines } = await linesOf((source) => {
      source.answer = hidden(source, 0, 20);
    });
    expect(lines.get('empty pages')).toMatchObject({ verdict: 'note' });
    expect(lines.get('bounds')?.message).not.toContain('no record with a time');
    expect(lines.get('paging')).toMatchObject({ message: 'by cursor' });
  });

  test('at the beginning of every window leave a granularity of a second: a finer one would lose records', async () => {
    const { lines, profile, asked } = await linesOf((source) => {
      source.answer = (at) =>
        !('next' in at) && at.modifiedAfter === undefined && at.modifiedBefore === undefined
          ? paged(source, 'cursor')(at)
          : 'next' in at && !at.next.startsWith('empty')
            ? paged(source, 'cursor')(at)
            : { records: [], next: `empty=${source.asked.length}` };
    });
    expect(profile.granularityMicros).toBe(1_000_000);
    expect(lines.get('bounds')).toMatchObject({
      verdict: 'note',
      message: expect.stringMatching(/a second is assumed/),
    });
    expect(asked).toBeLessThanOrEqual(50);
  });

  test('that are not there are reported as such', async () => {
    const { lines } = await linesOf((source) => {
      source.answer = paged(source, 'cursor');
    });
    expect(lines.get('empty pages')).toMatchObject({ verdict: 'ok' });
  });
});

describe('a declared order of commits', () => {
  test.each(['page', 'offset', 'token'])(
    'of a feed that pages by %s is not trusted, and the line says so',
    async (name) => {
      const { lines } = await linesOf((source) => {
        source.commitOrdered = true;
        source.answer = paged(source, name);
      });
      expect(lines.get('declared order')).toMatchObject({
        verdict: 'note',
        message: expect.stringMatching(
          /by number|is a number of .*not trusted, and the feed is read in windows of time/,
        ),
      });
    },
  );

  test('of a feed whose stamps go back or repeat is not trusted', async () => {
    const { lines } = await linesOf((source) => {
      source.commitOrdered = true;
      source.answer = paged(source, 'cursor', (rows) => rows.toReversed());
    });
    expect(lines.get('declared order')).toMatchObject({
      verdict: 'note',
      message: expect.stringMatching(/comes after .* not trusted/),
    });
  });

  test('with a cursor and increasing stamps is trusted', async () => {
    const { lines } = await linesOf((source) => {
      source.commitOrdered = true;
      source.answer = paged(source, 'cursor');
    });
    expect(lines.get('declared order')).toMatchObject({
      verdict: 'ok',
      message: expect.stringMatching(/^kept on the first 40 records/),
    });
  });

  test('is not mentioned where none is declared', async () => {
    const { lines } = await linesOf((source) => {
      source.answer = paged(source, 'cursor');
    });
    expect(lines.has('declared order')).toBe(false);
  });
});

describe('a cursor', () => {
  const gone = () => {
    throw new AppError('invalid', 'GET /api/feeds/awards was answered with 410.', { recovery: { do: 'halt' } });
  };

  test('that is refused after a few pages is noted with the words of the source', async () => {
    const { lines } = await linesOf((source) => {
      source.answer = (at) =>
        'next' in at && at.next.startsWith('cursor=c30&') ? gone() : paged(source, 'cursor')(at);
    });
    expect(lines.get('lifetime of cursors')).toMatchObject({
      verdict: 'note',
      message: expect.stringMatching(/^the page after 3 pages was refused \(.*410/),
    });
  });

  test('that is refused when it is old is noted with how many requests it lived', async () => {
    const { lines } = await linesOf((source) => {
      source.answer = (at) => {
        const isOld =
          'next' in at && source.asked.filter((other) => 'next' in other && other.next === at.next).length > 1;
        return isOld ? gone() : paged(source, 'cursor')(at);
      };
    });
    expect(lines.get('lifetime of cursors')).toMatchObject({
      verdict: 'note',
      message: expect.stringMatching(/^less than \d+ requests: .*410/),
    });
  });

  test('that still works is ok, with its age; numbers and offsets have none', async () => {
    const { lines } = await linesOf((source) => {
      source.answer = paged(source, 'cursor');
    });
    expect(lines.get('lifetime of cursors')).toMatchObject({
      verdict: 'ok',
      message: expect.stringMatching(/^at least \d+ s and \d+ other/),
    });
    const byNumber = await linesOf((source) => {
      source.answer = paged(source, 'page');
    });
    expect(byNumber.lines.has('lifetime of cursors')).toBe(false);
  });
});

test('pages that hold fewer records than they could although more follow are noted', async () => {
  const shrinking = await linesOf((source) => {
    source.answer = paged(source, 'page', (rows) => rows.filter(({ value }) => Number(value) % 4 !== 1));
  });
  expect(shrinking.lines.get('shrinking pages')).toMatchObject({
    verdict: 'note',
    message: expect.stringMatching(/more requests and no more time/),
  });
  const whole = await linesOf((source) => {
    source.answer = paged(source, 'page');
  });
  expect(whole.lines.get('shrinking pages')).toMatchObject({ verdict: 'ok' });
});
