import * as fc from 'fast-check';
import { beforeAll, describe, expect, test } from 'vitest';
import { readQuotasLeft } from '#bridge/quota/quotas-left.ts';
import { createSqlQuotas } from '#bridge/quota/sql-quotas.ts';
import type { SourceSettings } from '#bridge/settings.ts';
import type { Bucket, Quotas, QuotaUse } from '#client/quotas.ts';
import { type Clock, timestampNow } from '#platform/clock.ts';
import { createDatabase, type Database } from '#platform/database/database.ts';
import { AppError } from '#platform/errors.ts';
import { silentLogger } from '#platform/log.ts';
import { createTestDatabase, type TestDatabase } from '../../harness/test-database.ts';
import { settingsOf, startProcess, testClock } from '../parts.ts';

const bucket = 'feeds.awards';
const minuteMs = 60_000;
const dayMs = 86_400_000;
/** What a use counts longer than the window: two seconds, a thousandth, and up to a slot (1 s, 720 s). */
const burstStayMs = 60_060 + 2_000 + 1_000;
const timeoutMs = 60_000;

let db: TestDatabase;
let sources = 0;
beforeAll(async () => {
  db = await createTestDatabase({ poolMax: 20 });
});

/** A source that nobody has asked yet. */
function newSource(quotas: SourceSettings['quotas'] = { feeds: { burst: 3, sustained: 100 } }): SourceSettings {
  sources += 1;
  const [source] = settingsOf({ name: `source-${sources}`, quotas, timeout_seconds: timeoutMs / 1000 }).sources;
  if (!source) throw new Error('no source');
  return source;
}

class Waits extends Error {
  readonly ms: number;
  constructor(ms: number) {
    super('a wait');
    this.ms = ms;
  }
}

/** Stands still; nobody waits on it: a wait is thrown. */
function stillClock(startMs = Date.UTC(2030, 0, 1)) {
  let nowMs = startMs;
  const clock: Clock = { nowMs: () => nowMs, sleep: (ms) => Promise.reject(new Waits(ms)) };
  return Object.assign(clock, {
    advance: (ms: number) => {
      nowMs += ms;
    },
  });
}

/** How long to wait, however it is said; undefined when it was let through. */
async function waitOf(quotas: Quotas, of: Bucket = bucket): Promise<number | undefined> {
  return tryTake(quotas, of).then((taken) => (typeof taken === 'number' ? taken : undefined));
}

async function tryTake(quotas: Quotas, of: Bucket = bucket): Promise<QuotaUse | number> {
  try {
    return await quotas.take(of);
  } catch (error) {
    if (error instanceof Waits) return error.ms;
    if (error instanceof AppError && error.code === 'too-many' && error.recovery.do === 'retry')
      return error.recovery.afterMs ?? 0;
    throw error;
  }
}

async function takeAndAnswer(quotas: Quotas, times: number): Promise<void> {
  for (let count = 0; count < times; count += 1) await (await quotas.take(bucket)).answered();
}

