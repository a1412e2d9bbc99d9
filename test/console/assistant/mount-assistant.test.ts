/** An assistant over HTTP, with the console's real access check, asked by the client of the protocol's own SDK. */
import { Client, StreamableHTTPClientTransport } from '@modelcontextprotocol/client';
import { beforeAll, expect, test } from 'vitest';
import { createSourceClients } from '#bridge/mirror/source/source-clients.ts';
import { createConsoleAccess } from '#console/access/console-access.ts';
import { consoleHeader } from '#console/access/refuse-forgery.ts';
import { beginSession } from '#console/access/sessions.ts';
import type { ViewerRole } from '#console/access/viewer.ts';
import { mountConsole } from '#console/mount-console.ts';
import { readActions } from '#platform/audit-log.ts';
import { systemClock } from '#platform/clock.ts';
import { createApplication } from '#platform/http/application.ts';
import { listen } from '#platform/http/server.ts';
import { silentLogger } from '#platform/log.ts';
import { Registry } from '#platform/metrics.ts';
import { createSecretBox } from '#platform/secrets.ts';
import { closeAtEnd } from '../../harness/close-at-end.ts';
import { testOutgoing } from '../../harness/test-certificates.ts';
import { createTestDatabase, type TestDatabase } from '../../harness/test-database.ts';
import { eventId, seedConsole, seededSettings, supplierId } from '../seed-console.ts';

const delivered = { flow: 'sap', kind: 'award', key: `${eventId(0)}/${supplierId(0)}` };
const hours = { idleMs: 3_600_000, lifeMs: 3_600_000 };
const initialize = JSON.stringify({
  jsonrpc: '2.0',
  id: 1,
  method: 'initialize',
  params: { protocolVersion: '2025-06-18', capabilities: {}, clientInfo: { name: 'raw', version: '1' } },
});

let db: TestDatabase;
let url: string;

beforeAll(async () => {
  db = await createTestDatabase();
  await seedConsole(db.database, Date.now());
  const registry = new Registry();
  const { fetch } = testOutgoing();
  const { database } = db;
  const shared = {
    settings: seededSettings,
    database,
    reading: database,
    fromEnvironment: [],
    clock: systemClock,
    log: silentLogger,
  };
  const secrets = createSecretBox(Buffer.alloc(32, 7));
  const access = createConsoleAccess({ ...shared, secrets, registry });
  const application = createApplication({ log: silentLogger, registry, readiness: {} });
  await access.mount(application);
  const { clientOf } = createSourceClients({ ...shared, fetch, registry });
  const isCurrent = async () => true;
  const close = mountConsole(application, { ...shared, dataDir: '/nowhere', fetch, secrets, clientOf, isCurrent });
  application.finish();
  const server = await listen(application.listener, { host: '127.0.0.1', port: 0 });
  url = `${server.url}/mcp`;
  closeAtEnd(async () => {
    close();
    await server.close(0);
  });
});

async function sessionOf(role: ViewerRole): Promise<Record<string, string>> {
  const token = await beginSession(
    db.database,
    { name: 'Ada', role, flows: 'all' },
    { method: 'link' },
    { clock: systemClock, limits: hours },
  );
  return { cookie: `bridge-session-${new URL(url).port}=${token}`, [consoleHeader]: '1' };
}

async function connect(role: ViewerRole) {
  const transport = new StreamableHTTPClientTransport(new URL(url), {
    requestInit: { headers: await sessionOf(role) },
  });
  const client = new Client({ name: 'test', version: '1.0.0' });
  await client.connect(transport);
  closeAtEnd(() => client.close());
  return async (name: string, input: Record<string, unknown> = {}) => {
    const { content, isError = false } = await client.callTool({ name, arguments: input });
    return { isError, text: (content as { text: string }[])[0]?.text ?? '' };
  };
}

async function post(headers: Record<string, string>, body = initialize) {
  const accept = 'application/json, text/event-stream';
  const all = { accept, 'content-type': 'application/json', ...headers };
  const response = await fetch(url, { method: 'POST', headers: all, body });
  return { status: response.status, text: await response.text() };
}

test('a viewer asks with the session of the console, and gets what the console shows', async () => {
  const ask = await connect('viewer');
  expect(JSON.parse((await ask('find', { text: 'RFQ-4711' })).text).documents.length).toBeGreaterThan(1);
  expect((await ask('show', delivered)).text).toMatch(/"amount":"\d/);
});

test('a secret of the configuration is removed, wherever it stands', async () => {
  const ask = await connect('viewer');
  await db.database.query(
    `update bridge.flow_documents set last_error = 'the login hunter-2-secret is locked' where dead_since is not null`,
  );
  const { text } = await ask('dead_letters');
  expect(text).toContain('the login [secret] is locked');
  expect(text).not.toContain('hunter-2-secret');
});

test('a viewer without prices gets none', async () => {
  const ask = await connect('viewer-without-prices');
  const { text } = await ask('show', delivered);
  expect(text).toContain(delivered.key);
  expect(text).not.toMatch(/"(amount|cost|total_cost|unit_price|values)":/);
});

test('nothing is changed over HTTP, by an operator either; the refusal names its author in the audit log', async () => {
  const ask = await connect('operator');
  expect(await ask('pause', { flow: 'sap', reason: 'x' })).toEqual({
    isError: true,
    text: 'Over HTTP an assistant only reads: use the console, or the command mcp with --allow-changes.',
  });
  const [action] = await readActions(db.database, 'bridge', { limit: 1 });
  expect(action).toMatchObject({
    who: { kind: 'user', name: 'Ada' },
    from: '127.0.0.1',
    what: 'flow.pause',
    outcome: 'refused',
    details: { through: 'assistant' },
  });
});

test('without a session, without the header that no foreign page sends, or from a foreign page it is refused', async () => {
  const session = await sessionOf('viewer');
  expect((await post(session)).status).toBe(200);
  const { [consoleHeader]: _, ...cookieAlone } = session;
  expect((await post({ [consoleHeader]: '1' })).status).toBe(401);
  expect((await post({ ...session, cookie: `bridge-session-${new URL(url).port}=guessed` })).status).toBe(401);
  expect((await post(cookieAlone)).status).toBe(403);
  expect((await post({ ...session, 'sec-fetch-site': 'cross-site' })).status).toBe(403);
});

test('what is no JSON, what is no message, and what is too long is refused', async () => {
  const session = await sessionOf('viewer');
  expect((await post(session, '{')).status).toBe(400);
  expect((await post(session, '{"a":1}')).status).toBe(400);
  expect((await post(session, JSON.stringify('x'.repeat(70_000)))).status).toBe(413);
});

test('a batch of messages is refused, whatever it holds', async () => {
  const answer = await post(await sessionOf('viewer'), `[${initialize},${initialize}]`);
  expect(answer.status).toBe(400);
  expect(answer.text).toContain('one after the other');
});
