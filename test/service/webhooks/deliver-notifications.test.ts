/** Notifications over real HTTPS, with a clock that the test moves; `service.sweep()` then wakes what is due. */
import { createHmac } from 'node:crypto';
import { describe, expect, test } from 'vitest';
import { timestampFromMs } from '#contract/timestamp.ts';
import { claimDueDeliveries, settleAccepted } from '#service/webhooks/delivery-store.ts';
import { deliveryAttempts } from '../../harness/delivery-attempts.ts';
import { eventually } from '../../harness/eventually.ts';
import { createManualClock } from '../../harness/manual-clock.ts';
import { createEvent, eventPayload } from '../../harness/sourcing.ts';
import { startRecordedService } from '../../harness/test-service.ts';
import { createHook, type Hook, type Received, startWebhookReceiver } from '../../harness/webhook-receiver.ts';

const [second, minute, hour] = [1_000, 60_000, 3_600_000];
const clock = createManualClock();
const service = await startRecordedService({ clock, random: () => 0.5 });
const { lines, sent } = service;
const { database } = service.db;

const setUp = (triggers?: string[]) => createHook(service, triggers);

interface DeliveryRow {
  id: string;
  state: string;
  attempts: number;
  due: string;
}

const deliveries = (uuid: string) =>
  database.query<DeliveryRow>(
    `select d.id, d.state, d.attempts, greatest(d.due, w.held_until) as due
     from service.deliveries d join service.webhooks w on w.id = d.webhook_id where w.id = $1 order by d.created, d.id`,
    [uuid],
  );

/** Waits until nothing of this webhook is being sent or due. */
async function waitUntilIdle(uuid: string): Promise<DeliveryRow[]> {
  return eventually('nothing is being sent', async () => {
    const rows = await deliveries(uuid);
    const now = new Date(clock.nowMs()).toISOString();
    const active = (
      await database.query<{ is_active: boolean }>('select is_active from service.webhooks where id = $1', [uuid])
    )[0];
    return (
      !rows.some(
        (row) =>
          row.state === 'sending' ||
          (active?.is_active && row.state === 'pending' && row.due.slice(0, 23) <= now.slice(0, 23)),
      ) && rows
    );
  });
}

const testNotification = ({ organisation, uuid }: Hook) => organisation.call('POST', `/api/webhooks/${uuid}/test`);

async function advance(ms: number, uuid: string): Promise<DeliveryRow[]> {
  clock.advance(ms);
  await service.service.sweep();
  return waitUntilIdle(uuid);
}

/** The payload of a feed's notification. */
const feedPayload = (name: string) => ({
  sourcing_event: '00000000-0000-4000-8000-00000000000e',
  sourcing_event_name: name,
  feed_modified: '2030-01-01T00:00:00.000000Z',
});

const isActive = async ({ organisation, uuid }: Hook) =>
  (await organisation.call('GET', `/api/webhooks/${uuid}`)).body.is_active;

