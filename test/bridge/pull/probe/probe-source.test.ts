import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { type Liveness, startLiveness } from '#bridge/ledger/leases/liveness.ts';
import { learnProfile } from '#bridge/pull/feed/checkpoint-store.ts';
import { probeSource } from '#bridge/pull/probe/probe-source.ts';
import type { FeedPage } from '#client/source-client.ts';
import { addMicros, microsFromTimestamp, timestampFromMicros } from '#contract/timestamp.ts';
import { AppError, type ErrorCode } from '#platform/errors.ts';
import { silentLogger } from '#platform/log.ts';
import { createTestDatabase, type TestDatabase } from '../../../harness/test-database.ts';
import { testClock } from '../../parts.ts';
import { type HostileQuirks, HostileSource, seeded } from '../hostile-source.ts';
import { ListSource } from '../list-source.ts';
import { calm, startReader } from '../reader.ts';

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

/** Probes a source with these quirks, which was written to every ten seconds, at whole seconds; nothing is written meanwhile. */
async function probeOf(quirks: Partial<HostileQuirks>, settings = {}) {
  const clock = testClock();
  const source = new HostileSource({ ...calm, ...quirks }, clock, seeded(3));
  source.live(600, 60);
  source.writing = false;
  const reader = await startReader({ database: db.database, liveness, client: source.client, clock, settings });
  const results = await probeSource(
    { client: source.client, source: reader.source, feed: 'awards', clock, database: db.database },
    never,
  );
  const failed = results.filter(({ ok }) => !ok).map(({ message }) => message);
  const text = results.map(({ name, message }) => `${name}: ${message}`).join('\n');
  return { text, failed, profile: (await reader.checkpoint()).source_profile, asked: source.requests };
}

/** Probes a list of rows, a minute apart, that `prepare` changes. */
async function probeOfList(prepare: (source: ListSource, now: number) => void, settings = {}) {
  const clock = testClock();
  const source = new ListSource(clock);
  for (let n = 0; n < 6; n += 1) source.put(`r${n}`, n, 3_600 - n * 60);
  prepare(source, clock.nowMs());
  const reader = await startReader({ database: db.database, liveness, client: source.client, clock, settings });
  const results = await probeSource(
    { client: source.client, source: reader.source, feed: 'awards', clock, database: db.database },
    never,
  );
  const text = results.map(({ name, message }) => `${name}: ${message}`).join('\n');
  return {
    results,
    text,
    ok: results.every((result) => result.ok),
    profile: (await reader.checkpoint()).source_profile,
  };
}

test.each<[string, Partial<HostileQuirks>, string]>([
  ['no declared order', {}, 'answers: it does not declare its order'],
  // Stamps of whole seconds prove nothing finer.
  ['bounds that are inclusive', {}, 'bounds: inclusive, kept to 1 s'],
  ['bounds that are exclusive', { inclusiveAfter: false, inclusiveBefore: false }, 'bounds: exclusive, kept to 1 s'],
  ['rounded stamps', { stamps: 'rounded' }, 'kept to 1 s'],
  ['bounds that are truncated to seconds', { boundsInSeconds: true }, 'kept to 1 s'],
  ['a clock that is 20 s ahead', { dateSkewMs: 20_000 }, "clock: the source's clock is 20 s ahead of ours"],
])('%s: found out by a handful of requests, and said', async (_what, quirks, expected) => {
  const { text, failed, asked } = await probeOf(quirks);
  expect(failed).toEqual([]);
  expect(text).toContain(expected);
  expect(asked).toBeLessThanOrEqual(20);
});

test('what the pull reads with is stored, and nothing else', async () => {
  const { profile } = await probeOf({});
  expect(profile).toEqual({
    includes: ['sourcing_events', 'suppliers'],
    granularityMicros: 1_000_000,
    // A page holds as many records as were asked for.
    pageSize: 8,
  });
});

test('what a pull has learnt before stays', async () => {
  const clock = testClock();
  const source = new ListSource(clock);
  source.put('r0', 0, 3_600);
  const reader = await startReader({ database: db.database, liveness, client: source.client, clock });
  const learnt = { latenessMs: 60_000, orderBroken: '2029-12-31T00:00:00.000000Z', orderBrokenWhy: 'it went back' };
  await learnProfile(db.database, reader.feed, learnt);
  await probeSource(
    { client: source.client, source: reader.source, feed: 'awards', clock, database: db.database },
    never,
  );
  expect((await reader.checkpoint()).source_profile).toMatchObject({ ...learnt, granularityMicros: 1_000_000 });
});

