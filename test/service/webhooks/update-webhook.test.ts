/** Changing and resuming a webhook, over real HTTPS. */
import { describe, expect, test } from 'vitest';
import { eventually } from '../../harness/eventually.ts';
import { createManualClock } from '../../harness/manual-clock.ts';
import { createEvent, eventPayload } from '../../harness/sourcing.ts';
import { startRecordedService } from '../../harness/test-service.ts';
import { giveJson, startTokenServer, type TokenServer } from '../../harness/token-server.ts';
import { createHook, type Hook } from '../../harness/webhook-receiver.ts';

const hour = 3_600_000;
const clock = createManualClock();
const service = await startRecordedService({ clock, random: () => 0.5 });
const { database } = service.db;
const secret = 'the-second-secret';

const path = ({ uuid }: Hook, rest = '') => `/api/webhooks/${uuid}${rest}`;
const patch = (hook: Hook, body: object) => hook.organisation.call('PATCH', path(hook), body);
const read = async (hook: Hook) => (await hook.organisation.call('GET', path(hook))).body;
const log = async (hook: Hook) =>
  (await hook.organisation.call('GET', path(hook, '/deliveries?page_size=1000'))).body.result;

async function waitUntilIdle(hook: Hook) {
  return eventually('nothing is being sent', async () => {
    const items = await log(hook);
    const isDue = ({ state, due }: { state: string; due: string }) =>
      state === 'sending' || (state === 'pending' && Date.parse(due) <= clock.nowMs());
    return !items.some(isDue) && items;
  });
}

async function notify(hook: Hook) {
  clock.advance(1);
  expect((await hook.organisation.call('POST', path(hook, '/test'))).status).toBe(202);
  return waitUntilIdle(hook);
}

const authentication = (server: TokenServer, changes: object = {}) => ({
  type: 'OAUTH_CLIENT_CREDENTIALS',
  parameters: { access_token_url: server.url, client_id: 'me', client_secret: secret, ...changes },
});
const tokens = ({ receiver }: Hook) => receiver.received.map(({ headers }) => headers.authorization);

/** A webhook that was disabled by a 410, and has kept a notification of each of its two triggers. */
async function disabledHook() {
  const hook = await createHook(service, ['SOURCING_EVENTS_FEED_UPDATED', 'JOB_UPDATED']);
  hook.receiver.answer = 410;
  await createEvent(hook.organisation, eventPayload({ name: 'first' }));
  await eventually('it is disabled', async () => (await read(hook)).is_active === false);
  for (const name of ['second', 'newest']) {
    clock.advance(1);
    await createEvent(hook.organisation, eventPayload({ name }));
  }
  hook.receiver.answer = 200;
  hook.receiver.received.length = 0;
  return hook;
}

