/**
 * A source moves to a second bridge, with a database of its own, by the way of docs/scaling.md: the second bridge knows
 * nothing of what the first has delivered, and the ERP makes a second object when a call is repeated.
 */
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { freePort } from '../harness/free-port.ts';
import { scratchFolder } from '../harness/scratch-folder.ts';
import { createEmptyDatabase, createTestDatabase } from '../harness/test-database.ts';
import { readServiceState, readUnfinished } from './awards-in-sql.ts';
import { createSource, ledgerConfiguration } from './ledger-bridge.ts';
import { readLedger, replayLedger } from './ledger-connector.ts';
import { openClient, startPlayers } from './players.ts';
import { createInstallation, expectGracefulEnd, lineOf, outcomeOf, until } from './program-process.ts';

test('a source that moves to another bridge is delivered on from there, and nothing is made twice', async () => {
  const { url } = await createTestDatabase();
  const other = await createEmptyDatabase();
  const ledger = join(await scratchFolder(), 'erp.jsonl');
  const serviceOf = await createInstallation({ databaseUrl: url });
  const service = serviceOf.start(['service', '--port', '0']);
  const baseUrl = /http\S+/.exec(await lineOf(service, /ready/))?.[0] ?? '';
  const source = await createSource(serviceOf, baseUrl, []);
  const bridgeOn = async (databaseUrl: string) => {
    const configuration = ledgerConfiguration(source, {
      bridge: { port: await freePort() },
      source: { quotas: { enabled: false }, poll_seconds: 1 },
    }) as { bridge: { flows: { settings: object }[] } };
    for (const flow of configuration.bridge.flows) flow.settings = { file: ledger };
    return createInstallation({ databaseUrl, configuration });
  };
  const players = startPlayers({ client: await openClient(baseUrl, source.apiKey), seed: 5, pauseMs: 20 });
  const first = (await bridgeOn(url)).start(['bridge']);
  await until(
    'the first bridge delivers',
    () => readLedger(ledger).length >= 4,
    () => players.failure,
  );
  await expectGracefulEnd(first);

  const second = await bridgeOn(other.url);
  const noted = second.start(['bridge', 'restored']);
  await noted.end;
  expect(outcomeOf(noted)).toBe('exit code 0');
  const running = second.start(['bridge']);
  await lineOf(running, /ready/);
  const held = readLedger(ledger).length;
  await until(
    'the second bridge delivers',
    () => readLedger(ledger).length >= held + 3,
    () => players.failure,
  );
  await players.finish();

  const { awards, reopened } = await readServiceState(url);
  expect(reopened).toEqual([]);
  await expect
    .poll(async () => ({ held: replayLedger(ledger).held, unfinished: await readUnfinished(other.url) }), {
      timeout: 60_000,
      interval: 100,
    })
    .toEqual({ held: awards, unfinished: [] });
  expect(replayLedger(ledger).doubled).toEqual([]);
  await Promise.all([running, service].map(expectGracefulEnd));
});
