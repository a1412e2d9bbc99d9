/** A bridge's clients against the real service, with its real limits. */
import { beforeEach, describe, expect, test } from 'vitest';
import { createSourceClients } from '#bridge/mirror/source/source-clients.ts';
import { createFileLoader } from '#bridge/push/batch/file-loader.ts';
import { createSourceClient, type SourceClient } from '#client/source-client.ts';
import { limits } from '#contract/limits.ts';
import { type Clock, systemClock } from '#platform/clock.ts';
import { AppError } from '#platform/errors.ts';
import { Registry } from '#platform/metrics.ts';
import { uploadFile } from '../../../harness/files.ts';
import { changeSuppliers } from '../../../harness/sourcing.ts';
import { testOutgoing } from '../../../harness/test-certificates.ts';
import type { TestOrganisation } from '../../../harness/test-organisation.ts';
import { startTestService } from '../../../harness/test-service.ts';
import { settingsOf, type TestClock, testClock } from '../../parts.ts';

/** Thrown instead of sleeping: the reader learns for how long it would have to wait, and the test moves the clock. */
class WaitNeeded extends Error {
  readonly ms: number;
  constructor(ms: number) {
    super('a wait');
    this.ms = ms;
  }
}

let clock: TestClock = testClock();
const service = await startTestService({
  clock: { nowMs: () => clock.nowMs(), sleep: (...args) => systemClock.sleep(...args) },
});
let organisation: TestOrganisation;
let sources = 0;

beforeEach(async () => {
  clock = testClock();
  organisation = await service.organisation();
  sources += 1;
});

const roundClock: Clock = { nowMs: () => clock.nowMs(), sleep: (ms) => Promise.reject(new WaitNeeded(ms)) };

/** The clients of one process. */
function startClients(options: { clock?: Clock } = {}) {
  const name = `source-${sources}`;
  const settings = settingsOf({
    name,
    base_url: service.url,
    api_key: organisation.key,
    quotas: { enabled: true },
  });
  const registry = new Registry();
  const { fetch } = testOutgoing();
  const { clientOf } = createSourceClients({ settings, fetch, clock: options.clock ?? roundClock, registry });
  const statuses = async (): Promise<Record<string, number>> => {
    const metric = await registry.getSingleMetric('bridge_source_requests_total')?.get();
    return Object.fromEntries(
      (metric?.values ?? []).map(({ labels, value }) => [`${labels['bucket']} ${labels['status']}`, value]),
    );
  };
  return { clientOf, client: clientOf(name), background: clientOf(name, { background: true }), statuses };
}

/** Reads until a wait is needed; returns its milliseconds. */
async function readUntilWait(client: SourceClient): Promise<number> {
  for (;;) {
    try {
      await client.readFeed('awards', { modifiedAfter: '2030-01-01T00:00:00.000000Z', pageSize: 1 });
    } catch (error) {
      if (error instanceof WaitNeeded) return error.ms;
      if (error instanceof AppError && error.code === 'too-many' && error.recovery.do === 'retry')
        return error.recovery.afterMs ?? 0;
      throw error;
    }
  }
}

describe('where the service keeps its limits', () => {
  beforeEach(() => service.operator('PUT', `/admin/organisations/${organisation.id}/limits`, { enabled: true }));

  test('the clients of one process use all that it allows and are never refused', async () => {
    const { client, background, statuses } = startClients();
    const { requests } = limits.feeds.burst;
    const answered: number[] = [];
    for (let round = 1; round <= 3; round += 1) {
      const waits = [await readUntilWait(background), await readUntilWait(client)];
      const { 'feeds.awards 200': whole = 0, ...others } = await statuses();
      expect(others).toEqual({});
      answered.push(whole);
      clock.advance(Math.max(...waits));
    }
    expect(answered).toEqual([requests, 2 * requests, 3 * requests]);
    // The limits are in force: a client that does not count its requests is refused.
    const { fetch } = testOutgoing();
    const uncounted = createSourceClient({
      settings: { baseUrl: service.url, apiKey: organisation.key, timeoutMs: 5_000, retries: 0 },
      fetch,
      clock: roundClock,
    });
    expect(await readUntilWait(uncounted)).toBeGreaterThan(0);
  });

  test('two processes meet at its 429: all clients of the other wait for as long as it says', async () => {
    const [first, second] = [startClients(), startClients()];
    expect(await readUntilWait(first.client)).toBeGreaterThanOrEqual(60_000);
    expect(await readUntilWait(second.client)).toBe(60_000);
    expect(await readUntilWait(second.background)).toBe(60_000);
    clock.advance(59_000);
    expect(await readUntilWait(second.client)).toBe(1_000);
    expect(await second.statuses()).toEqual({ 'feeds.awards 429': 1 });
    clock.advance(1_000);
    await readUntilWait(second.client);
    expect(await second.statuses()).toMatchObject({ 'feeds.awards 429': 1 });
  });
});

