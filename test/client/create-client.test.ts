/** The client as other programs use it, against the running service. */
import { beforeAll, expect, test } from 'vitest';
import { createClient, type SourcingClient } from '#client/create-client.ts';
import { createMemoryQuotas } from '#client/memory-quotas.ts';
import { askedToWaitMs } from '#platform/errors.ts';
import { closeAtEnd } from '../harness/close-at-end.ts';
import { createManualClock } from '../harness/manual-clock.ts';
import { createEvent, createSuppliers, eventPayload } from '../harness/sourcing.ts';
import type { TestOrganisation } from '../harness/test-organisation.ts';
import { startTestService } from '../harness/test-service.ts';
import { json, startScriptedService } from './scripted-service.ts';

let organisation: TestOrganisation;
let client: SourcingClient;
beforeAll(async () => {
  const service = await startTestService();
  organisation = await service.organisation();
  client = createClient({ baseUrl: service.url, apiKey: organisation.key });
  closeAtEnd(() => client.close());
});

test('suppliers and records of a feed come one after another, over all pages', async () => {
  await createSuppliers(organisation, ['S-1', 'S-2', 'S-3']);
  const suppliers = await collect(client.suppliers({ pageSize: 2 }));
  expect(suppliers.map((supplier) => String(supplier['external_id'])).toSorted()).toEqual(['S-1', 'S-2', 'S-3']);

  const names = ['One', 'Two', 'Three', 'Four', 'Five'];
  for (const name of names) await createEvent(organisation, eventPayload({ name }));
  const events = await collect(client.feed('sourcing-events', { pageSize: 2 }));
  expect(events.map((event) => event['name'])).toEqual(names);
  const third = events[2]?.['modified'] as string;
  const later = await collect(client.feed('sourcing-events', { modifiedAfter: third }));
  expect(later.map((event) => event['name'])).toEqual(names.slice(2));
});

test('a job is waited for, and a second call with its key makes no second one', async () => {
  const payload = eventPayload({ name: 'By job' });
  const job = await client.runJob('CREATE_SOURCING_EVENT', payload as never, 'key-1');
  expect(job).toMatchObject({ status: 'COMPLETED', created_entity: expect.any(String) });
  expect((await client.runJob('CREATE_SOURCING_EVENT', payload as never, 'key-1')).id).toBe(job.id);
});

test('a refusal has the words of the service', async () => {
  await expect(client.readSupplier('nobody')).rejects.toMatchObject({ code: 'not-found' });
});

test('a limit of the documents is kept: 60 requests to a feed a minute, and the next one says when', async () => {
  const clock = createManualClock();
  const quotas = createMemoryQuotas(clock);
  for (let sent = 0; sent < 60; sent += 1) await quotas.take('feeds.awards');
  const error: unknown = await quotas.take('feeds.awards').catch((thrown: unknown) => thrown);
  expect(error).toMatchObject({ code: 'too-many' });
  const waitMs = askedToWaitMs(error);
  expect(waitMs).toBeGreaterThanOrEqual(60_000);
  expect(waitMs).toBeLessThanOrEqual(61_000);
  clock.advance(waitMs);
  await quotas.take('feeds.awards');
});

test('a feed whose last page names itself as the next one ends; one that repeats its records is an error', async () => {
  const scripted = await startScriptedService();
  closeAtEnd(() => scripted.close());
  const own = createClient({ baseUrl: scripted.url, apiKey: 'key' });
  closeAtEnd(() => own.close());
  const page = (ids: readonly string[], next: string) => json({ data: ids.map((id) => ({ id })), next });
  scripted.answers = [page(['1', '2'], '/api/feeds/awards?cursor=a'), page([], '/api/feeds/awards?cursor=a')];
  expect(await collect(own.feed('awards'))).toEqual([{ id: '1' }, { id: '2' }]);
  expect(scripted.requests).toHaveLength(2);
  scripted.answers = [page(['1'], '/api/feeds/awards?cursor=b'), page(['2'], '/api/feeds/awards?cursor=b')];
  await expect(collect(own.feed('awards'))).rejects.toThrow('The pages of the feed loop');
});

async function collect<Item>(items: AsyncIterable<Item>): Promise<Item[]> {
  const list: Item[] = [];
  for await (const item of items) list.push(item);
  return list;
}