describe('a change', () => {
  test('of name and triggers changes them and nothing else, and the next notification goes by the new triggers', async () => {
    const hook = await createHook(service, ['JOB_UPDATED']);
    const before = await read(hook);
    const changed = await patch(hook, { name: 'Renamed', triggers: ['TEST', 'SOURCING_EVENTS_FEED_UPDATED'] });
    expect(changed.status).toBe(200);
    expect(changed.body).toEqual({ ...before, name: 'Renamed', triggers: '[TEST, SOURCING_EVENTS_FEED_UPDATED]' });
    expect(await read(hook)).toEqual(changed.body);
    await createEvent(hook.organisation, eventPayload());
    await waitUntilIdle(hook);
    expect(hook.receiver.received.map(({ json }) => json.trigger)).toEqual(['SOURCING_EVENTS_FEED_UPDATED']);
    expect((await patch(hook, {})).body).toEqual(changed.body);
  });

  test.each<[string, object, string[], RegExp]>([
    ['another url', { url: 'https://localhost/other' }, ['url'], /create a webhook with the other URL/],
    ['the same url', { url: 'https://localhost/hook' }, ['url'], /cannot be changed/],
    ['a description', { description: 'x' }, ['description'], /create a webhook with the other description/],
    ['is_active false', { is_active: false }, ['is_active'], /can only be true, .*delete a webhook to stop it/],
    ['is_active null', { is_active: null }, ['is_active'], /can only be true/],
    ['an empty name', { name: '' }, ['name'], /at least 1 character/],
    ['a name that is null', { name: null }, ['name'], /./],
    ['no trigger', { triggers: [] }, ['triggers'], /./],
    ['an unknown trigger', { triggers: ['AWARDS'] }, ['triggers[0]'], /./],
    ['a signing key', { signing_key: 'x' }, ['signing_key'], /not a known field/],
    ['a part of an authentication', { authentication: { parameters: {} } }, ['authentication.type'], /./],
    ['two faults', { url: 'x', description: 'y' }, ['url', 'description'], /./],
  ])('with %s is refused with the path and the reason, and changes nothing', async (_what, body, paths, reason) => {
    const hook = await createHook(service, ['TEST']);
    const before = await read(hook);
    const refused = await patch(hook, { name: 'Changed', ...body });
    const found = refused.body.errors.map((error: { path: string }) => error.path);
    expect([refused.status, found]).toEqual([400, expect.arrayContaining(paths)]);
    expect(refused.body.errors[0].message).toMatch(reason);
    expect(await read(hook)).toEqual(before);
  });

  test('of a webhook that is unknown or deleted is 404, and asks no token server', async () => {
    const hook = await createHook(service, ['TEST']);
    const server = await startTokenServer();
    await hook.organisation.call('DELETE', path(hook));
    for (const uuid of [hook.uuid, 'x']) {
      const body = { authentication: authentication(server) };
      expect((await hook.organisation.call('PATCH', `/api/webhooks/${uuid}`, body)).status).toBe(404);
    }
    expect(server.asked).toEqual([]);
  });

  test('of the authentication is used by the next delivery, is stored sealed, and is shown nowhere', async () => {
    const [old, server] = [await startTokenServer(), await startTokenServer()];
    old.answer = (response) =>
      giveJson(response, 200, { access_token: 'old', token_type: 'bearer', expires_in: 36_000 });
    server.answer = (response) => giveJson(response, 200, { access_token: 'new', token_type: 'bearer' });
    const hook = await createHook(service, ['TEST']);
    for (const [given, token] of [
      [old, 'old'],
      [server, 'new'],
      [old, 'old'],
    ] as const) {
      const changed = await patch(hook, { authentication: authentication(given) });
      expect(changed.status).toBe(200);
      expect(JSON.stringify(changed.body)).not.toMatch(/authentication|client|token|second-secret/);
      await notify(hook);
      expect(tokens(hook).at(-1)).toBe(`Bearer ${token}`);
    }
    const [row] = await database.query<{ authentication: Buffer }>(
      'select authentication from service.webhooks where id = $1',
      [hook.uuid],
    );
    expect(row?.authentication.toString('latin1')).not.toMatch(/second-secret|client_id|localhost/);
    expect(service.lines.join('')).not.toContain(secret);
  });

  test('of the authentication to null removes it: the next notification carries no token', async () => {
    const server = await startTokenServer();
    const hook = await createHook(service, ['TEST']);
    await patch(hook, { authentication: authentication(server) });
    await notify(hook);
    expect((await patch(hook, { authentication: null })).status).toBe(200);
    await notify(hook);
    expect(tokens(hook)).toEqual(['Bearer token-1', undefined]);
    // What is not named stays.
    await patch(hook, { authentication: authentication(server) });
    await patch(hook, { name: 'Other' });
    await notify(hook);
    expect(tokens(hook).at(-1)).toMatch(/^Bearer token-/);
  });

  test('to an authentication that yields no token is refused with its path, and the old one stays in use', async () => {
    const [server, broken] = [await startTokenServer(), await startTokenServer()];
    broken.answer = (response) => giveJson(response, 401, { error: 'invalid_client', text: secret });
    const hook = await createHook(service, ['TEST']);
    await patch(hook, { authentication: authentication(server) });
    const refused = await patch(hook, { name: 'Changed', authentication: authentication(broken) });
    expect([refused.status, refused.body.errors[0].path]).toEqual([400, 'authentication.parameters.access_token_url']);
    expect(JSON.stringify(refused.body)).not.toContain(secret);
    expect((await read(hook)).name).toBe('hook');
    await notify(hook);
    expect(tokens(hook)).toEqual(['Bearer token-1']);
  });
});

