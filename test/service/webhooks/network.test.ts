/**
 * The addresses that a webhook's URL and its token URL may lead to, also by names that resolve differently later.
 * test/service/ssrf.test.ts tries every notation. The test has its own resolver; behind the refused addresses is a real receiver that must
 * get no request.
 */
import { expect, test } from 'vitest';
import { createGuardedFetch } from '#platform/guarded-fetch.ts';
import { closeAtEnd } from '../../harness/close-at-end.ts';
import { eventually } from '../../harness/eventually.ts';
import { createManualClock } from '../../harness/manual-clock.ts';
import { testCertificates } from '../../harness/test-certificates.ts';
import { startTestService } from '../../harness/test-service.ts';
import { startTokenServer } from '../../harness/token-server.ts';
import { startWebhookReceiver } from '../../harness/webhook-receiver.ts';

/** The addresses that each name resolves to now; no other name exists. */
const names = new Map<string, string[]>();
const certificates = testCertificates();
function connections() {
  const made = createGuardedFetch({
    extraCa: certificates.caPem,
    lookup: async (hostname) => {
      const addresses = names.get(hostname);
      if (!addresses) throw new Error('ENOTFOUND');
      return addresses.map((address) => ({ address, family: address.includes(':') ? 6 : 4 }));
    },
  });
  closeAtEnd(() => made.close());
  return made;
}
const newConnections = connections();
let outgoing = connections();
const clock = createManualClock();
const service = await startTestService({ clock, random: () => 0.5, fetch: (asked) => outgoing.fetch(asked) });
const receiver = await startWebhookReceiver();
const tokenServer = await startTokenServer();
const port = new URL(receiver.url).port;

/** An organisation that may name these hosts, and may reach only these private networks. */
async function organisationWith(domains: string[], cidrs: string[] = []) {
  const organisation = await service.organisation();
  const put = (path: string, body: object) =>
    service.operator('PUT', `/admin/organisations/${organisation.id}/${path}`, body);
  expect((await put('webhook-domains', { domains })).status).toBe(200);
  expect((await put('allowed-networks', { cidrs })).status).toBe(200);
  return { ...organisation, put };
}

type Organisation = Awaited<ReturnType<typeof organisationWith>>;

const create = (organisation: Organisation, url: string, accessTokenUrl?: string) =>
  organisation.call('POST', '/api/webhooks', {
    name: 'hook',
    url,
    triggers: ['TEST'],
    ...(accessTokenUrl === undefined
      ? {}
      : {
          authentication: {
            type: 'OAUTH_CLIENT_CREDENTIALS',
            parameters: { access_token_url: accessTokenUrl, client_id: 'id', client_secret: 'secret' },
          },
        }),
  });

/** Sends a test notification for the first of the `attempts`, and returns its delivery after so many attempts. */
async function attemptOf(organisation: Organisation, uuid: string, attempts = 1) {
  if (attempts === 1) await organisation.call('POST', `/api/webhooks/${uuid}/test`);
  const path = `/admin/organisations/${organisation.id}/deliveries?webhook=${uuid}`;
  return eventually('it was tried', async () => {
    const [item] = (await service.operator('GET', path)).body.result;
    return item?.attempts.length === attempts && item.state !== 'sending' && item;
  });
}

test.each(['127.0.0.1', '2130706433', '169.254.169.254', '[::1]'])(
  'as a webhook, %s is refused unless whitelisted, and stopped by the network guard if whitelisted',
  async (literal) => {
    const stranger = await organisationWith(['localhost', '*.example.com']);
    const refused = await create(stranger, `https://${literal}:${port}/hook`);
    expect([refused.status, refused.body.errors[0].path]).toEqual([400, 'url']);
    const organisation = await organisationWith([new URL(`https://${literal}/`).hostname]);
    const made = await create(organisation, `https://${literal}:${port}/hook`);
    expect(made.status).toBe(201);
    const heard = receiver.received.length;
    expect(await attemptOf(organisation, made.body.uuid)).toMatchObject({
      state: 'pending',
      status: null,
      error: expect.stringMatching(/was refused: /),
    });
    expect(receiver.received.length).toBe(heard);
  },
);

test('as a token URL, a private address is 400, and the answer does not reveal its kind', async () => {
  const organisation = await organisationWith(['localhost']);
  for (const literal of ['127.0.0.1', '10.0.0.1', '169.254.169.254', '[fe80::1]']) {
    const answer = await create(organisation, receiver.url, `https://${literal}:${port}/token`);
    expect([answer.status, answer.body.errors[0].path]).toEqual([400, 'authentication.parameters.access_token_url']);
    expect(answer.body.errors[0].message).toMatch(/is not allowed/);
    expect(answer.body.errors[0].message).not.toMatch(/loopback|private|linkLocal|metadata/);
  }
});

