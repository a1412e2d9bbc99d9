/**
 * The bridge as it runs in production: two processes of each role, BullMQ on Redis, PostgreSQL, and the service, each a
 * process of its own under a service manager, while the simulator plays as fast as it can. Faults come at seeded
 * instants: `kill -9` of any role, of Redis and of PostgreSQL; Redis flushed; a role that hangs, for longer than its
 * lease or not; connections cut on each of the four links. The ERP creates a second object when a call is repeated.
 * FAULTS sets the number of faults, FAULT_SEED their kinds and instants.
 */
import { setTimeout as sleep } from 'node:timers/promises';
import { isDeepStrictEqual } from 'node:util';
import { Redis } from 'ioredis';
import { expect, test } from 'vitest';
import type { SourceClient } from '#client/source-client.ts';
import { type FeedName, feedNames } from '#contract/feed.ts';
import { startEmbeddedPostgres } from '#platform/database/embedded-postgres.ts';
import { silentLogger } from '#platform/log.ts';
import { closeAtEnd } from '../harness/close-at-end.ts';
import { freePort } from '../harness/free-port.ts';
import { hasRedisServer, startRedisServer } from '../harness/redis.ts';
import { scratchFolder } from '../harness/scratch-folder.ts';
import { readRows, readServiceState, readUnfinished } from './awards-in-sql.ts';
import { killPostgres } from './kill-postgres.ts';
import { createSource, ledgerConfiguration, ledgerFile } from './ledger-bridge.ts';
import { readLedger, replayLedger } from './ledger-connector.ts';
import { openClient, startPlayers } from './players.ts';
import { createInstallation, lineOf, until, useEmbedded } from './program-process.ts';
import { seededRandom } from './seeded-random.ts';
import { type SupervisedProgram, superviseProgram } from './supervised-program.ts';
import { startTcpProxy } from './tcp-proxy.ts';

const faults = Number(process.env['FAULTS'] ?? 8);
const seed = Number(process.env['FAULT_SEED'] ?? 1);
const eventsMin = 6;
const roles = ['receive', 'receive', 'pull', 'pull', 'push', 'push'] as const;
/** Shorter than the longest hang. */
const leaseSeconds = 2;
const hangMsMax = 3_000;

test.skipIf(!hasRedisServer())(
  `${faults} faults of every kind lose nothing and create nothing twice`,
  { timeout: 240_000 + faults * 10_000 },
  async () => {
    const story: string[] = [];
    const stage = await setUp((what) => story.push(what));
    const players = startPlayers({ client: stage.client, seed, pauseMs: 0 });
    const random = seededRandom(seed);
    const summary = () => `seed ${seed}: ${story.join(', ')}`;
    const calls = () => readLedger(stage.ledgerFile).length;
    const firstFailure = () => stage.failures()[0] ?? players.failure;
    for (let number = 0; number < faults; number += 1) {
      // Every third fault waits for a write to the ERP. By chance alone nearly all faults would come while processes
      // start again, and everything would be delivered in the calm afterwards.
      const duringWrite = number % 3 === 2;
      const before = calls();
      if (duringWrite) await until(`the ERP is written to again; ${summary()}`, () => calls() > before, firstFailure);
      await sleep(random.upTo(duringWrite ? 40 : 600));
      const possible = duringWrite ? stage.faultsOfWriting : stage.faults;
      await possible[Math.floor(random.upTo(possible.length))]?.(random);
      // The summary is part of the expectation, so that a failure shows the faults until then.
      expect([stage.failures(), players.failure, summary()]).toEqual([[], undefined, summary()]);
    }
    const underFaults = calls();
    await until(
      'the simulator has played some events',
      () => players.events >= eventsMin,
      () => players.failure,
    );
    await players.finish();
    for (const program of stage.programs) await program.ready();

    const { awards, reopened } = await useEmbedded(stage.serviceDir, readServiceState);
    expect(Object.keys(awards).length).toBeGreaterThan(0);
    // Each event was played to its end.
    expect(reopened).toEqual([]);
    const state = async () => ({
      held: replayLedger(stage.ledgerFile).held,
      unfinished: await readUnfinished(stage.bridgeUrl),
      differences: await differences(stage.client, stage.bridgeUrl),
    });
    await expect
      .poll(state, { timeout: 120_000, interval: 250, message: summary() })
      .toEqual({ held: awards, unfinished: [], differences: [] });
    for (const program of stage.programs) await program.end();
    expect({ ...replayLedger(stage.ledgerFile), failures: stage.failures(), summary: summary() }).toEqual({
      held: awards,
      doubled: [],
      failures: [],
      summary: summary(),
    });
    const written = `${calls()} calls of the ERP, ${underFaults} of them under faults`;
    const figures = `${players.events} events, ${Object.keys(awards).length} awards, ${written}`;
    // oxlint-disable-next-line no-console -- a run of hundreds of faults must show which they were
    console.log(`Seed ${seed}: ${figures}; ${countsOf(story)}`);
  },
);