describe('is_active true', () => {
  test('resumes a disabled webhook: the newest notification of each trigger is sent at once, and its five days start anew', async () => {
    const hook = await disabledHook();
    clock.advance(200 * hour);
    expect((await patch(hook, { is_active: true })).body.is_active).toBe(true);
    await eventually('both came', async () => hook.receiver.received.length === 2);
    await waitUntilIdle(hook);
    const sent = hook.receiver.received.map(({ json }) => json);
    expect(new Set(sent.map(({ trigger }) => trigger))).toEqual(
      new Set(['SOURCING_EVENTS_FEED_UPDATED', 'JOB_UPDATED']),
    );
    expect(sent.find(({ trigger }) => trigger.startsWith('SOURCING'))?.payload['sourcing_event_name']).toBe('newest');
    hook.receiver.answer = 500;
    await notify(hook);
    expect((await read(hook)).is_active).toBe(true);
  });

  test('starts the retry schedule of what was kept anew, however long ago its first attempt was', async () => {
    const hook = await createHook(service, ['TEST']);
    hook.receiver.answer = 500;
    let [item] = await notify(hook);
    for (let retries = 0; retries < 6; retries += 1) {
      clock.advance(Date.parse(item.due) - clock.nowMs());
      await service.service.sweep();
      [item] = await waitUntilIdle(hook);
    }
    // As a 410 to another notification of it would.
    await database.query('update service.webhooks set is_active = false where id = $1', [hook.uuid]);
    clock.advance(100 * hour);
    await patch(hook, { is_active: true });
    await eventually('it is tried', async () => (await log(hook))[0].attempts.length === 8);
    [item] = await waitUntilIdle(hook);
    expect(item.state).toBe('pending');
    expect(Date.parse(item.due) - clock.nowMs()).toBe(5_000);
  });

  test('leaves an active webhook and its schedule as they are', async () => {
    const hook = await createHook(service, ['TEST']);
    hook.receiver.answer = 500;
    const [item] = await notify(hook);
    expect((await patch(hook, { is_active: true })).body.is_active).toBe(true);
    expect(await waitUntilIdle(hook)).toEqual([item]);
    expect(hook.receiver.received).toHaveLength(1);
  });

  test('of many calls at once sends what was kept once', async () => {
    const hook = await disabledHook();
    const answers = await Promise.all(Array.from({ length: 10 }, () => patch(hook, { is_active: true })));
    expect(new Set(answers.map(({ status }) => status))).toEqual(new Set([200]));
    await eventually('both came', async () => hook.receiver.received.length === 2);
    await waitUntilIdle(hook);
    expect(hook.receiver.received).toHaveLength(2);
  });
});

describe("a webhook's deliveries", () => {
  test('are those of this webhook, newest first, as the operator sees them, and filtered by status', async () => {
    const hook = await createHook(service, ['TEST']);
    const other = { ...hook };
    const made = await hook.organisation.call('POST', '/api/webhooks', {
      name: 'o',
      url: hook.receiver.url,
      triggers: ['TEST'],
    });
    other.uuid = made.body.uuid;
    await notify(hook);
    hook.receiver.answer = 503;
    await notify(hook);
    await notify(other);
    const own = await hook.organisation.call('GET', path(hook, '/deliveries'));
    const operators = await service.operator(
      'GET',
      `/admin/organisations/${hook.organisation.id}/deliveries?webhook=${hook.uuid}`,
    );
    expect(own.body).toEqual(operators.body);
    expect(own.body).toMatchObject({ count: 2, page_number: 1, num_pages: 1, next: null, previous: null });
    const states = async (query: string) =>
      (await hook.organisation.call('GET', path(hook, `/deliveries${query}`))).body.result.map(
        ({ state }: { state: string }) => state,
      );
    expect(await states('')).toEqual(['pending', 'delivered']);
    expect(await states('?status=failed')).toEqual(['pending']);
    expect(await states('?status=200')).toEqual(['delivered']);
    const page = await hook.organisation.call('GET', path(hook, '/deliveries?page_size=1&status=503'));
    expect(page.body.count).toBe(1);
    const first = await hook.organisation.call('GET', path(hook, '/deliveries?page_size=1'));
    expect(first.body.next).toBe(`${service.url}${path(hook, '/deliveries?page_number=2&page_size=1')}`);
    for (const query of ['?webhook=x', '?status=lost'])
      expect((await hook.organisation.call('GET', path(hook, `/deliveries${query}`))).status).toBe(400);
  });

  test('are sent again with the same bytes and id; a repetition with the same Idempotency-Key sends nothing more', async () => {
    const hook = await createHook(service, ['TEST']);
    const [item] = await notify(hook);
    const again = () =>
      hook.organisation.call('POST', path(hook, `/deliveries/${item.id}/resend`), {}, { 'idempotency-key': 'once' });
    const first = await again();
    expect([first.status, first.body]).toEqual([202, { id: item.id, webhook: hook.uuid, state: 'pending' }]);
    await waitUntilIdle(hook);
    expect([(await again()).status, (await again()).body]).toEqual([202, first.body]);
    await waitUntilIdle(hook);
    expect(hook.receiver.received.map(({ headers }) => headers['webhook-id'])).toEqual([item.id, item.id]);
    expect(new Set(hook.receiver.received.map(({ body }) => body.toString())).size).toBe(1);
  });

  test("are 404 under another webhook, also of the same organisation, and of another organisation's", async () => {
    const hook = await createHook(service, ['TEST']);
    const [item] = await notify(hook);
    const made = await hook.organisation.call('POST', '/api/webhooks', {
      name: 'o',
      url: hook.receiver.url,
      triggers: ['TEST'],
    });
    const resend = (by: Hook, webhook: string) =>
      by.organisation.call('POST', `/api/webhooks/${webhook}/deliveries/${item.id}/resend`);
    expect((await resend(hook, made.body.uuid)).status).toBe(404);
    const stranger = await createHook(service, ['TEST']);
    expect((await resend(stranger, stranger.uuid)).status).toBe(404);
    expect((await resend(stranger, hook.uuid)).status).toBe(404);
    expect((await stranger.organisation.call('GET', path(hook, '/deliveries'))).status).toBe(404);
    await waitUntilIdle(hook);
    expect(hook.receiver.received).toHaveLength(1);
  });
});

