/** Who may call what: every endpoint of the two tables against every kind of wrong caller. */
import { randomUUID } from 'node:crypto';
import { expect, test } from 'vitest';
import { scopes } from '#contract/admin.ts';
import { systemClock } from '#platform/clock.ts';
import { createSecretBox } from '#platform/secrets.ts';
import { operatorApi, organisationApi } from '#service/api.ts';
import { createManualClock } from '../harness/manual-clock.ts';
import { type HttpAnswer, request, startTestService } from '../harness/programs.ts';
import { createEvent, createSuppliers, desk, eventPayload } from '../harness/sourcing.ts';

const deps = { clock: systemClock, secrets: createSecretBox(Buffer.alloc(32)) };
const byOrganisation = organisationApi(deps);
const byOperator = operatorApi(deps);

/** A path of the endpoint with an id that exists nowhere, or with these. */
function pathOf(template: string, values: Record<string, string> = {}): string {
  return template.replace(/:(\w+)/g, (_match, name: string) => values[name] ?? randomUUID());
}

const service = await startTestService();

function expectProblem(answer: HttpAnswer, status: number): void {
  expect(answer.status).toBe(status);
  expect(answer.headers.get('content-type')).toMatch(/^application\/problem\+json/);
  expect(answer.body).toMatchObject({
    type: expect.any(String),
    title: expect.any(String),
    status,
    detail: expect.any(String),
  });
}

function expectUnauthorized(answer: HttpAnswer): void {
  expectProblem(answer, 401);
  expect(answer.headers.get('www-authenticate')).toBe('Bearer');
}

async function newKey(organisationId: string, body: object): Promise<{ id: string; key: string }> {
  const made = await service.operator('POST', `/admin/organisations/${organisationId}/api-keys`, {
    name: 'k',
    ...body,
  });
  expect(made.status).toBe(201);
  return made.body;
}

test.each(byOrganisation.map((one) => [one.method, one.path, one.scope] as const))(
  '%s %s: 401 without a valid key, 403 without the scope %s',
  async (method, path, scope) => {
    const url = service.url + pathOf(path);
    const { id, key } = await service.organisation();
    const revoked = await newKey(id, {});
    await service.operator('DELETE', `/admin/organisations/${id}/api-keys/${revoked.id}`);
    const expired = await newKey(id, { scopes, expires_at: '2020-01-01' });
    const wrong: Record<string, string>[] = [
      {},
      { authorization: '' },
      { authorization: 'Bearer' },
      { authorization: 'Bearer ' },
      { authorization: key },
      { authorization: `Basic ${Buffer.from(`key:${key}`).toString('base64')}` },
      { authorization: `Bearer ${key} ${key}` },
      { authorization: `Bearer ${key}x` },
      { authorization: `Bearer ${key.slice(0, -1)}` },
      { authorization: `Bearer ${'x'.repeat(5_000)}` },
      { authorization: `Bearer ${revoked.key}` },
      { authorization: `Bearer ${expired.key}` },
      { authorization: `Bearer ${service.adminToken}` },
    ];
    for (const headers of wrong) {
      const answer = await request(method, url, { headers });
      expectUnauthorized(answer);
      expect(JSON.stringify(answer.body)).not.toContain(key.slice(3));
    }
    const others = await newKey(id, { scopes: scopes.filter((one) => one !== scope) });
    const answer = await request(method, url, { key: others.key });
    expectProblem(answer, 403);
    expect(answer.body.detail).toContain(scope);
    expect(answer.headers.get('www-authenticate')).toBeNull();
  },
);

test.each(byOperator.map((one) => [one.method, one.path] as const))(
  "%s %s: 401 with anything but the operator's token",
  async (method, path) => {
    const { id, key } = await service.organisation();
    const url = service.url + pathOf(path, { id });
    for (const token of [undefined, key, `${service.adminToken}x`, service.adminToken.slice(1), 'x']) {
      const answer = await request(method, url, token === undefined ? {} : { key: token });
      expect(answer.status).toBe(401);
      expectUnauthorized(answer);
    }
  },
);

test('the scheme may be written in any case', async () => {
  const { key } = await service.organisation();
  for (const scheme of ['Bearer', 'bearer', 'BEARER'])
    expect(
      (await request('GET', `${service.url}/api/feeds/awards`, { headers: { authorization: `${scheme} ${key}` } }))
        .status,
    ).toBe(200);
});