describe('a notification', () => {
  test('is signed over its exact bytes, and names its trigger, time and event', async () => {
    const hook = await setUp();
    const event = await createEvent(hook.organisation, eventPayload({ name: 'Kraków 東京' }));
    const [received] = await eventually(
      'the notification arrives',
      async () => hook.receiver.received.length > 0 && hook.receiver.received,
    );
    const mac = createHmac('sha256', hook.signingKey)
      .update(received?.body ?? '')
      .digest('hex');
    expect(received?.headers).toMatchObject({
      'x-signature': `hmac-sha256=${mac}`,
      'content-type': 'application/json',
      'webhook-id': (await deliveries(hook.uuid))[0]?.id,
      'webhook-timestamp': String(Math.floor(clock.nowMs() / 1000)),
      'webhook-attempt': '1',
    });
    expect(received?.json).toEqual({
      trigger: 'SOURCING_EVENTS_FEED_UPDATED',
      timestamp: expect.stringMatching(/^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}Z$/),
      payload: {
        sourcing_event: event,
        sourcing_event_name: 'Kraków 東京',
        feed_modified: expect.stringMatching(/\.\d{6}Z$/),
      },
    });
    expect(await waitUntilIdle(hook.uuid)).toMatchObject([{ state: 'delivered', attempts: 1 }]);
  });

  test('of a test is sent to the tested webhook only, whatever it subscribes to', async () => {
    const hook = await setUp(['AWARDS_FEED_UPDATED']);
    const other = await hook.organisation.call('POST', '/api/webhooks', {
      name: 'o',
      url: hook.receiver.url,
      triggers: ['TEST'],
    });
    const answer = await testNotification(hook);
    expect([answer.status, answer.body]).toEqual([202, { detail: expect.stringContaining('scheduled') }]);
    await waitUntilIdle(hook.uuid);
    expect(hook.receiver.received.map(({ json }) => json)).toMatchObject([
      { trigger: 'TEST', payload: { detail: expect.any(String) } },
    ]);
    expect(await deliveries(other.body.uuid)).toEqual([]);
  });

  test('is sent at the end of each job', async () => {
    const hook = await setUp(['JOB_UPDATED']);
    const done = await hook.organisation.call('POST', '/api/jobs/create-sourcing-events', { name: 'x' });
    const failed = await hook.organisation.call(
      'POST',
      '/api/jobs/create-sourcing-events',
      eventPayload({ suppliers: ['NONE'] }),
    );
    await eventually('both notifications arrive', async () => hook.receiver.received.length === 2);
    expect(
      new Set(hook.receiver.received.map(({ json }) => JSON.stringify(json.payload, ['job', 'type', 'status']))),
    ).toEqual(
      new Set(
        [
          [done.body.id, 'COMPLETED'],
          [failed.body.id, 'FAILED'],
        ].map(([job, status]) => JSON.stringify({ job, type: 'CREATE_SOURCING_EVENT', status })),
      ),
    );
  });

  test('has 15 s for the whole exchange, and 64 KiB of the answer are read', async () => {
    const hook = await setUp();
    hook.receiver.answer = (response) => response.writeHead(200).end(Buffer.alloc(5_000_000, 'x'));
    await testNotification(hook);
    expect(await waitUntilIdle(hook.uuid)).toMatchObject([{ state: 'delivered' }]);
    expect(sent.at(-1)).toMatchObject({ timeoutMs: 15_000, responseBytesMax: 65_536 });
    const [attempt] = await database.query<{ response_excerpt: string }>(
      `select response_excerpt from ${deliveryAttempts} a join service.deliveries d on d.id = a.delivery_id
       where d.webhook_id = $1`,
      [hook.uuid],
    );
    expect(attempt?.response_excerpt).toBe('x'.repeat(500));
  });
});

