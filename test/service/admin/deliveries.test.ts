/** The delivery log and the resend, over real HTTPS. */
import { randomUUID } from 'node:crypto';
import { describe, expect, test } from 'vitest';
import { deliveryList } from '#contract/admin.ts';
import { eventually } from '../../harness/eventually.ts';
import { createManualClock } from '../../harness/manual-clock.ts';
import { createEvent, eventPayload } from '../../harness/sourcing.ts';
import { startTestService } from '../../harness/test-service.ts';
import { createHook, type Hook } from '../../harness/webhook-receiver.ts';

const [second, hour] = [1_000, 3_600_000];
const clock = createManualClock();
const service = await startTestService({ clock, random: () => 0.5 });

const setUp = (triggers?: string[]) => createHook(service, triggers);

async function log({ organisation }: Hook, query = '') {
  const answer = await service.operator('GET', `/admin/organisations/${organisation.id}/deliveries${query}`);
  expect(answer.status).toBe(200);
  deliveryList.parse(answer.body);
  return answer.body;
}

const ids = (body: { result: { id: string }[] }) => body.result.map(({ id }) => id);

/** Waits until nothing is being sent or due, and returns the log's items, newest first. */
async function waitUntilIdle(setup: Hook) {
  return eventually('nothing is being sent', async () => {
    const { result } = await log(setup, '?page_size=1000');
    const isDue = ({ state, due }: { state: string; due: string }) =>
      state === 'sending' || (state === 'pending' && Date.parse(due) <= clock.nowMs());
    return !result.some(isDue) && result;
  });
}

async function notify(setup: Hook) {
  clock.advance(1);
  await setup.organisation.call('POST', `/api/webhooks/${setup.uuid}/test`);
  return waitUntilIdle(setup);
}

async function advance(ms: number, setup: Hook) {
  clock.advance(ms);
  await service.service.sweep();
  return waitUntilIdle(setup);
}

const resend = (id: string) => service.operator('POST', `/admin/deliveries/${id}/resend`);

async function resent(setup: Hook, id: string) {
  const answer = await resend(id);
  expect([answer.status, answer.body]).toEqual([202, { id, webhook: setup.uuid, state: 'pending' }]);
  return waitUntilIdle(setup);
}

describe('the log', () => {
  test('shows each notification with its attempts: time, status, duration, excerpt', async () => {
    const setup = await setUp();
    setup.receiver.answer = (response) => {
      clock.advance(250);
      response.writeHead(500).end('the ERP is closed');
    };
    const startedAt = clock.nowMs() + 1;
    await notify(setup);
    setup.receiver.answer = (response) => response.writeHead(200).end('thanks');
    const [item, ...others] = await advance(5 * second, setup);
    const at = (ms: number) => new Date(ms).toISOString().replace('Z', '000Z');
    expect(others).toEqual([]);
    expect(item).toEqual({
      id: setup.receiver.received[0]?.headers['webhook-id'],
      webhook: setup.uuid,
      trigger: 'TEST',
      state: 'delivered',
      created: at(startedAt),
      time: at(startedAt + 5_250),
      status: 200,
      duration_ms: 0,
      error: null,
      response_excerpt: 'thanks',
      attempts: [
        {
          number: 1,
          time: at(startedAt),
          status: 500,
          duration_ms: 250,
          error: 'answered 500',
          response_excerpt: 'the ERP is closed',
        },
        {
          number: 2,
          time: at(startedAt + 5_250),
          status: 200,
          duration_ms: 0,
          error: null,
          response_excerpt: 'thanks',
        },
      ],
    });
  });

  test('shows why there was no answer, and when the next attempt is due', async () => {
    const setup = await setUp();
    setup.receiver.answer = (response) => response.destroy();
    const [item] = await notify(setup);
    expect(item).toMatchObject({ state: 'pending', status: null, response_excerpt: null });
    expect(item.error).toMatch(/localhost closed the connection/);
    expect(Date.parse(item.due) - clock.nowMs()).toBe(5 * second);
  });

  test('is filtered by webhook, by state, and by the status of the newest attempt', async () => {
    const setup = await setUp(['TEST']);
    const other = { ...setup, uuid: '' };
    other.uuid = (
      await setup.organisation.call('POST', '/api/webhooks', { name: 'o', url: setup.receiver.url, triggers: ['TEST'] })
    ).body.uuid;
    await notify(setup);
    setup.receiver.answer = 503;
    await notify(setup);
    await notify(other);
    const all = ids(await log(setup));
    const [failedOther, failed, delivered] = all;
    expect(all).toHaveLength(3);
    expect(ids(await log(setup, `?webhook=${setup.uuid}`))).toEqual([failed, delivered]);
    expect(ids(await log(setup, `?webhook=${setup.uuid}&status=503`))).toEqual([failed]);
    expect(ids(await log(setup, '?status=200'))).toEqual([delivered]);
    expect(ids(await log(setup, '?status=delivered'))).toEqual([delivered]);
    // They have failed, and wait for their next attempt.
    expect(ids(await log(setup, '?status=failed'))).toEqual([failedOther, failed]);
    expect(ids(await log(setup, '?status=pending'))).toEqual([failedOther, failed]);
    expect(ids(await log(setup, '?status=sending'))).toEqual([]);
    expect(ids(await log(setup, `?webhook=${randomUUID()}`))).toEqual([]);
    const page = await log(setup, `?webhook=${setup.uuid}&status=failed&page_size=1`);
    expect(page).toMatchObject({ count: 1, page_size: 1, num_pages: 1, next: null, previous: null });
    const first = await log(setup, '?page_size=2&status=failed&page_number=1');
    expect(first.next).toBeNull();
    expect((await log(setup, '?page_size=1&status=failed')).next).toBe(
      `${service.url}/admin/organisations/${setup.organisation.id}/deliveries?page_number=2&page_size=1&status=failed`,
    );
  });

  test("shows only the organisation's own deliveries", async () => {
    const setup = await setUp();
    const stranger = await setUp();
    await notify(setup);
    expect((await log(stranger, `?webhook=${setup.uuid}`)).result).toEqual([]);
    for (const id of [randomUUID(), 'x'])
      expect((await service.operator('GET', `/admin/organisations/${id}/deliveries`)).status).toBe(404);
  });

  test.each([
    ['webhook=x', 'webhook'],
    ['status=lost', 'status'],
    ['status=99', 'status'],
    ['status=600', 'status'],
    ['state=failed', 'state'],
  ])('?%s is refused with its name', async (query, path) => {
    const { id } = await service.organisation();
    const answer = await service.operator('GET', `/admin/organisations/${id}/deliveries?${query}`);
    expect([answer.status, answer.body.errors[0].path]).toEqual([400, path]);
  });

  test('a refused status is told all that it may be', async () => {
    const { id } = await service.organisation();
    const { body } = await service.operator('GET', `/admin/organisations/${id}/deliveries?status=lost`);
    expect(body.errors).toEqual([
      {
        path: 'status',
        message:
          'must be one of pending, sending, delivered, failed, superseded, or must be an HTTP status, such as 500',
      },
    ]);
  });
});

