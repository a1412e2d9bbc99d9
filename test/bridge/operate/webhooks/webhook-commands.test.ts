/** Listing, testing and deleting webhooks. */
import { beforeAll, beforeEach, describe, expect, test } from 'vitest';
import { deleteWebhooks } from '#bridge/operate/webhooks/delete-webhooks.ts';
import { listBridgeWebhooks } from '#bridge/operate/webhooks/list-webhooks.ts';
import { registerWebhook } from '#bridge/operate/webhooks/register-webhook.ts';
import { rotateWebhooks } from '#bridge/operate/webhooks/rotate-webhooks.ts';
import { testWebhooks } from '#bridge/operate/webhooks/test-webhook.ts';
import { authenticationOf } from '#bridge/operate/webhooks/webhook-deps.ts';
import { createBearerCheck } from '#bridge/receive/bearer/bearer-check.ts';
import type { WebhookCalls } from '#client/webhook-calls.ts';
import { systemClock } from '#platform/clock.ts';
import { AppError } from '#platform/errors.ts';
import { testOutgoing } from '../../../harness/test-certificates.ts';
import { createTestDatabase, type TestDatabase } from '../../../harness/test-database.ts';
import { startTestService } from '../../../harness/test-service.ts';
import { giveJson, startTokenServer } from '../../../harness/token-server.ts';
import { testClock } from '../../parts.ts';
import { type Receiver, startReceiver } from '../../receive/receiver.ts';
import { type Bearer, type Commander, createCommander } from './commander.ts';

const service = await startTestService();
const name = 'sourcing-bridge';
let db: TestDatabase;
let receiver: Receiver;
let commander: Commander;
beforeAll(async () => {
  db = await createTestDatabase();
  receiver = await startReceiver({ database: db.database, clock: testClock() });
});
beforeEach(async () => {
  await db.database.query('delete from bridge.webhooks');
  commander = createCommander(service, await service.organisation(), db);
});

const register = async (url = receiver.url) => (await registerWebhook(await commander.deps(), { name, url })).webhook;
const stop = new AbortController().signal;

test('the list shows the webhooks of the service and of this bridge: current, replaced and foreign ones', async () => {
  const old = await register();
  await rotateWebhooks(await commander.deps());
  const deps = await commander.deps();
  const theirs = { name: 'theirs', url: receiver.url, triggers: ['TEST' as const] };
  const { uuid: foreign } = await deps.client.createWebhook(theirs, 'theirs');
  const { webhooks, listable } = await listBridgeWebhooks(deps);
  expect(listable).toBe(true);
  expect(webhooks.map(({ uuid, service: state, key }) => [uuid === old.uuid, uuid === foreign, state, key])).toEqual([
    [true, false, 'gone', 'retired'],
    [false, false, 'active', 'current'],
    [false, true, 'active', 'none'],
  ]);
  expect(JSON.stringify(webhooks)).not.toMatch(/secret|signing_key/);
});

test('when the service has no list, it is asked for each webhook of this bridge', async () => {
  await register();
  const deps = await commander.deps();
  const listWithout = await listBridgeWebhooks({
    ...deps,
    client: {
      ...deps.client,
      listWebhooks: async () => {
        throw new AppError('not-found', 'There is nothing at /api/webhooks.', { recovery: { do: 'halt' } });
      },
    },
  });
  expect(listWithout.listable).toBe(false);
  expect(listWithout.webhooks).toMatchObject([{ service: 'active', key: 'current', url: receiver.url }]);
});

test('an API key that may not list webhooks is an error, and does not count as a service without a list', async () => {
  const deps = await commander.deps();
  const refused = new AppError('forbidden', 'The key lacks the scope webhooks.', { recovery: { do: 'halt' } });
  const client = { ...deps.client, listWebhooks: () => Promise.reject(refused) };
  await expect(listBridgeWebhooks({ ...deps, client })).rejects.toBe(refused);
});

test('a test arrives in the inbox', async () => {
  const { uuid, url } = await register();
  const tested = await testWebhooks(
    { ...(await commander.deps()), fetch: testOutgoing().fetch },
    { timeoutMs: 10_000, signal: stop },
  );
  expect(tested).toEqual([{ uuid, url, arrived: true, tookMs: expect.any(Number), findings: [] }]);
});

