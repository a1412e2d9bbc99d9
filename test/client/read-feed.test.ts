import { afterEach, beforeEach, describe, expect, test } from 'vitest';
import { createSourceClient, type SourceClient } from '#client/source-client.ts';
import { type TestClock, testClock } from '../bridge/parts.ts';
import { testOutgoing } from '../harness/test-certificates.ts';
import { json, type ScriptedService, startScriptedService, status } from './scripted-service.ts';

let service: ScriptedService;
let client: SourceClient;
let clock: TestClock;

beforeEach(async () => {
  clock = testClock();
  service = await startScriptedService();
  client = createSourceClient({
    settings: { baseUrl: service.url, apiKey: 'key', timeoutMs: 2_000, retries: 0 },
    fetch: testOutgoing().fetch,
    clock,
  });
});
afterEach(() => service.close());

const poll = { modifiedAfter: '2030-01-01T00:00:00.000001Z', pageSize: 100 };
const tags = () => service.requests.map(({ headers }) => headers['if-none-match']);

describe('related objects', () => {
  test('are requested by name, each in a parameter of its own, and read by name', async () => {
    service.answers = [json({ data: [], next: null, includes: { suppliers: [{ id: 'a' }], sourcing_events: [] } })];
    const page = await client.readFeed('awards', { ...poll, include: ['sourcing_events', 'suppliers'] });
    const query = new URL(service.requests[0]?.url ?? '', service.url).searchParams;
    expect(query.getAll('include')).toEqual(['sourcing_events', 'suppliers']);
    expect(page.includes).toEqual({ suppliers: [{ id: 'a' }], sourcing_events: [] });
  });

  test('that are no lists of objects are left out; a page without includes has none', async () => {
    service.answers = [
      json({ data: [], includes: { suppliers: [1, null, [], { id: 'a' }], questions: 'x' } }),
      json({ data: [] }),
    ];
    expect((await client.readFeed('awards', poll)).includes).toEqual({ suppliers: [{ id: 'a' }] });
    expect((await client.readFeed('awards', poll)).includes).toEqual({});
  });
});

describe('the same poll again', () => {
  const record = { id: 'a', modified: poll.modifiedAfter };
  const kept = json(
    { data: [record], next: null },
    { etag: '"1"', 'feed-order': 'commit', date: 'Tue, 01 Jan 2030 00:00:05 GMT' },
  );

  test('is conditional; a 304 returns the kept page, with the time of the 304', async () => {
    service.answers = [kept, status(304, { etag: '"1"', date: 'Tue, 01 Jan 2030 00:01:05 GMT' })];
    const before = await client.readFeed('awards', poll);
    const again = await client.readFeed('awards', poll);
    expect(tags()).toEqual([undefined, '"1"']);
    expect(again).toEqual({ ...before, sourceMs: (before.sourceMs ?? 0) + 60_000 });
    expect(again).toMatchObject({ records: [record], commitOrdered: true, next: undefined });
  });

  test('reads a changed page, and keeps it for the next poll', async () => {
    const changed = json({ data: [{ ...record, name: 'b' }], next: null }, { etag: '"2"' });
    service.answers = [kept, changed, status(304)];
    await client.readFeed('awards', poll);
    expect((await client.readFeed('awards', poll)).records).toEqual([{ ...record, name: 'b' }]);
    expect((await client.readFeed('awards', poll)).records).toEqual([{ ...record, name: 'b' }]);
    expect(tags()).toEqual([undefined, '"1"', '"2"']);
  });

  test('returns a page of its own: changes that the caller made to the earlier page do not show', async () => {
    service.answers = [kept, status(304)];
    const [first] = (await client.readFeed('awards', poll)).records;
    if (first) first['id'] = 'changed';
    expect((await client.readFeed('awards', poll)).records).toEqual([record]);
  });

  test('is unconditional after ten minutes: an ETag that never changes hides records for no longer', async () => {
    service.answers = [kept];
    await client.readFeed('awards', poll);
    clock.advance(10 * 60_000 - 1);
    await client.readFeed('awards', poll);
    clock.advance(10 * 60_000);
    await client.readFeed('awards', poll);
    expect(tags()).toEqual([undefined, '"1"', undefined]);
  });

  test('is unconditional when the clock was set back', async () => {
    service.answers = [kept];
    await client.readFeed('awards', poll);
    clock.advance(-10 * 60_000);
    await client.readFeed('awards', poll);
    expect(tags()).toEqual([undefined, undefined]);
  });

  test('is not a poll of another feed, time or page size', async () => {
    service.answers = [kept];
    await client.readFeed('awards', poll);
    await client.readFeed('latest-bids', poll);
    await client.readFeed('awards', { ...poll, modifiedAfter: '2030-01-01T00:00:00.000002Z' });
    await client.readFeed('awards', { ...poll, pageSize: 99 });
    await client.readFeed('awards', { ...poll, include: ['suppliers'] });
    expect(tags()).toEqual([undefined, undefined, undefined, undefined, undefined]);
  });

  test.each([
    ['a closed window', { ...poll, modifiedBefore: '2030-01-02T00:00:00.000000Z' }],
    ['a page after the first', { next: 'cursor=a' }],
    ['a feed from its beginning', { pageSize: 100 }],
  ])('of %s is read in full', async (_what, at) => {
    service.answers = [kept];
    await client.readFeed('awards', at);
    await client.readFeed('awards', at);
    expect(tags()).toEqual([undefined, undefined]);
  });

  test('of a large page is read in full, and only the last 64 polls are kept', async () => {
    service.answers = [json({ data: [{ id: 'x'.repeat(70_000) }] }, { etag: '"large"' }), kept];
    await client.readFeed('awards', poll);
    await client.readFeed('awards', poll);
    for (let size = 1; size <= 64; size += 1) await client.readFeed('awards', { ...poll, pageSize: size });
    await client.readFeed('awards', poll);
    await client.readFeed('awards', { ...poll, pageSize: 64 });
    expect([tags()[1], tags().at(-2), tags().at(-1)]).toEqual([undefined, undefined, '"1"']);
  });
});
