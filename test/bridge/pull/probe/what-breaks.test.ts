/** What `bridge doctor` says of sources that break what a reader relies on. */
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { type Liveness, startLiveness } from '#bridge/ledger/leases/liveness.ts';
import { probeSource } from '#bridge/pull/probe/probe-source.ts';
import type { FeedPage } from '#client/source-client.ts';
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

describe('empty pages that have a "next"', () => {
  const hidden = (source: ListSource, from: number, to: number) =>
    paged(source, 'cursor', (rows) => rows.filter(({ value }) => Number(value) < from || Number(value) >= to));

  test('at the beginning of the feed do not look like a feed without records', async () => {
    const { lines } = await linesOf((source) => {
      source.answer = hidden(source, 0, 20);
    });
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