describe('a quota', () => {
  test('lets through what the window holds, and the next when the first has left it', async () => {
    const clock = stillClock();
    const quotas = createSqlQuotas({ source: newSource(), database: db.database, clock });
    await takeAndAnswer(quotas, 3);
    const waitMs = await waitOf(quotas);
    // Never less than the window, and not much more.
    expect(waitMs).toBeGreaterThanOrEqual(minuteMs);
    expect(waitMs).toBeLessThanOrEqual(burstStayMs);
    clock.advance((waitMs ?? 0) - 1);
    expect(await waitOf(quotas)).toBe(1);
    clock.advance(1);
    expect(await waitOf(quotas)).toBeUndefined();
  });

  test('is told as too-many with the time when it is of use to come again', async () => {
    const quotas = createSqlQuotas({ source: newSource(), database: db.database, clock: testClock() });
    await takeAndAnswer(quotas, 3);
    const error = await quotas.take(bucket).catch((caught: unknown) => caught);
    expect(error).toMatchObject({ code: 'too-many', recovery: { do: 'retry' } });
    expect((error as AppError).publicMessage).toMatch(
      /source "source-\d+" allows no further request of the kind feeds.awards/,
    );
  });

  test('that is free again within five seconds is waited for', async () => {
    const clock = testClock();
    const quotas = createSqlQuotas({ source: newSource(), database: db.database, clock });
    await takeAndAnswer(quotas, 3);
    clock.advance(burstStayMs - 4_000);
    await quotas.take(bucket);
    expect(clock.slept).toHaveLength(1);
    expect(clock.slept[0]).toBeLessThanOrEqual(4_000);
  });

  test('of a feed, of another feed and of another source are apart', async () => {
    const clock = stillClock();
    const [one, other] = [newSource(), newSource()].map((source) =>
      createSqlQuotas({ source, database: db.database, clock }),
    );
    if (!one || !other) throw new Error('two sources');
    await takeAndAnswer(one, 3);
    expect(await waitOf(one)).toBeDefined();
    expect(await waitOf(one, 'feeds.latest-bids')).toBeUndefined();
    expect(await waitOf(one, 'suppliers')).toBeUndefined();
    expect(await waitOf(other)).toBeUndefined();
  });

  test('of the day holds although that of the minute is free', async () => {
    const clock = stillClock();
    const source = newSource({ feeds: { burst: 10, sustained: 12 } });
    const quotas = createSqlQuotas({ source, database: db.database, clock });
    await takeAndAnswer(quotas, 10);
    clock.advance(burstStayMs);
    await takeAndAnswer(quotas, 2);
    expect(await waitOf(quotas)).toBeGreaterThan(dayMs - 2 * minuteMs);
    clock.advance(dayMs * 1.001 + 2_000 + 720_000);
    expect(await waitOf(quotas)).toBeUndefined();
  });

  test('counts a request of which no answer was seen until it cannot be under way any more', async () => {
    const clock = stillClock();
    const source = newSource({ feeds: { burst: 1, sustained: 100 } });
    const quotas = createSqlQuotas({ source, database: db.database, clock });
    await quotas.take(bucket);
    clock.advance(burstStayMs);
    // It may have reached the source at the end of its time limit only.
    expect(await waitOf(quotas)).toBeGreaterThan(timeoutMs - 5_000);
    clock.advance(timeoutMs + 5_000);
    expect(await waitOf(quotas)).toBeUndefined();
  });

  test('is shared by processes that ask in the same moment', async () => {
    const clock = stillClock();
    const source = newSource({ feeds: { burst: 17, sustained: 100 } });
    const processes = await Promise.all(
      Array.from({ length: 4 }, async () => {
        const { database } = await startProcess(db);
        return createSqlQuotas({ source, database, clock });
      }),
    );
    const waits = await Promise.all(Array.from({ length: 40 }, (_, index) => waitOf(processes[index % 4] as Quotas)));
    expect(waits.filter((wait) => wait === undefined)).toHaveLength(17);
  });

  test('holds also where the clocks of two machines differ by two seconds', async () => {
    const time = stillClock();
    const source = newSource();
    const [slow, fast] = [0, 2_000].map((aheadMs) =>
      createSqlQuotas({
        source,
        database: db.database,
        clock: { nowMs: () => time.nowMs() + aheadMs, sleep: (ms) => time.sleep(ms) },
      }),
    );
    if (!slow || !fast) throw new Error('two processes');
    await takeAndAnswer(slow, 3);
    await waitOf(slow);
    expect(await waitOf(fast)).toBeGreaterThanOrEqual(minuteMs);
  });

  test('leaves a quarter to the others when it is used in the background', async () => {
    const clock = stillClock();
    const source = newSource({ feeds: { burst: 8, sustained: 100 } });
    const background = createSqlQuotas({ source, database: db.database, clock, background: true });
    const usual = createSqlQuotas({ source, database: db.database, clock });
    await takeAndAnswer(background, 6);
    expect(await waitOf(background)).toBeGreaterThan(0);
    await takeAndAnswer(usual, 2);
    expect(await waitOf(usual)).toBeGreaterThan(0);
  });

  test('is counted again by a process that stood still after it had counted', async () => {
    const clock = stillClock();
    const source = newSource({ feeds: { burst: 3, sustained: 100 } });
    let stops = 1;
    const database: Database = {
      ...db.database,
      query: async (...statement) => {
        const rows = await db.database.query<never>(...statement);
        if (stops > 0) clock.advance(120_000);
        stops -= 1;
        return rows;
      },
    };
    await createSqlQuotas({ source, database, clock }).take(bucket);
    // As if it had just been taken: it is under way now, and not two minutes ago.
    clock.advance(burstStayMs);
    const left = await readQuotasLeft(db.database, [source], timestampNow(clock));
    expect(left[0]).toMatchObject({ window: 'burst', left: 2 });
  });

  test('is not counted away by a database that is always slow', async () => {
    const clock = stillClock();
    const source = newSource({ feeds: { burst: 50, sustained: 100 } });
    const database: Database = {
      ...db.database,
      query: async (...statement) => {
        const rows = await db.database.query<never>(...statement);
        clock.advance(6_000);
        return rows;
      },
    };
    await expect(createSqlQuotas({ source, database, clock }).take(bucket)).rejects.toMatchObject({
      code: 'unavailable',
      publicMessage: expect.stringContaining('took 6 s'),
    });
    const left = await readQuotasLeft(db.database, [source], timestampNow(clock));
    expect(left[0]).toMatchObject({ window: 'burst', left: 48 });
  });

  test('that is switched off counts nothing', async () => {
    const clock = stillClock();
    const source = newSource({ enabled: false });
    const quotas = createSqlQuotas({ source, database: db.database, clock });
    await takeAndAnswer(quotas, 200);
    expect(await readQuotasLeft(db.database, [source], timestampNow(clock))).toEqual([]);
  });

  test('lets nothing through while the database is away', async () => {
    const database = createDatabase({
      url: 'postgres://nobody@127.0.0.1:1/nowhere',
      log: silentLogger,
      applicationName: 'away',
    });
    const quotas = createSqlQuotas({ source: newSource(), database, clock: testClock() });
    await expect(quotas.take(bucket)).rejects.toMatchObject({ code: 'unavailable' });
    await database.close();
  });

  test('that a wrong clock has used up in a time to come is free again when the clock is right', async () => {
    const source = newSource();
    const ahead = createSqlQuotas({ source, database: db.database, clock: stillClock(Date.UTC(2031, 0, 1)) });
    await takeAndAnswer(ahead, 3);
    const clock = stillClock();
    const quotas = createSqlQuotas({ source, database: db.database, clock });
    expect(await waitOf(quotas)).toBeDefined();
    clock.advance(burstStayMs + timeoutMs + 5_000);
    expect(await waitOf(quotas)).toBeUndefined();
  });

  test('that is left can be read, also when nobody has asked for long', async () => {
    const clock = stillClock();
    const source = newSource();
    const quotas = createSqlQuotas({ source, database: db.database, clock });
    await takeAndAnswer(quotas, 2);
    const read = async () =>
      (await readQuotasLeft(db.database, [source], timestampNow(clock)))
        .filter((quota) => quota.source === source.name)
        .map(({ window, left }) => [window, left]);
    expect(await read()).toEqual([
      ['burst', 1],
      ['sustained', 98],
    ]);
    clock.advance(burstStayMs + timeoutMs + 5_000);
    expect(await read()).toEqual([
      ['burst', 3],
      ['sustained', 98],
    ]);
  });

  test('keeps no more rows than its windows have slots', async () => {
    const clock = stillClock();
    const source = newSource({ feeds: { burst: 1_000, sustained: 100_000 } });
    const quotas = createSqlQuotas({ source, database: db.database, clock });
    for (let count = 0; count < 300; count += 1) {
      await takeAndAnswer(quotas, 1);
      clock.advance(700_000);
    }
    const [row] = await db.database.query<{ rows: number }>(
      'select count(*) as rows from bridge.quota_uses where source = $1',
      [source.name],
    );
    expect(row?.rows).toBeLessThan(125);
  });
});

