/** The filters of all feeds and their combinations: a page shows what a reader would select from the whole feed. */
import { randomUUID } from 'node:crypto';
import * as fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { feedNames } from '#contract/feed.ts';
import { createFeedWriter, type WrittenEvent, type WrittenRecord } from '../../harness/feed-writer.ts';
import { createEvent, eventPayload, readWholeFeed } from '../../harness/sourcing.ts';
import type { TestOrganisation } from '../../harness/test-organisation.ts';
import { startTestService } from '../../harness/test-service.ts';

const service = await startTestService();
const organisation = await service.organisation();
const otherOrganisation = await service.organisation();
const writer = createFeedWriter(service, organisation);

/** Names and values that a query, a path or SQL could misread. */
const tagNames = [
  'Region',
  'Cost Center',
  'a.b',
  'x[y]',
  ']',
  '[',
  'größe',
  '日本',
  '100%',
  'a&b=c',
  '__proto__',
  '"\\',
];
const tagValues = ['', 'EMEA', 'ä ö', 'a]=b', '%41', "'); --", '+1'];
const requests = Array.from({ length: 4 }, () => randomUUID());
const statuses = ['DRAFT', 'OPEN', 'PAUSED', 'CLOSED', 'DELETED'] as const;

/** The same choice in every run. */
const picked = <T>(list: readonly T[], place: number, count: number): T[] =>
  Array.from({ length: count }, (_, index) => list[(place * 7 + index * 5) % list.length] as T);

const events = Array.from(
  { length: 30 },
  (_, place): WrittenEvent => ({
    id: randomUUID(),
    status: statuses[place % statuses.length] ?? 'DRAFT',
    tags: picked(tagNames, place, place % 4).map((name, index) => ({
      name,
      value: tagValues[(place + index * 3) % tagValues.length] ?? '',
    })),
    requests: [...new Set(picked(requests, place, place % 3))],
    isTest: place % 4 === 2,
  }),
);
// One event has a tag twice.
events[5]?.tags.push({ name: 'Region', value: 'EMEA' }, { name: 'Region', value: 'ä ö' });
const records = Array.from(
  { length: 60 },
  (_, place): WrittenRecord => ({
    id: randomUUID(),
    event: events[(place * 7) % 20]?.id ?? '',
    requests: place % 3 === 0 ? [] : [requests[place % requests.length] ?? ''],
  }),
);

const otherWriter = createFeedWriter(service, otherOrganisation);
for (const event of events) {
  await writer.event(event);
  // The same tags and requests in another organisation: its records must never be shown.
  await otherWriter.event({ ...event, id: randomUUID() });
}
// Changed events move to the end, with their new tags and without the old ones.
for (const event of events.filter((_event, place) => place % 4 === 1)) {
  event.tags = [...event.tags.slice(1), { name: 'Late', value: 'yes' }];
  await writer.event(event);
}
for (const record of records)
  for (const feed of ['latest-bids', 'awards'] as const)
    await writer.record(feed, { ...record, id: feed === 'awards' ? record.id.replace(/^./, 'f') : record.id });

interface Shown {
  id: string;
  sourcing_event: string;
  modified: string;
}

/** Undefined: not given. */
interface Query {
  event: number | undefined;
  status: string | undefined;
  requests: number[] | undefined;
  tags: { name: string; value: string }[];
  after: number | undefined;
  before: number | undefined;
  isTest: boolean | undefined;
  pageSize: number;
}

const someTag = fc.constantFrom(...events.flatMap(({ tags }) => tags), { name: 'Region', value: 'nowhere' });
const query: fc.Arbitrary<Query> = fc.record({
  event: fc.option(fc.nat(events.length), { nil: undefined, freq: 4 }),
  status: fc.option(fc.constantFrom(...statuses), { nil: undefined }),
  requests: fc.option(fc.uniqueArray(fc.nat(requests.length), { minLength: 1, maxLength: 3 }), { nil: undefined }),
  tags: fc.uniqueArray(someTag, { maxLength: 2, selector: ({ name, value }) => JSON.stringify([name, value]) }),
  after: fc.option(fc.nat(events.length - 1), { nil: undefined }),
  before: fc.option(fc.nat(events.length - 1), { nil: undefined }),
  isTest: fc.constantFrom(undefined, undefined, true, false),
  pageSize: fc.constantFrom(1, 3, 1_000),
});

const nobody = '00000000-0000-4000-8000-000000000000';
const eventAt = (place: number) => events[place]?.id ?? nobody;
const requestAt = (place: number) => requests[place] ?? nobody;
const hasAll = (event: WrittenEvent | undefined, tags: Query['tags']) =>
  tags.every(({ name, value }) => event?.tags.some((tag) => tag.name === name && tag.value === value));

