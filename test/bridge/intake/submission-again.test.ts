/** A submission that is sent again, at the real service: within a day under its key, later under a forgotten one. */
import { expect, test } from 'vitest';
import { postSubmission } from '#bridge/intake/post-submission.ts';
import { createSourceClient } from '#client/source-client.ts';
import { systemClock } from '#platform/clock.ts';
import { eventually } from '../../harness/eventually.ts';
import { testOutgoing } from '../../harness/test-certificates.ts';
import { startTestService } from '../../harness/test-service.ts';

const service = await startTestService();

test('the service takes it once under its key; a forgotten key stores the same state again, and changes nothing', async () => {
  const organisation = await service.organisation();
  const { key } = organisation;
  const client = createSourceClient({
    settings: { baseUrl: service.url, apiKey: key, timeoutMs: 30_000, retries: 0 },
    fetch: testOutgoing().fetch,
    clock: systemClock,
  });
  const change = {
    external_id: 'V-1',
    name: 'Acme',
    contacts: [{ name: 'Ann', email: 'ann@acme.example' }],
  };
  const send = async () => {
    const posted = await postSubmission(client, [change], 'K1', new AbortController().signal);
    if (posted.is !== 'taken') throw new Error(posted.is);
    await eventually('it is processed', async () => {
      const { body } = await organisation.call('GET', `/api/manage/supplier_changes/${posted.uuid}`);
      return (body as { result: { current_state: string } }).result.current_state === 'PROCESSED';
    });
    return posted.uuid;
  };
  const suppliers = async () => {
    const { body } = await organisation.call('GET', '/api/manage/suppliers');
    return (body as { result: unknown[] }).result;
  };
  const first = await send();
  const held = await suppliers();
  expect(held).toMatchObject([{ external_id: 'V-1', name: 'Acme', contacts: [{ email: 'ann@acme.example' }] }]);
  expect(await send()).toBe(first);

  await service.db.database.query('delete from service.idempotency_keys');
  expect(await send()).not.toBe(first);
  expect(await suppliers()).toEqual(held);
});
