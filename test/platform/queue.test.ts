/** Wake-ups between processes, over Redis and over the database, while their servers come and go. */
import { randomBytes } from 'node:crypto';
import { Redis } from 'ioredis';
import { afterAll, afterEach, beforeEach, describe, expect, onTestFinished, test, vi } from 'vitest';
import { createDatabase } from '#platform/database/database.ts';
import { createLogger, silentLogger } from '#platform/log.ts';
import { createSignals, type Signals } from '#platform/queue.ts';
import { findTestRedis, hasRedisServer, startRedisServer } from '../harness/redis.ts';
import { startRedisWith, unusableKindNames, unusableKinds } from '../harness/redis-kinds.ts';
import { createEmptyDatabase } from '../harness/test-database.ts';
import { type CutOffProxy, startCutOffProxy } from './queue/cut-off-proxy.ts';

const redis = await findTestRedis();
const database = await createEmptyDatabase();
const namespace = `queue_${randomBytes(4).toString('hex')}`;

const opened: { close(graceMs?: number): Promise<void> }[] = [];
const closeAll = async () => {
  await Promise.all(opened.splice(0).map((each) => each.close(1_000)));
};
afterEach(closeAll);
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

let lines: { level: string; msg: string }[] = [];
let lane = '';
let lanes = 0;
beforeEach(() => {
  lines = [];
  lanes += 1;
  lane = `lane-${lanes}`;
});

/** Signals with their own connections, as a process has them. */
async function openSignals({ redisUrl, databaseUrl = database.url }: { redisUrl?: string; databaseUrl?: string } = {}) {
  const destination = { write: (text: string) => lines.push(JSON.parse(text) as (typeof lines)[number]) };
  const log = createLogger({ level: 'info', name: 'test', destination });
  const own = createDatabase({ url: databaseUrl, log: silentLogger, applicationName: namespace, poolMax: 2 });
  const signals = await createSignals({ redisUrl, database: own, databaseUrl, namespace, log });
  opened.push({
    close: async (graceMs) => {
      await signals.close(graceMs);
      await own.close();
    },
  });
  return signals;
}

/** Works the lane; the returned array gets the keys that were finished. */
function workLane(signals: Signals): string[] {
  const worked: string[] = [];
  signals.work(lane, { concurrency: 2 }, async (key) => {
    worked.push(key);
  });
  return worked;
}

/** Signals again and again until the other process has worked the key. */
async function reaches(sender: Signals, worked: string[], key: string): Promise<void> {
  const look = async () => {
    await sender.signal(lane, [key]);
    expect(worked).toContain(key);
  };
  await vi.waitFor(look, { timeout: 10_000, interval: 100 });
}

async function msOf(promise: Promise<unknown>): Promise<number> {
  const before = performance.now();
  await promise;
  return performance.now() - before;
}

const carriers = [
  { name: 'Redis', target: redis?.url },
  { name: 'the database', target: database.url },
].filter((carrier): carrier is { name: string; target: string } => carrier.target !== undefined);

