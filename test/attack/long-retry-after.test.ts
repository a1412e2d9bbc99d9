/** A source that asks for a wait of a day in one answer: by mistake, or because somebody answers in its name. */
import { expect, test } from 'vitest';
import { createSourceClients } from '#bridge/mirror/source/source-clients.ts';
import type { AppError } from '#platform/errors.ts';
import { Registry } from '#platform/metrics.ts';
import { settingsOf, testClock } from '../bridge/parts.ts';
import { json, startScriptedService, status } from '../client/scripted-service.ts';
import { testOutgoing } from '../harness/test-certificates.ts';

const hourMs = 3_600_000;

test('is asked again after two hours; the error names both waits', async () => {
  const clock = testClock();
  const service = await startScriptedService();
  const settings = settingsOf({ name: 'main', base_url: service.url });
  const { clientOf } = createSourceClients({
    settings,
    fetch: testOutgoing().fetch,
    clock,
    registry: new Registry(),
  });
  const read = () =>
    clientOf('main')
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
    clock.advance(2 * hourMs - 60_000);
    expect(await read()).toMatchObject({ recovery: { do: 'retry', afterMs: 60_000 } });
    expect(service.requests).toHaveLength(1);
    clock.advance(60_000);
    service.answers = [json({ data: [], next: null })];
    expect(await read()).toBe('read');
  } finally {
    await service.close();
  }
});