test('a key counts until it expires, and not from that instant on', async () => {
  const clock = createManualClock(Date.UTC(2030, 0, 1));
  const other = await startTestService({ clock });
  const { id } = await other.organisation();
  const made = await other.operator('POST', `/admin/organisations/${id}/api-keys`, {
    name: 'k',
    expires_at: '2030-01-01T00:00:10Z',
  });
  const read = async () => (await request('GET', `${other.url}/api/feeds/awards`, { key: made.body.key })).status;
  clock.advance(9_999);
  expect(await read()).toBe(200);
  clock.advance(1);
  expect(await read()).toBe(401);
});

test('a key has every scope but desk unless it is told otherwise', async () => {
  const { id } = await service.organisation();
  const made = await service.operator('POST', `/admin/organisations/${id}/api-keys`, { name: 'default' });
  expect(made.body.scopes).toEqual(['manage', 'jobs', 'feeds', 'webhooks']);
  expect((await request('GET', `${service.url}/desk/events`, { key: made.body.key })).status).toBe(403);
});

test("another organisation's things are not there: 404 for each, and nothing changes", async () => {
  const owner = await service.organisation();
  const stranger = await service.organisation();
  await createSuppliers(owner, ['S1']);
  const event = await createEvent(owner, eventPayload({ suppliers: ['S1'] }));
  await desk(owner, 'POST', `${event}/publish`);
  const submission = await owner.call('POST', '/api/manage/supplier_changes', {
    change_data: { suppliers: [{ external_id: 'S2', name: 'Another' }] },
  });
  const job = await owner.call('POST', '/api/jobs/create-sourcing-events', { name: 'Another' });
  const hook = await owner.call('POST', '/api/webhooks', {
    name: 'hook',
    url: 'https://localhost/x',
    triggers: ['TEST'],
  });
  await service.service.sweep();
  const bodies: Record<string, object> = {
    '/desk/events/:id/bids': { supplier: 'S1', lots: [{ lot: 'A', values: { Price: '1' } }] },
    '/desk/events/:id/scenarios/:name': { awards: [] },
    '/desk/events/:id/award': { scenario: null },
  };
  const ids: Record<string, Record<string, string>> = {
    '/api/manage/supplier_changes/:uuid': { uuid: submission.body.result.uuid },
    '/api/jobs/:id': { id: job.body.id },
    '/api/webhooks/:uuid': { uuid: hook.body.uuid },
    '/api/webhooks/:uuid/test': { uuid: hook.body.uuid },
  };
  const named = byOrganisation.filter((one) => one.path.includes(':'));
  expect(named.length).toBeGreaterThan(8);
  const before = (await owner.call('GET', `/desk/events/${event}`)).body;
  for (const one of named) {
    const path = pathOf(one.path, ids[one.path] ?? { id: event, name: 'best' });
    const body = one.method === 'GET' || one.method === 'DELETE' ? undefined : (bodies[one.path] ?? {});
    const theirs = await stranger.call(one.method, path, body);
    const missing = await stranger.call(one.method, pathOf(one.path), body);
    expectProblem(theirs, 404);
    // No difference to a thing that does not exist.
    expect(theirs.body).toEqual(missing.body);
  }
  expect((await owner.call('GET', `/desk/events/${event}`)).body).toEqual(before);
  expect((await owner.call('GET', `/api/webhooks/${hook.body.uuid}`)).status).toBe(200);
  const [counted] = await service.db.database.query<{ count: number }>(
    'select count(*) from service.deliveries where webhook_id = $1',
    [hook.body.uuid],
  );
  expect(counted?.count).toBe(0);
});

test("lists and feeds hold nothing of another organisation's, whatever is asked for", async () => {
  const owner = await service.organisation();
  const stranger = await service.organisation();
  const event = await createEvent(owner, eventPayload());
  await owner.call('POST', '/api/webhooks', { name: 'hook', url: 'https://localhost/x', triggers: ['TEST'] });
  expect((await owner.call('GET', `/api/feeds/sourcing-events?id=${event}`)).body.data).toHaveLength(1);
  expect((await stranger.call('GET', `/api/feeds/sourcing-events?id=${event}`)).body.data).toEqual([]);
  expect((await stranger.call('GET', '/api/webhooks')).body).toMatchObject({ result: [], count: 0 });
  expect((await stranger.call('GET', '/desk/events')).body).toMatchObject({ result: [], count: 0 });
  const payload = eventPayload({ suppliers: ['S1'] });
  await createSuppliers(owner, ['S1']);
  const submitted = await stranger.call('POST', '/api/jobs/create-sourcing-events', payload);
  await service.service.sweep();
  await expect
    .poll(async () => (await stranger.call('GET', `/api/jobs/${submitted.body.id}`)).body.status)
    .toBe('FAILED');
});
