/**
 * The bridge as it runs in production: two processes of each role, BullMQ on Redis, PostgreSQL, and the service, each a
 * process of its own, while the simulator buys and sells as fast as it can. Faults come at seeded instants: `kill -9` of
 * any role, of Redis and of PostgreSQL, Redis flushed, a role that stands still, connections cut on each of the four
 * ways. The ERP makes a second object of every second call. FAULTS sets their number, FAULT_SEED what and when.
 */
import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { isDeepStrictEqual } from 'node:util';
import { Redis } from 'ioredis';
import { expect, test } from 'vitest';
import { createSourceClient, type SourceClient } from '#client/source-client.ts';
import { type FeedName, feedNames } from '#contract/feed.ts';
import { feedTriggers } from '#contract/webhook.ts';
import { systemClock } from '#platform/clock.ts';
import { startEmbeddedPostgres } from '#platform/database/embedded-postgres.ts';
import { silentLogger } from '#platform/log.ts';
import { playStory } from '#service/simulator/play-story.ts';
import { closeAfterFile, createOrganisation, scratchFolder, testOutgoing } from '../harness/programs.ts';
import { hasRedisServer, startRedisServer } from '../harness/redis.ts';
import { readRows, readServiceState, readUnfinished } from './awards-in-sql.ts';
import { freePort } from './free-port.ts';
import { killPostgres } from './kill-postgres.ts';
import { readLedger } from './ledger-connector.ts';
import { createInstallation, type Installation, lineOf, outcomeOf, until, useEmbedded } from './program-process.ts';
import { seededRandom } from './seeded-random.ts';
import { startTcpProxy } from './tcp-proxy.ts';

const faults = Number(process.env['FAULTS'] ?? 12);
const seed = Number(process.env['FAULT_SEED'] ?? 1);
const ledger = 'ledger.jsonl';
const eventsAtLeast = 6;
const roles = ['receive', 'receive', 'pull', 'pull', 'push', 'push'] as const;

test.skipIf(!hasRedisServer())(
  `${faults} faults of every kind lose nothing and make nothing twice`,
  { timeout: 240_000 + faults * 10_000 },
  async () => {
    const stage = await setUp();
    const random = seededRandom(seed);
    const enough = new AbortController();
    const played = { events: 0 };
    const playing = playOn(stage.client, played, enough.signal);
    const story: string[] = [];
    const told = () => `seed ${seed}: ${story.join(', ')}`;
    for (let number = 0; number < faults; number += 1) {
      await sleep(random.upTo(600));
      const fault = stage.faults[Math.floor(random.upTo(stage.faults.length))];
      if (fault) story.push(await fault(random));
    }
    expect(story.filter((line) => line.startsWith('NOT KILLED'))).toEqual([]);
    await until('the simulator has played some events', () => played.events >= eventsAtLeast);
    enough.abort();
    await playing;

    const { awards } = await useEmbedded(stage.serviceDir, readServiceState);
    expect(Object.keys(awards).length).toBeGreaterThan(0);
    const unsettled = async () => {
      const settled = new Set(readLedger(stage.ledgerFile).map(({ key }) => key));
      return [
        ...Object.keys(awards).filter((key) => !settled.has(key)),
        ...(await readUnfinished(stage.bridgeUrl)),
        ...(await differences(stage.client, stage.bridgeUrl)),
      ];
    };
    await expect.poll(unsettled, { timeout: 120_000, interval: 250, message: told() }).toEqual([]);
    const { living, doubled } = replayOf(readLedger(stage.ledgerFile));
    expect({ doubled, held: Object.fromEntries(living), told: told() }).toEqual({
      doubled: [],
      held: awards,
      told: told(),
    });
    for (const program of stage.running()) {
      await program.terminate();
      expect(outcomeOf(program)).toBe('exit code 0');
    }
  },
);

/** What the ERP holds after these calls, and the keys that were created while they were there. */
function replayOf(entries: ReturnType<typeof readLedger>) {
  const living = new Map<string, string[]>();
  const doubled: string[] = [];
  for (const { action, key, lines } of entries) {
    if (action === 'create' && living.has(key)) doubled.push(key);
    if (action === 'cancel') living.delete(key);
    else living.set(key, lines);
  }
  return { living, doubled };
}

type Fault = (random: ReturnType<typeof seededRandom>) => Promise<string>;

