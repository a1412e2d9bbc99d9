/** What the service says of its webhooks is a fault, and what anybody sends to the endpoint is none. */
import { beforeEach, expect, test } from 'vitest';
import { faultOfListed } from '#bridge/operate/webhooks/find-fault.ts';
import { listBridgeWebhooks } from '#bridge/operate/webhooks/list-webhooks.ts';
import { registerWebhook } from '#bridge/operate/webhooks/register-webhook.ts';
import { readRefusals } from '#bridge/receive/refusals.ts';
import { systemClock, timestampNow } from '#platform/clock.ts';
import { signingKeyContext } from '#service/webhooks/webhook-row.ts';
import { request } from '../../../harness/request.ts';
import { createTestDatabase } from '../../../harness/test-database.ts';
import type { TestOrganisation } from '../../../harness/test-organisation.ts';
import { startTestService } from '../../../harness/test-service.ts';
import { startReceiver, testSecrets } from '../../receive/receiver.ts';
import { type Commander, createCommander } from './commander.ts';

const service = await startTestService();
const { database } = await createTestDatabase();
const db = { database } as Parameters<typeof createCommander>[2];
const name = 'sourcing-bridge';
let organisation: TestOrganisation;
let commander: Commander;
beforeEach(async () => {
  await database.query('truncate bridge.webhooks, bridge.inbox, bridge.refusals');
  organisation = await service.organisation();
  commander = createCommander(service, organisation, db);
});

const byHandUrl = 'https://localhost:8443/webhooks/main';

async function faultNow({ signingKeys = [] as string[] } = {}) {
  const deps = await commander.deps();
  const { webhooks } = await listBridgeWebhooks(deps);
  return faultOfListed({ ...deps, source: { ...deps.source, signing_keys: signingKeys } }, webhooks, byHandUrl);
}

const register = async (url: string) => (await registerWebhook(await commander.deps(), { name, url })).webhook;

test('a webhook that the service has switched off is a fault until it is registered again', async () => {
  const receiver = await startReceiver({ database });
  const { uuid } = await register(receiver.url);
  expect(await faultNow()).toBeNull();
  await service.db.database.query('update service.webhooks set is_active = false where id = $1', [uuid]);
  expect(await faultNow()).toMatchObject({ kind: 'off', uuid, url: receiver.url });
  await register(receiver.url);
  expect(await faultNow()).toBeNull();
});

test('a webhook that was deleted at the service is a fault', async () => {
  const receiver = await startReceiver({ database });
  const { uuid } = await register(receiver.url);
  await organisation.call('DELETE', `/api/webhooks/${uuid}`);
  expect(await faultNow()).toMatchObject({ kind: 'gone' });
});

test('a key that differs is told of by the service’s own log, and not by what anybody sends', async () => {
  const receiver = await startReceiver({ database });
  const { uuid } = await register(receiver.url);
  const forged = await startReceiver({ database, plain: true });
  const forgery = { body: {}, headers: { 'X-Signature': `hmac-sha256=${'0'.repeat(64)}` } };
  await Promise.all(Array.from({ length: 20 }, () => request('POST', forged.url, forgery)));
  await forged.refusals.save(database);
  expect(await readRefusals(database, 'main', timestampNow(systemClock))).toMatchObject([{ count: 20 }]);
  expect(await faultNow()).toBeNull();

  // The service signs with another key from now on.
  await service.db.database.query(`update service.webhooks set signing_key = $2 where id = $1`, [
    uuid,
    testSecrets.seal('another key', signingKeyContext(uuid)),
  ]);
  await failedAttempts(uuid, 3);
  expect(await faultNow()).toMatchObject({ kind: 'failing', why: 'answered 401', status: 401 });
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

test('a webhook that was made by hand counts where signing_keys has its key', async () => {
  const made = await organisation.call('POST', '/api/webhooks', { name, url: byHandUrl, triggers: ['TEST'] });
  await service.db.database.query('update service.webhooks set is_active = false where id = $1', [made.body.uuid]);
  expect(await faultNow()).toBeNull();
  expect(await faultNow({ signingKeys: [made.body.signing_key] })).toMatchObject({ kind: 'off' });
});
