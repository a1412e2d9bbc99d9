/**
 * A Redis for tests: the one of REDIS_URL, else a container, else a `redis-server` of this machine on a free port.
 * Without any of them the Redis half of a test is skipped with a message; with CI=true that is an error.
 */
import { type ChildProcess, spawn, spawnSync } from 'node:child_process';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { Redis } from 'ioredis';
import { GenericContainer, getContainerRuntimeClient } from 'testcontainers';
import { freePort } from './free-port.ts';

export interface TestRedis {
  url: string;
  close(): Promise<void>;
}

/** A server that only this test uses, so that it may be flushed and restarted. */
export interface RedisServer extends TestRedis {
  /** Kills the process, as a crash would; all data is lost. */
  kill(): Promise<void>;
  /** Starts it again, empty, on the same port. */
  restart(): Promise<void>;
}

const image = 'valkey/valkey:8-alpine';

/**
 * Returns the Redis for the tests and prints which one it is; undefined when there is none, which throws with CI=true.
 */
export async function findTestRedis(): Promise<TestRedis | undefined> {
  const given = process.env['REDIS_URL'];
  if (given) return using('REDIS_URL', { url: given, close: async () => {} });
  if (await hasContainerEngine()) {
    const container = await new GenericContainer(image).withExposedPorts(6379).start();
    return using(`a container of ${image}`, {
      url: `redis://${container.getHost()}:${container.getMappedPort(6379)}`,
      close: async () => {
        await container.stop();
      },
    });
  }
  if (hasRedisServer()) return using('redis-server on this machine', await startRedisServer());
  const missing = 'no REDIS_URL, no container engine and no redis-server';
  if (process.env['CI'] === 'true') throw new Error(`The tests need Redis: ${missing}.`);
  console.log(`Redis: SKIPPED, ${missing}`);
  return undefined;
}

function using(what: string, redis: TestRedis): TestRedis {
  console.log(`Redis: ${what}`);
  return redis;
}

/** Whether `startRedisServer` can work here. */
export function hasRedisServer(): boolean {
  return spawnSync('redis-server', ['--version']).status === 0;
}

async function hasContainerEngine(): Promise<boolean> {
  const tooLong = new AbortController();
  try {
    // With a time limit, because the search hangs when the engine's socket exists and no engine listens on it.
    return await Promise.race([
      getContainerRuntimeClient().then(() => true),
      sleep(5_000, false, { signal: tooLong.signal }),
    ]);
  } catch {
    return false;
  } finally {
    tooLong.abort();
  }
}

/** Starts a `redis-server` that keeps nothing on disk; rejects when it does not answer within 10 s. */
export async function startRedisServer(): Promise<RedisServer> {
  const folder = mkdtempSync(join(tmpdir(), 'redis-'));
  const port = await freePort();
  const url = `redis://127.0.0.1:${port}`;
  let child: ChildProcess | undefined;
  // A test run that is interrupted must not leave its server behind.
  const killWithUs = () => child?.kill('SIGKILL');
  process.once('exit', killWithUs);

  async function start() {
    const args = ['--port', String(port), '--bind', '127.0.0.1', '--dir', folder, '--save', '', '--appendonly', 'no'];
    child = spawn('redis-server', args, { stdio: 'ignore' });
    await answers(url);
  }
  async function kill() {
    if (!child || child.exitCode !== null || child.signalCode !== null) return;
    const exited = new Promise((resolve) => child?.once('exit', resolve));
    child.kill('SIGKILL');
    await exited;
  }
  await start();
  return {
    url,
    kill,
    restart: async () => {
      await kill();
      await start();
    },
    close: async () => {
      await kill();
      process.off('exit', killWithUs);
      rmSync(folder, { recursive: true, force: true });
    },
  };
}

async function answers(url: string): Promise<void> {
  const client = new Redis(url, {
    lazyConnect: true,
    maxRetriesPerRequest: null,
    retryStrategy: (attempt) => (attempt < 200 ? 50 : null),
  });
  // Connections are refused until the server listens; the last refusal rejects the ping.
  client.on('error', () => {});
  try {
    await client.ping();
  } finally {
    client.disconnect();
  }
}
