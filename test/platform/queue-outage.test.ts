import { randomBytes } from 'node:crypto';
import { setImmediate as nextTurn } from 'node:timers/promises';
import { Redis } from 'ioredis';
import { Client } from 'pg';
import { afterAll, afterEach, beforeEach, describe, expect, onTestFinished, test, vi } from 'vitest';
import { AppError } from '#platform/errors.ts';
import { createLogger } from '#platform/log.ts';
import { createSignals, type Signals } from '#platform/queue.ts';
import { findTestRedis, hasRedisServer, startRedisServer } from '../harness/redis.ts';
import { startShutdownServer } from '../harness/shutdown-server.ts';
import { createEmptyDatabase } from '../harness/test-database.ts';
import { type CutOffProxy, startCutOffProxy } from './queue/cut-off-proxy.ts';

const redis = await findTestRedis();
const database = await createEmptyDatabase();
const namespace = `queue_${randomBytes(4).toString('hex')}`;

afterAll(async () => {
  if (redis) {
    // A Redis that other programs use as well must not keep the keys of this test.
    const client = new Redis(redis.url);
    const keys = await client.keys(`${namespace}:*`);
    if (keys.length > 0) await client.del(keys);
    client.disconnect();
  }
  await redis?.close();
  await database.drop();
});

/** One lane for each test: a key that an outage leaves locked must not affect the next test. */
let lane = '';
let lanes = 0;
const opened: Signals[] = [];
beforeEach(() => {
  lanes += 1;
  lane = `lane-${lanes}`;
  lines = [];
});
/** Runs while the server of the test still runs. */
async function closeSignals(): Promise<void> {
  await Promise.all(opened.splice(0).map((signals) => signals.close(1_000)));
}
afterEach(closeSignals);

/** A caller must not wait longer than this for a queue that is away; the guarantee is 2 s. */
const answerWithinMs = 2_500;

let lines: { level: string; msg: string; error?: string }[] = [];
function openSignals(options: { redisUrl?: string; databaseUrl?: string; lockMs?: number }): Promise<Signals> {
  const log = createLogger({
    level: 'info',
    name: 'test',
    destination: { write: (text) => lines.push(JSON.parse(text) as (typeof lines)[number]) },
  });
  return createSignals({ databaseUrl: database.url, ...options, namespace, log }).then((signals) => {
    opened.push(signals);
    return signals;
  });
}

/** Works the lane; the returned array gets the keys that were finished. */
function workLane(signals: Signals): string[] {
  const worked: string[] = [];
  signals.work(lane, { concurrency: 2 }, async (key) => {
    worked.push(key);
  });
  return worked;
}

/** Signals again and again, as a sweep does, until the key was worked. */
async function worksAgain(signals: Signals, worked: string[], key: string): Promise<void> {
  await vi.waitFor(
    async () => {
      await signals.signal(lane, [key]);
      expect(worked).toContain(key);
    },
    { timeout: 10_000, interval: 100 },
  );
}

async function timed<T>(promise: Promise<T>): Promise<{ value: T; ms: number }> {
  const before = performance.now();
  const value = await promise;
  return { value, ms: performance.now() - before };
}

const backends = [
  { name: 'Redis', target: redis?.url },
  { name: 'PostgreSQL', target: database.url },
].filter((backend): backend is { name: string; target: string } => backend.target !== undefined);