describe('a test that does not arrive', () => {
  /** Waits until the service has sent the newest test, where it does, and then the time is up. */
  const look = async (uuid: string, alter: Partial<WebhookCalls> = {}) => {
    const deps = await commander.deps();
    const clock = testClock();
    const attempts = async () => (await deps.client.listDeliveries(uuid)).items[0]?.attempts?.length;
    const sleep = async () => {
      if (!alter.listDeliveries) await expect.poll(attempts, { timeout: 10_000 }).toBeGreaterThan(0);
      clock.advance(10_000);
    };
    const client = { ...deps.client, ...alter };
    const testing = { ...deps, client, fetch: testOutgoing().fetch, clock: { ...clock, sleep } };
    const [tested] = await testWebhooks(testing, { timeoutMs: 2_000, signal: stop });
    expect(tested).toMatchObject({ uuid, arrived: false, tookMs: null });
    return tested?.findings;
  };

  test('because nothing listens: the reason is the service’s own', async () => {
    const closed = await startReceiver({ database: db.database });
    const { uuid } = await register(closed.url);
    await closed.stop();
    expect(await look(uuid)).toEqual([
      expect.stringMatching(/^The service says why: localhost could not be connected to/),
    ]);
  });

  test('because another bridge has the key: 401, and what to do', async () => {
    const other = await startReceiver({ database: (await createTestDatabase()).database, keys: ['another key'] });
    const { uuid } = await register(other.url);
    expect(await look(uuid)).toEqual([
      'The service says that it was answered 401: the signing key differs on the two sides. Run: bridge webhooks rotate --source main',
    ]);
  });

  test('because the receiver finds it stale', async () => {
    const late = await startReceiver({ database: db.database, clock: testClock(), freshnessMs: 1_000 });
    const { uuid } = await register(late.url);
    expect(await look(uuid)).toEqual([expect.stringContaining('too far apart')]);
  });

  test('and the service has switched the webhook off', async () => {
    const { uuid } = await register();
    await service.db.database.query('update service.webhooks set is_active = false where id = $1', [uuid]);
    const findings = await look(uuid, { listDeliveries: async () => ({ items: [], count: 0, next: undefined }) });
    expect(findings?.join('\n')).toContain('has switched the webhook off');
  });

  test('at a service without a log: the findings name the network and the receiver', async () => {
    const { uuid } = await register();
    const none = new AppError('not-found', 'There is nothing.', { recovery: { do: 'halt' } });
    const findings = await look(uuid, { listDeliveries: () => Promise.reject(none), testWebhook: async () => '' });
    expect(findings).toEqual([
      expect.stringContaining('From this machine, the receiver answers'),
      expect.stringContaining('bridge_notifications_total'),
    ]);
  });
});

test('without a webhook to test the error says what to do', async () => {
  const deps = { ...(await commander.deps()), fetch: testOutgoing().fetch };
  await expect(testWebhooks(deps, { timeoutMs: 1, signal: stop })).rejects.toMatchObject({
    publicMessage: expect.stringContaining('bridge webhooks register --source main'),
  });
});

test('deletes the webhooks of this bridge, and a foreign webhook only by its UUID', async () => {
  const ours = await register();
  const deps = await commander.deps();
  const theirs = { name: 'theirs', url: receiver.url, triggers: ['TEST' as const] };
  const { uuid: foreign } = await deps.client.createWebhook(theirs, 'theirs');
  expect(await deleteWebhooks(deps)).toEqual([ours.uuid]);
  expect((await commander.atService()).map(({ uuid }) => uuid)).toEqual([foreign]);
  expect(await deleteWebhooks(deps), 'twice').toEqual([]);
  expect(await deleteWebhooks(deps, foreign)).toEqual([foreign]);
  expect(await commander.atService()).toEqual([]);
  expect(await deleteWebhooks(deps, foreign), 'which is not there any more').toEqual([]);
});

test('the service gets the configured token where token_request says, and its notifications are accepted', async () => {
  const tokens = await startTokenServer();
  const token = 'the-one-token-of-this-source';
  tokens.answer = (response) =>
    giveJson(response, 200, { access_token: token, token_type: 'Bearer', expires_in: 3600 });
  const client = { client_id: 'the service', client_secret: 'a secret: with % and +' };
  const bearer: Bearer = { type: 'token', token, token_request: { access_token_url: tokens.url, ...client } };
  const bearing = await startReceiver({
    database: db.database,
    source: { bearer: createBearerCheck(bearer, { ...testOutgoing(), clock: systemClock }) },
  });
  commander = createCommander(service, await service.organisation(), db, { bearer });
  await register(bearing.url);
  expect(await commander.arrived()).toBe(1);
  // A webhook that was registered without authentication is refused only because it has no token.
  const without = createCommander(service, await service.organisation(), db);
  await db.database.query('delete from bridge.webhooks');
  await registerWebhook(await without.deps(), { name, url: bearing.url });
  const [webhook] = await without.atService();
  await (await without.deps()).client.testWebhook(String(webhook?.uuid));
  await expect.poll(() => bearing.count('unauthorized'), { timeout: 10_000 }).toBeGreaterThan(0);
});

test('a source with tokens of another server is registered only when its settings name that server', () => {
  const jwt: Bearer = { type: 'jwt', jwks_url: 'https://auth.example/keys', issuer: 'i', audience: 'a' };
  expect(() => authenticationOf({ name: 'main', bearer: jwt })).toThrow(/token_request/);
  const token_request = {
    access_token_url: 'https://auth.example/token',
    client_id: 'id',
    client_secret: 's',
    scope: 'x',
  };
  expect(authenticationOf({ name: 'main', bearer: { ...jwt, token_request } })).toEqual({
    type: 'OAUTH_CLIENT_CREDENTIALS',
    parameters: token_request,
  });
});
