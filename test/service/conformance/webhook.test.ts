/**
 * A webhook: every field with its exact value in each answer that shows webhooks, with and without OAuth parameters.
 */
import { createHmac } from 'node:crypto';
import { expect, test } from 'vitest';
import { eventually } from '../../harness/eventually.ts';
import { startTokenServer } from '../../harness/token-server.ts';
import { startWebhookReceiver } from '../../harness/webhook-receiver.ts';
import { at, someUuid, startConformanceService } from './conformance-service.ts';

const conformance = await startConformanceService();
const { organisation } = conformance;
const receiver = await startWebhookReceiver();
const tokenServer = await startTokenServer();

const authentication = {
  type: 'OAUTH_CLIENT_CREDENTIALS',
  parameters: {
    access_token_url: tokenServer.url,
    client_id: 'the client',
    client_secret: 'the secret',
    scope: 'hooks.write hooks.read',
  },
};

test.each<[string, object, object]>([
  ['only the required members', {}, { description: '' }],
  [
    'all members',
    { description: 'to the inbox', signing_alg: 'HMAC_SHA256', authentication },
    { description: 'to the inbox' },
  ],
])('with %s: the fields, and the signing key in the first answer only', async (_what, given, shown) => {
  const triggers = ['LATEST_BIDS_FEED_UPDATED', 'SOURCING_EVENTS_FEED_UPDATED'];
  const made = await organisation.call('POST', '/api/webhooks', { name: 'ERP', url: receiver.url, triggers, ...given });
  expect(made.status).toBe(201);
  const { signing_key: key, ...fields } = made.body;
  expect(fields).toEqual({
    uuid: expect.stringMatching(someUuid),
    name: 'ERP',
    url: receiver.url,
    triggers: '[LATEST_BIDS_FEED_UPDATED, SOURCING_EVENTS_FEED_UPDATED]',
    signing_alg: 'HMAC_SHA256',
    is_active: true,
    ...shown,
  });
  expect([typeof key, key.length > 0]).toEqual(['string', true]);
  expect((await organisation.call('GET', `/api/webhooks/${fields.uuid}`)).body).toEqual(fields);
  const { body } = await organisation.call('GET', '/api/webhooks');
  expect(body.result).toContainEqual(fields);
});

test.each<[string, object, string]>([
  ['no name', { name: undefined }, 'name'],
  ['no url', { url: undefined }, 'url'],
  ['no triggers', { triggers: undefined }, 'triggers'],
  ['a name that is not a text', { name: 1 }, 'name'],
  ['a description that is not a text', { description: {} }, 'description'],
  ['authentication that is not an object', { authentication: 'x' }, 'authentication'],
  ['authentication without a type', { authentication: { ...authentication, type: undefined } }, 'authentication.type'],
  [
    'authentication without parameters',
    { authentication: { ...authentication, parameters: undefined } },
    'authentication.parameters',
  ],
])('%s: 400 with the path, and no webhook', async (_what, changes, path) => {
  const count = async () => (await organisation.call('GET', '/api/webhooks')).body.count;
  const before = await count();
  const hook = { name: 'ERP', url: receiver.url, triggers: ['TEST'], ...changes };
  const answer = await organisation.call('POST', '/api/webhooks', hook);
  expect([answer.status, answer.body.errors[0].path]).toEqual([400, path]);
  expect(await count()).toBe(before);
});

test('a notification is a POST to the url over HTTPS, with trigger, timestamp and payload', async () => {
  conformance.moveTo(3);
  const hook = { name: 'ERP', url: `${receiver.url}?tenant=1`, triggers: ['AWARDS_FEED_UPDATED'] };
  const { uuid } = (await organisation.call('POST', '/api/webhooks', hook)).body;
  receiver.received.length = 0;
  const tested = await organisation.call('POST', `/api/webhooks/${uuid}/test`);
  expect([tested.status, tested.body]).toEqual([202, { detail: `A test notification to ${hook.url} is scheduled.` }]);
  const [received] = await eventually(
    'the notification arrives',
    async () => receiver.received.length > 0 && receiver.received,
  );
  expect(received?.json).toEqual({
    trigger: 'TEST',
    timestamp: at(3),
    payload: { detail: 'This is a test notification to the webhook "ERP".' },
  });
  expect([received?.method, new URL(receiver.url).protocol]).toEqual(['POST', 'https:']);
});

test('a signing key does not expire: it still signs after ten years', async () => {
  const hook = { name: 'ERP', url: receiver.url, triggers: ['AWARDS_FEED_UPDATED'] };
  const { uuid, signing_key: key } = (await organisation.call('POST', '/api/webhooks', hook)).body;
  for (const minute of [10, 10 * 366 * 24 * 60]) {
    conformance.moveTo(minute);
    receiver.received.length = 0;
    expect((await organisation.call('POST', `/api/webhooks/${uuid}/test`)).status).toBe(202);
    // Found by its time: a notification that was sent before the clock moved may arrive again.
    const received = await eventually('the notification arrives', async () =>
      receiver.received.find(({ json }) => json.timestamp === at(minute)),
    );
    const mac = createHmac('sha256', key).update(received.body).digest('hex');
    expect(received.headers['x-signature']).toBe(`hmac-sha256=${mac}`);
  }
});