test('a source that is not configured has no client', () => {
  const { clientOf } = startClients();
  expect(() => clientOf('other')).toThrow('No source is configured under the name "other".');
});

describe('the client calls what the service offers:', () => {
  test('a feed without records is an empty page', async () => {
    const { client } = startClients();
    const poll = {
      modifiedAfter: '2030-01-01T00:00:00.000000Z',
      pageSize: 1_000,
      include: ['suppliers', 'sourcing_events'],
    };
    expect(await client.readFeed('awards', poll)).toMatchObject({
      records: [],
      includes: { suppliers: [], sourcing_events: [] },
      next: undefined,
      commitOrdered: true,
    });
  });

  test('suppliers are changed, listed page by page and read', async () => {
    const { client } = startClients();
    await changeSuppliers(organisation, { external_id: 'A', name: 'Ä' });
    const { uuid } = await client.submitSupplierChange([{ external_id: 'B/1', name: 'B' }], 'once');
    expect(await client.submitSupplierChange([{ external_id: 'B/1', name: 'B' }], 'once')).toMatchObject({ uuid });
    await expect.poll(async () => (await client.readSupplierChange(uuid)).current_state).toBe('PROCESSED');
    const first = await client.listSuppliers({ pageSize: 1 });
    const second = await client.listSuppliers({ next: first.next ?? '' });
    expect([...first.items, ...second.items].map((item) => item['external_id'])).toEqual(['A', 'B/1']);
    expect([first.count, second.next]).toEqual([2, undefined]);
    expect((await client.readSupplier('B/1')).name).toBe('B');
    await expect(client.readSupplier('C')).rejects.toMatchObject({ code: 'not-found' });
  });

  test('a webhook is created, listed, read, and deleted twice', async () => {
    const { client } = startClients();
    const request = { name: 'bridge', url: 'https://localhost:1/hook', triggers: ['AWARDS_FEED_UPDATED' as const] };
    const made = await client.createWebhook(request, 'once');
    expect(made.signing_key).toEqual(expect.any(String));
    expect((await client.createWebhook(request, 'once')).signing_key).toBeUndefined();
    expect(await client.listWebhooks()).toEqual([
      expect.objectContaining({ uuid: made.uuid, triggers: '[AWARDS_FEED_UPDATED]' }),
    ]);
    expect(await client.readWebhook(made.uuid)).toMatchObject({ is_active: true });
    expect(await client.testWebhook(made.uuid)).not.toBe('');
    await client.deleteWebhook(made.uuid);
    await client.deleteWebhook(made.uuid);
    await expect(client.readWebhook(made.uuid)).rejects.toMatchObject({ code: 'not-found' });
  });

  test('files are loaded by links, and by new links when those have expired', async () => {
    const { client, statuses } = startClients({ clock: systemClock });
    const id = await uploadFile(organisation, 'größe.pdf', 'the bytes');
    // The loader's clock stands still, so it takes an expired link as valid.
    const loader = createFileLoader(client, { ...systemClock, nowMs: () => 0 });
    const unknown = '00000000-0000-4000-8000-000000000000';
    const signal = new AbortController().signal;
    const files = await loader.load([id, unknown], signal);
    expect([...files].map(([key, { name }]) => [key, name])).toEqual([[id, 'größe.pdf']]);
    const read = async () => Buffer.from((await files.get(id)?.read(signal)) ?? []).toString();
    expect(await read()).toBe('the bytes');
    clock.advance(61_000);
    expect(await read()).toBe('the bytes');
    expect(await statuses()).toMatchObject({ 'file_links 202': 2, 'downloads 200': 2, 'downloads 403': 1 });
  });
});
