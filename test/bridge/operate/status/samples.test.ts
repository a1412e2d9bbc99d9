import { beforeAll, beforeEach, describe, expect, test } from 'vitest';
import { createSampling, readSamples, type SeenProgress, writeSample } from '#bridge/operate/status/samples.ts';
import { countChanges } from '#bridge/pull/feed/checkpoint-store.ts';
import { timestampFromMs } from '#contract/timestamp.ts';
import { timeOrderedId } from '#platform/time-ordered-id.ts';
import { createTestDatabase, type TestDatabase } from '../../../harness/test-database.ts';
import { settingsOf, startProcess, type TestClock, testClock } from '../../parts.ts';

const minuteMs = 60_000;
const start = Date.UTC(2030, 0, 1, 10, 0);
const at = (minute: number, seconds = 0) => timestampFromMs(start + minute * minuteMs + seconds * 1000);

let db: TestDatabase;
beforeAll(async () => {
  db = await createTestDatabase();
});
beforeEach(async () => {
  await db.database.query('truncate bridge.samples, bridge.attempts, bridge.checkpoints, bridge.flows cascade');
  await db.database.query(
    "insert into bridge.checkpoints (source, feed, next_pull) values ('main', 'awards', '2030-01-01Z')",
  );
});

const lag = (seconds: number | null) => ({ seconds, why: '', inStep: true });
const feeds = [{ lag: lag(1) }, { lag: lag(3) }, { lag: lag(null) }];
const erp = { flow: 'erp', lag: lag(5), deadLetters: 1 };
const sample = (minute: number, seen: SeenProgress = { feeds, flows: [erp] }) =>
  db.database.transaction((tx) => writeSample(tx, start + minute * minuteMs, seen));
const store = (changed: number) => countChanges(db.database, { source: 'main', feed: 'awards' }, changed);
const read = (range: 'hour' | 'day' | 'week', minute: number) => readSamples(db.database, range, at(minute, 5));

async function attempt(minute: number, outcome: string, seconds = 30): Promise<void> {
  const endedMs = start + minute * minuteMs + seconds * 1000;
  await db.database.query(
    `insert into bridge.attempts (id, flow, kind, key, action, step, outcome, number, started, ended)
     values ($1, 'erp', 'award', 'k', 'create', 'write', $2, 1, $3, $3)`,
    [timeOrderedId(endedMs), outcome, timestampFromMs(endedMs)],
  );
}