test('the granularity that is found is never finer than that of stamps and bounds', async () => {
  for (const stamps of ['seconds', 'rounded'] as const)
    for (const inclusiveAfter of [true, false])
      for (const inclusiveBefore of [true, false])
        for (const boundsInSeconds of [false, true]) {
          const { profile } = await probeOf({ stamps, boundsInSeconds, inclusiveAfter, inclusiveBefore });
          expect(profile).toMatchObject({ granularityMicros: 1_000_000 });
        }
});

test.each([
  ['milliseconds', 1_000],
  ['seconds', 1_000_000],
] as const)(
  'bounds that are truncated to %s are recognised although a stamp happens to end there',
  async (_what, step) => {
    const { profile } = await probeOfList((source, now) => {
      source.rows.clear();
      const truncate = (time: string | undefined) =>
        time === undefined ? undefined : timestampFromMicros(Math.floor(microsFromTimestamp(time) / step) * step);
      // Of the first three stamps, around which bounds are tried, the last ends with a step; the others do not.
      for (const [n, micros] of [123_457, 77_003, 0, 5_001, 999_999].entries())
        source.rows.set(`r${n}`, {
          modified: timestampFromMicros(now * 1_000 - 3_600_000_000 + n * 60_000_000 + micros),
          value: n,
        });
      source.answer = (at) => {
        if ('next' in at) return { records: [], next: undefined };
        const [after, before] = [truncate(at.modifiedAfter), truncate(at.modifiedBefore)];
        const records = [...source.rows]
          .map(([id, row]) => ({ id, ...row }))
          .filter(
            ({ modified = '' }) =>
              (after === undefined || modified > after) && (before === undefined || modified <= before),
          );
        const isAll = at.pageSize >= records.length;
        return { records: records.slice(0, at.pageSize), next: isAll ? undefined : 'more=1' };
      };
    });
    expect(profile.granularityMicros).toBeGreaterThanOrEqual(step);
  },
);

describe('unsafe settings are refused:', () => {
  test('a lateness bound smaller than the difference of the clocks', async () => {
    const { failed } = await probeOf({ dateSkewMs: 90_000 });
    expect(failed).toEqual([expect.stringMatching(/clock is 9\d s ahead of ours, .*lateness_seconds \(30\)/)]);
    expect((await probeOf({ dateSkewMs: 90_000 }, { lateness_seconds: 120 })).failed).toEqual([]);
  });

  test('bounds that are not kept', async () => {
    const { ok, text } = await probeOfList((source) => {
      source.answer = (at) =>
        'next' in at ? undefined : { records: [...source.rows].map(([id, row]) => ({ id, ...row })), next: undefined };
    });
    expect(ok).toBe(false);
    expect(text).toContain('ignores modified_after and modified_before');
  });

  test('bounds that are truncated to more than the lateness bound', async () => {
    const day = 86_400_000_000;
    const { ok, text } = await probeOfList((source) => {
      source.rows.clear();
      for (const hour of ['10', '12', '15'])
        source.rows.set(hour, { modified: `2029-12-31T${hour}:20:30.000000Z`, value: Number(hour) });
      const truncate = (time?: string) =>
        time === undefined ? undefined : timestampFromMicros(Math.floor(microsFromTimestamp(time) / day) * day);
      source.answer = (at) => {
        if ('next' in at) return undefined;
        const [after, before] = [truncate(at.modifiedAfter), truncate(at.modifiedBefore)];
        const records = [...source.rows]
          .map(([id, row]) => ({ id, ...row }))
          .filter(
            ({ modified = '' }) =>
              modified >= (after ?? '') && (before === undefined || (truncate(modified) ?? '') <= before),
          );
        return { records, next: undefined };
      };
    });
    expect(ok).toBe(false);
    expect(text).toContain('kept to 86400 s only, which is more than lateness_seconds (30)');
  });

  test('pages without a "next" although there are more records', async () => {
    const { ok, text } = await probeOfList((source) => {
      for (let n = 6; n < 12; n += 1) source.put(`r${n}`, n, 3_600 - n * 60);
      source.answer = (at) =>
        'next' in at
          ? undefined
          : { records: [...source.rows].slice(0, at.pageSize).map(([id, row]) => ({ id, ...row })), next: undefined };
    });
    expect(ok).toBe(false);
    expect(text).toContain('names no next page');
  });

  test('a stamp with more records than a page, where pages cannot be followed', async () => {
    const looping = await probeOfList((source) => {
      const modified = source.put('tied', 1);
      for (let n = 0; n < 10; n += 1) source.rows.set(`tied-${n}`, { modified, value: n });
      for (const id of ['r0', 'r1', 'r2', 'r3', 'r4', 'r5']) source.rows.delete(id);
      source.answer = (at): Partial<FeedPage> | undefined => {
        if (!('next' in at)) return undefined;
        const { skip: _skip, ...query } = JSON.parse(at.next) as { skip: number; pageSize: number };
        const records = [...source.rows].slice(0, query.pageSize).map(([id, row]) => ({ id, ...row }));
        return { records: records.toSorted((a, b) => (a.id < b.id ? -1 : 1)), next: at.next };
      };
    });
    expect(looping.ok).toBe(false);
    expect(looping.text).toContain('set page_size so high that they fit into one page');
  });
});

