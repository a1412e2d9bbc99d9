/**
 * Two processes of each role on one database, beside the service: every award reaches the ERP exactly once, whichever
 * process does what, and each ends within the time that a service manager gives.
 */
import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { afterAll, describe, expect, test } from 'vitest';
import { createSourceClient } from '#client/source-client.ts';
import { systemClock } from '#platform/clock.ts';
import { playStory } from '#service/simulator/play-story.ts';
import { createOrganisation, testOutgoing } from '../harness/programs.ts';
import { findTestRedis } from '../harness/redis.ts';
import { createTestDatabase } from '../harness/test-database.ts';
import { readServiceState, readUnfinished } from './awards-in-sql.ts';
import { freePort } from './free-port.ts';
import { readLedger } from './ledger-connector.ts';
import { createInstallation, lineOf, outcomeOf, type Program } from './program-process.ts';

const redis = await findTestRedis();
const triggers = ['SOURCING_EVENTS_FEED_UPDATED', 'AWARDS_FEED_UPDATED'];
const ledger = 'ledger.jsonl';

async function endsInTime(program: Program): Promise<void> {
  const began = performance.now();
  await program.terminate();
  expect(outcomeOf(program)).toBe('exit code 0');
  expect(performance.now() - began).toBeLessThan(10_000);
}

afterAll(() => redis?.close());

const backends: { name: string; redisUrl?: string }[] = [
  { name: 'PostgreSQL' },
  ...(redis ? [{ name: 'Redis', redisUrl: redis.url }] : []),
];

describe.each(backends)('with the queue on $name', ({ redisUrl }) => {
  test('two receivers, two pullers and two pushers deliver each award once', { timeout: 180_000 }, async () => {
    const db = await createTestDatabase();
    const queue: Record<string, string> = redisUrl === undefined ? {} : { REDIS_URL: redisUrl };
    const serviceOf = await createInstallation({ databaseUrl: db.url });
    const service = serviceOf.start(['service', '--port', '0']);
    const baseUrl = /http\S+/.exec(await lineOf(service, /ready/))?.[0] ?? '';
    const operator = (await readFile(join(serviceOf.dataDir, 'admin-token'), 'utf8')).trim();
    const organisation = await createOrganisation(baseUrl, operator);
    const ports = [await freePort(), await freePort()];
    const keys: string[] = [];
    for (const port of ports) {
      const url = `https://localhost:${port}/webhooks/main`;
      const { body } = await organisation.call('POST', '/api/webhooks', { name: `to ${port}`, url, triggers });
      keys.push(String(body.signing_key));
    }
    const bridge = await createInstallation({
      databaseUrl: db.url,
      dataDir: serviceOf.dataDir,
      configuration: {
        sweep_seconds: 1,
        bridge: {
          console_port: 0,
          sources: [{ name: 'main', base_url: baseUrl, api_key: organisation.key, signing_keys: keys }],
          flows: [
            {
              name: 'ledger',
              source: 'main',
              connector: join(import.meta.dirname, 'ledger-connector.ts'),
              settings: { file: ledger },
            },
          ],
        },
      },
    });
    const programs = [
      ...ports.map((port) =>
        bridge.start(['bridge', '--role', 'receive'], { ...queue, SOURCING__BRIDGE__PORT: String(port) }),
      ),
      ...['pull', 'pull', 'push', 'push'].map((role) => bridge.start(['bridge', '--role', role], queue)),
    ];
    for (const program of programs) await lineOf(program, /ready/);

    const { fetch } = await testOutgoing();
    await playStory({
      client: createSourceClient({
        settings: { baseUrl, apiKey: organisation.key, timeoutMs: 30_000, retries: 3 },
        fetch,
        clock: systemClock,
      }),
      clock: systemClock,
      seed: 3,
      events: 4,
      suppliers: 5,
      lots: 6,
      pauseMs: 0,
      tell: () => undefined,
      signal: new AbortController().signal,
    });
    const { awards } = await readServiceState(db.url);
    expect(Object.keys(awards).length).toBeGreaterThan(5);
    const held = () =>
      Object.fromEntries(
        readLedger(join(bridge.dataDir, ledger)).map(({ key, action, lines }) => [
          key,
          action === 'cancel' ? [] : lines,
        ]),
      );
    const differs = () =>
      [...new Set([...Object.keys(awards), ...Object.keys(held())])].filter(
        (key) => JSON.stringify(awards[key] ?? []) !== JSON.stringify(held()[key] ?? []),
      );
    await expect
      .poll(async () => [...differs(), ...(await readUnfinished(db.url))], { timeout: 60_000, interval: 100 })
      .toEqual([]);
    const received = await db.database.query('select from bridge.inbox');
    expect(received.length).toBeGreaterThan(0);
    await Promise.all([...programs, service].map(endsInTime));

    // One object at a time for each award: what is created is cancelled before it is created again.
    const exists = new Map<string, boolean>();
    for (const { key, action } of readLedger(join(bridge.dataDir, ledger))) {
      expect([key, action, exists.get(key) === true]).toEqual([key, action, action !== 'create']);
      exists.set(key, action !== 'cancel');
    }
  });
});
