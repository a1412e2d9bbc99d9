/** The programs behind a real PgBouncer, with the settings that Debian ships, in each of its modes. */
import { expect, test } from 'vitest';
import { systemClock } from '#platform/clock.ts';
import { openDatabase } from '#platform/database/open-database.ts';
import { silentLogger } from '#platform/log.ts';
import { playStory } from '#service/simulator/play-story.ts';
import { freePort } from '../harness/free-port.ts';
import { hasPooler, startPooler } from '../harness/pooler.ts';
import { scratchFolder } from '../harness/scratch-folder.ts';
import { createTestDatabase } from '../harness/test-database.ts';
import { readServiceState, readUnfinished } from './awards-in-sql.ts';
import { createSource, ledgerConfiguration, ledgerFile } from './ledger-bridge.ts';
import { replayLedger } from './ledger-connector.ts';
import { openClient } from './players.ts';
import { createInstallation, expectGracefulEnd, lineOf } from './program-process.ts';

const isPoolerThere = hasPooler();

test.runIf(isPoolerThere)('a pooler in transaction mode is refused at the start, with what to set', async () => {
  const db = await createTestDatabase();
  const url = await startPooler(db.url, 'transaction');
  const dataDir = await scratchFolder();
  const opening = openDatabase({ url, dataDir, log: silentLogger, applicationName: 'test' });
  await expect(opening).rejects.toThrow(/pool_mode transaction .* Set pool_mode = session/);
});

const ways: { name: string; urlOf: (url: string) => Promise<string> }[] = [
  ...(isPoolerThere ? [{ name: 'a pooler in session mode', urlOf: (url: string) => startPooler(url, 'session') }] : []),
  {
    name: 'a URL with options of its own',
    urlOf: async (url) => `${url}?options=${encodeURIComponent('-c statement_timeout=120000 -c TimeZone=Asia/Tokyo')}`,
  },
];

test.each(ways)('over $name every role works, without Redis', { timeout: 180_000 }, async ({ urlOf }) => {
  const db = await createTestDatabase();
  const databaseUrl = await urlOf(db.url);
  const serviceOf = await createInstallation({ databaseUrl });
  const service = serviceOf.start(['service', '--port', '0']);
  const baseUrl = /http\S+/.exec(await lineOf(service, /ready/))?.[0] ?? '';
  const port = await freePort();
  const source = await createSource(serviceOf, baseUrl, [`https://localhost:${port}/webhooks/main`]);
  const configuration = ledgerConfiguration(source);
  const bridge = await createInstallation({ databaseUrl, dataDir: serviceOf.dataDir, configuration });
  const programs = ['receive', 'pull', 'push'].map((role) =>
    bridge.start(['bridge', '--role', role], { SOURCING__BRIDGE__PORT: String(port) }),
  );
  for (const program of programs) await lineOf(program, /ready/);
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
  await Promise.all([...programs, service].map(expectGracefulEnd));
  expect(replayLedger(ledgerFile(bridge)).doubled).toEqual([]);
});