/** `3 × push killed, …`, the most frequent first. */
function countsOf(story: readonly string[]): string {
  const counts = new Map<string, number>();
  for (const line of story) counts.set(line, (counts.get(line) ?? 0) + 1);
  return [...counts]
    .sort(([, one], [, other]) => other - one)
    .map(([line, count]) => `${count} × ${line}`)
    .join(', ');
}

type Random = ReturnType<typeof seededRandom>;
type Fault = (random: Random) => Promise<void>;

/**
 * Starts all programs; returns them with the faults that can hit them. `note` is called with each fault that happens.
 */
async function setUp(note: (what: string) => void) {
  const [redis, service] = await Promise.all([startRedisServer(), createInstallation()]);
  closeAtEnd(() => redis.close());
  const databaseDir = await scratchFolder();
  const postgres = await startEmbeddedPostgres({ dataDir: databaseDir, log: silentLogger });
  closeAtEnd(() => postgres.stop());

  const serviceProgram = superviseProgram('service', () => service.start(['service', '--port', '0']));
  const servicePort = Number(/:(\d+)\s*$/.exec(await lineOf(serviceProgram.program, /ready/))?.[1]);
  const receiverPorts = [await freePort(), await freePort()];
  const links = {
    'the source': await startTcpProxy([servicePort]),
    'the webhook endpoint': await startTcpProxy(receiverPorts),
    PostgreSQL: await startTcpProxy([Number(new URL(postgres.url).port)]),
    Redis: await startTcpProxy([Number(new URL(redis.url).port)]),
  };
  const through = (url: string, { port }: { port: number }) => Object.assign(new URL(url), { port: String(port) }).href;

  const baseUrl = `http://127.0.0.1:${servicePort}`;
  const webhookUrl = `https://localhost:${links['the webhook endpoint'].port}/webhooks/main`;
  const source = await createSource(service, baseUrl, [webhookUrl]);
  const bridge = await createInstallation({
    dataDir: service.dataDir,
    databaseUrl: through(postgres.url, links.PostgreSQL),
    configuration: ledgerConfiguration(
      { ...source, baseUrl: `http://127.0.0.1:${links['the source'].port}` },
      {
        bridge: { lease_seconds: leaseSeconds },
        source: { poll_seconds: 5, timeout_seconds: 10, quotas: { enabled: false } },
      },
    ),
  });
  const programs = roles.map((role, index) =>
    superviseProgram(
      role,
      () =>
        bridge.start(['bridge', '--role', role], {
          REDIS_URL: through(redis.url, links.Redis),
          SOURCING__BRIDGE__PORT: String(receiverPorts[index] ?? 0),
        }),
      note,
    ),
  );
  await Promise.all(programs.map((program) => program.ready()));

  const pushers = programs.filter(({ name }) => name === 'push');
  const oneOf = (candidates: readonly SupervisedProgram[], random: Random) =>
    candidates[Math.floor(random.upTo(candidates.length))] ?? serviceProgram;
  const kill =
    (candidates: readonly SupervisedProgram[]): Fault =>
    async (random) => {
      const role = oneOf(candidates, random);
      await role.kill();
      note(`${role.name} killed`);
    };
  const hang =
    (candidates: readonly SupervisedProgram[]): Fault =>
    async (random) => {
      const { name, program } = oneOf(candidates, random);
      program.signal('SIGSTOP');
      await sleep(random.upTo(hangMsMax));
      program.signal('SIGCONT');
      note(`${name} hung`);
    };
  const flush: Fault = async () => {
    const client = new Redis(redis.url, { maxRetriesPerRequest: 1 });
    client.on('error', () => undefined);
    await client.flushall().catch(() => undefined);
    client.disconnect();
    note('Redis flushed');
  };
  const restartRedis: Fault = async (random) => {
    await redis.kill();
    await sleep(random.upTo(1_500));
    await redis.restart();
    note('Redis restarted');
  };
  const killDatabase: Fault = async () => {
    await killPostgres(databaseDir);
    note('PostgreSQL killed');
  };
  const cut =
    (name: keyof typeof links): Fault =>
    async () => {
      links[name].cut();
      note(`connections to ${name} cut`);
    };
  const killAny = kill(programs);
  const cuts = [cut('the source'), cut('the webhook endpoint'), cut('PostgreSQL'), cut('Redis')];
  return {
    client: await openClient(baseUrl, source.apiKey),
    serviceDir: service.dataDir,
    bridgeUrl: postgres.url,
    ledgerFile: ledgerFile(bridge),
    // Kills are half as frequent as all other faults together.
    faults: [killAny, killAny, killAny, killAny, hang(programs), flush, restartRedis, killDatabase, ...cuts],
    /** Faults that can come between a call of the ERP and its outcome. */
    faultsOfWriting: [kill(pushers), kill(pushers), hang(pushers), killDatabase, cut('PostgreSQL')],
    programs: [...programs, serviceProgram],
    failures: () => [...programs, serviceProgram].flatMap(({ failure }) => failure ?? []),
  };
}

/** The records of the feeds that the bridge's mirror does not hold as shown. (It keeps records of withdrawn events.) */
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
