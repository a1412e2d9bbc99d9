/** The simulator against a real service: the domain events that its story causes, and that a seed repeats the story. */
import { expect, test, vi } from 'vitest';
import { createSourceClient } from '#client/source-client.ts';
import { systemClock } from '#platform/clock.ts';
import { feedUpdates } from '#service/domain/lifecycle.ts';
import { playStory, type StoryOptions } from '#service/simulator/play-story.ts';
import { plots } from '#service/simulator/plots.ts';
import { eventually } from '../../harness/eventually.ts';
import { readWholeFeed } from '../../harness/sourcing.ts';
import { testOutgoing } from '../../harness/test-certificates.ts';
import type { TestOrganisation } from '../../harness/test-organisation.ts';
import { startTestService } from '../../harness/test-service.ts';
import { createHook } from '../../harness/webhook-receiver.ts';

const announced = vi.hoisted(() => [] as string[]);
vi.mock(import('#service/events/announce.ts'), async (load) => {
  const real = await load();
  return {
    ...real,
    announce: (unit, announcement) => {
      announced.push(announcement.domainEvent);
      return real.announce(unit, announcement);
    },
  };
});

const service = await startTestService();
const { fetch } = testOutgoing();

type Story = Partial<StoryOptions>;

function clientOf(organisation: TestOrganisation) {
  const settings = { baseUrl: service.url, apiKey: organisation.key, timeoutMs: 30_000, retries: 0 };
  return createSourceClient({ settings, fetch, clock: systemClock });
}

async function play(organisation: TestOrganisation, seed: number, story: Story = {}): Promise<string[]> {
  const printed: string[] = [];
  await playStory({
    client: clientOf(organisation),
    clock: systemClock,
    seed,
    events: plots.length,
    suppliers: 4,
    lots: 3,
    pauseMs: 0,
    print: (line) => printed.push(line),
    ...story,
  });
  return printed;
}

test('a story with all plots causes every row of "Feed update conditions", and every feed has records', async () => {
  const organisation = await service.organisation();
  announced.length = 0;
  await play(organisation, 1);
  expect([...new Set(announced)].sort()).toEqual(Object.keys(feedUpdates).sort());
  // Publishing again is a row of its own in the table.
  const published = announced.filter((domainEvent) => domainEvent === 'event-published').length;
  expect(published).toBe(plots.length + 1);
  const feeds = ['sourcing-events', 'latest-bids', 'awards', 'rfi-responses'] as const;
  const [events, bids, awards, responses] = await Promise.all(feeds.map((feed) => readWholeFeed(organisation, feed)));
  expect(new Set(events?.map(({ type }) => type))).toEqual(new Set(['RFQ', 'ENGLISH', 'DUTCH']));
  expect(new Set(events?.map(({ status }) => status))).toEqual(new Set(['CLOSED', 'DELETED', 'DRAFT']));
  expect(bids?.some(({ bids: standing }) => standing.length === 0)).toBe(true);
  expect(awards?.some(({ awards: entries }) => entries.length > 1)).toBe(true);
  expect(awards?.some(({ sourcing_request: request }) => request !== undefined)).toBe(true);
  expect(responses?.some(({ document_file_uuids: files }) => files?.length > 0)).toBe(true);
});

test('the same seed plays the same story, another seed another story', async () => {
  const [first, again, other] = [
    await play(await service.organisation(), 7),
    await play(await service.organisation(), 7),
    await play(await service.organisation(), 8),
  ];
  expect(first?.length).toBeGreaterThan(8 * plots.length);
  expect(again).toEqual(first);
  expect(other).not.toEqual(first);
});

/** The template and the request are in the eighth plot. */
const withRequest = { firstEvent: 8, events: 1 } satisfies Story;

