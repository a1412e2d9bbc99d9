import { type ChildProcess, spawn } from 'node:child_process';
import { randomBytes } from 'node:crypto';
import { once } from 'node:events';
import { setImmediate as nextTurn, setTimeout as sleep } from 'node:timers/promises';
import { fileURLToPath } from 'node:url';
import { Redis } from 'ioredis';
import { Client } from 'pg';
import { afterAll, afterEach, beforeAll, describe, expect, onTestFinished, test, vi } from 'vitest';
import { createLogger, silentLogger } from '#platform/log.ts';
import { createSignals, type Signals, type SignalsOptions } from '#platform/queue.ts';
import { findTestRedis } from '../harness/redis.ts';
import { createEmptyDatabase } from '../harness/test-database.ts';

const redis = await findTestRedis();
const database = await createEmptyDatabase();
const namespace = `queue_${randomBytes(4).toString('hex')}`;

afterAll(async () => {
  // A Redis that other programs use as well must not keep the keys of this test.
  if (redis)
    await withRedis(async (client) => {
      const keys = await client.keys(`${namespace}:*`);
      if (keys.length > 0) await client.del(keys);
    });
  await redis?.close();
  await database.drop();
});

interface BackendUnderTest {
  name: string;
  redisUrl: string | undefined;
  /**
   * Rows or Redis keys of the lane whose number grows with its content; the bounded stream of events is not counted.
   */
  size(lane: string): Promise<number>;
  events(lane: string): Promise<number>;
}

const onRedis: BackendUnderTest = {
  name: 'Redis',
  redisUrl: redis?.url,
  size: (lane) =>
    withRedis(async (client) => {
      const perQueue = new Set(
        ['meta', 'events', 'stalled-check', 'marker', 'stalled', 'id'].map((kind) => key(lane, kind)),
      );
      const keys = await client.keys(key(lane, '*'));
      return keys.filter((name) => !perQueue.has(name)).length;
    }),
  events: (lane) => withRedis((client) => client.xlen(key(lane, 'events'))),
};

const onPostgres: BackendUnderTest = {
  name: 'PostgreSQL',
  redisUrl: undefined,
  size: async (lane) => {
    const counts = ['job', 'job_log', 'dedup', 'dedup_next'].map(
      (table) => `(select count(*) from ${namespace}.${table} where queue = $1)`,
    );
    return count(`select ${counts.join(' + ')} as count`, lane);
  },
  events: (lane) => count(`select count(*) from ${namespace}.event where queue = $1`, lane),
};

function key(lane: string, kind: string): string {
  return `${namespace}:${lane}:${kind}`;
}

async function withRedis<T>(ask: (client: Redis) => Promise<T>): Promise<T> {
  const client = new Redis(redis?.url ?? '');
  return ask(client).finally(() => client.disconnect());
}

async function count(sql: string, lane: string): Promise<number> {
  const client = new Client(database.url);
  await client.connect();
  const { rows } = await client.query<{ count: string }>(sql, [lane]);
  await client.end();
  return Number(rows[0]?.count);
}

function gate() {
  const { promise, resolve } = Promise.withResolvers<void>();
  return { opened: promise, open: resolve };
}

/** Each test has its own lane, so that tests do not affect each other in the queue. */
let lanes = 0;
function newLane(): string {
  lanes += 1;
  return `lane-${lanes}`;
}

