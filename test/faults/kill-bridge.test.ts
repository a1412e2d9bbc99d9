/**
 * Service and bridge as two processes over one data folder; the bridge is killed with -9 at seeded instants while
 * awards come in, and it writes to an ERP that makes a second object of every second call. FAULTS sets the number of
 * kills, FAULT_SEED the instants.
 */
import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { expect, test } from 'vitest';
import { createSourceClient, type SourceClient } from '#client/source-client.ts';
import { systemClock } from '#platform/clock.ts';
import { playStory } from '#service/simulator/play-story.ts';
import { request, testOutgoing } from '../harness/programs.ts';
import { readServiceState, readUnfinished } from './awards-in-sql.ts';
import { freePort } from './free-port.ts';
import { readLedger } from './ledger-connector.ts';
import {
  createInstallation,
  type Installation,
  lineOf,
  outcomeOf,
  type Program,
  until,
  useEmbedded,
} from './program-process.ts';
import { seededRandom } from './seeded-random.ts';

const kills = Number(process.env['FAULTS'] ?? 5);
const seed = Number(process.env['FAULT_SEED'] ?? 11);
const ledger = 'ledger.jsonl';

test(`a bridge killed at ${kills} instants gives each award exactly one object in the ERP`, {
  timeout: 120_000 + kills * 10_000,
}, async () => {
  const port = await freePort();
  const serviceOf = await createInstallation();
  const service = serviceOf.start(['service', '--port', '0']);
  const baseUrl = /http\S+/.exec(await lineOf(service, /ready/))?.[0] ?? '';
  const { apiKey, signingKey } = await setUp(serviceOf, baseUrl, `https://localhost:${port}/webhooks/main`);
  const bridge = await createInstallation({
    dataDir: serviceOf.dataDir,
    configuration: configurationOf({ port, baseUrl, apiKey, signingKey }),
  });
  const ledgerFile = join(bridge.dataDir, ledger);

  const client = await clientOf(baseUrl, apiKey);
  const enough = new AbortController();
  const playing = playOn(client, enough.signal);
  const random = seededRandom(seed);
  const held = () => readLedger(ledgerFile).length;
  for (let number = 0; number < kills; number += 1) await killOnce(bridge, number, held, random);
  enough.abort();
  await playing;

  const last = bridge.start(['bridge']);
  await lineOf(last, /ready/);
  await useEmbedded(serviceOf.dataDir, async (url) => {
    const { awards } = await readServiceState(url);
    expect(Object.keys(awards).length).toBeGreaterThan(0);
    const unsettled = async () => {
      const settled = new Set(readLedger(ledgerFile).map(({ key }) => key));
      return [...Object.keys(awards).filter((key) => !settled.has(key)), ...(await readUnfinished(url))];
    };
    await expect.poll(unsettled, { timeout: 60_000, interval: 50 }).toEqual([]);
    const entries = readLedger(ledgerFile);
    const created = entries.filter(({ action }) => action === 'create').map(({ key }) => key);
    const createdTwice = created.filter((key, index) => created.indexOf(key) !== index);
    expect(createdTwice).toEqual([]);
    expect(created.toSorted()).toEqual(Object.keys(awards).sort());
    expect(Object.fromEntries(entries.map(({ key, lines }) => [key, lines]))).toEqual(awards);
  });
  await expectGracefulEnd(last, /^bridge ready https:/);
  await expectGracefulEnd(service, /^service ready http:/);
});

/** Every third kill comes while it starts, the others while or just after it writes. */
async function killOnce(
  bridge: Installation,
  number: number,
  held: () => number,
  random: ReturnType<typeof seededRandom>,
): Promise<void> {
  const before = held();
  const program = bridge.start(['bridge']);
  if (number % 3 === 0) await sleep(random.upTo(1_200));
  else {
    const more = 1 + Math.floor(random.upTo(4));
    await until(
      'the bridge writes',
      () => held() >= before + more,
      () => (program.ended ? program.report() : undefined),
    );
    await sleep(random.upTo(40));
  }
  await program.kill();
  expect(outcomeOf(program)).toBe('killed');
}

/** Stops within the ten seconds that a service manager gives, with exit code 0; its first line said that it was ready. */
async function expectGracefulEnd(program: Program, ready: RegExp): Promise<void> {
  const began = performance.now();
  await program.terminate();
  expect(outcomeOf(program)).toBe('exit code 0');
  expect(performance.now() - began).toBeLessThan(10_000);
  expect(program.lines[0]).toMatch(ready);
}

/** An organisation whose webhook comes to the bridge. */
async function setUp(installation: Installation, baseUrl: string, webhookUrl: string) {
  const operator = (await readFile(join(installation.dataDir, 'admin-token'), 'utf8')).trim();
  const admin = (method: string, path: string, body: unknown) =>
    request(method, `${baseUrl}/admin/organisations${path}`, { key: operator, body });
  const { id } = (await admin('POST', '', { name: 'Test' })).body;
  await admin('PUT', `/${id}/webhook-domains`, { domains: ['localhost'] });
  await admin('PUT', `/${id}/allowed-networks`, { cidrs: ['127.0.0.0/8', '::1/128'] });
  const scopes = ['manage', 'jobs', 'feeds', 'webhooks', 'desk'];
  const apiKey: string = (await admin('POST', `/${id}/api-keys`, { name: 'test', scopes })).body.key;
  const webhook = await request('POST', `${baseUrl}/api/webhooks`, {
    key: apiKey,
    body: { name: 'bridge', url: webhookUrl, triggers: ['SOURCING_EVENTS_FEED_UPDATED', 'AWARDS_FEED_UPDATED'] },
  });
  return { apiKey, signingKey: String(webhook.body.signing_key) };
}

function configurationOf(options: { port: number; baseUrl: string; apiKey: string; signingKey: string }): object {
  return {
    sweep_seconds: 1,
    bridge: {
      port: options.port,
      console_port: 0,
      sources: [
        {
          name: 'main',
          base_url: options.baseUrl,
          api_key: options.apiKey,
          signing_keys: [options.signingKey],
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

/** Event after event until it is aborted. */
async function playOn(client: SourceClient, signal: AbortSignal): Promise<void> {
  for (let number = 0; !signal.aborted; number += 1)
    await playStory({
      client,
      clock: systemClock,
      seed: seed + number,
      events: 1,
      suppliers: 5,
      lots: 6,
      pauseMs: 40,
      tell: () => undefined,
      signal,
    }).catch((error: unknown) => {
      if (!signal.aborted) throw error;
    });
}