/** The filters that both kinds of feeds have. */
function parametersOf(query: Query, whole: readonly Shown[], tagPrefix: string): URLSearchParams {
  const parameters = new URLSearchParams({ page_size: String(query.pageSize) });
  if (query.isTest !== undefined) parameters.set('is_test', String(query.isTest));
  for (const { name, value } of query.tags) parameters.append(`filter[${tagPrefix}${name}]`, value);
  const [after, before] = boundsOf(query, whole);
  if (after !== undefined) parameters.set('modified_after', after);
  if (before !== undefined) parameters.set('modified_before', before);
  return parameters;
}

function boundsOf({ after, before }: Query, whole: readonly Shown[]): (string | undefined)[] {
  return [after, before].map((place) => (place === undefined ? undefined : whole[place]?.modified));
}

function isWithin({ modified }: Shown, query: Query, whole: readonly Shown[]): boolean {
  const [after, before] = boundsOf(query, whole);
  return (after === undefined || modified >= after) && (before === undefined || modified <= before);
}

describe('any combination of filters shows the records for which all of them hold, in the order of the feed', () => {
  test('sourcing-events', async () => {
    const whole = (await readWholeFeed(organisation, 'sourcing-events')) as Shown[];
    expect(whole).toHaveLength(events.length);
    const eventOf = new Map(events.map((event) => [event.id, event]));
    await fc.assert(
      fc.asyncProperty(query, async (asked) => {
        const parameters = parametersOf(asked, whole, 'tags.');
        if (asked.event !== undefined) parameters.set('id', eventAt(asked.event));
        if (asked.status !== undefined) parameters.set('status', asked.status);
        if (asked.requests) parameters.set('sourcing_requests', asked.requests.map(requestAt).join(','));
        const shown = await readWholeFeed(organisation, 'sourcing-events', parameters.toString());
        const expected = whole.filter((record) => {
          const event = eventOf.get(record.id);
          return (
            isWithin(record, asked, whole) &&
            (asked.event === undefined || record.id === eventAt(asked.event)) &&
            (asked.status === undefined || event?.status === asked.status) &&
            (!asked.requests || asked.requests.some((place) => event?.requests.includes(requestAt(place)))) &&
            (asked.isTest === undefined || event?.isTest === asked.isTest) &&
            hasAll(event, asked.tags)
          );
        });
        expect(shown).toEqual(expected);
      }),
      { numRuns: 150 },
    );
  });

  test.each(['latest-bids', 'awards'] as const)('%s, by the tags that the events feed shows', async (feed) => {
    const whole = (await readWholeFeed(organisation, feed)) as Shown[];
    expect(whole).toHaveLength(records.length);
    const eventOf = new Map(events.map((event) => [event.id, event]));
    const requestOf = new Map(
      records.flatMap(({ id, requests: [one] }) => [
        [id, one],
        [id.replace(/^./, 'f'), one],
      ]),
    );
    await fc.assert(
      fc.asyncProperty(query, async (asked) => {
        const parameters = parametersOf(asked, whole, 'sourcing_event.tags.');
        const request = asked.requests?.[0];
        if (asked.event !== undefined) parameters.set('sourcing_event', eventAt(asked.event));
        if (request !== undefined) parameters.set('sourcing_request', requestAt(request));
        const shown = await readWholeFeed(organisation, feed, parameters.toString());
        const expected = whole.filter(
          (record) =>
            isWithin(record, asked, whole) &&
            (asked.event === undefined || record.sourcing_event === eventAt(asked.event)) &&
            (request === undefined || requestOf.get(record.id) === requestAt(request)) &&
            (asked.isTest === undefined || eventOf.get(record.sourcing_event)?.isTest === asked.isTest) &&
            hasAll(eventOf.get(record.sourcing_event), asked.tags),
        );
        expect(shown).toEqual(expected);
      }),
      { numRuns: 100 },
    );
  });
});