describe('a failure', () => {
  test('is retried by the schedule, with the same id and the same bytes, until it succeeds', async () => {
    const hook = await setUp();
    hook.receiver.answer = 500;
    await testNotification(hook);
    await waitUntilIdle(hook.uuid);
    for (const wait of [
      5 * second,
      30 * second,
      2 * minute,
      10 * minute,
      30 * minute,
      hour,
      2 * hour,
      4 * hour,
      8 * hour,
      8 * hour,
    ]) {
      const before = hook.receiver.received.length;
      await advance(wait - 1, hook.uuid);
      expect(hook.receiver.received.length).toBe(before);
      if (before === 10) hook.receiver.answer = 204;
      await advance(1, hook.uuid);
      expect(hook.receiver.received.length).toBe(before + 1);
    }
    const { received } = hook.receiver;
    expect(received.map(({ headers }) => headers['webhook-attempt'])).toEqual(
      Array.from({ length: 11 }, (_, index) => String(index + 1)),
    );
    expect(new Set(received.map(({ headers }) => headers['webhook-id'])).size).toBe(1);
    expect(new Set(received.map(({ body }) => body.toString())).size).toBe(1);
    expect(await deliveries(hook.uuid)).toMatchObject([{ state: 'delivered', attempts: 11 }]);
  });

  test('is counted for monitoring until a receiver accepts the notification, or its webhook is disabled', async () => {
    // Other tests of this file leave notifications waiting, too.
    const waiting = async () =>
      Number(/^service_notifications_waiting (\d+)$/m.exec(await service.registry.metrics())?.[1]);
    const before = await waiting();
    const hook = await setUp();
    hook.receiver.answer = 500;
    await testNotification(hook);
    await waitUntilIdle(hook.uuid);
    expect(await waiting()).toBe(before + 1);
    await database.query('update service.webhooks set is_active = false where id = $1', [hook.uuid]);
    expect(await waiting()).toBe(before);
    await database.query('update service.webhooks set is_active = true where id = $1', [hook.uuid]);
    hook.receiver.answer = 204;
    await advance(5 * second, hook.uuid);
    expect(await waiting()).toBe(before);
  });

  test('is retried on time without a sweep', async () => {
    const hook = await setUp();
    hook.receiver.answer = 500;
    await testNotification(hook);
    await waitUntilIdle(hook.uuid);
    hook.receiver.answer = 204;
    await eventually('the second attempt', async () => {
      clock.advance(second);
      return hook.receiver.received.length === 2;
    });
    expect(await waitUntilIdle(hook.uuid)).toMatchObject([{ state: 'delivered', attempts: 2 }]);
  });

  test('is given up after three days', async () => {
    const hook = await setUp();
    hook.receiver.answer = 500;
    await testNotification(hook);
    let rows = await waitUntilIdle(hook.uuid);
    const started = clock.nowMs();
    while (rows[0]?.state === 'pending') rows = await advance(Date.parse(rows[0].due) - clock.nowMs(), hook.uuid);
    expect(rows).toMatchObject([{ state: 'failed' }]);
    expect(clock.nowMs() - started).toBeLessThanOrEqual(72 * hour);
    expect(clock.nowMs() - started).toBeGreaterThan(60 * hour);
    expect(await isActive(hook)).toBe(true);
  });

  test.each([
    // Half of the jitter of a fifth.
    ['120', 132 * second],
    ['1', 5 * second],
    ['nonsense', 5 * second],
  ])('honours Retry-After: %s', async (header, wait) => {
    const hook = await setUp();
    hook.receiver.answer = (response) => response.writeHead(503, { 'retry-after': header }).end();
    await testNotification(hook);
    const [row] = await waitUntilIdle(hook.uuid);
    expect(Date.parse(row?.due ?? '') - clock.nowMs()).toBe(wait);
  });

  test('with Retry-After holds all notifications of the webhook back, also those that come later', async () => {
    const hook = await setUp();
    const other = await createHook(service);
    hook.receiver.answer = 500;
    for (let count = 0; count < 20; count += 1) await testNotification(hook);
    await waitUntilIdle(hook.uuid);
    hook.receiver.received.length = 0;
    hook.receiver.answer = (response) => response.writeHead(429, { 'retry-after': '100' }).end();
    await advance(5 * second, hook.uuid);
    // Those that were under way together; of the others none follows.
    expect(hook.receiver.received.length).toBeLessThanOrEqual(4);
    hook.receiver.received.length = 0;
    hook.receiver.answer = 204;
    await testNotification(hook);
    await testNotification(other);
    expect(await waitUntilIdle(other.uuid)).toMatchObject([{ state: 'delivered' }]);
    await advance(109 * second, hook.uuid);
    expect(hook.receiver.received).toEqual([]);
    // It is not a sweep that finds the end of the wait.
    await eventually('all are sent', async () => {
      clock.advance(second);
      return hook.receiver.received.length === 21;
    });
  });

  test('with Retry-After does not keep what the owner sends again, or resumes', async () => {
    const hook = await setUp();
    hook.receiver.answer = (response) => response.writeHead(503, { 'retry-after': '3600' }).end();
    await testNotification(hook);
    const [row] = await waitUntilIdle(hook.uuid);
    hook.receiver.answer = 204;
    await hook.organisation.call('POST', `/api/webhooks/${hook.uuid}/deliveries/${row?.id}/resend`);
    expect(await waitUntilIdle(hook.uuid)).toMatchObject([{ state: 'delivered' }]);
    hook.receiver.answer = (response) => response.writeHead(410, { 'retry-after': '3600' }).end();
    await testNotification(hook);
    await eventually('it is switched off', async () => !(await isActive(hook)));
    hook.receiver.answer = 204;
    await hook.organisation.call('PATCH', `/api/webhooks/${hook.uuid}`, { is_active: true });
    expect(await waitUntilIdle(hook.uuid)).toMatchObject([{ state: 'delivered' }, { state: 'delivered' }]);
  });

  test('is a redirect, which is not followed', async () => {
    const hook = await setUp();
    const elsewhere = await startWebhookReceiver();
    const location = `${elsewhere.url}?token=hunter2`;
    hook.receiver.answer = (response) => response.writeHead(307, { location }).end();
    await testNotification(hook);
    expect(await waitUntilIdle(hook.uuid)).toMatchObject([{ state: 'pending', attempts: 1 }]);
    const [{ error }] = (await hook.organisation.call('GET', `/api/webhooks/${hook.uuid}/deliveries`)).body.result;
    expect(error).toBe(`answered 307: a redirect to ${elsewhere.url}, which is not followed`);
    expect(elsewhere.received).toEqual([]);
  });

  test('of an answer that breaks off is retried', async () => {
    const hook = await setUp();
    hook.receiver.answer = (response) => response.destroy();
    await testNotification(hook);
    expect(await waitUntilIdle(hook.uuid)).toMatchObject([{ state: 'pending', attempts: 1 }]);
    hook.receiver.answer = 200;
    expect(await advance(5 * second, hook.uuid)).toMatchObject([{ state: 'delivered', attempts: 2 }]);
  });
});

