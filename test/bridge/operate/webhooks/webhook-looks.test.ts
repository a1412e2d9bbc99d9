/** What the service says of its webhooks is a condition, and what anybody sends to the endpoint is none. */
import { beforeEach, expect, test } from 'vitest';
import { readStatus } from '#bridge/operate/status/status.ts';
import { registerWebhook } from '#bridge/operate/webhooks/register-webhook.ts';
import { startWebhookLooks } from '#bridge/operate/webhooks/start-webhook-looks.ts';
import { readRefusals } from '#bridge/receive/refusals.ts';
import { bridgeSettings } from '#bridge/settings/settings.ts';
import type { SourceClient } from '#client/source-client.ts';
import type { WebhookCalls } from '#client/webhook-calls.ts';
import { systemClock, timestampNow } from '#platform/clock.ts';
import { AppError } from '#platform/errors.ts';
import { silentLogger } from '#platform/log.ts';
import type { Signals } from '#platform/queue.ts';
import { signingKeyContext } from '#service/webhooks/webhook-row.ts';
import { request } from '../../../harness/request.ts';
import { createTestDatabase } from '../../../harness/test-database.ts';
import type { TestOrganisation } from '../../../harness/test-organisation.ts';
import { startTestService } from '../../../harness/test-service.ts';
import { type TestClock, testClock } from '../../parts.ts';
import { startReceiver, testSecrets } from '../../receive/receiver.ts';
import { type Commander, createCommander } from './commander.ts';

const service = await startTestService();
const { database } = await createTestDatabase();
const db = { database } as Parameters<typeof createCommander>[2];
const name = 'sourcing-bridge';
let clock: TestClock;
let organisation: TestOrganisation;
let commander: Commander;
/** What the service answers otherwise than it does. */
let alter: Partial<WebhookCalls>;
beforeEach(async () => {
  await database.query('truncate bridge.webhooks, bridge.webhook_looks, bridge.inbox, bridge.refusals');
  clock = testClock();
  alter = {};
  organisation = await service.organisation();
  commander = createCommander(service, organisation, db);
});

async function startLooks({ signingKeys = [] as string[] } = {}) {
  const settings = bridgeSettings.parse({
    port: 8443,
    public_host: 'localhost',
    sources: [{ name: 'main', base_url: service.url, api_key: organisation.key, signing_keys: signingKeys }],
  });
  const { client } = await commander.deps();
  const works: Parameters<Signals['work']>[2][] = [];
  const signals = { work: (_lane: string, _options: unknown, work: (typeof works)[number]) => works.push(work) };
  const deps = { settings, database, secrets: testSecrets, clock, log: silentLogger, signals };
  const { lanes } = startWebhookLooks(
    deps as unknown as Parameters<typeof startWebhookLooks>[0],
    () => ({ ...client, ...alter }) as unknown as SourceClient,
  );
  const due = async () => (await lanes[0]?.due()) ?? [];
  return {
    due,
    /** As the sweep and the lane do. */
    look: async () => {
      for (const source of await due()) await works[0]?.(source, new AbortController().signal);
    },
    conditions: async () => (await readStatus(database, { settings, now: timestampNow(clock) })).conditions,
  };
}

const wait = () => clock.advance(5 * 60_000);
const register = async (url: string) => (await registerWebhook(await commander.deps(), { name, url })).webhook;

test('a webhook that the service has switched off is a condition until it is registered again', async () => {
  const receiver = await startReceiver({ database });
  const { uuid } = await register(receiver.url);
  const { look, due, conditions } = await startLooks();
  await look();
  expect(await conditions()).toEqual([]);
  await service.db.database.query('update service.webhooks set is_active = false where id = $1', [uuid]);
  expect(await due(), 'not before five minutes have passed').toEqual([]);
  wait();
  await look();
  expect(await conditions()).toMatchObject([
    {
      kind: 'webhook-off',
      subject: 'source main',
      summary: `The webhook ${uuid} of main to ${receiver.url} is switched off by the service`,
      action: expect.stringContaining('bridge webhooks register --source main'),
    },
  ]);
  await register(receiver.url);
  expect(await conditions()).toEqual([]);
  await look();
  expect(await conditions()).toEqual([]);
});