describe.each(backends)('signals on $name over a network that fails', ({ name, target }) => {
  let proxy: CutOffProxy;
  let url: string;

  function open(): Promise<Signals> {
    return openSignals(name === 'Redis' ? { redisUrl: url } : { databaseUrl: url });
  }

  beforeEach(async () => {
    const { hostname, port } = new URL(target);
    proxy = await startCutOffProxy({ host: hostname, port: Number(port || (name === 'Redis' ? 6379 : 5432)) });
    const through = new URL(target);
    through.hostname = '127.0.0.1';
    through.port = String(proxy.port);
    url = through.href;
  });
  afterEach(async () => {
    await closeSignals();
    await proxy.close();
  });

  test('during an outage a signal is answered in time, afterwards workers go on, and the log has one warning', async () => {
    const signals = await open();
    const worked = workLane(signals);
    await worksAgain(signals, worked, 'before');
    await proxy.cut();
    for (let n = 0; n < 3; n++) {
      const { value: held, ms } = await timed(signals.signal(lane, ['during']));
      expect(held).toBe(false);
      expect(ms).toBeLessThan(answerWithinMs);
    }
    await expect(signals.ping()).rejects.toThrow(expect.objectContaining({ code: 'unavailable' }));
    await proxy.restore();
    await worksAgain(signals, worked, 'after');
    await expect(signals.ping()).resolves.toBeUndefined();
    expect(lines.map(({ level }) => level)).toEqual(['warn']);
  });

  test.each(['cut', 'drop'] as const)(
    'work that ends during an outage (%s) does not block its key after the outage',
    async (how) => {
      const signals = await open();
      const started = Promise.withResolvers<void>();
      const finish = Promise.withResolvers<void>();
      let runs = 0;
      signals.work(lane, { concurrency: 1 }, async () => {
        runs += 1;
        started.resolve();
        await finish.promise;
      });
      await signals.signal(lane, ['a']);
      await started.promise;
      await proxy[how]();
      finish.resolve();
      // Until the worker has tried to record the end of the work.
      await vi.waitFor(() => expect(lines).not.toEqual([]), { timeout: 5_000 });
      await proxy.restore();
      // Far less than the 20 s after which the lock expires.
      await vi.waitFor(
        async () => {
          await signals.signal(lane, ['a']);
          expect(runs).toBeGreaterThan(1);
        },
        { timeout: 8_000, interval: 100 },
      );
    },
  );

  test('a server that accepts requests and never answers delays no caller for long, and workers go on afterwards', async () => {
    const signals = await open();
    const worked = workLane(signals);
    await worksAgain(signals, worked, 'before');
    proxy.mute();
    const { value: held, ms } = await timed(signals.signal(lane, ['during']));
    expect(held).toBe(false);
    expect(ms).toBeLessThan(answerWithinMs);
    const ping = await timed(signals.ping().catch((error: unknown) => error));
    expect(ping.value).toMatchObject({ code: 'unavailable' });
    expect(ping.ms).toBeLessThan(answerWithinMs);
    await proxy.restore();
    await worksAgain(signals, worked, 'after');
  });

  test.each(['cut', 'drop'] as const)(
    'a lane that is started during an outage (%s) is worked after it',
    async (how) => {
      const signals = await open();
      await proxy[how]();
      const worked = workLane(signals);
      await vi.waitFor(() => expect(lines).not.toEqual([]), { timeout: 5_000 });
      await proxy.restore();
      await worksAgain(signals, worked, 'after');
    },
  );

  test('close ends during an outage, and leaves no connection', async () => {
    const signals = await open();
    const worked = workLane(signals);
    await worksAgain(signals, worked, 'before');
    await proxy.cut();
    const { ms } = await timed(signals.close(1_000));
    expect(ms).toBeLessThan(10_000);
    await proxy.restore();
    for (let n = 0; n < 10; n++) await nextTurn();
    expect(proxy.connections()).toBe(0);
  });

  test('all signals share one connection on Redis and two on PostgreSQL, and a worked lane has as many more', async () => {
    const signals = await open();
    for (let n = 0; n < 3; n++) {
      const done = Promise.withResolvers<void>();
      signals.work(`${lane}-${n}`, { concurrency: 5 }, async () => done.resolve());
      await signals.signal(`${lane}-${n}`, ['a']);
      await done.promise;
    }
    const [shared, ofLane] = name === 'Redis' ? [1, 1] : [2, 2];
    expect(proxy.connections()).toBeLessThanOrEqual(shared + 3 * ofLane);
    await signals.close();
    await expect.poll(() => proxy.connections()).toBe(0);
  });
});

test('an outage of PostgreSQL in the middle of a backlog does not make a worker spin', async () => {
  const { hostname, port } = new URL(database.url);
  const proxy = await startCutOffProxy({ host: hostname, port: Number(port || 5432) });
  onTestFinished(() => proxy.close());
  const url = new URL(database.url);
  url.host = `127.0.0.1:${proxy.port}`;
  const signals = await openSignals({ databaseUrl: url.href });
  await signals.signal(lane, ['a', 'b', 'c', 'd']);
  const worked: string[] = [];
  signals.work(lane, { concurrency: 2 }, async (key) => {
    // The worker is about to fetch a second key, since its concurrency is 2.
    if (worked.length === 0) proxy.drop();
    worked.push(key);
  });
  await vi.waitFor(() => expect(proxy.dropped()).toBeGreaterThan(2), { timeout: 10_000 });
  const before = performance.now();
  await vi.waitFor(() => expect(proxy.dropped()).toBeGreaterThan(6), { timeout: 10_000 });
  expect(performance.now() - before).toBeGreaterThan(500);
  await proxy.restore();
  await vi.waitFor(() => expect(worked).toEqual(['a', 'b', 'c', 'd']), { timeout: 10_000 });
});

