/** The simulator against a real service: the domain events that its story causes, and that a seed repeats the story. */
import { expect, test, vi } from 'vitest';
import { createSourceClient } from '#client/source-client.ts';
import { systemClock } from '#platform/clock.ts';
import { feedUpdates } from '#service/domain/lifecycle.ts';
import { playStory, type StoryOptions } from '#service/simulator/play-story.ts';
import { plots } from '#service/simulator/plots.ts';
import { readWholeFeed } from '../../harness/sourcing.ts';
import { testOutgoing } from '../../harness/test-certificates.ts';
import type { TestOrganisation } from '../../harness/test-organisation.ts';
import { startTestService } from '../../harness/test-service.ts';

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

test('suppliers state price changes below 0', async () => {
  const organisation = await service.organisation();
  await play(organisation, 1, { events: 1 });
  const bids = await readWholeFeed(organisation, 'latest-bids');
  expect(JSON.stringify(bids)).toMatch(/"-\d+\.\d"/);
});
