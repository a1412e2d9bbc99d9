import { afterEach, beforeEach, describe, expect, test } from 'vitest';
import { createSourceClient, type SourceClient } from '#client/source-client.ts';
import { AppError } from '#platform/errors.ts';
import { type TestClock, testClock } from '../bridge/parts.ts';
import { testOutgoing } from '../harness/test-certificates.ts';
import { json, type ScriptedAnswer, type ScriptedService, startScriptedService, status } from './scripted-service.ts';

const id = '00000000-0000-4000-8000-000000000001';

let service: ScriptedService;
let client: SourceClient;
let clock: TestClock;

beforeEach(async () => {
  clock = testClock();
  service = await startScriptedService();
  client = createSourceClient({
    settings: { baseUrl: service.url, apiKey: 'key', timeoutMs: 2_000, retries: 1 },
    fetch: testOutgoing().fetch,
    clock,
  });
});
afterEach(() => service.close());

const asked = () => service.requests.map(({ method, url }) => `${method} ${url}`);

describe('suppliers', () => {
  test('are listed as the service sent them, page by page; only the query of the next link is used', async () => {
    const odd = { external_id: 'A', name: null, fields: { a: 1 }, more: true };
    service.answers = [
      json({ result: [odd], count: 2, next: 'https://elsewhere.example/x?page_number=2&page_size=1' }),
      json({ result: [], next: null }),
    ];
    const page = await client.listSuppliers({ pageNumber: 1, pageSize: 1, archived: false });
    expect(page).toEqual({ items: [odd], count: 2, next: 'page_number=2&page_size=1' });
    expect(await client.listSuppliers({ next: page.next ?? '' })).toEqual({
      items: [],
      count: undefined,
      next: undefined,
    });
    expect(asked()).toEqual([
      'GET /api/manage/suppliers?page_number=1&page_size=1&archived=false',
      'GET /api/manage/suppliers?page_number=2&page_size=1',
    ]);
  });

  test('are read by an external id with any characters', async () => {
    service.answers = [
      json({ result: { external_id: 'A/ä?', name: 'A', fields: {}, archived: false, contacts: [], new: 1 } }),
    ];
    expect(await client.readSupplier('A/ä?')).toMatchObject({ external_id: 'A/ä?', new: 1 });
    expect(asked()).toEqual(['GET /api/manage/suppliers/A%2F%C3%A4%3F']);
  });

  test('are changed by a submission that is sent with its key, and read until it is processed', async () => {
    service.answers = [
      json({ result: { uuid: id, url: 'x' } }, {}, 202),
      json({ result: { uuid: id, current_state: 'SOMETHING_NEW', state_errors: null, last_changed: 'soon' } }),
    ];
    expect(await client.submitSupplierChange([{ external_id: 'A', archived: true }], 'once')).toMatchObject({
      uuid: id,
    });
    expect(await client.readSupplierChange(id)).toMatchObject({ current_state: 'SOMETHING_NEW' });
    expect(service.requests[0]).toMatchObject({
      method: 'POST',
      url: '/api/manage/supplier_changes',
      body: '{"change_data":{"suppliers":[{"external_id":"A","archived":true}]}}',
    });
    expect(service.requests[0]?.headers['idempotency-key']).toBe('once');
  });
});

