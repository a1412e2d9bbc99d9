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
  const { sources, flows, ...others } = seededSettings;
  const source = { name: 'foreign-source', base_url: 'https://foreign.example.com', api_key: 'key' };
  const flow = { name: 'foreign-flow', source: 'foreign-source', connector: 'file', settings: { directory: 'out' } };
  const settings = bridgeSettings.parse({ ...others, sources: [...sources, source], flows: [...flows, flow] });
  server = await startConsole(database, { settings });
  server.viewer = { name: 'Vera', role: 'viewer', flows: ['archive'] };
});

test('no answer names what belongs to others', async () => {
  const reads = consoleApi({ settings: { sources: [] } } as never).filter(({ method }) => method === 'GET');
  for (const { path } of [...reads, { path: '/status.json' }]) {
    const query = path === '/api/search' ? '?q=RFQ' : path === '/api/webhooks' ? '?source=foreign-source' : '';
    const text = await (await fetch(`${server.url}${path}${query}`)).text();
    expect({ path, shown: text.match(/foreign|"sap"|vendors/g) }).toEqual({ path, shown: null });
  }
});
