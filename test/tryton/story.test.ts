/**
 * Service and bridge as processes, a flow into a real Tryton, and simulated buyers and suppliers. The bridge and Tryton
 * are killed with `kill -9`, at the worst moments and at random (seeded) ones, mostly while purchases are created. At
 * the end, the purchases in Tryton, read over plain RPC, are exactly what the buyers awarded. FAULTS sets the number of
 * kills, FAULT_SEED the random moments.
 */
import { setTimeout as sleep } from 'node:timers/promises';
import { expect, test } from 'vitest';
import { readUnfinished } from '../faults/awards-in-sql.ts';
import { awardsAtDesk, lineText, type Purchases, startStory } from '../faults/endless-story.ts';
import { createSource, ledgerConfiguration } from '../faults/ledger-bridge.ts';
import { openClient } from '../faults/players.ts';
import { createInstallation, lineOf, until, useEmbedded } from '../faults/program-process.ts';
import { seededRandom } from '../faults/seeded-random.ts';
import { type SupervisedProgram, superviseProgram } from '../faults/supervised-program.ts';
import { freePort } from '../harness/free-port.ts';
import { type Fault, injectFaults, trytonKiller } from './fault-run.ts';
import { type IncidentProxy, startIncidentProxy } from './incident-proxy.ts';
import { describeTryton, startTestTryton } from './tryton-in-tests.ts';
import type { TrytonClient } from './tryton-rpc.ts';
import { type TrytonServer, trytonUsers } from './tryton-server.ts';

const kills = Number(process.env['FAULTS'] ?? 1);
const seed = Number(process.env['FAULT_SEED'] ?? 5);
const eventsAtLeast = 4;
/** Upper bounds for a very busy machine: each wait ends as soon as its condition holds. */
const faultWaitMs = 180_000;
const idleWaitMs = 240_000;

describeTryton('a simulated story with a flow into Tryton', () => {
  test(`after ${kills} kills of the bridge and of Tryton each award is exactly one purchase`, {
    timeout: 60_000 + kills * faultWaitMs + idleWaitMs,
  }, async () => {
    const tryton = await startTestTryton();
    const database = await tryton.newDatabase();
    const proxy = await startIncidentProxy(tryton.url);
    const port = await freePort();
    const installation = await createInstallation();
    const service = superviseProgram('service', () => installation.start(['service', '--port', '0']));
    const baseUrl = /http\S+/.exec(await lineOf(service.program, /ready/))?.[0] ?? '';
    const source = await createSource(installation, baseUrl, [`https://localhost:${port}/webhooks/main`]);
    const { dataDir } = installation;
    const configuration = ledgerConfiguration(source, {
      bridge: { port, flows: [flowInto(proxy.url, database.name)] },
      source: { suppliers: true, quotas: { enabled: false } },
    });
    const bridgeInstallation = await createInstallation({ dataDir, configuration });
    const bridge = superviseProgram('bridge', () => bridgeInstallation.start(['bridge']));
    await bridge.ready();
    const client = await openClient(baseUrl, source.apiKey);

    await useEmbedded(dataDir, async (url) => {
      const players = startStory(client, seed);
      const failure = () => bridge.failure ?? players.failure;
      const random = seededRandom(seed);
      const faults = faultsBetween({ bridge, tryton, proxy, random });
      const injected = await injectFaults(faults, {
        kills,
        // On a busy machine, it may take long until the story reaches its next award.
        waitMs: faultWaitMs,
        failure,
        report: async () => [`${players.events} events`, ...(await readUnfinished(url)), bridge.program.report()],
      });
      await until('some events were played', () => players.events >= eventsAtLeast, failure);
      await players.finish();
      const awarded = await awardsAtDesk(client);
      expect(Object.keys(awarded).length).toBeGreaterThan(0);
      // One login for all polls: each login costs Tryton a quarter of a second of computing time.
      const reader = await database.logIn('admin');
      const stateNow = async () => ({
        purchases: (await purchasesIn(reader)).held,
        unfinished: await readUnfinished(url),
      });
      await expect
        .poll(stateNow, { timeout: idleWaitMs, interval: 250, message: `killed: ${injected.join(', ')}` })
        .toEqual({ purchases: awarded, unfinished: [] });
      expect((await purchasesIn(reader)).duplicates).toEqual([]);
      // oxlint-disable-next-line no-console -- a developer who runs hundreds of kills wants to see them
      console.log(
        `Seed ${seed}: ${players.events} events, ${Object.keys(awarded).length} purchases; killed: ${injected.join(', ')}`,
      );
    });
    await bridge.end();
    await service.end();
  });
});