test('a webhook that was deleted at the service is a condition', async () => {
  const receiver = await startReceiver({ database });
  const { uuid } = await register(receiver.url);
  await organisation.call('DELETE', `/api/webhooks/${uuid}`);
  const { look, conditions } = await startLooks();
  await look();
  expect(await conditions()).toMatchObject([{ kind: 'webhook-off', summary: expect.stringContaining('gone') }]);
});

test('a key that differs is told of by the service’s own log, and not by what anybody sends', async () => {
  const receiver = await startReceiver({ database });
  const { uuid } = await register(receiver.url);
  const forged = await startReceiver({ database, plain: true });
  const forgery = { body: {}, headers: { 'X-Signature': `hmac-sha256=${'0'.repeat(64)}` } };
  await Promise.all(Array.from({ length: 20 }, () => request('POST', forged.url, forgery)));
  await forged.refusals.save(database);
  expect(await readRefusals(database, 'main', timestampNow(systemClock))).toMatchObject([{ count: 20 }]);
  const { look, conditions } = await startLooks();
  await look();
  expect(await conditions()).toEqual([]);

  // The service signs with another key from now on.
  await service.db.database.query(`update service.webhooks set signing_key = $2 where id = $1`, [
    uuid,
    testSecrets.seal('another key', signingKeyContext(uuid)),
  ]);
  await failedAttempts(uuid, 3);
  wait();
  await look();
  expect(await conditions()).toMatchObject([
    {
      kind: 'webhook-failing',
      summary: expect.stringMatching(/fail since 20.*UTC: answered 401$/),
      action: expect.stringContaining('bridge webhooks rotate --source main'),
    },
  ]);
});

/** Has the service send a test, and again, until its log has so many attempts. */
async function failedAttempts(uuid: string, count: number): Promise<void> {
  const path = `/api/webhooks/${uuid}`;
  const attempts = async () => (await organisation.call('GET', `${path}/deliveries`)).body.result[0];
  await organisation.call('POST', `${path}/test`);
  for (let n = 1; n <= count; n += 1) {
    await expect.poll(async () => (await attempts()).attempts.length, { timeout: 10_000 }).toBe(n);
    if (n < count) await organisation.call('POST', `${path}/deliveries/${(await attempts()).id}/resend`);
  }
}

test('a webhook that was made by hand is looked at where signing_keys has its key', async () => {
  const url = 'https://localhost:8443/webhooks/main';
  const made = await organisation.call('POST', '/api/webhooks', { name, url, triggers: ['TEST'] });
  await service.db.database.query('update service.webhooks set is_active = false where id = $1', [made.body.uuid]);
  const without = await startLooks();
  expect(await without.due()).toEqual([]);
  const { look, conditions } = await startLooks({ signingKeys: [made.body.signing_key] });
  await look();
  expect(await conditions()).toMatchObject([{ kind: 'webhook-off' }]);
});

test('a service that does not answer changes nothing; one that refuses shows no fault', async () => {
  const receiver = await startReceiver({ database });
  const { uuid } = await register(receiver.url);
  await service.db.database.query('update service.webhooks set is_active = false where id = $1', [uuid]);
  const { look, conditions } = await startLooks();
  await look();
  const away = new AppError('unavailable', 'away', { recovery: { do: 'retry' } });
  alter = { listWebhooks: () => Promise.reject(away) };
  wait();
  await look();
  expect(await conditions()).toMatchObject([{ kind: 'webhook-off' }]);
  const refused = new AppError('forbidden', 'The key lacks the scope webhooks.', { recovery: { do: 'halt' } });
  alter = { listWebhooks: () => Promise.reject(refused) };
  wait();
  await look();
  expect(await conditions()).toEqual([]);
});

test('of two processes one asks the service', async () => {
  const receiver = await startReceiver({ database });
  await register(receiver.url);
  let asked = 0;
  const { client } = await commander.deps();
  alter = {
    listWebhooks: () => {
      asked += 1;
      return client.listWebhooks();
    },
  };
  const [one, two] = [await startLooks(), await startLooks()];
  await Promise.all([one.look(), two.look()]);
  expect(asked).toBe(1);
});
