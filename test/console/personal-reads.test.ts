/** Who reads names and addresses of persons is in the audit log: once an hour, however often an open page asks. */
import { expect, test } from 'vitest';
import { bridgeSettings } from '#bridge/settings/settings.ts';
import { readActions } from '#platform/audit-log.ts';
import { createTestDatabase } from '../harness/test-database.ts';
import { operator, startConsole } from './console-server.ts';
import { eventId, seedConsole, seededSettings } from './seed-console.ts';

const { flows, ...others } = seededSettings;
const settings = bridgeSettings.parse({
  ...others,
  flows: flows.map((flow) => ({ ...flow, documents: ['award', 'sourcing-event'] })),
});

test('a document that names a person is noted for each reader, and one that names none is not', async () => {
  const { database } = await createTestDatabase();
  await seedConsole(database, Date.now());
  await database.query(`update bridge.flows set kinds = '{award,sourcing-event}'`);
  await database.query(
    `update bridge.mirror set body = jsonb_set(body::jsonb, '{event_contact}', '{"name": "Carla Buyer", "email": "carla@example.com"}')::text
     where feed = 'sourcing-events' and record_id = $1`,
    [eventId(0)],
  );
  for (const event of [0, 1])
    await database.query(
      `insert into bridge.flow_documents (flow, kind, key, sourcing_event, wanted) values ('archive', 'sourcing-event', $1, $1, 1)`,
      [eventId(event)],
    );
  const server = await startConsole(database, { settings });
  const read = async (event: number) => {
    const place = new URLSearchParams({ flow: 'archive', kind: 'sourcing-event', key: eventId(event) }).toString();
    return (await fetch(`${server.url}/api/document?${place}`)).text();
  };
  expect(await read(0)).toContain('carla@example.com');
  await read(0);
  await read(1);
  server.viewer = { ...operator, name: 'Bea' };
  await read(0);
  const noted = await readActions(database, 'bridge', { what: 'personal-data', limit: 10 });
  expect(noted.map(({ who, what, object, details }) => [who.name, what, object, details])).toEqual(
    ['Bea', 'Ada'].map((name) => [
      name,
      'personal-data.read',
      'flow archive',
      { kind: 'sourcing-event', key: eventId(0) },
    ]),
  );
});