describe('a resend', () => {
  test('of a delivered notification sends the same bytes under the same id, and counts the attempts on', async () => {
    const setup = await setUp();
    await createEvent(setup.organisation, eventPayload({ name: 'Kraków 東京' }));
    const [item] = await waitUntilIdle(setup);
    clock.advance(hour);
    setup.receiver.answer = 201;
    expect(await resent(setup, item.id)).toMatchObject([
      {
        id: item.id,
        state: 'delivered',
        status: 201,
        attempts: [
          { number: 1, status: 200 },
          { number: 2, status: 201 },
        ],
      },
    ]);
    const [first, again] = setup.receiver.received;
    expect(setup.receiver.received).toHaveLength(2);
    expect(again?.body.equals(first?.body ?? Buffer.of())).toBe(true);
    for (const name of ['webhook-id', 'x-signature'])
      expect([name, again?.headers[name]]).toEqual([name, first?.headers[name]]);
    expect([first, again].map((received) => received?.headers['webhook-attempt'])).toEqual(['1', '2']);
    expect(Number(again?.headers['webhook-timestamp'])).toBe(Math.floor(clock.nowMs() / 1000));
  });

  test('of a failed notification restarts its retry schedule', async () => {
    const setup = await setUp();
    setup.receiver.answer = 500;
    let [item] = await notify(setup);
    while (item.state === 'pending') [item] = await advance(Date.parse(item.due) - clock.nowMs(), setup);
    expect(item.state).toBe('failed');
    const attempts = item.attempts.length;
    clock.advance(hour);
    [item] = await resent(setup, item.id);
    expect(item).toMatchObject({ state: 'pending', attempts: { length: attempts + 1 } });
    expect(Date.parse(item.due) - clock.nowMs()).toBe(5 * second);
    [item] = await advance(5 * second, setup);
    expect(Date.parse(item.due) - clock.nowMs()).toBe(30 * second);
    setup.receiver.answer = 200;
    [item] = await advance(30 * second, setup);
    expect(item).toMatchObject({ state: 'delivered', attempts: { length: attempts + 3 } });
  });

  test('of a superseded notification sends it, and leaves the newer one as it is', async () => {
    const setup = await setUp();
    setup.receiver.answer = 500;
    await createEvent(setup.organisation, eventPayload({ name: 'old' }));
    await waitUntilIdle(setup);
    clock.advance(1);
    await createEvent(setup.organisation, eventPayload({ name: 'new' }));
    const [newer, older] = await waitUntilIdle(setup);
    expect([newer.state, older.state]).toEqual(['pending', 'superseded']);
    setup.receiver.answer = 200;
    setup.receiver.received.length = 0;
    const after = await resent(setup, older.id);
    expect(after.map(({ state }: { state: string }) => state)).toEqual(['pending', 'delivered']);
    expect(after[0].due).toBe(newer.due);
    expect(setup.receiver.received.map(({ json }) => json.payload['sourcing_event_name'])).toEqual(['old']);
  });

  test('is not overtaken by a newer notification of its trigger', async () => {
    const setup = await setUp();
    await createEvent(setup.organisation, eventPayload({ name: 'old' }));
    const [item] = await waitUntilIdle(setup);
    // The worker is busy with another notification, so the resend has to wait.
    let release: () => void = () => undefined;
    setup.receiver.answer = (response) => {
      release = () => response.end();
    };
    await setup.organisation.call('POST', `/api/webhooks/${setup.uuid}/test`);
    await eventually('the worker is busy', async () => setup.receiver.received.length === 2);
    await resend(item.id);
    await createEvent(setup.organisation, eventPayload({ name: 'new' }));
    setup.receiver.answer = 200;
    release();
    await eventually('all notifications arrive', async () => setup.receiver.received.length === 4);
    expect(setup.receiver.received.slice(2).map(({ json }) => json.payload['sourcing_event_name'])).toEqual(
      expect.arrayContaining(['old', 'new']),
    );
    await waitUntilIdle(setup);
  });

  test('of a notification that waits for a retry sends it at once, and does not restart its schedule', async () => {
    const setup = await setUp();
    setup.receiver.answer = 500;
    const [item] = await notify(setup);
    await resent(setup, item.id);
    const [again] = await waitUntilIdle(setup);
    expect(again).toMatchObject({ state: 'pending', attempts: [{}, {}] });
    expect(Date.parse(again.due) - clock.nowMs()).toBe(30 * second);
  });

  test('of a notification that is being sent changes nothing', async () => {
    const setup = await setUp();
    let release: () => void = () => undefined;
    setup.receiver.answer = (response) => {
      release = () => response.end();
    };
    await setup.organisation.call('POST', `/api/webhooks/${setup.uuid}/test`);
    await eventually('it is being sent', async () => setup.receiver.received.length === 1);
    const [item] = (await log(setup)).result;
    const answer = await resend(item.id);
    expect([answer.status, answer.body.state]).toEqual([202, 'sending']);
    release();
    expect(await waitUntilIdle(setup)).toMatchObject([{ state: 'delivered', attempts: [{}] }]);
    expect(setup.receiver.received).toHaveLength(1);
  });

  test('many at once, while the deliverer sends: each attempt has a number of its own, and all end', async () => {
    const setup = await setUp();
    const [item] = await notify(setup);
    const answers = await Promise.all(Array.from({ length: 20 }, () => resend(item.id)));
    expect(new Set(answers.map(({ status }) => status))).toEqual(new Set([202]));
    const [after] = await waitUntilIdle(setup);
    expect(after.state).toBe('delivered');
    const numbers = setup.receiver.received.map(({ headers }) => Number(headers['webhook-attempt']));
    expect(numbers).toEqual(numbers.map((_, index) => index + 1));
    expect(numbers.length).toBeGreaterThan(1);
    expect(numbers.length).toBeLessThanOrEqual(21);
    expect(after.attempts.map(({ number }: { number: number }) => number)).toEqual(numbers);
    expect(new Set(setup.receiver.received.map(({ body }) => body.toString())).size).toBe(1);
  });

  test('enables a disabled webhook again, and the notifications that it kept are sent', async () => {
    const setup = await setUp();
    setup.receiver.answer = 410;
    const [item] = await notify(setup);
    await eventually('it is disabled', async () => {
      const hook = await setup.organisation.call('GET', `/api/webhooks/${setup.uuid}`);
      return hook.body.is_active === false;
    });
    await createEvent(setup.organisation, eventPayload({ name: 'kept' }));
    clock.advance(200 * hour);
    setup.receiver.answer = 200;
    setup.receiver.received.length = 0;
    expect((await resend(item.id)).status).toBe(202);
    await eventually('both came', async () => setup.receiver.received.length === 2);
    expect(new Set(setup.receiver.received.map(({ json }) => json.trigger))).toEqual(
      new Set(['TEST', 'SOURCING_EVENTS_FEED_UPDATED']),
    );
    await waitUntilIdle(setup);
    expect((await setup.organisation.call('GET', `/api/webhooks/${setup.uuid}`)).body.is_active).toBe(true);
    // The five days of failures start again: one more failure does not disable it.
    setup.receiver.answer = 500;
    await notify(setup);
    expect((await setup.organisation.call('GET', `/api/webhooks/${setup.uuid}`)).body.is_active).toBe(true);
  });

  test('of an unknown delivery is 404', async () => {
    const setup = await setUp();
    const [item] = await notify(setup);
    await setup.organisation.call('DELETE', `/api/webhooks/${setup.uuid}`);
    for (const id of [item.id, randomUUID(), 'x']) expect((await resend(id)).status).toBe(404);
  });

  test('is not deleted by the sweep while it waits', async () => {
    const setup = await setUp();
    const [item] = await notify(setup);
    clock.advance(31 * 24 * hour);
    setup.receiver.answer = 500;
    await resent(setup, item.id);
    await service.service.sweep();
    expect(ids(await log(setup))).toEqual([item.id]);
  });
});