describe('a job', () => {
  const job = (state: string, more: object = {}) => json({ id, type: 'X', status: state, ...more });

  test('is submitted to the path of its type, with its key', async () => {
    service.answers = [
      (response) => void response.destroy(),
      json({ id, type: 'X', status: 'PENDING', created: 'soon' }, {}, 202),
    ];
    const made = await client.submitJob('GENERATE_FILE_DOWNLOAD_LINKS', { file_uuids: [id] }, 'once');
    expect(made).toMatchObject({ id, status: 'PENDING' });
    expect(asked()).toEqual(Array(2).fill('POST /api/jobs/generate-file-download-links'));
    expect(service.requests.map(({ headers }) => headers['idempotency-key'])).toEqual(['once', 'once']);
  });

  test('is polled at growing intervals, through unknown states, until it has ended', async () => {
    service.answers = [job('PENDING'), job('ALMOST'), job('PENDING'), job('FAILED', { errors: 'any shape' })];
    expect(await client.waitForJob(id, 60_000)).toMatchObject({ status: 'FAILED', errors: 'any shape' });
    expect(clock.slept).toEqual([250, 500, 1_000, 2_000]);
  });

  test('is waited for while it is RUNNING', async () => {
    service.answers = [job('PENDING'), job('RUNNING'), job('COMPLETED')];
    expect(await client.waitForJob(id, 60_000)).toMatchObject({ status: 'COMPLETED' });
  });

  test.each([404, 405])(
    'in the dialect public tries the other path of an update after a %i, and remembers it',
    async (code) => {
      const open = createSourceClient({
        settings: {
          baseUrl: service.url,
          apiKey: 'key',
          timeoutMs: 2_000,
          retries: 0,
          dialect: { name: 'public', user: 'buyer@example.com' },
        },
        fetch: testOutgoing().fetch,
        clock,
      });
      const update = () => open.submitJobOnce('UPDATE_SOURCING_EVENT', { sourcing_event: id }, 'key-1');
      service.answers = [status(code), job('PENDING')];
      expect(await update()).toBe(id);
      expect(await update()).toBe(id);
      expect(asked()).toEqual([
        'POST /api/jobs/update-sourcing-events',
        'POST /api/jobs/update-sourcing-event',
        'POST /api/jobs/update-sourcing-event',
      ]);
      expect(service.requests.map(({ headers }) => headers['idempotency-key'])).toEqual(Array(3).fill('key-1'));
    },
  );

  test('in the dialect public is not sent to the other path after a refusal, nor without an answer', async () => {
    const open = createSourceClient({
      settings: {
        baseUrl: service.url,
        apiKey: 'key',
        timeoutMs: 2_000,
        retries: 3,
        dialect: { name: 'public', user: 'buyer@example.com' },
      },
      fetch: testOutgoing().fetch,
      clock,
    });
    for (const answer of [status(400), status(503), ((response) => void response.destroy()) as ScriptedAnswer]) {
      service.requests.length = 0;
      service.answers = [answer];
      await expect(open.submitJobOnce('UPDATE_SOURCING_EVENT', { sourcing_event: id }, 'key-1')).rejects.toBeInstanceOf(
        AppError,
      );
      expect(asked()).toEqual(['POST /api/jobs/update-sourcing-events']);
    }
  });

  test('that does not end in time is a transient error that names its state', async () => {
    service.answers = [job('PAUSED')];
    await expect(client.waitForJob(id, 20_000)).rejects.toMatchObject({
      code: 'unavailable',
      recovery: { do: 'retry' },
      message: `The job ${id} has not ended within 20 s: it is PAUSED.`,
    });
    expect(clock.slept.reduce((sum, ms) => sum + ms, 0)).toBeLessThanOrEqual(20_000);
  });

  test('of files may leave out its errors', async () => {
    service.answers = [job('COMPLETED', { detail: { data: [{ file_uuid: id, download_url: 'u', file_name: 'n' }] } })];
    expect((await client.readJob(id)).detail).toEqual({
      data: [{ file_uuid: id, download_url: 'u', file_name: 'n' }],
      errors: [],
    });
  });
});

