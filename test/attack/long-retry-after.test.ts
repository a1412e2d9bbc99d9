/** A source that asks for a wait of a day in one answer: by mistake, or because somebody answers in its name. */
import { expect, test } from 'vitest';
import { readQuotasLeft } from '#bridge/mirror/source/quotas-left.ts';
import { createSourceClients } from '#bridge/mirror/source/source-clients.ts';
import { rateLimitsRequest } from '#contract/limits.ts';
import { timestampNow } from '#platform/clock.ts';
import type { AppError } from '#platform/errors.ts';
import { Registry } from '#platform/metrics.ts';
import { settingsOf, startProcess, testClock } from '../bridge/parts.ts';
import { json, startScriptedService, status } from '../client/scripted-service.ts';
import { testOutgoing } from '../harness/test-certificates.ts';
import { createTestDatabase } from '../harness/test-database.ts';

const hourMs = 3_600_000;

test('is asked again after two hours by one request, then by all; the error names both waits', async () => {
  const clock = testClock();
  const service = await startScriptedService();
  const { database } = await startProcess(await createTestDatabase());
  const settings = settingsOf({ name: 'main', base_url: service.url, quotas: rateLimitsRequest.parse({}) });
  const clients = createSourceClients({
    settings,
    fetch: testOutgoing().fetch,
    clock,
    database,
    registry: new Registry(),
  });
  const read = () =>
    clients('main')
      .readFeed('awards', { pageSize: 1 })
      .then(
        () => 'read',
        (error: AppError) => error,
      );
  try {
    service.answers = [status(429, { 'retry-after': '86400' })];
    expect(await read()).toMatchObject({
      code: 'too-many',
      recovery: { do: 'retry', afterMs: 2 * hourMs },
      publicMessage: expect.stringContaining('a wait of 86400 s or more; the bridge waits 7200 s'),
    });
    const [quota] = await readQuotasLeft(database, settings.sources, timestampNow(clock));
    expect(quota?.pausedUntil).toBe('2030-01-01T02:00:00.000000Z');
    clock.advance(2 * hourMs - 60_000);
    expect(await read()).toMatchObject({ recovery: { do: 'retry', afterMs: 60_000 } });
    expect(service.requests).toHaveLength(1);
    clock.advance(60_000);
    service.answers = [json({ data: [], next: null }), json({ data: [], next: null })];
    // While the probe is under way, no other request is sent.
    const [probe, beside] = await Promise.all([read(), read()]);
    expect([probe, beside]).toEqual(['read', 'read']);
    expect(service.requests).toHaveLength(3);
  } finally {
    await service.close();
  }
});

test('is asked again after the time of the setting, if that is less', async () => {
  const clock = testClock();
  const service = await startScriptedService();
  const { database } = await startProcess(await createTestDatabase());
  const settings = settingsOf({ name: 'main', base_url: service.url, retry_after_max_seconds: 60 });
  const client = createSourceClients({
    settings,
    fetch: testOutgoing().fetch,
    clock,
    database,
    registry: new Registry(),
  })('main');
  try {
    service.answers = [status(503, { 'retry-after': 'Wed, 02 Jan 2030 00:00:00 GMT' })];
    const error = await client.readFeed('awards', { pageSize: 1 }).catch((thrown: unknown) => thrown);
    expect(error).toMatchObject({ recovery: { do: 'retry', afterMs: 60_000 } });
  } finally {
    await service.close();
  }
});
