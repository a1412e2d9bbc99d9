/**
 * Every role a process of its own, and their Redis is away, or cannot carry wake-ups: deliveries go on by what each
 * process finds in SQL, and no process is unready.
 */
import { Redis } from 'ioredis';
import { describe, expect, onTestFinished, test } from 'vitest';
import { systemClock } from '#platform/clock.ts';
import { playStory } from '#service/simulator/play-story.ts';
import { freePort } from '../harness/free-port.ts';
import { hasRedisServer, startRedisServer } from '../harness/redis.ts';
import { startRedisWith, unusableKinds } from '../harness/redis-kinds.ts';
import { createTestDatabase } from '../harness/test-database.ts';
import { readServiceState, readUnfinished } from './awards-in-sql.ts';
import { createSource, ledgerConfiguration, ledgerFile } from './ledger-bridge.ts';
import { replayLedger } from './ledger-connector.ts';
import { openClient } from './players.ts';
import { createInstallation, expectGracefulEnd, lineOf } from './program-process.ts';

const conditions: { name: string; start: () => Promise<{ url: string; spoil: () => Promise<unknown> }> }[] = [
  {
    name: 'is killed',
    start: async () => {
      const server = await startRedisServer();
      onTestFinished(() => server.close());
      return { url: server.url, spoil: () => server.kill() };
    },
  },
  {
    name: 'becomes a replica',
    start: async () => {
      const server = await startRedisServer();
      onTestFinished(() => server.close());
      const spoil = async () => {
        const client = new Redis(server.url);
        await client.replicaof('127.0.0.1', 1);
        client.disconnect();
      };
      return { url: server.url, spoil };
    },
  },
  ...(['a Sentinel', 'a node of a cluster'] as const).map((kind) => ({
    name: `is ${kind}`,
    start: async () => ({ url: await startRedisWith(unusableKinds[kind]), spoil: async () => undefined }),
  })),
];

describe.runIf(hasRedisServer()).each(conditions)('a Redis that $name', ({ start }) => {
  test('while awards are made delays them by a sweep, and makes no process unready', { timeout: 180_000 }, async () => {
    const db = await createTestDatabase();
    const redis = await start();
    const environment = { REDIS_URL: redis.url, SOURCING__SWEEP_SECONDS: '1' };
    const serviceOf = await createInstallation({ databaseUrl: db.url });
    const service = serviceOf.start(['service', '--port', '0'], environment);
    const baseUrl = /http\S+/.exec(await lineOf(service, /ready/))?.[0] ?? '';
    const port = await freePort();
    const source = await createSource(serviceOf, baseUrl, [`https://localhost:${port}/webhooks/main`]);
    const bridge = await createInstallation({
      databaseUrl: db.url,
      dataDir: serviceOf.dataDir,
      configuration: ledgerConfiguration(source),
    });
    const consoles = new Map<string, string>();
    const programs = [];
    for (const role of ['receive', 'pull', 'push']) {
      const consolePort = String(await freePort());
      const program = bridge.start(['bridge', '--role', role], {
        ...environment,
        SOURCING__BRIDGE__PORT: String(port),
        SOURCING__BRIDGE__CONSOLE_PORT: consolePort,
      });
      await lineOf(program, /ready/);
      consoles.set(role, `http://127.0.0.1:${consolePort}`);
      programs.push(program);
    }
    await redis.spoil();
    await playStory({
      client: await openClient(baseUrl, source.apiKey),
      clock: systemClock,
      seed: 3,
      events: 2,
      suppliers: 3,
      lots: 4,
      pauseMs: 0,
      print: () => undefined,
    });
    const { awards } = await readServiceState(db.url);
    expect(Object.keys(awards).length).toBeGreaterThan(2);
    await expect
      .poll(async () => ({ held: replayLedger(ledgerFile(bridge)).held, unfinished: await readUnfinished(db.url) }), {
        timeout: 60_000,
        interval: 100,
      })
      .toEqual({ held: awards, unfinished: [] });
    for (const url of [baseUrl, ...consoles.values()])
      expect([url, (await fetch(`${url}/readyz`)).status]).toEqual([url, 200]);
    await Promise.all([...programs, service].map(expectGracefulEnd));
    expect(replayLedger(ledgerFile(bridge)).doubled).toEqual([]);
  });
});