describe('webhooks', () => {
  const webhook = {
    uuid: id,
    name: 'bridge',
    url: 'https://b.example/',
    triggers: '[TEST]',
    signing_alg: 'HMAC_SHA256',
  };

  test('are listed to the end', async () => {
    const other = { ...webhook, triggers: ['A', 'B'] };
    service.answers = [
      json({ result: [webhook], count: 2, next: '/api/webhooks?page_number=2' }),
      json({ result: [other], count: 2, next: null }),
    ];
    expect((await client.listWebhooks()).map(({ triggers }) => triggers)).toEqual(['[TEST]', '[A, B]']);
    expect(asked()).toEqual(['GET /api/webhooks?page_size=100', 'GET /api/webhooks?page_number=2']);
  });

  test('whose list is a pagination loop are refused', async () => {
    service.answers = [json({ result: [], next: '?page_number=2' })];
    await expect(client.listWebhooks()).rejects.toMatchObject({ recovery: { do: 'halt' } });
  });

  test("whose creation is refused: no error has the client's secret, although the service repeats it", async () => {
    const parameters = {
      access_token_url: 'https://b.example/token',
      client_id: 'me',
      client_secret: 'not to be told',
    };
    const authentication = { type: 'OAUTH_CLIENT_CREDENTIALS' as const, parameters };
    const request = { name: 'bridge', url: webhook.url, triggers: ['TEST' as const], authentication };
    const problem = { title: 'Bad request', status: 400, detail: 'me, not to be told: no token for these' };
    for (const answer of [json(problem, {}, 400), json(problem)]) {
      service.answers = [answer];
      await expect(client.createWebhook(request, 'once')).rejects.toMatchObject({
        message: expect.stringContaining('me, [secret]: no token for these'),
      });
    }
  });

  test('are changed, their deliveries are listed page by page, and one is sent again', async () => {
    service.answers = [
      json({ ...webhook, is_active: true, new: 1 }),
      json({
        result: [{ id, state: 'SOMETHING_NEW', more: 1, attempts: 3, due: 4 }],
        count: 2,
        next: `/x?page_number=2&page_size=1`,
      }),
      json({ result: [{ id }], next: null }),
      json({ id }, {}, 202),
    ];
    expect(await client.updateWebhook(id, { is_active: true, authentication: null })).toMatchObject({ uuid: id });
    const page = await client.listDeliveries(id, { pageSize: 1, status: 'failed' });
    expect(page).toEqual({
      items: [{ id, state: 'SOMETHING_NEW', more: 1, due: null }],
      count: 2,
      next: 'page_number=2&page_size=1',
    });
    expect((await client.listDeliveries(id, { next: page.next ?? '' })).items).toEqual([{ id }]);
    await client.resendDelivery(id, id);
    expect(asked()).toEqual([
      `PATCH /api/webhooks/${id}`,
      `GET /api/webhooks/${id}/deliveries?page_size=1&status=failed`,
      `GET /api/webhooks/${id}/deliveries?page_number=2&page_size=1`,
      `POST /api/webhooks/${id}/deliveries/${id}/resend`,
    ]);
    expect(service.requests[0]?.body).toBe('{"is_active":true,"authentication":null}');
  });

  test('are created, read, tested and deleted; deleting a deleted webhook succeeds', async () => {
    service.answers = [
      json({ ...webhook, signing_key: 'secret' }, {}, 201),
      json(webhook),
      json({ detail: 'A test notification is scheduled.' }, {}, 202),
      status(204),
      status(404),
    ];
    const body = { name: 'bridge', url: webhook.url, triggers: ['TEST' as const] };
    expect(await client.createWebhook(body, 'once')).toMatchObject({ uuid: id, signing_key: 'secret' });
    expect(await client.readWebhook(id)).toMatchObject({ name: 'bridge' });
    expect(await client.testWebhook(id)).toBe('A test notification is scheduled.');
    await client.deleteWebhook(id);
    await client.deleteWebhook(id);
    expect(asked()).toEqual([
      'POST /api/webhooks',
      `GET /api/webhooks/${id}`,
      `POST /api/webhooks/${id}/test`,
      `DELETE /api/webhooks/${id}`,
      `DELETE /api/webhooks/${id}`,
    ]);
  });
});