describe('coalescing', () => {
  test('the pending notifications of one webhook and trigger become one POST with the newest content', async () => {
    const hook = await setUp(['SOURCING_EVENTS_FEED_UPDATED', 'JOB_UPDATED']);
    hook.receiver.answer = 500;
    await createEvent(hook.organisation, eventPayload({ name: 'first' }));
    await waitUntilIdle(hook.uuid);
    for (const name of ['second', 'third', 'fourth']) await createEvent(hook.organisation, eventPayload({ name }));
    await waitUntilIdle(hook.uuid);
    const failedBefore = hook.receiver.received.filter(({ json }) => json.trigger !== 'JOB_UPDATED');
    hook.receiver.answer = 200;
    hook.receiver.received.length = 0;
    await advance(hour, hook.uuid);
    const feed = hook.receiver.received.filter(({ json }) => json.trigger === 'SOURCING_EVENTS_FEED_UPDATED');
    expect(feed.map(({ json }) => json.payload['sourcing_event_name'])).toEqual(['fourth']);
    // Notifications of jobs do not coalesce.
    expect(hook.receiver.received.filter(({ json }) => json.trigger === 'JOB_UPDATED')).toHaveLength(4);
    // An id that was sent before always stands for the same bytes.
    const seen = new Map(failedBefore.map(({ headers, body }) => [headers['webhook-id'], body.toString()]));
    for (const { headers, body } of feed)
      expect(seen.get(headers['webhook-id']) ?? body.toString()).toBe(body.toString());
  });

  test('a newer notification replaces a failed one, and waits at least as long', async () => {
    const hook = await setUp();
    hook.receiver.answer = (response) => response.writeHead(503, { 'retry-after': '600' }).end();
    await createEvent(hook.organisation, eventPayload({ name: 'old' }));
    await waitUntilIdle(hook.uuid);
    await createEvent(hook.organisation, eventPayload({ name: 'new' }));
    const rows = await waitUntilIdle(hook.uuid);
    expect(rows.map(({ state }) => state).sort()).toEqual(['pending', 'superseded']);
    hook.receiver.answer = 200;
    await advance(659 * second, hook.uuid);
    expect(hook.receiver.received).toHaveLength(1);
    await advance(second, hook.uuid);
    expect(
      hook.receiver.received.map(({ json, headers }) => [
        json.payload['sourcing_event_name'],
        headers['webhook-attempt'],
      ]),
    ).toEqual([
      ['old', '1'],
      ['new', '1'],
    ]);
  });

  test('a notification that is enqueued while an older one is being sent replaces it when that fails', async () => {
    const hook = await setUp();
    let release: () => void = () => undefined;
    const held = new Promise<void>((resolve) => {
      release = resolve;
    });
    hook.receiver.answer = (response) => void held.then(() => response.writeHead(500).end());
    await createEvent(hook.organisation, eventPayload({ name: 'old' }));
    await eventually('the first is being sent', async () => hook.receiver.received.length === 1);
    await createEvent(hook.organisation, eventPayload({ name: 'new' }));
    release();
    await waitUntilIdle(hook.uuid);
    // The outage continues: after its own first failure the new one waits as after a second failure.
    hook.receiver.answer = 500;
    await advance(5 * second, hook.uuid);
    await advance(30 * second - 1, hook.uuid);
    expect(hook.receiver.received).toHaveLength(2);
    hook.receiver.answer = 200;
    await advance(1, hook.uuid);
    expect(hook.receiver.received.map(({ json }) => json.payload['sourcing_event_name'])).toEqual([
      'old',
      'new',
      'new',
    ]);
    expect((await deliveries(hook.uuid)).map(({ state }) => state).sort()).toEqual(['delivered', 'superseded']);
  });
});