describe.each([onRedis, onPostgres].filter(({ redisUrl, name }) => redisUrl !== undefined || name === 'PostgreSQL'))(
  'signals on $name',
  (backend) => {
    let signals: Signals;
    const opened: Signals[] = [];

    function options(more: Partial<SignalsOptions> = {}) {
      return { redisUrl: backend.redisUrl, databaseUrl: database.url, namespace, log: silentLogger, ...more };
    }

    /** Signals with their own connections and workers, as another process has them. */
    async function anotherProcess(more: Partial<SignalsOptions> = {}): Promise<Signals> {
      const other = await createSignals(options(more));
      opened.push(other);
      return other;
    }

    beforeAll(async () => {
      signals = await createSignals(options());
    });
    afterEach(async () => {
      await Promise.all(opened.splice(0).map((other) => other.close(0)));
    });
    afterAll(async () => {
      await signals.close(0);
    });

    test('a signal wakes the lane with its key, whatever printable text the key is', async () => {
      const lane = newLane();
      const keys = [
        'a',
        '1',
        '0:1',
        'org:event:document',
        'ключ 鍵 🔑',
        `"quoted" 'too' \\ %s {brace}`,
        ' ',
        'x'.repeat(500),
      ];
      const worked: string[] = [];
      signals.work(lane, { concurrency: 1 }, async (key) => {
        worked.push(key);
      });
      expect(await signals.signal(lane, keys)).toBe(true);
      await expect.poll(() => worked).toEqual(keys);
    });

    test('ten signals while the key is being worked cause exactly one more run', async () => {
      const lane = newLane();
      const started = gate();
      const finish = gate();
      const worked: string[] = [];
      signals.work(lane, { concurrency: 1 }, async (key) => {
        worked.push(key);
        started.open();
        await finish.opened;
      });
      await signals.signal(lane, ['a']);
      await started.opened;
      for (let n = 0; n < 10; n++) expect(await signals.signal(lane, ['a'])).toBe(true);
      // The lane works in order, one at a time: a third run of `a` would come before this one.
      finish.open();
      await expect.poll(() => worked).toEqual(['a', 'a']);
      await signals.signal(lane, ['last']);
      await expect.poll(() => worked).toContain('last');
      expect(worked).toEqual(['a', 'a', 'last']);
    });

    test('a key that is signalled here is worked here, once more for all signals during its run, and not by the queue', async () => {
      const lane = newLane();
      const other = await anotherProcess();
      const workedElsewhere: string[] = [];
      other.work(lane, { concurrency: 5 }, async (key) => void workedElsewhere.push(key));
      const started = gate();
      const finish = gate();
      let atOnce = 0;
      const worked: string[] = [];
      signals.work(lane, { concurrency: 1 }, async (key) => {
        atOnce += 1;
        expect(atOnce).toBe(1);
        worked.push(key);
        started.open();
        await finish.opened;
        atOnce -= 1;
      });
      for (let n = 0; n < 10; n++) expect(await signals.signalHere(lane, ['a'])).toBe(true);
      await started.opened;
      expect(worked).toEqual(['a']);
      for (let n = 0; n < 10; n++) expect(await signals.signalHere(lane, ['a'])).toBe(true);
      finish.open();
      await expect.poll(() => worked).toEqual(['a', 'a']);
      await expect.poll(() => atOnce).toBe(0);
      expect(workedElsewhere).toEqual([]);
      expect(await backend.size(lane)).toBe(0);
    });

    test('a key that is signalled here where nobody works its lane goes to a process that does', async () => {
      const lane = newLane();
      const other = await anotherProcess();
      const worked: string[] = [];
      other.work(lane, { concurrency: 1 }, async (key) => void worked.push(key));
      expect(await signals.signalHere(lane, ['a'])).toBe(true);
      await expect.poll(() => worked).toEqual(['a']);
    });

    test('no more keys at once are worked past the queue than the lane works, and all others go through it', async () => {
      const lane = newLane();
      const concurrency = 2;
      const finish = gate();
      let atOnce = 0;
      let most = 0;
      const worked: string[] = [];
      signals.work(lane, { concurrency }, async (key) => {
        atOnce += 1;
        most = Math.max(most, atOnce);
        worked.push(key);
        await finish.opened;
        atOnce -= 1;
      });
      const keys = Array.from({ length: 20 }, (_, n) => `key-${n}`);
      expect(await signals.signalHere(lane, keys)).toBe(true);
      // Two past the queue, and two from it.
      await expect.poll(() => atOnce).toBe(2 * concurrency);
      finish.open();
      await expect.poll(() => worked.toSorted()).toEqual(keys.toSorted());
      expect(most).toBeLessThanOrEqual(2 * concurrency);
    });

    test('a key that is worked past the queue when its process stops goes to another process', async () => {
      const lane = newLane();
      const stopping = await anotherProcess();
      const started = gate();
      stopping.work(lane, { concurrency: 1 }, async (_key, signal) => {
        started.open();
        await new Promise((_, reject) => signal.addEventListener('abort', () => reject(new Error('cut short'))));
      });
      await stopping.signalHere(lane, ['a']);
      await started.opened;
      await stopping.close();
      const worked: string[] = [];
      signals.work(lane, { concurrency: 1 }, async (key) => void worked.push(key));
      await expect.poll(() => worked, { timeout: 5_000 }).toEqual(['a']);
    });

    test('signals for a key that waits cause one run', async () => {
      const lane = newLane();
      for (let n = 0; n < 10; n++) await signals.signal(lane, ['a', 'b', 'a']);
      await signals.signal(lane, ['last']);
      const worked: string[] = [];
      signals.work(lane, { concurrency: 1 }, async (key) => {
        worked.push(key);
      });
      await expect.poll(() => worked).toContain('last');
      expect(worked).toEqual(['a', 'b', 'last']);
    });

    test('a burst of thousands of signals for one key from several processes leaves a handful of entries', async () => {
      const lane = newLane();
      const processes = [signals, await anotherProcess(), await anotherProcess()];
      const started = gate();
      const finish = gate();
      signals.work(lane, { concurrency: 1 }, async () => {
        started.open();
        await finish.opened;
      });
      await signals.signal(lane, ['a']);
      await started.opened;
      const burst = async (from: Signals) => {
        for (let n = 0; n < 20; n++) await Promise.all(Array.from({ length: 100 }, () => from.signal(lane, ['a'])));
      };
      await Promise.all(processes.map(burst));
      // The wake-up, its lock, its deduplication key, its place in a list, and the wake-up that is kept for one more
      // run.
      expect(await backend.size(lane)).toBeLessThanOrEqual(6);
      finish.open();
      await expect.poll(() => backend.size(lane)).toBe(0);
    });

    test('a key is never worked twice at once, and after its last signal it is worked once more, in whichever process', async () => {
      const lane = newLane();
      const keys = ['a', 'b', 'c', 'd', 'e'];
      const processes = [signals, await anotherProcess(), await anotherProcess()];
      const wanted = new Map(keys.map((key) => [key, 0]));
      const done = new Map(keys.map((key) => [key, 0]));
      const running = new Set<string>();
      const overlaps: string[] = [];
      for (const each of processes) {
        each.work(lane, { concurrency: 3 }, async (key) => {
          if (running.has(key)) overlaps.push(key);
          running.add(key);
          const seen = wanted.get(key) ?? 0;
          for (let n = 0; n < 3; n++) await nextTurn();
          done.set(key, seen);
          running.delete(key);
        });
      }
      const pick = <T>(from: T[]) => from[Math.floor(Math.random() * from.length)] as T;
      const caller = async () => {
        for (let n = 0; n < 100; n++) {
          const key = pick(keys);
          wanted.set(key, (wanted.get(key) ?? 0) + 1);
          expect(await pick(processes).signal(lane, [key])).toBe(true);
        }
      };
      await Promise.all([caller(), caller(), caller(), caller()]);
      await vi.waitFor(() => expect(done).toEqual(wanted), { timeout: 10_000 });
      expect(overlaps).toEqual([]);
    });

    test('different keys are worked at the same time, up to the concurrency', async () => {
      const lane = newLane();
      const threeAtOnce = gate();
      let running = 0;
      let runningMost = 0;
      let finished = 0;
      signals.work(lane, { concurrency: 3 }, async () => {
        running += 1;
        runningMost = Math.max(runningMost, running);
        if (running === 3) threeAtOnce.open();
        await threeAtOnce.opened;
        await nextTurn();
        running -= 1;
        finished += 1;
      });
      await signals.signal(
        lane,
        Array.from({ length: 20 }, (_, n) => `key-${n}`),
      );
      await expect.poll(() => finished).toBe(20);
      expect(runningMost).toBe(3);
    });

    test('work that throws is logged once, with lane and key and without a stack, and its key can be woken again', async () => {
      const lane = newLane();
      const lines: string[] = [];
      const log = createLogger({ level: 'info', name: 'test', destination: { write: (line) => lines.push(line) } });
      const process = await anotherProcess({ log });
      const worked: string[] = [];
      process.work(lane, { concurrency: 1 }, async (key) => {
        worked.push(key);
        if (worked.length === 1) throw new Error('the ERP said no');
      });
      await process.signal(lane, ['po:7']);
      await expect.poll(() => backend.size(lane)).toBe(0);
      await process.signal(lane, ['po:7']);
      await expect.poll(() => worked).toEqual(['po:7', 'po:7']);
      expect(lines.map((line) => JSON.parse(line) as object)).toEqual([
        expect.objectContaining({ level: 'warn', lane, item: 'po:7', error: 'the ERP said no' }),
      ]);
      expect(lines.join('')).not.toContain('at ');
    });

    test('what was worked leaves nothing behind but a bounded stream of events', async () => {
      const lane = newLane();
      let worked = 0;
      signals.work(lane, { concurrency: 5 }, async () => {
        worked += 1;
      });
      for (let n = 0; n < 10; n++) {
        await signals.signal(
          lane,
          Array.from({ length: 100 }, (_, k) => `key-${k}`),
        );
        await expect.poll(() => backend.size(lane)).toBe(0);
      }
      expect(worked).toBeGreaterThanOrEqual(100);
      // Both backends trim in blocks; without a limit there would be four events for each run.
      expect(await backend.events(lane)).toBeLessThan(1_000);
    });

    test('another process works the key of a killed one within 1.5 lock times, and no signal for it is lost', async () => {
      const lockMs = 2_000;
      const other = await anotherProcess({ lockMs });
      const child = startChild('hold', options({ lockMs }));
      await other.signal('held', ['a']);
      await line(child, 'working a');
      expect(await other.signal('held', ['a'])).toBe(true);
      child.kill('SIGKILL');
      await once(child, 'exit');
      expect(await other.signal('held', ['a', 'b'])).toBe(true);

      const worked: string[] = [];
      other.work('held', { concurrency: 1 }, async (key) => {
        worked.push(key);
      });
      // A key that the killed process did not hold does not wait.
      await vi.waitFor(() => expect(worked).toEqual(['b']), { timeout: 1_000 });
      // Twice: the run that was cut off, and one more for the signal that came during it.
      await vi.waitFor(() => expect(worked).toEqual(['b', 'a', 'a']), { timeout: 1.5 * lockMs + 1_000 });
    });

    test('close aborts running work, and a key whose work was cut short goes to another process at once', async () => {
      const lane = newLane();
      const stopping = await anotherProcess();
      const started = gate();
      stopping.work(lane, { concurrency: 1 }, async (_key, signal) => {
        started.open();
        await once(signal, 'abort');
        throw signal.reason;
      });
      await signals.signal(lane, ['a']);
      await started.opened;
      const worked = gate();
      signals.work(lane, { concurrency: 1 }, async () => worked.open());
      await stopping.close();
      await worked.opened;
      await expect.poll(() => backend.size(lane)).toBe(0);
    });

    test('close waits for work that ends in time, and at most for the grace time', async () => {
      const lane = newLane();
      const patient = await anotherProcess();
      const started = gate();
      let ended = false;
      patient.work(lane, { concurrency: 1 }, async (_key, signal) => {
        started.open();
        await once(signal, 'abort');
        await nextTurn();
        ended = true;
      });
      await patient.signal(lane, ['a']);
      await started.opened;
      await patient.close();
      expect(ended).toBe(true);
      expect(await backend.size(lane)).toBe(0);

      const stubborn = await anotherProcess();
      const stuck = gate();
      stubborn.work(lane, { concurrency: 1 }, async () => {
        stuck.open();
        await new Promise(() => {});
      });
      await stubborn.signal(lane, ['b']);
      await stuck.opened;
      const before = performance.now();
      await stubborn.close(100);
      expect(performance.now() - before).toBeLessThan(2_000);
      expect(await stubborn.signal(lane, ['c'])).toBe(false);
    });

    test('after close nothing keeps the process alive', async () => {
      const child = startChild('finish', options());
      const exited = once(child, 'exit');
      await signals.signal('held', ['a']);
      await line(child, 'working a');
      expect(await exited).toEqual([0, null]);
    });

    test('ping answers', async () => {
      await expect(signals.ping()).resolves.toBeUndefined();
    });
  },
);