// The connections are made in this order: for the tables, for signals, for a lane's statements, and to listen.
test.each([1, 2, 3, 4, 5, 6])(
  'an error of PostgreSQL in one packet with its greeting, to connection %d, ends no process and stops no work',
  async (number) => {
    const server = await startShutdownServer(database.url, (connection) => connection === number);
    onTestFinished(() => server.close());
    const signals = await openSignals({ databaseUrl: server.url }).catch((error: unknown) => {
      // The opening rejects where it meets that connection.
      if (!(error instanceof AppError) || error.code !== 'unavailable') throw error;
      return openSignals({ databaseUrl: server.url });
    });
    const worked = workLane(signals);
    await worksAgain(signals, worked, 'first');
    await worksAgain(signals, worked, 'second');
    expect(server.connections()).toBeGreaterThanOrEqual(5);
    await closeSignals();
  },
);

describe.runIf(hasRedisServer())('a Redis that loses everything', () => {
  test('FLUSHALL during work: workers go on, and a signal sent later works', async () => {
    const server = await startRedisServer();
    onTestFinished(() => server.close());
    const signals = await openSignals({ redisUrl: server.url });
    const started = Promise.withResolvers<void>();
    const finish = Promise.withResolvers<void>();
    const worked: string[] = [];
    let running = 0;
    let runningMost = 0;
    signals.work(lane, { concurrency: 3 }, async (key) => {
      running += 1;
      runningMost = Math.max(runningMost, running);
      started.resolve();
      if (worked.length === 0) await finish.promise;
      worked.push(key);
      running -= 1;
    });
    await signals.signal(lane, ['a']);
    await started.promise;
    const client = new Redis(server.url);
    await client.flushall();
    // The queue has forgotten that `a` is being worked; within the process it is still not worked twice at once.
    expect(await signals.signal(lane, ['a'])).toBe(true);
    await expect.poll(() => client.llen(`${namespace}:${lane}:active`)).toBe(1);
    client.disconnect();
    expect(runningMost).toBe(1);
    finish.resolve();
    await expect.poll(() => worked).toEqual(['a', 'a']);
    expect(runningMost).toBe(1);
    expect(await signals.signal(lane, ['b'])).toBe(true);
    await expect.poll(() => worked).toEqual(['a', 'a', 'b']);
  });

  test('FLUSHALL during work aborts the work, because another process may get its key', async () => {
    const server = await startRedisServer();
    onTestFinished(() => server.close());
    const signals = await openSignals({ redisUrl: server.url, lockMs: 1_000 });
    const started = Promise.withResolvers<void>();
    const aborted = Promise.withResolvers<unknown>();
    signals.work(lane, { concurrency: 1 }, async (_key, signal) => {
      signal.addEventListener('abort', () => aborted.resolve(signal.reason));
      started.resolve();
      await aborted.promise;
    });
    await signals.signal(lane, ['a']);
    await started.promise;
    const client = new Redis(server.url);
    await client.flushall();
    client.disconnect();
    expect(await aborted.promise).toEqual(new Error('the queue gave the key to another worker'));
  });

  test('killed and started again empty: workers go on, and a signal sent later works', async () => {
    const server = await startRedisServer();
    onTestFinished(() => server.close());
    const signals = await openSignals({ redisUrl: server.url });
    const worked = workLane(signals);
    await worksAgain(signals, worked, 'before');
    await server.kill();
    // Until the outage is noticed: a Redis that is back before any command is sent to it causes no warning.
    const levels = () => lines.map(({ level }) => level);
    await expect.poll(levels).toEqual(['warn']);
    await server.restart();
    await worksAgain(signals, worked, 'after');
    expect(levels()).toEqual(['warn']);
  });

  test('down when the process starts: the process starts anyway, and works when Redis is up', async () => {
    const server = await startRedisServer();
    onTestFinished(() => server.close());
    await server.kill();
    const { value: signals, ms } = await timed(openSignals({ redisUrl: server.url }));
    expect(ms).toBeLessThan(answerWithinMs);
    const worked = workLane(signals);
    expect(await signals.signal(lane, ['early'])).toBe(false);
    await server.restart();
    await worksAgain(signals, worked, 'late');
    expect(lines.map(({ level }) => level)).toEqual(['warn']);
  });

  test('down from start to end: close ends all the same', async () => {
    const server = await startRedisServer();
    await server.close();
    const signals = await openSignals({ redisUrl: server.url });
    workLane(signals);
    const { ms } = await timed(signals.close(1_000));
    expect(ms).toBeLessThan(8_000);
  });
});

test('PostgreSQL ends every connection of the queue: workers go on, and the log has one warning', async () => {
  const signals = await openSignals({});
  const worked = workLane(signals);
  await worksAgain(signals, worked, 'before');
  const client = new Client(database.url);
  await client.connect();
  await client.query(
    'select pg_terminate_backend(pid) from pg_stat_activity where datname = current_database() and pid <> pg_backend_pid()',
  );
  await client.end();
  await worksAgain(signals, worked, 'after');
  expect(lines.map(({ level }) => level)).toEqual(['warn']);
});
