/**
 * Service and bridge as two processes over one data folder. The bridge is killed with -9 at seeded instants while
 * awards come in, and it writes to an ERP that creates a second object when a call is repeated. FAULTS sets the number
 * of kills, FAULT_SEED the instants.
 */
import { setTimeout as sleep } from 'node:timers/promises';
import { expect, test } from 'vitest';
import { freePort } from '../harness/free-port.ts';
import { readServiceState, readUnfinished, withoutEvents } from './awards-in-sql.ts';
import { createSource, ledgerConfiguration, ledgerFile } from './ledger-bridge.ts';
import { readLedger, replayLedger } from './ledger-connector.ts';
import { openClient, startPlayers } from './players.ts';
import {
  createInstallation,
  expectGracefulEnd,
  type Installation,
  lineOf,
  outcomeOf,
  until,
  useEmbedded,
} from './program-process.ts';
import { seededRandom } from './seeded-random.ts';

const kills = Number(process.env['FAULTS'] ?? 2);
const seed = Number(process.env['FAULT_SEED'] ?? 11);

test(`a bridge killed at ${kills} instants creates exactly one object in the ERP for each award`, {
  timeout: 120_000 + kills * 10_000,
}, async () => {
  const port = await freePort();
  const serviceOf = await createInstallation();
  const service = serviceOf.start(['service', '--port', '0']);
  const baseUrl = /http\S+/.exec(await lineOf(service, /ready/))?.[0] ?? '';
  const source = await createSource(serviceOf, baseUrl, [`https://localhost:${port}/webhooks/main`]);
  const bridge = await createInstallation({
    dataDir: serviceOf.dataDir,
    configuration: ledgerConfiguration(source, { bridge: { port }, source: { quotas: { enabled: false } } }),
  });
  const file = ledgerFile(bridge);

  const players = startPlayers({ client: await openClient(baseUrl, source.apiKey), seed, pauseMs: 40 });
  const random = seededRandom(seed);
  for (let number = 0; number < kills; number += 1)
    await killOnce({ bridge, number, random, held: () => readLedger(file).length, failure: () => players.failure });
  await players.breakOff();

  const last = bridge.start(['bridge']);
  await lineOf(last, /ready/);
  await useEmbedded(serviceOf.dataDir, async (url) => {
    const { awards, reopened } = await readServiceState(url);
    expect(Object.keys(awards).length).toBeGreaterThan(0);
    // At most the one event that was broken off.
    expect(reopened.length).toBeLessThanOrEqual(1);
    const state = async () => ({
      held: withoutEvents(replayLedger(file).held, reopened),
      unfinished: await readUnfinished(url),
    });
    await expect.poll(state, { timeout: 60_000, interval: 50 }).toEqual({ held: awards, unfinished: [] });
  });
  expect(last.lines[0]).toMatch(/^bridge ready https:/);
  expect(service.lines[0]).toMatch(/^service ready http:/);
  await expectGracefulEnd(last);
  await expectGracefulEnd(service);
  expect(replayLedger(file).doubled).toEqual([]);
});

/** Every third kill comes while the bridge starts, the others while or just after it writes. */
async function killOnce(options: {
  bridge: Installation;
  number: number;
  random: ReturnType<typeof seededRandom>;
  /** How many objects the ERP holds. */
  held: () => number;
  /** Why no more awards will come; undefined while they come. */
  failure: () => string | undefined;
}): Promise<void> {
  const { bridge, number, random, held, failure } = options;
  const before = held();
  const program = bridge.start(['bridge']);
  if (number % 3 === 0) await sleep(random.upTo(1_200));
  else {
    const more = 1 + Math.floor(random.upTo(4));
    await until(
      'the bridge writes',
      () => held() >= before + more,
      () => (program.ended ? program.report() : failure()),
    );
    await sleep(random.upTo(40));
  }
  await program.kill();
  expect(outcomeOf(program)).toBe('killed');
}
