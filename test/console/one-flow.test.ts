/** A viewer of one flow: no call of the console names a flow, a source or an intake of others. */
import { beforeAll, expect, test } from 'vitest';
import { bridgeSettings } from '#bridge/settings/settings.ts';
import { consoleApi } from '#console/api/console-api.ts';
import { createTestDatabase } from '../harness/test-database.ts';
import { type ConsoleServer, startConsole } from './console-server.ts';
import { seedConsole, seededSettings } from './seed-console.ts';

let server: ConsoleServer;

beforeAll(async () => {
  const { database } = await createTestDatabase();
  await seedConsole(database, Date.now());
  await database.query(
    `insert into bridge.flows (name, source, kinds) values ('foreign-flow', 'foreign-source', '{award}')`,
  );
  await database.query(`update bridge.lost_commits set lost = now(), why = 'restored', caught_up = null`);
  await database.query('update bridge.intakes set configured = true, last_read = null');
  const { sources, flows, ...others } = seededSettings;
  const source = { name: 'foreign-source', base_url: 'https://foreign.example.com', api_key: 'key' };
  const flow = { name: 'foreign-flow', source: 'foreign-source', connector: 'file', settings: { directory: 'out' } };
  const settings = bridgeSettings.parse({ ...others, sources: [...sources, source], flows: [...flows, flow] });
  server = await startConsole(database, { settings });
  server.viewer = { name: 'Vera', role: 'viewer', flows: ['archive'] };
});

test('no answer names what belongs to others, also while lost commits are caught up with', async () => {
  const { lostCommits } = (await (await fetch(`${server.url}/status.json`)).json()) as { lostCommits: object | null };
  expect(lostCommits).not.toBeNull();
  const reads = consoleApi({ settings: { sources: [] } } as never).filter(({ method }) => method === 'GET');
  for (const { path } of [...reads, { path: '/status.json' }]) {
    const query = path === '/api/search' ? '?q=RFQ' : path === '/api/webhooks' ? '?source=foreign-source' : '';
    const text = await (await fetch(`${server.url}${path}${query}`)).text();
    expect({ path, shown: text.match(/foreign|"sap"|vendors/g) }).toEqual({ path, shown: null });
  }
});