function flowInto(url: string, database: string): object {
  const { login, password } = trytonUsers.connector;
  return {
    name: 'tryton',
    source: 'main',
    connector: 'tryton',
    documents: ['supplier', 'award'],
    quantity_column: 'Annual Volume',
    unit_price_column: 'Unit Price',
    // The test tells purchases apart by event and supplier, not by the marker that the connector uses.
    mapping: { award: { fields: { description: 'event.id' } } },
    // Deleted events and revoked awards withdraw more documents than the default limit allows without confirmation.
    withdrawals: { most: 1_000 },
    // Each failure of this test ends soon.
    circuit: { seconds: 1 },
    settings: {
      url,
      database,
      user: login,
      password,
      product: 'LOT',
      // A share of a lot is not a whole number of pieces.
      unit: 'ud',
      batch_size: 5,
      // Each kill costs both times and the five seconds for a stop. Tryton creates five purchases in less than one second.
      timeout_seconds: 5,
      settle_seconds: 2,
    },
  };
}

/** Each fault resolves when it is over. The first four happen while purchases are created, the others at any change. */
function faultsBetween(parts: {
  bridge: SupervisedProgram;
  tryton: TrytonServer;
  proxy: IncidentProxy;
  random: ReturnType<typeof seededRandom>;
}): readonly Fault[] {
  const { bridge, tryton, proxy, random } = parts;
  const creates = /\.purchase\.create$/;
  const changes = /\.(create|write|delete|draft|quote|cancel)$/;
  const killBridge = async (afterMs = 0) => {
    await sleep(random.upTo(afterMs));
    await bridge.kill();
  };
  const killTryton = trytonKiller(tryton, random);
  return [
    ['the bridge, before it gets the answer', () => proxy.next({ method: creates, answered: () => killBridge() })],
    ['Tryton, while it works', () => proxy.next({ method: creates, during: () => killTryton(60) })],
    ['the bridge, while Tryton works', () => proxy.next({ method: creates, during: () => killBridge(60) })],
    ['Tryton, whose answer is lost', () => proxy.next({ method: creates, answered: () => killTryton(), lost: true })],
    ['the bridge, around a change', () => proxy.next({ method: changes, during: () => killBridge(300) })],
    ['Tryton, around a change', () => proxy.next({ method: changes, during: () => killTryton(300) })],
  ];
}

/** The purchases that are not cancelled, and the keys that several purchases have, whatever their state. */
async function purchasesIn(reader: TrytonClient): Promise<{ held: Purchases; duplicates: string[] }> {
  const fields = ['state', 'description', 'party.code', 'lines.description', 'lines.quantity', 'lines.unit_price'];
  const held: Purchases = {};
  const keys: string[] = [];
  for (const purchase of await reader.search('purchase.purchase', [], fields)) {
    const key = `${purchase.description}/${purchase['party.'].code}`;
    keys.push(key);
    if (purchase.state === 'cancelled') continue;
    const lines: string[] = purchase['lines.'].map((line: Record<string, string>) =>
      lineText(line['description'] ?? '', String(line['quantity']), line['unit_price'] ?? ''),
    );
    (held[key] ??= []).push(lines.sort());
  }
  return { held, duplicates: keys.filter((key, index) => keys.indexOf(key) !== index) };
}