describe('samples', () => {
  test('hold what was stored, delivered and left behind in each minute', async () => {
    await store(1_000); // The first sync, before the first sample.
    await sample(0);
    await store(3);
    await store(4);
    await attempt(1, 'created');
    await attempt(1, 'cancelled');
    await attempt(1, 'rejected');
    await attempt(1, 'unchanged');
    await sample(1);
    await sample(2, { feeds: [{ lag: lag(null) }], flows: [{ ...erp, deadLetters: 7 }] });
    expect(await read('hour', 2)).toEqual({
      range: 'hour',
      stepSeconds: 60,
      from: at(-57),
      to: at(2),
      feeds: [
        { at: at(0), changes: 0, lagSeconds: 3 },
        { at: at(1), changes: 7, lagSeconds: 3 },
        { at: at(2), changes: 0, lagSeconds: null },
      ],
      flows: [
        {
          flow: 'erp',
          points: [
            { at: at(0), deliveries: 0, lagSeconds: 5, deadLetters: 1 },
            { at: at(1), deliveries: 2, lagSeconds: 5, deadLetters: 1 },
            { at: at(2), deliveries: 0, lagSeconds: 5, deadLetters: 7 },
          ],
        },
      ],
    });
  });

  test('are added up for longer ranges: counts are added, the longest lag and the most dead letters stay', async () => {
    await sample(8);
    await store(2);
    await attempt(9, 'updated');
    await sample(9, { feeds, flows: [{ ...erp, lag: lag(90), deadLetters: 4 }] });
    await store(5);
    await attempt(10, 'created');
    await sample(10);
    const day = await read('day', 10);
    expect(day.feeds).toEqual([
      { at: at(0), changes: 2, lagSeconds: 3 },
      { at: at(10), changes: 5, lagSeconds: 3 },
    ]);
    expect(day.flows[0]?.points).toEqual([
      { at: at(0), deliveries: 1, lagSeconds: 90, deadLetters: 4 },
      { at: at(10), deliveries: 1, lagSeconds: 5, deadLetters: 1 },
    ]);
    const week = await read('week', 10);
    expect(week.flows[0]?.points).toEqual([{ at: at(0), deliveries: 2, lagSeconds: 90, deadLetters: 4 }]);
    expect([week.from, week.to]).toEqual(['2029-12-25T11:00:00.000000Z', at(0)]);
  });

  test('taken twice are the same, and a delivery that was committed after its minute is counted', async () => {
    await sample(0);
    await attempt(1, 'created');
    await sample(1);
    await sample(1);
    await attempt(1, 'created', 59);
    await sample(2);
    await sample(3);
    const points = (await read('hour', 3)).flows[0]?.points.map(({ deliveries }) => deliveries);
    expect(points).toEqual([0, 2, 0, 0]);
    expect((await read('day', 3)).flows[0]?.points).toMatchObject([{ deliveries: 2 }]);
  });

  test('of minutes that were missed have the deliveries, and no lag', async () => {
    await sample(0);
    await attempt(2, 'created');
    await attempt(5, 'created');
    await sample(6);
    expect((await read('hour', 6)).flows[0]?.points).toEqual([
      { at: at(0), deliveries: 0, lagSeconds: 5, deadLetters: 1 },
      { at: at(2), deliveries: 1, lagSeconds: null, deadLetters: null },
      { at: at(5), deliveries: 1, lagSeconds: null, deadLetters: null },
      { at: at(6), deliveries: 0, lagSeconds: 5, deadLetters: 1 },
    ]);
  });

  test('are kept for eight days; what a wrong clock left in the future goes, too', async () => {
    await sample(0);
    await sample(9 * 60);
    await sample(8 * 60);
    const kept = await db.database.query<{ at: string }>(
      "select at from bridge.samples where subject = 'flow' order by at",
    );
    expect(kept).toEqual([{ at: at(0) }, { at: at(8 * 60) }]);
    await sample(8 * 24 * 60 + 1);
    expect(await db.database.query("select from bridge.samples where subject = 'flow'")).toHaveLength(2);
  });

  test('are a bounded number of rows a minute, however many feeds and flows there are', async () => {
    const many = Array.from({ length: 1_000 }, (_, n) => ({ flow: `f${n}`, lag: lag(n), deadLetters: 0 }));
    await sample(0, { feeds: many, flows: many });
    const rows = await db.database.query<{ name: string; lag: number }>(
      'select name, lag_seconds as lag from bridge.samples order by lag_seconds desc, name',
    );
    expect(rows).toHaveLength(101);
    expect(rows.slice(0, 2)).toEqual([
      { name: 'all', lag: 999 },
      { name: 'f999', lag: 999 },
    ]);
  });
});

describe('sampling', () => {
  let clock: TestClock;
  beforeEach(() => {
    clock = testClock();
  });
  const settings = settingsOf({ feeds: ['awards'] }, [{ name: 'erp' }]);
  const lags = () => db.database.query('select name, at, lag_seconds as lag from bridge.samples order by at, name');

  test('takes each minute once, whichever process is first, with a row of all feeds and one of each flow', async () => {
    const samplers = await Promise.all(
      [1, 2].map(async () => {
        const { database, acquireLease } = await startProcess(db);
        return createSampling({ database, acquireLease, clock, settings });
      }),
    );
    for (const take of samplers) await take();
    clock.advance(59_000);
    await Promise.all(samplers.map((take) => take()));
    expect(await lags()).toMatchObject([
      { name: 'all', at: '2029-12-31T23:59:00.000000Z' },
      { name: 'erp', at: '2029-12-31T23:59:00.000000Z' },
    ]);
    clock.advance(1_000);
    for (const take of samplers) await take();
    expect((await lags()).map((row) => (row as { at: string }).at)).toEqual([
      ...Array(2).fill('2029-12-31T23:59:00.000000Z'),
      ...Array(2).fill('2030-01-01T00:00:00.000000Z'),
    ]);
  });
});
