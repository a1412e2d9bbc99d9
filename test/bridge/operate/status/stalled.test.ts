/** A watermark that stands still while the feed is read is seen: never "in step", with the request that repeats. */
import { afterAll, beforeAll, describe, expect, test, vi } from 'vitest';
import { type Liveness, startLiveness } from '#bridge/ledger/leases/liveness.ts';
import { readStatus } from '#bridge/operate/status/status.ts';
import { registerStatusMetrics } from '#bridge/operate/status/status-metrics.ts';
import { findWork } from '#cli/doctor/work-findings.ts';
import { timestampNow } from '#platform/clock.ts';
import { AppError } from '#platform/errors.ts';
import { silentLogger } from '#platform/log.ts';
import { Registry } from '#platform/metrics.ts';
import { createTestDatabase, type TestDatabase } from '../../../harness/test-database.ts';
import { settingsOf, testClock } from '../../parts.ts';
import { ListSource } from '../../pull/list-source.ts';
import { startReader } from '../../pull/reader.ts';

// The source of these tests names a next page for ever: each look at it follows fifty.
vi.setConfig({ testTimeout: 240_000 });

let db: TestDatabase;
let liveness: Liveness;
beforeAll(async () => {
  db = await createTestDatabase();
  liveness = await startLiveness({ database: db.database, log: silentLogger });
});
afterAll(async () => {
  await liveness.close();
  await db.drop();
});

/** A reader of a source that writes four records before each pull, and what status, doctor and metrics say of it. */
async function startWatched() {
  const clock = testClock();
  const source = new ListSource(clock);
  source.put('r0', 0, 3_600);
  const reader = await startReader({
    database: db.database,
    liveness,
    client: source.client,
    clock,
  });
  const settings = settingsOf({ ...reader.source, feeds: ['awards'] });
  let written = 0;
  return {
    clock,
    source,
    reader,
    pullFor: async (seconds: number) => {
      for (let passed = 0; passed < seconds; passed += 20) {
        // More than a page of them waits for the lateness bound: one answer does not show them all.
        for (let n = 0; n < 4; n += 1) {
          written += 1;
          source.put(`new-${written}`, written, 4 - n);
        }
        await reader.pullFor(20);
      }
    },
    look: async () => {
      const status = await readStatus(db.database, { settings, now: timestampNow(clock) });
      const [feed] = status.feeds;
      if (!feed) throw new Error('no feed');
      const registry = new Registry();
      registerStatusMetrics({ settings, database: db.database, clock, registry });
      const metrics = await registry.metrics();
      const metric = (name: string, labels: string) =>
        Number(new RegExp(String.raw`^${name}\{${labels}\} (.*)$`, 'm').exec(metrics)?.[1]);
      return {
        feed,
        status,
        stalled: metric('bridge_conditions', 'kind="feed-stalled"'),
        findings: findWork(status),
      };
    },
  };
}

describe('a feed whose windows show only empty pages, while new records are read', () => {
  test('is in step at first, and not any more once that lasts longer than the lateness bound allows', async () => {
    const { source, reader, pullFor, look } = await startWatched();
    await pullFor(200);
    const before = await look();
    expect(before.feed).toMatchObject({ stalled: false, lag: { inStep: true } });
    expect(before.feed.watermark).not.toBeNull();
    expect(before.status.conditions).toEqual([]);

    const { answer } = source;
    source.answer = (at) => {
      const isWindow = 'next' in at ? at.next.startsWith('empty') : at.modifiedBefore !== undefined;
      return isWindow ? { records: [], next: `empty=${source.asked.length}` } : answer(at);
    };
    await pullFor(600);
    const { feed, status, stalled, findings } = await look();
    // New records are read all the time, and no pull fails.
    expect((await reader.mirror()).get('new-160')).toBe(160);
    expect(feed).toMatchObject({ watermark: before.feed.watermark, failures: 0, stalled: true });
    expect(feed.lag.inStep).toBe(false);
    expect(feed.lag.why).toMatch(
      /^new records are read; .* proved only up to 2030-.*The window from .* is asked for again/,
    );
    expect(status.conditions).toMatchObject([{ kind: 'feed-stalled' }]);
    expect(stalled).toBe(1);
    expect(feed.stillSeconds).toBeGreaterThan(3 * 30 + 5);
    expect(findings).toContainEqual(
      expect.objectContaining({ level: 'fail', message: expect.stringContaining('The window from') }),
    );

    // The source repents.
    source.answer = answer;
    await pullFor(200);
    const after = await look();
    expect(after.feed).toMatchObject({ stalled: false, lag: { inStep: true } });
    expect(after.stalled).toBe(0);
    expect(after.status.conditions).toEqual([]);
  });

  test('is not in step even if the pull does not say that the watermark stands still', async () => {
    const { reader, pullFor, look } = await startWatched();
    await pullFor(200);
    await db.database.query(
      `update bridge.checkpoints set watermark = '2029-12-31T23:00:00Z', stalled_why = null where source = $1`,
      [reader.feed.source],
    );
    const { feed } = await look();
    expect(feed.lag).toMatchObject({
      inStep: false,
      why: expect.stringContaining('is proved only up to 2029-12-31T23:00:00Z'),
    });
  });
});

test('a declared order that is not believed is shown, with what was seen and since when', async () => {
  const { reader, pullFor, look } = await startWatched();
  await pullFor(20);
  await db.database.query('update bridge.checkpoints set source_profile = source_profile || $2 where source = $1', [
    reader.feed.source,
    JSON.stringify({ orderBroken: '2030-01-01T00:00:00.000000Z', orderBrokenWhy: 'it pages by number' }),
  ]);
  const { findings } = await look();
  expect(findings).toContainEqual(
    expect.objectContaining({
      level: 'warn',
      message: expect.stringMatching(/it pages by number.*read in windows since 2030-01-01T00:00:00Z/),
    }),
  );
});

test('a feed whose pages break off says that records without a time may be missing, until they are read', async () => {
  const { clock, source, reader, pullFor, look } = await startWatched();
  for (let n = 0; n < 20; n += 1) source.put(`old-${n}`, n, 7_200 - n);
  source.answer = (at) => {
    if (!('next' in at)) return undefined;
    throw new AppError('not-found', 'The cursor is gone.', { recovery: { do: 'halt' } });
  };
  await pullFor(60);
  await reader.audit();
  const { feed, status, findings } = await look();
  expect(feed.failures).toBe(0);
  expect(status.conditions).toMatchObject([{ kind: 'feed-unfiltered', subject: `feed ${reader.source.name}/awards` }]);
  expect(findings).toContainEqual(
    expect.objectContaining({
      level: 'warn',
      message: expect.stringMatching(/^Records of .* without a time may be missing: .*The cursor is gone\.$/),
    }),
  );

  source.answer = () => undefined;
  clock.advance(3_600_000);
  await pullFor(60);
  await reader.audit();
  const after = await look();
  expect([after.status.conditions, after.status.audits]).toEqual([[], []]);
});
