/**
 * Two processes of each role on one database, beside the service: every award reaches the ERP exactly once, whichever
 * process does the work, and each process ends within the time that a service manager allows.
 */
import { afterAll, describe, expect, test } from 'vitest';
import { systemClock } from '#platform/clock.ts';
import { playStory } from '#service/simulator/play-story.ts';
import { freePort } from '../harness/free-port.ts';
import { findTestRedis } from '../harness/redis.ts';
import { createTestDatabase } from '../harness/test-database.ts';
import { readServiceState, readUnfinished } from './awards-in-sql.ts';
import { createSource, ledgerConfiguration, ledgerFile } from './ledger-bridge.ts';
import { replayLedger } from './ledger-connector.ts';
import { openClient } from './players.ts';
import { createInstallation, expectGracefulEnd, lineOf } from './program-process.ts';

const redis = await findTestRedis();

afterAll(() => redis?.close());

// The queue is on PostgreSQL in nearly every other test: a short run shows Redis where there is one.
const isFullRun = process.env['FAULTS'] !== undefined;
const backends: { name: string; redisUrl?: string }[] = [
  ...(isFullRun || !redis ? [{ name: 'PostgreSQL' }] : []),
  ...(redis ? [{ name: 'Redis', redisUrl: redis.url }] : []),
];

describe.each(backends)('with the queue on $name', ({ redisUrl }) => {
  test('two receivers, two pullers and two pushers deliver each award once', { timeout: 180_000 }, async () => {
    const db = await createTestDatabase();
    const queue: Record<string, string> = redisUrl === undefined ? {} : { REDIS_URL: redisUrl };
    const serviceOf = await createInstallation({ databaseUrl: db.url });
    const service = serviceOf.start(['service', '--port', '0']);
    const baseUrl = /http\S+/.exec(await lineOf(service, /ready/))?.[0] ?? '';
    const ports = [await freePort(), await freePort()];
    const source = await createSource(
      serviceOf,
      baseUrl,
      ports.map((port) => `https://localhost:${port}/webhooks/main`),
    );
    const bridge = await createInstallation({
      databaseUrl: db.url,
      dataDir: serviceOf.dataDir,
      configuration: ledgerConfiguration(source),
    });
    const programs = [
      ...ports.map((port) =>
        bridge.start(['bridge', '--role', 'receive'], { ...queue, SOURCING__BRIDGE__PORT: String(port) }),
      ),
      ...['pull', 'pull', 'push', 'push'].map((role) => bridge.start(['bridge', '--role', role], queue)),
    ];
    for (const program of programs) await lineOf(program, /ready/);

    await playStory({
      client: await openClient(baseUrl, source.apiKey),
      clock: systemClock,
      seed: 3,
      events: 4,
      suppliers: 5,
      lots: 6,
      pauseMs: 0,
      print: () => undefined,
    });
    const { awards, reopened } = await readServiceState(db.url);
    expect(Object.keys(awards).length).toBeGreaterThan(5);
    // Each event was played to its end.
    expect(reopened).toEqual([]);
    await expect
      .poll(async () => ({ held: replayLedger(ledgerFile(bridge)).held, unfinished: await readUnfinished(db.url) }), {
        timeout: 60_000,
        interval: 100,
      })
      .toEqual({ held: awards, unfinished: [] });
    const received = await db.database.query('select from bridge.inbox');
    expect(received.length).toBeGreaterThan(0);
    await Promise.all([...programs, service].map(expectGracefulEnd));
    // At most one object for each award at any time, and no call that changed nothing.
    expect(replayLedger(ledgerFile(bridge)).doubled).toEqual([]);
  });
});