/** Everything running, and what can be done to it. A fault gives its name. */
async function setUp() {
  const [redis, service] = await Promise.all([startRedisServer(), createInstallation()]);
  closeAfterFile(() => redis.close());
  const databaseDir = await scratchFolder();
  const postgres = await startEmbeddedPostgres({ dataDir: databaseDir, log: silentLogger });
  closeAfterFile(() => postgres.stop());

  const serviceProgram = service.start(['service', '--port', '0']);
  const servicePort = Number(/:(\d+)\s*$/.exec(await lineOf(serviceProgram, /ready/))?.[1]);
  const receiverPorts = [await freePort(), await freePort()];
  const ways = {
    'the source': await startTcpProxy([servicePort]),
    'the webhook endpoint': await startTcpProxy(receiverPorts),
    PostgreSQL: await startTcpProxy([Number(new URL(postgres.url).port)]),
    Redis: await startTcpProxy([Number(new URL(redis.url).port)]),
  };
  const through = (url: string, { port }: { port: number }) => Object.assign(new URL(url), { port: String(port) }).href;

  const baseUrl = `http://127.0.0.1:${servicePort}`;
  const { apiKey, signingKey } = await register(
    service,
    baseUrl,
    `https://localhost:${ways['the webhook endpoint'].port}/webhooks/main`,
  );
  const bridge = await createInstallation({
    dataDir: service.dataDir,
    databaseUrl: through(postgres.url, ways.PostgreSQL),
    configuration: configurationOf({ baseUrl: `http://127.0.0.1:${ways['the source'].port}`, apiKey, signingKey }),
  });
  const start = (index: number) =>
    bridge.start(['bridge', '--role', roles[index] ?? 'all'], {
      REDIS_URL: through(redis.url, ways.Redis),
      SOURCING__BRIDGE__PORT: String(receiverPorts[index] ?? 0),
    });
  const programs = roles.map((_role, index) => start(index));
  await Promise.all(programs.map((program) => lineOf(program, /ready/)));

  const anyone = (random: ReturnType<typeof seededRandom>) => Math.floor(random.upTo(roles.length));
  const kill: Fault = async (random) => {
    const index = anyone(random);
    const program = programs[index];
    await program?.kill();
    programs[index] = start(index);
    // One that had ended by itself would tell more.
    return program && outcomeOf(program) === 'killed' ? `${roles[index]} killed` : `NOT KILLED: ${program?.report()}`;
  };
  const freeze: Fault = async (random) => {
    const index = anyone(random);
    const program = programs[index];
    // The whole group: npm and a shell may stand above the process.
    if (program && !program.ended) process.kill(-program.pid, 'SIGSTOP');
    await sleep(random.upTo(3_000));
    if (program && !program.ended) process.kill(-program.pid, 'SIGCONT');
    return `${roles[index]} stood still`;
  };
  const flush: Fault = async () => {
    const client = new Redis(redis.url, { maxRetriesPerRequest: 1 });
    client.on('error', () => undefined);
    await client.flushall().catch(() => undefined);
    client.disconnect();
    return 'Redis flushed';
  };
  const restartRedis: Fault = async (random) => {
    await redis.kill();
    await sleep(random.upTo(1_500));
    await redis.restart();
    return 'Redis restarted';
  };
  const restartPostgres: Fault = async () => {
    await killPostgres(databaseDir);
    return 'PostgreSQL killed';
  };
  const cuts = Object.entries(ways).map(
    ([name, way]): Fault =>
      async () => {
        way.cut();
        return `connections to ${name} cut`;
      },
  );
  return {
    client: await clientOf(baseUrl, apiKey),
    serviceDir: service.dataDir,
    bridgeUrl: postgres.url,
    ledgerFile: join(bridge.dataDir, ledger),
    // Killed as often as all others together.
    faults: [kill, kill, kill, kill, freeze, flush, restartRedis, restartPostgres, ...cuts],
    running: () => [...programs, serviceProgram],
  };
}

/** An organisation whose notifications come to the bridge. */
async function register({ dataDir }: Installation, baseUrl: string, webhookUrl: string) {
  const operator = (await readFile(join(dataDir, 'admin-token'), 'utf8')).trim();
  const organisation = await createOrganisation(baseUrl, operator);
  const webhook = await organisation.call('POST', '/api/webhooks', {
    name: 'bridge',
    url: webhookUrl,
    triggers: Object.values(feedTriggers),
  });
  return { apiKey: organisation.key, signingKey: String(webhook.body.signing_key) };
}

function configurationOf(source: { baseUrl: string; apiKey: string; signingKey: string }): object {
  return {
    sweep_seconds: 1,
    bridge: {
      console_port: 0,
      sources: [
        {
          name: 'main',
          base_url: source.baseUrl,
          api_key: source.apiKey,
          signing_keys: [source.signingKey],
          poll_seconds: 5,
          timeout_seconds: 10,
          // The organisation has no limits.
          quotas: { enabled: false },
        },
      ],
      flows: [
        {
          name: 'ledger',
          source: 'main',
          connector: join(import.meta.dirname, 'ledger-connector.ts'),
          settings: { file: ledger },
        },
      ],
    },
  };
}

async function clientOf(baseUrl: string, apiKey: string): Promise<SourceClient> {
  const { fetch } = await testOutgoing();
  return createSourceClient({
    settings: { baseUrl, apiKey, timeoutMs: 30_000, retries: 3 },
    fetch,
    clock: systemClock,
  });
}

/** Event after event, without a pause between the steps; the last one is played to its end when it is aborted. */
async function playOn(client: SourceClient, played: { events: number }, signal: AbortSignal): Promise<void> {
  for (let number = 0; !signal.aborted; number += 1) {
    await playStory({
      client,
      clock: systemClock,
      seed: seed + number,
      events: 1,
      firstEvent: number + 1,
      suppliers: 5,
      lots: 6,
      pauseMs: 0,
      tell: () => undefined,
    });
    played.events += 1;
  }
}

/** What the feeds show and the bridge's mirror does not hold as it is shown. (Records of withdrawn events stay there.) */
async function differences(client: SourceClient, bridgeUrl: string): Promise<string[]> {
  const rows = await readRows<{ feed: string; record_id: string; body: string }>(
    bridgeUrl,
    'select feed, record_id, body from bridge.mirror where gone is null',
  );
  const mirrored = new Map(rows.map(({ feed, record_id: id, body }) => [`${feed} ${id}`, JSON.parse(body) as unknown]));
  const missing: string[] = [];
  for (const feed of feedNames)
    for (const record of await readAll(client, feed)) {
      const key = `${feed} ${String(record['id'])}`;
      if (!isDeepStrictEqual(mirrored.get(key), record)) missing.push(key);
    }
  return missing;
}

async function readAll(client: SourceClient, feed: FeedName): Promise<Record<string, unknown>[]> {
  const records: Record<string, unknown>[] = [];
  let page = await client.readFeed(feed, { pageSize: 1_000 });
  records.push(...page.records);
  while (page.next !== undefined) {
    page = await client.readFeed(feed, { next: page.next });
    records.push(...page.records);
  }
  return records;
}