describe('a refusal by the source', () => {
  const unlimited = { feeds: { burst: 1_000, sustained: 10_000 } };

  test('stops everybody for as long as it asks', async () => {
    const clock = stillClock();
    const source = newSource(unlimited);
    const [one, other] = [0, 1].map(() => createSqlQuotas({ source, database: db.database, clock }));
    if (!one || !other) throw new Error('two processes');
    expect(await (await one.take(bucket)).refused(90_000)).toBe(90_000);
    expect([await waitOf(one), await waitOf(other)]).toEqual([90_000, 90_000]);
    expect(await waitOf(other, 'feeds.latest-bids')).toBeUndefined();
    clock.advance(90_000);
    expect(await waitOf(other)).toBeUndefined();
  });

  test('without a time stops everybody for longer each time, up to a quarter of an hour', async () => {
    const clock = stillClock();
    const quotas = createSqlQuotas({ source: newSource(unlimited), database: db.database, clock });
    const waits: number[] = [];
    for (let count = 0; count < 9; count += 1) {
      const waitMs = await (await quotas.take(bucket)).refused(undefined);
      waits.push(waitMs / 1000);
      clock.advance(waitMs);
    }
    expect(waits).toEqual([10, 20, 40, 80, 160, 320, 640, 900, 900]);
    await (await quotas.take(bucket)).answered();
    expect(await (await quotas.take(bucket)).refused(undefined)).toBe(10_000);
  });

  test('that asks for no wait at all is not believed again and again', async () => {
    const clock = stillClock();
    const quotas = createSqlQuotas({ source: newSource(unlimited), database: db.database, clock });
    const waits: number[] = [];
    for (let count = 0; count < 4; count += 1) {
      const waitMs = await (await quotas.take(bucket)).refused(0);
      waits.push(waitMs / 1000);
      clock.advance(waitMs);
    }
    expect(waits).toEqual([0, 10, 20, 40]);
  });

  test('of several requests that were under way together is one', async () => {
    const clock = stillClock();
    const quotas = createSqlQuotas({ source: newSource(unlimited), database: db.database, clock });
    const uses = [await quotas.take(bucket), await quotas.take(bucket), await quotas.take(bucket)];
    clock.advance(100);
    const waits: number[] = [];
    for (const use of uses) waits.push(await use.refused(undefined));
    expect(waits).toEqual([10_000, 10_000, 10_000]);
  });

  test('that is over lets one request try, and the others when it was answered', async () => {
    const clock = stillClock();
    const source = newSource(unlimited);
    const quotas = createSqlQuotas({ source, database: db.database, clock });
    await (await quotas.take(bucket)).refused(10_000);
    clock.advance(10_000);
    const probe = await quotas.take(bucket);
    expect(await waitOf(quotas)).toBe(4_000);
    await probe.answered();
    expect(await waitOf(quotas)).toBeUndefined();
  });

  test('whose trying request died is tried again', async () => {
    const clock = stillClock();
    const source = newSource(unlimited);
    const quotas = createSqlQuotas({ source, database: db.database, clock });
    await (await quotas.take(bucket)).refused(10_000);
    clock.advance(10_000);
    await quotas.take(bucket);
    clock.advance(4_000);
    expect(await waitOf(createSqlQuotas({ source, database: db.database, clock }))).toBeUndefined();
  });

  test('stops everybody also where the quota is switched off', async () => {
    const clock = stillClock();
    const quotas = createSqlQuotas({ source: newSource({ enabled: false }), database: db.database, clock });
    await (await quotas.take(bucket)).refused(30_000);
    expect(await waitOf(quotas)).toBe(30_000);
  });
});