describe('a batch', () => {
  interface PendingRow {
    trigger: string;
    payload: object;
    coalesces?: boolean;
    ms: number;
  }
  const enqueue = (hook: Hook, rows: readonly PendingRow[]) =>
    database.query(
      `insert into service.deliveries
         (id, webhook_id, trigger, coalesces, payload, created, state, due)
       select gen_random_uuid(), $1, r.trigger, coalesce(r.coalesces, false), r.payload,
         $2::timestamptz + r.ms * interval '1 ms', 'pending', $2
       from jsonb_to_recordset($3::jsonb) as r (trigger text, payload jsonb, coalesces boolean, ms int)`,
      [hook.uuid, new Date(clock.nowMs()).toISOString(), JSON.stringify(rows)],
    );
  const nameOf = ({ json }: Received) => json.payload['detail'] ?? json.payload['sourcing_event_name'];
  const names = (hook: Hook) => hook.receiver.received.map(nameOf);
  const tests = (count: number) =>
    Array.from({ length: count }, (_, index) => ({ trigger: 'TEST', payload: { detail: String(index) }, ms: index }));

  test('of many is sent four at a time, the oldest first, each once', async () => {
    const hook = await setUp();
    let openRequests = 0;
    let openRequestsMax = 0;
    hook.receiver.answer = (response) => {
      openRequests += 1;
      openRequestsMax = Math.max(openRequestsMax, openRequests);
      setImmediate(() => {
        openRequests -= 1;
        response.end();
      });
    };
    await enqueue(hook, tests(50));
    await service.service.sweep();
    await eventually('all notifications arrive', async () => hook.receiver.received.length === 50);
    const rows = await waitUntilIdle(hook.uuid);
    expect(rows.map(({ state, attempts }) => `${state} ${attempts}`)).toEqual(Array(50).fill('delivered 1'));
    expect(new Set(names(hook)).size).toBe(50);
    const oldest = Array.from({ length: 16 }, (_, index) => String(index));
    expect(new Set(names(hook).slice(0, 16))).toEqual(new Set(oldest));
    expect(openRequestsMax).toBeLessThanOrEqual(4);
  });

  test('is small at first, then as large as the receiver is quick', async () => {
    const hook = await setUp();
    const claimedAt = new Map<number, Promise<number>>();
    const sending = async () =>
      (await deliveries(hook.uuid)).filter(({ state, attempts }) => state === 'sending' && attempts === 1).length;
    hook.receiver.answer = (response) => {
      const place = hook.receiver.received.length;
      const counted = sending();
      claimedAt.set(place, counted);
      void counted.finally(() => response.end());
    };
    await enqueue(hook, tests(200));
    await service.service.sweep();
    await eventually('all notifications arrive', async () => hook.receiver.received.length === 200);
    await waitUntilIdle(hook.uuid);
    expect(await claimedAt.get(1)).toBe(16);
    // The first batch may still be settled.
    expect([184, 184 + 16]).toContain(await claimedAt.get(17));
  });

  test('that fails releases the next one, which was claimed already, and a newer notification still replaces it', async () => {
    const hook = await setUp();
    const [small, large] = [16, 256];
    hook.receiver.answer = (response, { json }) => response.writeHead(json.trigger === 'TEST' ? 200 : 500).end();
    const trigger = 'SOURCING_EVENTS_FEED_UPDATED';
    await enqueue(hook, [
      ...tests(small + large - 1),
      { trigger, payload: feedPayload('old'), ms: small + large },
      { trigger, payload: feedPayload('new'), coalesces: true, ms: small + large + 1 },
      { trigger: 'TEST', payload: { detail: 'last' }, ms: small + large + 2 },
    ]);
    // As a process has left it that died while it was sending: its claim has run out.
    await database.query(
      `update service.deliveries set state = 'sending', claimed_until = due, coalesces = true
       where webhook_id = $1 and payload->>'sourcing_event_name' = 'old'`,
      [hook.uuid],
    );
    await service.service.sweep();
    await eventually('all but the newer one arrive', async () => hook.receiver.received.length === small + large + 1);
    const rows = await waitUntilIdle(hook.uuid);
    expect(rows.slice(-3)).toMatchObject([
      { state: 'superseded' },
      { state: 'pending', attempts: 0, due: new Date(clock.nowMs() + 5 * second).toISOString().replace('Z', '000Z') },
      { state: 'delivered', attempts: 1 },
    ]);
    expect(names(hook)).not.toContain('new');
    expect(names(hook).at(-1)).toBe('last');
  });

  test('stops when its claim is too old; untried notifications are sent later, as their first attempt', async () => {
    const hook = await setUp();
    hook.receiver.answer = (response) => {
      clock.advance(2 * second);
      response.end();
    };
    await enqueue(hook, tests(16));
    await service.service.sweep();
    await eventually('all notifications arrive', async () => hook.receiver.received.length === 16);
    const rows = await waitUntilIdle(hook.uuid);
    expect(rows.map(({ state, attempts }) => `${state} ${attempts}`)).toEqual(Array(16).fill('delivered 1'));
    expect(new Set(hook.receiver.received.map(({ headers }) => headers['webhook-attempt']))).toEqual(new Set(['1']));
    const [kept] = await database.query(
      `select count(*) from ${deliveryAttempts} a join service.deliveries d on d.id = a.delivery_id
       where d.webhook_id = $1 and a.number = 1`,
      [hook.uuid],
    );
    expect(kept).toEqual({ count: 16 });
  });

  test('releases an untried notification as superseded if a newer one of its trigger is pending', async () => {
    const hook = await setUp();
    const trigger = 'SOURCING_EVENTS_FEED_UPDATED';
    let newer: Promise<unknown> | undefined;
    hook.receiver.answer = (response, received) => {
      if (nameOf(received) === 'new') return void response.end();
      newer ??= enqueue(hook, [{ trigger, payload: feedPayload('new'), coalesces: true, ms: 0 }]);
      void newer.then(() => {
        clock.advance(6 * second);
        response.end();
      });
    };
    await enqueue(hook, [...tests(4), { trigger, payload: feedPayload('old'), coalesces: true, ms: 100 }]);
    await service.service.sweep();
    await eventually('all notifications arrive', async () => names(hook).includes('new'));
    const rows = await waitUntilIdle(hook.uuid);
    expect(rows.map(({ state }) => state).toSorted()).toEqual([...Array(5).fill('delivered'), 'superseded']);
    expect(names(hook)).not.toContain('old');
  });

  test('ends at the answer 410', async () => {
    const hook = await setUp();
    hook.receiver.answer = 410;
    await enqueue(hook, tests(16));
    await service.service.sweep();
    await eventually('it is disabled', async () => !(await isActive(hook)));
    expect(hook.receiver.received.length).toBeLessThanOrEqual(4);
    expect((await waitUntilIdle(hook.uuid)).filter(({ state }) => state === 'pending')).toHaveLength(1);
  });
});