test('an address that is whitelisted literally and in an allowed network is reached', async () => {
  const organisation = await organisationWith(['127.0.0.1'], ['127.0.0.0/8']);
  const made = await create(organisation, `https://127.0.0.1:${port}/hook`);
  expect(await attemptOf(organisation, made.body.uuid)).toMatchObject({ state: 'delivered' });
});

test('a name with one private address among public ones is refused', async () => {
  names.set('mixed.example.com', ['8.8.8.8', '127.0.0.1']);
  const organisation = await organisationWith(['mixed.example.com']);
  const made = await create(organisation, `https://mixed.example.com:${port}/hook`);
  expect(await attemptOf(organisation, made.body.uuid)).toMatchObject({ status: null, error: /127\.0\.0\.1/ });
});

test('a name that becomes a private address after the creation is refused, for tokens and notifications', async () => {
  const allowed = ['127.0.0.0/8'];
  names.set('localhost', ['127.0.0.1']);
  const organisation = await organisationWith(['localhost'], allowed);
  const made = await create(organisation, receiver.url, tokenServer.url);
  expect(made.status).toBe(201);
  expect(await attemptOf(organisation, made.body.uuid)).toMatchObject({ state: 'delivered' });
  // From here on all connections are new: a kept connection leads to the address that was checked.
  outgoing = newConnections;
  const heard = receiver.received.length;
  const plain = (await create(organisation, receiver.url)).body.uuid;
  names.set('localhost', ['10.0.0.1']);
  expect(await attemptOf(organisation, plain)).toMatchObject({
    state: 'pending',
    error: 'localhost was refused: 10.0.0.1 is private and in no allowed network.',
  });
  clock.advance(3_600_000);
  await organisation.call('POST', `/api/webhooks/${made.body.uuid}/test`);
  const path = `/admin/organisations/${organisation.id}/deliveries?webhook=${made.body.uuid}&status=failed`;
  await eventually('it was tried', async () => {
    const { result } = (await service.operator('GET', path)).body;
    return (
      result[0]?.error === 'No access token: localhost was refused: 10.0.0.1 is private and in no allowed network.'
    );
  });
  // The other one is due again, too, as an hour has passed: not in the next test, where the name is reachable.
  await attemptOf(organisation, plain, 2);
  expect([receiver.received.length, tokenServer.asked.length]).toEqual([heard, 1]);
});

test('a network that is no longer allowed is not reached over a kept connection', async () => {
  names.set('localhost', ['127.0.0.1']);
  const organisation = await organisationWith(['localhost'], ['127.0.0.0/8']);
  const made = await create(organisation, receiver.url);
  expect(await attemptOf(organisation, made.body.uuid)).toMatchObject({ state: 'delivered' });
  const heard = receiver.received.length;
  await organisation.put('allowed-networks', { cidrs: [] });
  const second = await create(organisation, receiver.url);
  expect(await attemptOf(organisation, second.body.uuid)).toMatchObject({ state: 'pending', status: null });
  expect(receiver.received.length).toBe(heard);
});

test('a redirect of a receiver or a token server is not followed', async () => {
  names.set('localhost', ['127.0.0.1']);
  const organisation = await organisationWith(['localhost'], ['127.0.0.0/8']);
  const elsewhere = await startWebhookReceiver();
  const lure = await startTokenServer();
  lure.answer = (response) => response.writeHead(307, { location: elsewhere.url }).end();
  expect((await create(organisation, receiver.url, lure.url)).status).toBe(400);
  for (const status of [301, 302, 303, 307, 308]) {
    receiver.answer = (response) => response.writeHead(status, { location: elsewhere.url }).end();
    const made = await create(organisation, receiver.url);
    expect(await attemptOf(organisation, made.body.uuid)).toMatchObject({ state: 'pending', status });
  }
  receiver.answer = 200;
  expect(elsewhere.received).toEqual([]);
});

test('a URL with a malformed host is refused', async () => {
  const organisation = await organisationWith(['localhost', '*.example.com']);
  for (const url of [
    'https://',
    'https:///hook',
    'https://localhost@evil.example/',
    'https://localhost%00.evil.example/',
    'https://local host/',
    'https://[::1/',
    'https://localhost:99999/',
    'https://localhost#@x/',
    'HTTP://localhost/',
    'file:///etc/passwd',
    'https://ⓛⓞⓒⓐⓛⓗⓞⓢⓣ.evil.example/',
  ])
    expect([url, (await create(organisation, url)).status]).toEqual([url, 400]);
});