describe.each(carriers)('wake-ups over $name', ({ name, target }) => {
  const open = (url = target) => openSignals(name === 'Redis' ? { redisUrl: url } : { databaseUrl: url });

  test('reach the process that works the lane, whatever printable text the key is', async () => {
    const [sender, worker] = [await open(), await open()];
    const worked = workLane(worker);
    await reaches(sender, worked, 'first');
    const keys = ['a', '1', '0:1', 'org:event:document', 'ключ 鍵 🔑', `"quoted" 'too' \\ %s {brace}`, 'two  spaces'];
    await sender.signal(lane, keys);
    await expect.poll(() => worked.filter((key) => key !== 'first').toSorted()).toEqual(keys.toSorted());
  });

  test('of a process that works the lane itself begin there, and go to others where it has no room', async () => {
    const [first, second] = [await open(), await open()];
    const blocked = Promise.withResolvers<void>();
    const begun: string[] = [];
    first.work(lane, { concurrency: 1 }, async (key) => {
      begun.push(key);
      await blocked.promise;
    });
    const worked = workLane(second);
    await first.signal(lane, ['a']);
    expect(begun).toEqual(['a']);
    await reaches(first, worked, 'b');
    expect(begun).toEqual(['a']);
    blocked.resolve();
    await expect.poll(() => begun).toEqual(['a', 'b']);
  });

  describe('over a network that fails', () => {
    let proxy: CutOffProxy;
    let url: string;
    beforeEach(async () => {
      const { hostname, port } = new URL(target);
      proxy = await startCutOffProxy({ host: hostname, port: Number(port || (name === 'Redis' ? 6379 : 5432)) });
      const through = new URL(target);
      through.hostname = '127.0.0.1';
      through.port = String(proxy.port);
      url = through.href;
    });
    afterEach(async () => {
      await closeAll();
      await proxy.close();
    });

    test('are answered in time and lost, own work goes on, and one warning is logged; then all works again', async () => {
      const [sender, worker] = [await open(url), await open(url)];
      const worked = workLane(worker);
      await reaches(sender, worked, 'before');
      await proxy.cut();
      expect(await msOf(sender.signal(lane, ['lost']))).toBeLessThan(2_500);
      worker.wakeHere(lane, ['swept']);
      await expect.poll(() => worked).toContain('swept');
      await proxy.restore();
      await reaches(sender, worked, 'after');
      // One for each of the two processes at most.
      expect(lines.filter(({ level }) => level === 'warn').length).toBeLessThanOrEqual(2);
    });

    test('end a process in time', async () => {
      const signals = await open(url);
      workLane(signals);
      await proxy.cut();
      expect(await msOf(signals.close(100))).toBeLessThan(5_000);
    });
  });
});

describe.runIf(hasRedisServer())('a Redis', () => {
  const start = async () => {
    const server = await startRedisServer();
    onTestFinished(async () => {
      await closeAll();
      await server.close();
    });
    return server;
  };

  test('that is down at the start is used as soon as it is up', async () => {
    const server = await start();
    await server.kill();
    let sender: Signals | undefined;
    expect(
      await msOf(
        openSignals({ redisUrl: server.url }).then((signals) => {
          sender = signals;
        }),
      ),
    ).toBeLessThan(2_500);
    const worker = await openSignals({ redisUrl: server.url });
    const worked = workLane(worker);
    worker.wakeHere(lane, ['swept']);
    await expect.poll(() => worked).toEqual(['swept']);
    await server.restart();
    await reaches(sender as Signals, worked, 'after');
  });

  test('that was flushed, or killed and started again empty, carries wake-ups afterwards', async () => {
    const server = await start();
    const [sender, worker] = [await openSignals({ redisUrl: server.url }), await openSignals({ redisUrl: server.url })];
    const worked = workLane(worker);
    await reaches(sender, worked, 'before');
    const client = new Redis(server.url);
    await client.flushall();
    client.disconnect();
    await reaches(sender, worked, 'flushed');
    await server.kill();
    await server.restart();
    await reaches(sender, worked, 'restarted');
    expect(new Set(worked)).toEqual(new Set(['before', 'flushed', 'restarted']));
  });

  test.each(unusableKindNames)('that is %s delays nothing that is worked here', async (kind) => {
    const signals = await openSignals({ redisUrl: await startRedisWith(unusableKinds[kind]) });
    const worked = workLane(signals);
    expect(await msOf(signals.signal('of another process', ['lost']))).toBeLessThan(2_500);
    signals.wakeHere(lane, ['swept']);
    await expect.poll(() => worked).toEqual(['swept']);
    expect(lines.map(({ level }) => level)).toContain('warn');
  });

  test('keeps nothing of wake-ups that were taken, and one entry for a key that waits', async () => {
    const server = await start();
    const sender = await openSignals({ redisUrl: server.url });
    for (let n = 0; n < 20; n += 1) await sender.signal(lane, ['a']);
    const client = new Redis(server.url);
    onTestFinished(() => client.disconnect());
    expect(await client.llen(`${namespace}:${lane}:wait`)).toBe(1);
    const worked = workLane(await openSignals({ redisUrl: server.url }));
    await expect.poll(() => worked).toEqual(['a']);
    const jobs = async () => (await client.keys(`${namespace}:${lane}:*`)).filter((key) => /:(\d+|de:.*)$/.test(key));
    await expect.poll(jobs).toEqual([]);
  });
});