describe('disabling', () => {
  test('happens at once after 410, and the newest notification of each trigger is kept', async () => {
    const hook = await setUp(['SOURCING_EVENTS_FEED_UPDATED', 'JOB_UPDATED']);
    hook.receiver.answer = 410;
    await createEvent(hook.organisation, eventPayload({ name: 'first' }));
    await eventually('it is disabled', async () => !(await isActive(hook)));
    await waitUntilIdle(hook.uuid);
    const received = hook.receiver.received.length;
    await createEvent(hook.organisation, eventPayload({ name: 'second' }));
    await createEvent(hook.organisation, eventPayload({ name: 'third' }));
    await advance(24 * hour, hook.uuid);
    expect(hook.receiver.received.length).toBe(received);
    const kept = await database.query<{ trigger: string; name: string | null }>(
      `select trigger, payload->>'sourcing_event_name' as name from service.deliveries
       where webhook_id = $1 and state = 'pending' order by trigger`,
      [hook.uuid],
    );
    expect(kept).toEqual([
      { trigger: 'JOB_UPDATED', name: null },
      { trigger: 'SOURCING_EVENTS_FEED_UPDATED', name: 'third' },
    ]);
  });

  test('keeps the newest of several pending notifications of a trigger', async () => {
    const hook = await setUp(['JOB_UPDATED']);
    hook.receiver.answer = 500;
    const jobs: string[] = [];
    for (const name of ['first', 'second', 'third']) {
      const job = await hook.organisation.call('POST', '/api/jobs/create-sourcing-events', { name });
      jobs.push(job.body.id);
      await eventually('it was attempted', async () => hook.receiver.received.length === jobs.length);
      await waitUntilIdle(hook.uuid);
      clock.advance(1);
    }
    hook.receiver.answer = 410;
    await advance(hour, hook.uuid);
    expect(await isActive(hook)).toBe(false);
    const kept = await database.query<{ job: string }>(
      `select payload->>'job' as job from service.deliveries where webhook_id = $1 and state = 'pending'`,
      [hook.uuid],
    );
    expect(kept).toEqual([{ job: jobs[2] }]);
  });

  test('happens after five days of failures, and a success restarts the five days', async () => {
    const hook = await setUp();
    hook.receiver.answer = 500;
    await testNotification(hook);
    await waitUntilIdle(hook.uuid);
    await advance(100 * hour, hook.uuid);
    hook.receiver.answer = 200;
    await testNotification(hook);
    await waitUntilIdle(hook.uuid);
    hook.receiver.answer = 500;
    await testNotification(hook);
    await waitUntilIdle(hook.uuid);
    clock.advance(120 * hour - 1);
    await testNotification(hook);
    await waitUntilIdle(hook.uuid);
    expect(await isActive(hook)).toBe(true);
    clock.advance(1);
    await testNotification(hook);
    await waitUntilIdle(hook.uuid);
    expect(await isActive(hook)).toBe(false);
  });
});

