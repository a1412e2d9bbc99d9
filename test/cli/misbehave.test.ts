/** `service --misbehave` as a person types it. */
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { scratchFolder } from '../harness/scratch-folder.ts';
import { createTestDatabase } from '../harness/test-database.ts';
import { createOrganisation } from '../harness/test-organisation.ts';
import { runHere, startCommandLine } from './command-line.ts';

test.each([
  [['--misbehave', 'page-nmbers'], '"page-nmbers" is no quirk. docs/misbehave.md lists all.'],
  [['--misbehave', 'page-numbers,offsets'], 'do not go together'],
  [['--misbehave', 'cut', '--misbehave-seed', 'x'], 'whole number'],
  [['--misbehave', 'cut', '--profile', 'public'], '--misbehave changes the feeds of the profile spec'],
])('%s is refused before anything is opened', async (args, message) => {
  const { code, stderr } = await runHere(['service', ...args]);
  expect([code, stderr]).toEqual([2, expect.stringContaining(message)]);
});

test('the service says how it misbehaves, does so, and stops as usual', async () => {
  const { url: database } = await createTestDatabase();
  const data = join(await scratchFolder(), 'data');
  const command = startCommandLine(
    ['service', '--port', '0', '--data', data, '--misbehave', 'slash-redirect,declares-order', '--misbehave-seed', '3'],
    { DATABASE_URL: database, SOURCING_ADMIN_TOKEN: 'operator-token-of-this-test-0123456789' },
  );
  expect(await command.line(/misbehaves/)).toBe('it misbehaves: slash-redirect,declares-order (seed 3)');
  const url = /http:\S+/.exec(await command.line(/ready/))?.[0] ?? '';
  const { key } = await createOrganisation(url, 'operator-token-of-this-test-0123456789');
  const ask = (path: string) => fetch(url + path, { headers: { authorization: `Bearer ${key}` }, redirect: 'manual' });
  expect((await ask('/api/feeds/awards')).headers.get('location')).toBe(`${url}/api/feeds/awards/`);
  expect((await ask('/api/feeds/awards/')).headers.get('feed-order')).toBe('commit');
  expect(await (await ask('/misbehave')).json()).toMatchObject({
    quirks: ['slash-redirect', 'declares-order'],
    seed: '3',
  });
  command.signal('SIGTERM');
  expect(await command.ended).toBe(0);
});
