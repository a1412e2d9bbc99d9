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
import { settingsOf, startProcess, type TestClock, testClock } from '../../parts.ts';

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

async function processClient(options: { clock?: Clock; quotas?: object } = {}) {
  const settings = settingsOf({
    name: `source-${sources}`,
    base_url: service.url,
    api_key: organisation.key,
    quotas: options.quotas ?? {},
  });
  const registry = new Registry();
  const { database } = await startProcess(service.db);
  const { fetch } = testOutgoing();
  const client = createSourceClients({ settings, fetch, clock: options.clock ?? roundClock, database, registry })(
    `source-${sources}`,
  );
  const statuses = async (): Promise<Record<string, number>> => {
    const metric = await registry.getSingleMetric('bridge_source_requests_total')?.get();
    return Object.fromEntries(
      (metric?.values ?? []).map(({ labels, value }) => [`${labels['bucket']} ${labels['status']}`, value]),
    );
  };
  return { client, registry, statuses };
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

async function sumOf(processes: readonly { statuses: () => Promise<Record<string, number>> }[]) {
  const sums: Record<string, number> = {};
  for (const each of await Promise.all(processes.map(({ statuses }) => statuses())))
    for (const [key, value] of Object.entries(each)) sums[key] = (sums[key] ?? 0) + value;
  return sums;
}

describe('five processes that read as fast as they can', () => {
  test('use all that the service allows and are never refused', async () => {
    await service.operator('PUT', `/admin/organisations/${organisation.id}/limits`, { enabled: true });
    const processes = await Promise.all([0, 1, 2, 3, 4].map(() => processClient()));
    const { requests } = limits.feeds.burst;
    const answered: number[] = [];
    for (let round = 1; round <= 3; round += 1) {
      const waits = await Promise.all(processes.map(({ client }) => readUntilWait(client)));
      const { 'feeds.awards 200': whole = 0, 'feeds.awards 304': unchanged = 0, ...others } = await sumOf(processes);
      expect(others).toEqual({});
      answered.push(whole + unchanged);
      clock.advance(Math.max(...waits));
    }
    const [first = 0, second = 0, third = 0] = answered;
    expect(first).toBe(requests);
    // A request that was not yet reported as ended counts a little longer: at most one of each process.
    expect(Math.min(second - first, third - second)).toBeGreaterThanOrEqual(requests - processes.length);
    // The limits are in force: a client that does not count its requests is refused.
    const { fetch } = testOutgoing();
    const uncounted = createSourceClient({
      settings: { baseUrl: service.url, apiKey: organisation.key, timeoutMs: 5_000, retries: 0 },
      fetch,
      clock: roundClock,
    });
    expect(await readUntilWait(uncounted)).toBeGreaterThan(0);
  }, 60_000);

  test('all stop when another user of the API key has spent the quota, for as long as the service says', async () => {
    await service.operator('PUT', `/admin/organisations/${organisation.id}/limits`, { enabled: true });
    for (let count = 0; count < limits.feeds.burst.requests; count += 1)
      await organisation.call('GET', '/api/feeds/awards');
    const processes = await Promise.all([0, 1, 2, 3, 4].map(() => processClient()));
    const [first, ...others] = processes;
    expect(await readUntilWait(first?.client as SourceClient)).toBe(60_000);
    const waits = await Promise.all(others.map(({ client }) => readUntilWait(client)));
    expect(waits).toEqual([60_000, 60_000, 60_000, 60_000]);
    expect(await sumOf(processes)).toEqual({ 'feeds.awards 429': 1 });
    clock.advance(60_000);
    await Promise.all(processes.map(({ client }) => readUntilWait(client)));
    expect((await sumOf(processes))['feeds.awards 429']).toBe(1);
  });
});

test('the quota that is left is a metric in every process', async () => {
  const reader = await processClient();
  const other = await processClient();
  await reader.client.readFeed('awards', { pageSize: 1 });
  const metric = await other.registry.getSingleMetric('bridge_quota_left')?.get();
  const own = metric?.values.filter(({ labels }) => labels['source'] === `source-${sources}`);
  expect(own?.map(({ labels, value }) => [labels['bucket'], labels['window'], value])).toEqual([
    ['feeds.awards', 'burst', 59],
    ['feeds.awards', 'sustained', 43_199],
  ]);
});

test('parts of one process have the same metrics, and a source that is not configured has no client', async () => {
  const { fetch } = testOutgoing();
  const deps = { settings: settingsOf(), fetch, clock, database: service.db.database, registry: new Registry() };
  createSourceClients(deps);
  expect(() => createSourceClients(deps)('other')).toThrow('No source is configured under the name "other".');
});

describe('the client calls what the service offers:', () => {
  test('a feed that has not changed is answered with 304', async () => {
    const { client, statuses } = await processClient();
    const poll = {
      modifiedAfter: '2030-01-01T00:00:00.000000Z',
      pageSize: 1_000,
      include: ['suppliers', 'sourcing_events'],
    };
    const pages = [await client.readFeed('awards', poll), await client.readFeed('awards', poll)];
    expect(await statuses()).toEqual({ 'feeds.awards 200': 1, 'feeds.awards 304': 1 });
    for (const page of pages)
      expect(page).toMatchObject({
        records: [],
        includes: { suppliers: [], sourcing_events: [] },
        next: undefined,
        commitOrdered: true,
      });
  });

  test('suppliers are changed, listed page by page and read', async () => {
    const { client } = await processClient();
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
    const { client } = await processClient();
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
    const { client, statuses } = await processClient({ clock: systemClock });
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