describe('at each delivery the rules are checked again: nothing is sent', () => {
  test('to a domain that was removed from the whitelist', async () => {
    const hook = await setUp();
    await service.operator('PUT', `/admin/organisations/${hook.organisation.id}/webhook-domains`, { domains: [] });
    await testNotification(hook);
    expect(await waitUntilIdle(hook.uuid)).toMatchObject([{ state: 'pending', attempts: 1 }]);
    await service.operator('PUT', `/admin/organisations/${hook.organisation.id}/webhook-domains`, {
      domains: ['localhost'],
    });
    expect(await advance(5 * second, hook.uuid)).toMatchObject([{ state: 'delivered' }]);
    expect(hook.receiver.received).toHaveLength(1);
  });

  test('to a private network that the operator does not allow', async () => {
    const hook = await setUp();
    await service.operator('PUT', `/admin/organisations/${hook.organisation.id}/allowed-networks`, { cidrs: [] });
    await testNotification(hook);
    expect(await waitUntilIdle(hook.uuid)).toMatchObject([{ state: 'pending', attempts: 1 }]);
    expect(hook.receiver.received).toEqual([]);
    const [attempt] = await database.query<{ error: string }>(
      `select error from ${deliveryAttempts} a join service.deliveries d on d.id = a.delivery_id
       where d.webhook_id = $1`,
      [hook.uuid],
    );
    expect(attempt?.error).toMatch(/localhost/);
  });
});

test('finished deliveries are kept for 30 days with their attempts, and pending ones longer', async () => {
  const hook = await setUp();
  await testNotification(hook);
  expect(await waitUntilIdle(hook.uuid)).toMatchObject([{ state: 'delivered' }]);
  hook.receiver.answer = 500;
  await testNotification(hook);
  await waitUntilIdle(hook.uuid);
  const kept = () =>
    database.query(
      `select d.state, count(a.number)::int as attempts from service.deliveries d
       left join ${deliveryAttempts} a on a.delivery_id = d.id
       where d.webhook_id = $1 group by d.id, d.state order by d.state`,
      [hook.uuid],
    );
  const both = [
    { state: 'delivered', attempts: 1 },
    { state: 'pending', attempts: 1 },
  ];
  expect(await kept()).toEqual(both);
  // Disabled, so that nothing is sent meanwhile.
  await database.query('update service.webhooks set is_active = false where id = $1', [hook.uuid]);
  clock.advance(29 * 24 * 3_600 * second);
  await service.service.sweep();
  expect(await kept()).toEqual(both);
  clock.advance(2 * 24 * 3_600 * second);
  await service.service.sweep();
  expect(await kept()).toEqual([{ state: 'pending', attempts: 1 }]);
});

