/** `bridge alerts test`: whether a test message arrives. */
import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { afterAll, beforeAll, beforeEach, expect, test, vi } from 'vitest';
import { listen } from '#platform/http/server.ts';
import { scratchFolder } from '../harness/scratch-folder.ts';
import { createTestDatabase, type TestDatabase } from '../harness/test-database.ts';
import { runHere } from './command-line.ts';

let db: TestDatabase;
let config: string;
let env: Record<string, string>;
let place: string;
let status = 200;
let requests = 0;
let close: () => Promise<unknown>;

beforeAll(async () => {
  db = await createTestDatabase();
  const server = await listen(
    (request, response) => {
      requests += 1;
      request.resume();
      response.writeHead(status).end('the token t0k3n-of-chat is unknown');
    },
    { host: '127.0.0.1', port: 0 },
  );
  close = () => server.close(0);
  place = new URL(server.url).host;
  const folder = await scratchFolder();
  config = join(folder, 'bridge.yaml');
  const sources = [{ name: 'main', base_url: 'http://127.0.0.1:1', api_key: '${SOURCE_KEY_THAT_IS_NOT_SET}' }];
  await writeFile(config, JSON.stringify({ bridge: { alerts: { webhook: { url: '${CHAT_URL}' } }, sources } }));
  env = { DATABASE_URL: db.url, DATA_DIR: folder };
});
afterAll(async () => {
  await close();
  await db.drop();
});
beforeEach(() => {
  status = 200;
  requests = 0;
});

const run = (args: string[]) => runHere(['bridge', 'alerts', ...args, '--config', config], env);
const chatUrl = () => `http://${place}/services/T0/t0k3n-of-chat`;

test('a test says whether the receiver took the message, and shows no more of its address than the host', async () => {
  const lacking = await run(['test']);
  expect([lacking.code, lacking.stderr, requests]).toEqual([2, expect.stringContaining('CHAT_URL is not set here'), 0]);
  vi.stubEnv('CHAT_URL', chatUrl());
  const taken = await run(['test']);
  expect([taken.code, requests]).toEqual([0, 1]);
  expect(taken.stdout).toContain('taken by the receiver');
  status = 404;
  vi.stubEnv('CHAT_URL', chatUrl());
  const refused = await run(['test', '--json']);
  expect(refused.code).toBe(1);
  expect(JSON.parse(refused.stdout)).toMatchObject({
    results: [
      { channel: 'webhook', goesTo: place, sent: false, why: `${place} answered 404: the token [secret] is unknown` },
    ],
  });
  expect(taken.stdout + refused.stdout + refused.stderr).not.toContain('t0k3n');
});