describe('is_test', () => {
  test.each(feedNames)(
    'true shows the records of test events, false the others, and nothing asked both: %s',
    async (feed) => {
      const own = await service.organisation();
      const written = createFeedWriter(service, own);
      const of = { requests: [], tags: [], status: 'OPEN' as const };
      const real = { ...of, id: randomUUID(), isTest: false };
      const trial = { ...of, id: randomUUID(), isTest: true };
      for (const event of [real, trial]) await written.event(event);
      if (feed !== 'sourcing-events')
        for (const [index, event] of [real, trial].entries())
          await written.record(feed, {
            id: feed === 'rfi-responses' ? String(index + 1) : randomUUID(),
            event: event.id,
            requests: [],
          });
      const eventsShown = async (query: string) =>
        (await readWholeFeed(own, feed, query)).map((record) => record['sourcing_event'] ?? record['id']);
      expect(await eventsShown('is_test=true')).toEqual([trial.id]);
      expect(await eventsShown('is_test=false')).toEqual([real.id]);
      expect(await eventsShown('')).toEqual([real.id, trial.id]);
      for (const wrong of ['', 'yes', 'TRUE', '1']) {
        const { status, body } = await own.call('GET', `/api/feeds/${feed}?is_test=${wrong}`);
        expect([status, body.errors[0].path]).toEqual([400, 'is_test']);
      }
    },
  );

  test('an event that becomes a test takes its bids and awards along when the events feed shows it', async () => {
    const own = await service.organisation();
    const written = createFeedWriter(service, own);
    const event = { id: randomUUID(), requests: [], tags: [], status: 'OPEN' as const, isTest: false };
    await written.event(event);
    await written.record('awards', { id: randomUUID(), event: event.id, requests: [] });
    const before = await own.call('GET', '/api/feeds/awards?is_test=true');
    expect(before.body.data).toEqual([]);
    await written.event({ ...event, isTest: true });
    const after = await own.call('GET', '/api/feeds/awards?is_test=true', undefined, {
      'if-none-match': before.headers.get('etag') ?? '',
    });
    expect([after.status, after.body.data.length]).toEqual([200, 1]);
  });
});

describe('tag filters', () => {
  const idsOf = async (from: TestOrganisation, path: string) =>
    (await from.call('GET', path)).body.data.map(({ id }: { id: string }) => id);

  test('in every form in which a client may write them', async () => {
    const own = await service.organisation();
    const tags = [
      { name: 'Cost Center', value: 'R&D 1' },
      { name: 'x[y].z', value: '' },
    ];
    const event = await createEvent(own, { ...eventPayload(), tags });
    await createEvent(own, { ...eventPayload(), tags: tags.slice(0, 1).map(({ name }) => ({ name, value: 'R' })) });
    for (const written of [
      'filter[tags.Cost Center]=R%26D 1',
      'filter[tags.Cost+Center]=R%26D+1',
      'filter%5Btags.Cost%20Center%5D=R%26D%201',
      'filter[tags.x[y].z]=',
      'filter[tags.x[y].z]',
      'filter%5Btags%2Ex%5By%5D%2Ez%5D=&filter[tags.Cost Center]=R%26D 1',
    ])
      expect([written, await idsOf(own, `/api/feeds/sourcing-events?${written}`)]).toEqual([written, [event]]);
    for (const written of ['filter[tags.cost center]=R%26D 1', 'filter[tags.x[y].z]=R%26D 1'])
      expect([written, await idsOf(own, `/api/feeds/sourcing-events?${written}`)]).toEqual([written, []]);
  });

  test('the same tag twice requires both values', async () => {
    const both = 'filter[tags.Region]=EMEA&filter[tags.Region]=%C3%A4 %C3%B6';
    expect(await idsOf(organisation, `/api/feeds/sourcing-events?${both}`)).toEqual([events[5]?.id]);
  });

  test('`next` keeps tag filters, and all other filters and includes', async () => {
    const tagged = `filter[sourcing_event.tags.Late]=yes&sourcing_event=${events[1]?.id}`;
    const path = `/api/feeds/latest-bids?page_size=1&${tagged}&include=columns&include=suppliers`;
    const { body } = await organisation.call('GET', path);
    const next = [...new URL(body.next).searchParams].filter(([name]) => name !== 'cursor');
    expect(next).toHaveLength(5);
    expect(new Set(next)).toEqual(
      new Set([
        ['page_size', '1'],
        ['filter[sourcing_event.tags.Late]', 'yes'],
        ['sourcing_event', events[1]?.id],
        ['include', 'columns'],
        ['include', 'suppliers'],
      ]),
    );
  });
});

test('a page filtered by tags has another ETag after the tags of its events have changed', async () => {
  const own = await service.organisation();
  const write = createFeedWriter(service, own);
  const event = { id: randomUUID(), status: 'OPEN' as const, tags: [{ name: 'A', value: '1' }], requests: [] };
  const other = { ...event, id: randomUUID(), tags: [] as WrittenEvent['tags'] };
  await write.event(event);
  await write.event(other);
  for (const { id } of [event, other]) await write.record('awards', { id: randomUUID(), event: id, requests: [] });
  const last = randomUUID();
  await write.event({ ...event, id: last });
  await write.record('awards', { id: randomUUID(), event: last, requests: [] });
  const path = '/api/feeds/awards?filter[sourcing_event.tags.A]=1';
  const before = await own.call('GET', path);
  // Two records before and after, and the last one is the same.
  await write.event({ ...event, tags: [] });
  await write.event({ ...other, tags: event.tags });
  const after = await own.call('GET', path, undefined, { 'if-none-match': before.headers.get('etag') ?? '' });
  expect(after.status).toBe(200);
  expect(after.body.data).toHaveLength(2);
  expect(after.body.data).not.toEqual(before.body.data);
});