describe('crashes', () => {
  test("a dead process's notification is sent again when its claim has run out, and not before", async () => {
    const hook = await setUp();
    const id = '00000000-0000-4000-8000-000000000001';
    const at = (ms: number) => new Date(clock.nowMs() + ms).toISOString();
    await database.query(
      `insert into service.deliveries (id, webhook_id, trigger, coalesces, payload, created, state,
         attempts, first_attempt, due, claimed_until)
       values ($1, $2, 'SOURCING_EVENTS_FEED_UPDATED', true, $5, $3, 'sending', 1, $3, $3, $4)`,
      [id, hook.uuid, at(0), at(45 * second), JSON.stringify(feedPayload('held'))],
    );
    clock.advance(45 * second - 1);
    await service.service.sweep();
    await testNotification(hook);
    await eventually('the other notification arrives', async () => hook.receiver.received.length === 1);
    expect(hook.receiver.received[0]?.json.trigger).toBe('TEST');
    clock.advance(1);
    await service.service.sweep();
    await eventually('the notification arrives', async () => hook.receiver.received.length === 2);
    expect(hook.receiver.received[1]?.headers).toMatchObject({ 'webhook-id': id, 'webhook-attempt': '2' });
  });

  test('a late failure of a process that lost its claim does not undo a delivery of another process', async () => {
    const hook = await setUp();
    let release: () => void = () => undefined;
    hook.receiver.answer = (response) => {
      release = () => response.writeHead(500).end();
    };
    await testNotification(hook);
    await eventually('it is being sent', async () => hook.receiver.received.length === 1);
    // The other process delivers it, after the claim has run out.
    await database.query(
      `update service.deliveries set state = 'delivered', attempts = 2, finished = $2, claimed_until = null
       where webhook_id = $1`,
      [hook.uuid, new Date(clock.nowMs()).toISOString()],
    );
    release();
    await eventually('the failure is stored', async () => {
      const rows = await database.query(
        `select from ${deliveryAttempts} a join service.deliveries d on d.id = a.delivery_id
         where d.webhook_id = $1`,
        [hook.uuid],
      );
      return rows.length === 1;
    });
    expect(await deliveries(hook.uuid)).toMatchObject([{ state: 'delivered', attempts: 2 }]);
  });

  test('a late success of a process that lost its claim is shown beside the success of the other process', async () => {
    const hook = await setUp();
    let release: () => void = () => undefined;
    hook.receiver.answer = (response) => {
      release = () => response.writeHead(201).end();
    };
    await testNotification(hook);
    await eventually('it is being sent', async () => hook.receiver.received.length === 1);
    // The other process delivers it, after the claim has run out.
    await database.query(
      `update service.deliveries set state = 'delivered', attempts = 2, finished = $2, claimed_until = null,
         attempt_log = '[{"number": 2, "status": 200}]'
       where webhook_id = $1`,
      [hook.uuid, new Date(clock.nowMs()).toISOString()],
    );
    release();
    const attempts = () =>
      database.query(
        `select a.number, a.status from service.deliveries d join ${deliveryAttempts} a on a.delivery_id = d.id
         where d.webhook_id = $1 order by a.number`,
        [hook.uuid],
      );
    await eventually('the late success is stored', async () => (await attempts()).length === 2);
    expect(await attempts()).toEqual([
      { number: 1, status: 201 },
      { number: 2, status: 200 },
    ]);
    expect(await deliveries(hook.uuid)).toMatchObject([{ state: 'delivered', attempts: 2 }]);
  });

  test('an outcome that is settled twice is one attempt', async () => {
    const hook = await setUp();
    await database.query('update service.webhooks set is_active = false where id = $1', [hook.uuid]);
    await testNotification(hook);
    await database.query('update service.webhooks set is_active = true where id = $1', [hook.uuid]);
    const nowMs = clock.nowMs();
    const now = timestampFromMs(nowMs);
    const [delivery] = await claimDueDeliveries(database, hook.uuid, { now, claimMs: minute, most: 16 });
    if (!delivery) throw new Error('nothing was claimed');
    const outcome = { error: null, operatorError: null, excerpt: 'OK', retryAfterMs: undefined };
    const attempt = { delivery, atMs: nowMs, durationMs: 1, status: 200, ...outcome };
    await settleAccepted(database, hook.uuid, [attempt], now);
    await settleAccepted(database, hook.uuid, [attempt], now);
    const attempts = await database.query(
      `select a.number, a.status, a.response_excerpt from ${deliveryAttempts} a where a.delivery_id = $1`,
      [delivery.id],
    );
    expect(attempts).toEqual([{ number: 1, status: 200, response_excerpt: 'OK' }]);
  });

  test('when an old and a new notification fail together after a crash, the new one stays pending', async () => {
    const hook = await setUp();
    hook.receiver.answer = 500;
    const at = (ms: number) => new Date(clock.nowMs() + ms).toISOString();
    for (const [name, ms] of [
      ['old', -2],
      ['new', -1],
    ] as const)
      await database.query(
        `insert into service.deliveries (id, webhook_id, trigger, coalesces, payload, created, state,
           attempts, first_attempt, due, claimed_until)
         values (gen_random_uuid(), $1, 'SOURCING_EVENTS_FEED_UPDATED', true, $2, $3, 'sending', 1, $3, $3, $3)`,
        [hook.uuid, JSON.stringify(feedPayload(name)), at(ms)],
      );
    await service.service.sweep();
    await eventually('both were attempted', async () => hook.receiver.received.length === 2);
    await waitUntilIdle(hook.uuid);
    const left = await database.query(
      `select payload->>'sourcing_event_name' as name from service.deliveries
       where webhook_id = $1 and state = 'pending'`,
      [hook.uuid],
    );
    expect(left).toEqual([{ name: 'new' }]);
  });

  test('a command that is rolled back sends no notification', async () => {
    const hook = await setUp();
    await createEvent(hook.organisation, eventPayload());
    await waitUntilIdle(hook.uuid);
    await database.query(
      `create function service.refuse() returns trigger language plpgsql as $$ begin raise 'refused'; end $$`,
    );
    await database.query(
      `create constraint trigger refuse after insert on service.rounds deferrable initially deferred
       for each row execute function service.refuse()`,
    );
    const { body } = await hook.organisation.call('GET', '/desk/events');
    const before = hook.receiver.received.length;
    expect((await hook.organisation.call('POST', `/desk/events/${body.result[0].id}/publish`, {})).status).toBe(500);
    await database.query('drop trigger refuse on service.rounds');
    await service.service.sweep();
    expect(await waitUntilIdle(hook.uuid)).toHaveLength(before);
    const { data } = (await hook.organisation.call('GET', '/api/feeds/sourcing-events')).body;
    expect(data).toMatchObject([{ status: 'DRAFT' }]);
  });
});

test('no secret is in any log line', async () => {
  const hook = await setUp();
  hook.receiver.answer = 500;
  await testNotification(hook);
  await waitUntilIdle(hook.uuid);
  await hook.organisation.call('POST', '/api/webhooks', { signing_key: 'a-secret-of-the-caller' });
  const written = lines.join('\n');
  expect(lines.length).toBeGreaterThan(50);
  for (const secret of [hook.signingKey, hook.organisation.key, service.adminToken, 'a-secret-of-the-caller'])
    expect(written).not.toContain(secret);
});