describe('the number of webhooks', () => {
  const create = (hook: { organisation: Hook['organisation'] }, headers?: Record<string, string>) =>
    hook.organisation.call(
      'POST',
      '/api/webhooks',
      { name: 'h', url: 'https://localhost/', triggers: ['TEST'] },
      headers,
    );
  const limit = (hook: { organisation: Hook['organisation'] }, body: object) =>
    service.operator('PUT', `/admin/organisations/${hook.organisation.id}/limits`, body);

  test('is 50 for an organisation: the next creation is 409 with the reason, until one is deleted', async () => {
    const setup = { organisation: await service.organisation() };
    // More at once than there is room for.
    const made = await Promise.all(Array.from({ length: 55 }, () => create(setup)));
    const statuses = made.map(({ status }) => status);
    expect([statuses.filter((one) => one === 201).length, statuses.filter((one) => one === 409).length]).toEqual([
      50, 5,
    ]);
    const refused = await create(setup);
    expect([refused.status, refused.body.detail]).toEqual([
      409,
      'The organisation has 50 webhooks, and may have 50: delete one, or ask the operator for more.',
    ]);
    expect((await setup.organisation.call('GET', '/api/webhooks')).body.count).toBe(50);
    const [first] = made.filter(({ status }) => status === 201);
    await setup.organisation.call('DELETE', `/api/webhooks/${first?.body.uuid}`);
    expect((await create(setup)).status).toBe(201);
    expect((await create({ organisation: await service.organisation() })).status).toBe(201);
  });

  test('is what the operator says; enabled false leaves it as it is, and {} restores 50', async () => {
    const setup = { organisation: await service.organisation() };
    expect((await limit(setup, { enabled: false, webhooks_max: 1 })).body.webhooks_max).toBe(1);
    expect([(await create(setup)).status, (await create(setup)).status]).toEqual([201, 409]);
    expect((await limit(setup, { enabled: false })).body).toMatchObject({ enabled: false, webhooks_max: 1 });
    expect((await create(setup)).status).toBe(409);
    expect((await limit(setup, { webhooks_max: 2 })).body).toMatchObject({ enabled: true, webhooks_max: 2 });
    expect([(await create(setup)).status, (await create(setup)).status]).toEqual([201, 409]);
    expect((await limit(setup, { webhooks_max: 0 })).status).toBe(200);
    expect((await create(setup)).status).toBe(409);
    expect((await limit(setup, {})).body.webhooks_max).toBe(50);
    expect((await limit(setup, { enabled: false })).body.webhooks_max).toBe(50);
    expect((await create(setup)).status).toBe(201);
    for (const wrong of [-1, 1.5, '3', null])
      expect((await limit(setup, { webhooks_max: wrong })).body.errors).toMatchObject([{ path: 'webhooks_max' }]);
  });

  test('at the limit a repeated creation answers as the first time, and asks no token server', async () => {
    const setup = { organisation: await service.organisation() };
    await limit(setup, { enabled: false, webhooks_max: 1 });
    const first = await create(setup, { 'idempotency-key': 'k' });
    const again = await create(setup, { 'idempotency-key': 'k' });
    expect([first.status, again.status, again.body.uuid]).toEqual([201, 201, first.body.uuid]);
    const server = await startTokenServer();
    const body = { name: 'h', url: 'https://localhost/', triggers: ['TEST'], authentication: authentication(server) };
    expect((await setup.organisation.call('POST', '/api/webhooks', body)).status).toBe(409);
    expect(server.asked).toEqual([]);
  });
});