describe('a refusal names the parameter', () => {
  const id = randomUUID();
  test.each([
    ['sourcing-events', `id=${id}&id=${id}`, 'id'],
    ['sourcing-events', 'status=OPEN&status=CLOSED', 'status'],
    ['sourcing-events', `sourcing_requests=${id}&sourcing_requests=${id}`, 'sourcing_requests'],
    ['sourcing-events', `sourcing_requests=${id},`, 'sourcing_requests[1]'],
    ['sourcing-events', 'sourcing_requests=', 'sourcing_requests[0]'],
    ['sourcing-events', 'status=open', 'status'],
    ['sourcing-events', 'id=x', 'id'],
    ['sourcing-events', `sourcing_event=${id}`, 'sourcing_event'],
    ['sourcing-events', 'include=suppliers', 'include'],
    ['sourcing-events', 'filter[sourcing_event.tags.A]=1', '["filter[sourcing_event.tags.A]"]'],
    ['sourcing-events', 'filter[tags.]=1', '["filter[tags.]"]'],
    ['sourcing-events', 'filter[tags]=1', '["filter[tags]"]'],
    ['sourcing-events', 'filter[tags.A=1', '["filter[tags.A"]'],
    ['sourcing-events', 'Filter[tags.A]=1', '["Filter[tags.A]"]'],
    ['sourcing-events', 'filter[name]=1', '["filter[name]"]'],
    ['sourcing-events', 'filter=1', 'filter'],
    ['sourcing-events', 'filter=1&filter[tags.A]=1', 'filter'],
    ['sourcing-events', `filter[tags.A]=${'x'.repeat(256)}`, 'filter["tags.A"]'],
    ['sourcing-events', `filter[tags.${'x'.repeat(256)}]=1`, `["filter[tags.${'x'.repeat(88)}"]`],
    ['sourcing-events', Array.from({ length: 101 }, (_, n) => `filter[tags.${n}]=1`).join('&'), 'filter'],
    ['sourcing-events', 'page_size=0', 'page_size'],
    ['sourcing-events', 'page_size=1001', 'page_size'],
    ['sourcing-events', 'page_size=1&page_size=2', 'page_size'],
    ['sourcing-events', 'modified_after=yesterday', 'modified_after'],
    ['sourcing-events', 'modified_after=2030-02-30', 'modified_after'],
    ['sourcing-events', 'modified_before=2030-01-01&modified_before=2030-01-02', 'modified_before'],
    ['latest-bids', `id=${id}`, 'id'],
    ['latest-bids', 'status=OPEN', 'status'],
    ['latest-bids', `sourcing_requests=${id}`, 'sourcing_requests'],
    ['latest-bids', `sourcing_event=${id}&sourcing_event=${id}`, 'sourcing_event'],
    ['latest-bids', `sourcing_request=${id},${id}`, 'sourcing_request'],
    ['latest-bids', 'filter[tags.A]=1', '["filter[tags.A]"]'],
    ['latest-bids', 'include=questions', 'include'],
    ['awards', 'include=suppliers&include=nothing', 'include[1]'],
    ['awards', 'include=suppliers,columns', 'include'],
    ['rfi-responses', 'include=columns', 'include'],
    ['rfi-responses', 'include=', 'include'],
  ])('%s?%s', async (feed, parameters, path) => {
    const { status, body } = await organisation.call('GET', `/api/feeds/${feed}?${parameters}`);
    expect([status, body.errors?.map((error: { path: string }) => error.path)]).toEqual([400, [path]]);
    expect(body.detail).toContain('The query is not valid');
  });

  test('a cursor of another feed', async () => {
    const first = await organisation.call('GET', '/api/feeds/awards?page_size=1');
    const cursor = new URL(first.body.next).searchParams.get('cursor');
    const answer = await organisation.call('GET', `/api/feeds/latest-bids?cursor=${cursor}`);
    expect([answer.status, answer.body.errors]).toEqual([
      400,
      [{ path: 'cursor', message: 'is no cursor of this feed' }],
    ]);
  });
});