test('the requester finds the event that serves its request, and fails when the service names no event', async () => {
  const organisation = await service.organisation();
  const asked: string[] = [];
  const client = clientOf(organisation);
  const recording: StoryOptions['client'] = {
    submit: client.submit,
    call: (call, schema) => {
      asked.push(`${call.method} ${call.path}`);
      return client.call(call, schema);
    },
  };
  await play(organisation, 1, { ...withRequest, client: recording });
  const [request] = (await organisation.call('GET', '/api/manage/sourcing_requests')).body.result;
  expect(asked).toContain(`GET /api/manage/sourcing_requests?reference_id=${request.reference_id}`);
  expect(asked).toContain(`GET /api/manage/sourcing_requests/${request.uuid}`);
  const forgetful: StoryOptions['client'] = {
    submit: client.submit,
    call: async (call, schema) => {
      if (call.path.startsWith('/api/manage/sourcing_requests/'))
        await service.db.database.query("update service.sourcing_events set sourcing_requests = '{}'");
      return client.call(call, schema);
    },
  };
  await expect(play(organisation, 2, { ...withRequest, client: forgetful })).rejects.toThrow(/which serves it/);
});

test('the template is tried with a test event, which the feed shows with is_test=true only', async () => {
  const organisation = await service.organisation();
  await play(organisation, 1, withRequest);
  const test = await readWholeFeed(organisation, 'sourcing-events', 'is_test=true');
  expect(test).toMatchObject([{ name: expect.stringMatching(/^Try-out for /), status: 'DELETED' }]);
  const others = await readWholeFeed(organisation, 'sourcing-events', 'is_test=false');
  expect(others.map(({ name }) => name)).not.toContain(test[0]?.name);
});

test('results of jobs and submissions are read where Location says', async () => {
  const organisation = await service.organisation();
  const client = clientOf(organisation);
  const located: string[] = [];
  const asked = new Set<string>();
  const elsewhere: StoryOptions['client'] = {
    // The service answers this form of the path, too, but no client would make it up.
    submit: async (...call) => {
      const path = `${await client.submit(...call)}/`;
      located.push(path);
      return path;
    },
    call: (call, schema) => {
      asked.add(call.path);
      return client.call(call, schema);
    },
  };
  await play(organisation, 1, { events: 1, client: elsewhere });
  expect(located).toHaveLength(2);
  expect(located.filter((path) => !asked.has(path))).toEqual([]);
});

test('suppliers state price changes below 0', async () => {
  const organisation = await service.organisation();
  await play(organisation, 1, { events: 1 });
  const bids = await readWholeFeed(organisation, 'latest-bids');
  expect(JSON.stringify(bids)).toMatch(/"-\d+\.\d"/);
});

test('a webhook is resumed and told of everything; what its receiver refused is sent again', async () => {
  const hook = await createHook(service, ['AWARDS_FEED_UPDATED']);
  const { organisation, receiver, uuid } = hook;
  receiver.answer = 410;
  await organisation.call('POST', `/api/webhooks/${uuid}/test`);
  const read = async () => (await organisation.call('GET', `/api/webhooks/${uuid}`)).body;
  await eventually('it is disabled', async () => (await read()).is_active === false);
  receiver.received.length = 0;
  // The receiver is down for the second notification that comes, and for no other.
  let requests = 0;
  receiver.answer = (response) => response.writeHead((requests += 1) === 2 ? 500 : 200).end();
  const printed = await play(organisation, 1, { events: 1, webhook: uuid });
  expect(await read()).toMatchObject({
    is_active: true,
    triggers:
      '[SOURCING_EVENTS_FEED_UPDATED, LATEST_BIDS_FEED_UPDATED, AWARDS_FEED_UPDATED, RFI_RESPONSES_FEED_UPDATED, JOB_UPDATED, TEST]',
  });
  expect(printed[0]).toBe('The webhook "hook" is told of everything; it was disabled, and is resumed');
  const { body: log } = await organisation.call('GET', `/api/webhooks/${uuid}/deliveries?page_size=1000`);
  expect(log.result.filter(({ state }: { state: string }) => state !== 'delivered')).toEqual([]);
  expect(new Set(receiver.received.map(({ json }) => json.trigger))).toEqual(
    new Set([
      'SOURCING_EVENTS_FEED_UPDATED',
      'LATEST_BIDS_FEED_UPDATED',
      'AWARDS_FEED_UPDATED',
      'RFI_RESPONSES_FEED_UPDATED',
      'JOB_UPDATED',
      'TEST',
    ]),
  );
  const ids = receiver.received.map(({ headers }) => headers['webhook-id']);
  expect(ids.length - new Set(ids).size).toBeGreaterThan(0);
  expect(printed.at(-1)).toBe(
    `The webhook's receiver has acknowledged ${log.result.length} of ${log.result.length} notifications`,
  );
});