test('on PostgreSQL a key that is worked keeps its lock while the ends of others wait to be recorded', async () => {
  const lane = newLane();
  const lockMs = 1_000;
  const opened: Signals[] = [];
  const open = async () => {
    const signals = await createSignals({ databaseUrl: database.url, namespace, log: silentLogger, lockMs });
    opened.push(signals);
    return signals;
  };
  const held = new Client(database.url);
  await held.connect();
  try {
    const runs: string[] = [];
    const [longEnds, shortEnds] = [gate(), gate()];
    const work = async (key: string) => {
      runs.push(key);
      await (key === 'long' ? longEnds : shortEnds).opened;
    };
    const first = await open();
    first.work(lane, { concurrency: 2 }, work);
    await first.signal(lane, ['long', 'short']);
    await vi.waitUntil(() => runs.length === 2, 10_000);
    // BullMQ takes it, shared, to record an end. So the connection of the first worker hangs from now on.
    await held.query(`select pg_advisory_lock(hashtext('bullmq:finalization'), hashtext($1))`, [lane]);
    shortEnds.open();
    // Takes the short key over, whose end is not recorded, and would take over any other whose lock is not renewed.
    (await open()).work(lane, { concurrency: 2 }, work);
    await vi.waitUntil(() => runs.filter((key) => key === 'short').length > 1, 10_000);
    await sleep(2 * lockMs);
    expect(runs.filter((key) => key === 'long')).toEqual(['long']);
  } finally {
    await held.end();
    await Promise.all(opened.map((signals) => signals.close(0)));
  }
});

