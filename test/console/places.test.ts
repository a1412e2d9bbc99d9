/** A place where a page of a list begins comes back from the browser: one that was changed on its way is refused. */
import { expect, test } from 'vitest';
import { createTestDatabase } from '../harness/test-database.ts';
import { startConsole } from './console-server.ts';

const { database } = await createTestDatabase();
const { url } = await startConsole(database);
const time = '2030-01-01T00:00:00.000000Z';

test.each([
  ['events', { modified: time, source: 'main', id: 'a' }, 200],
  ['events', { modified: 'yesterday', source: 'main', id: 'a' }, 400],
  ['events', { modified: time, source: 'main\u0000', id: 'a' }, 400],
  ['events', { modified: time, source: 'main', id: '\ud800' }, 400],
  ['documents', { changed: time, flow: 'sap', kind: 'award', key: 'a' }, 200],
  ['documents', { changed: time, flow: 'sap', kind: 'award', key: 'a\u0000' }, 400],
  ['documents', { changed: time, flow: 'sap', kind: 'order', key: 'a' }, 400],
])('of the %s, %j is answered with %d', async (list, place, status) => {
  const after = Buffer.from(JSON.stringify(place)).toString('base64url');
  expect((await fetch(`${url}/api/${list}?after=${after}`)).status).toBe(status);
});