/**
 * The source's own window, exact: it counts a request when it arrives. Processes whose clocks differ by up to two seconds
 * take, send, answer, and die before or after the sending.
 */
describe('with processes that die at any time', () => {
  const limit = { burst: 4, sustained: 30 };
  const step = fc.record({
    process: fc.nat(2),
    gapMs: fc.oneof(
      { weight: 6, arbitrary: fc.nat(3_000) },
      { weight: 3, arbitrary: fc.integer({ min: 3_000, max: 70_000 }) },
      { weight: 1, arbitrary: fc.integer({ min: 70_000, max: 40_000_000 }) },
    ),
    arriveMs: fc.oneof(fc.nat(20), fc.nat(200), fc.nat(timeoutMs)),
    answerMs: fc.oneof(fc.nat(10), fc.nat(5_000)),
    /** Comes again in the very moment at which it may. */
    eager: fc.boolean(),
    fate: fc.constantFrom('answered', 'answered', 'answered', 'dies before sending', 'dies before the answer'),
  });

  test("no request goes beyond the source's own sliding window, and none waits that need not", async () => {
    let letThrough = 0;
    await fc.assert(
      fc.asyncProperty(
        fc.array(step, { minLength: 20, maxLength: 60 }),
        fc.array(fc.integer({ min: 0, max: 1_900 }), { minLength: 3, maxLength: 3 }),
        async (steps, aheadMs) => {
          const source = newSource({ feeds: limit });
          const time = stillClock();
          const start = (index: number) =>
            createSqlQuotas({
              source,
              database: db.database,
              clock: { nowMs: () => time.nowMs() + (aheadMs[index] ?? 0), sleep: (ms) => time.sleep(ms) },
            });
          const processes = [start(0), start(1), start(2)];
          const arrivals: number[] = [];
          const takes: number[] = [];
          const heldBack: number[] = [];
          let coming: { atMs: number; happens: () => void | Promise<void> }[] = [];
          const passTo = async (untilMs: number) => {
            for (;;) {
              const [next] = coming.sort((a, b) => a.atMs - b.atMs);
              if (!next || next.atMs > untilMs) break;
              coming = coming.slice(1);
              time.advance(next.atMs - time.nowMs());
              await next.happens();
            }
            time.advance(untilMs - time.nowMs());
          };
          for (const { process, gapMs, arriveMs, answerMs, eager, fate } of steps) {
            await passTo(time.nowMs() + gapMs);
            let taken = await tryTake(processes[process] as Quotas);
            if (eager && typeof taken === 'number') {
              await passTo(time.nowMs() + taken);
              taken = await tryTake(processes[process] as Quotas);
            }
            const nowMs = time.nowMs();
            const quotas = processes[process] as Quotas;
            if (typeof taken === 'number') {
              const since = (ms: number) => takes.filter((at) => at > nowMs - ms - timeoutMs - 10_000).length;
              const mayWait = since(burstStayMs) >= limit.burst || since(dayMs * 1.001 + 800_000) >= limit.sustained;
              if (!mayWait) heldBack.push(nowMs);
              continue;
            }
            takes.push(nowMs);
            letThrough += 1;
            if (fate === 'dies before sending') {
              processes[process] = start(process);
              continue;
            }
            coming.push({ atMs: nowMs + arriveMs, happens: () => void arrivals.push(nowMs + arriveMs) });
            const endMs = nowMs + Math.min(timeoutMs, arriveMs + answerMs);
            coming.push({
              atMs: endMs,
              happens: async () => {
                if (fate === 'answered' && processes[process] === quotas) await taken.answered();
                else processes[process] = start(process);
              },
            });
          }
          await passTo(time.nowMs() + timeoutMs);
          expect(heldBack, 'held back without a reason').toEqual([]);
          arrivals.sort((a, b) => a - b);
          for (const [windowMs, most] of [
            [minuteMs, limit.burst],
            [dayMs, limit.sustained],
          ] as const)
            for (const [index, atMs] of arrivals.entries())
              expect(
                arrivals.slice(0, index + 1).filter((other) => other > atMs - windowMs).length,
              ).toBeLessThanOrEqual(most);
        },
      ),
      { numRuns: 120 },
    );
    expect(letThrough).toBeGreaterThan(500);
  }, 120_000);
});