test('processes that start together on an empty database create its tables once', async () => {
  const options = { databaseUrl: database.url, namespace: 'started_together', log: silentLogger };
  const all = await Promise.all(Array.from({ length: 6 }, () => createSignals(options)));
  expect(await Promise.all(all.map((signals) => signals.signal('lane', ['a'])))).toEqual(all.map(() => true));
  await Promise.all(all.map((signals) => signals.close()));
});

test('a database that cannot be reached is an error at the start', async () => {
  await expect(
    createSignals({ databaseUrl: 'postgres://nobody:hush@127.0.0.1:1/none', namespace, log: silentLogger }),
  ).rejects.toThrow(expect.objectContaining({ code: 'unavailable', message: expect.not.stringContaining('hush') }));
});

function startChild(mode: 'hold' | 'finish', options: SignalsOptions): ChildProcess {
  const { log: _, ...rest } = options;
  const script = fileURLToPath(new URL('queue/key-holder.ts', import.meta.url));
  const child = spawn(process.execPath, [script, mode, JSON.stringify(rest)], { stdio: ['ignore', 'pipe', 'inherit'] });
  onTestFinished(() => {
    child.kill('SIGKILL');
  });
  return child;
}

async function line(child: ChildProcess, text: string): Promise<void> {
  let seen = '';
  child.stdout?.on('data', (bytes) => {
    seen += String(bytes);
  });
  await vi.waitFor(() => expect(seen).toContain(text), { timeout: 20_000 });
}