test.each<[string, ErrorCode, string]>([
  ['does not know the key', 'unauthorized', 'api_key'],
  ['does not let the key read', 'forbidden', 'scope feeds'],
  ['has no such feed', 'not-found', 'base_url'],
  ['does not answer', 'unavailable', 'try again'],
])('a service that %s fails the check, which says what to do', async (_what, code, advice) => {
  const { results, profile } = await probeOfList((source) => {
    source.answer = () => {
      throw new AppError(code, 'GET /api/feeds/awards was refused.');
    };
  });
  expect(results).toEqual([{ name: 'awards: answers', ok: false, message: expect.stringContaining(advice) }]);
  expect(profile).toEqual({});
});

test('a service that refuses include is no longer asked for it; an empty feed is no failure', async () => {
  const { ok, text, profile } = await probeOfList((source) => {
    source.rows.clear();
    source.answer = (at) => {
      if ('include' in at) throw new AppError('invalid', 'GET /api/feeds/awards was answered with 400.');
      return undefined;
    };
  });
  expect(ok).toBe(true);
  expect(text).toContain('includes: refused');
  expect(text).toContain('no record with a time yet');
  expect(profile).toMatchObject({ includes: [] });
});

test.each([
  ['cursor=abc&page_size=3', 'by cursor'],
  ['page=2&page_size=3', 'by page number: pages may skip records'],
  ['offset=3&limit=3', 'by offset: pages may skip records'],
  ['x=3', 'by a "next" of its own kind'],
])('the query of next shows how the service pages: %s', async (next, paging) => {
  const { text } = await probeOfList((source) => {
    source.answer = (at) => {
      if ('next' in at) return { records: [], next: undefined };
      return at.modifiedAfter === undefined && at.modifiedBefore === undefined && at.pageSize === 10
        ? { next }
        : undefined;
    };
  });
  expect(text).toContain(`awards: paging: ${paging}`);
});

test('the profile makes reading cheaper: windows of exact bounds overlap by one microsecond', async () => {
  const clock = testClock();
  const source = new ListSource(clock);
  for (let n = 0; n < 12; n += 1)
    source.rows.set(`r${n}`, { modified: `2029-12-31T23:00:00.${100_000 + n}Z`, value: n });
  const reader = await startReader({ database: db.database, liveness, client: source.client, clock });
  await probeSource(
    { client: source.client, source: reader.source, feed: 'awards', clock, database: db.database },
    never,
  );
  expect((await reader.checkpoint()).source_profile).toMatchObject({ granularityMicros: 1 });
  await reader.pullFor(80);
  expect((await reader.checkpoint()).watermark).toBe('2029-12-31T23:00:00.100011Z');
  expect(await reader.mirror()).toEqual(source.state);
  const bounds = source.asked.flatMap((at) => ('modifiedBefore' in at ? [at.modifiedBefore] : []));
  expect(bounds.at(-1)).toBe(addMicros('2029-12-31T23:00:00.100011Z', 1));
});
