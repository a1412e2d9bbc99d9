import { randomUUID } from 'node:crypto';
import { describe, expect, test } from 'vitest';
import { createFeedWriter } from '../../harness/feed-writer.ts';
import { createEvent, createSuppliers, desk, eventPayload, readWholeFeed } from '../../harness/sourcing.ts';
import { startTestService } from '../../harness/test-service.ts';

const service = await startTestService();
const organisation = await service.organisation();
const feed = (query = '') => organisation.call('GET', `/api/feeds/sourcing-events${query}`);

/** Seven events. Those with an even number are published later, and come after the others. */
const names = Array.from({ length: 7 }, (_, index) => `event ${index + 1}`);
const ids = new Map<string, string>();
for (const name of names) ids.set(name, await createEvent(organisation, eventPayload({ name })));
for (const name of names.filter((_name, index) => index % 2 === 1))
  await desk(organisation, 'POST', `${ids.get(name)}/publish`);
const inOrder = ['event 1', 'event 3', 'event 5', 'event 7', 'event 2', 'event 4', 'event 6'];
const all = (await feed()).body.data as { id: string; name: string; modified: string; status: string }[];

test('without filters every record occurs once, at the place of its latest change, oldest first', async () => {
  expect(all.map((record) => record.name)).toEqual(inOrder);
  const stamps = all.map((record) => record.modified);
  expect(stamps).toEqual([...new Set(stamps)].sort());
  for (const stamp of stamps) expect(stamp).toMatch(/^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}Z$/);
});

describe('paging', () => {
  test.each([1, 2, 3, 6, 7, 8, 1_000])('by %i: following `next` returns every record exactly once', async (size) => {
    const records = await readWholeFeed(organisation, 'sourcing-events', `page_size=${size}`);
    expect(records.map((record: { name: string }) => record.name)).toEqual(inOrder);
  });

  test('`next` is an absolute link that keeps the filters, and null on the last page', async () => {
    const first = await feed('?page_size=2&status=DRAFT&modified_after=2020-01-01');
    const next = new URL(first.body.next);
    expect(next.origin + next.pathname).toBe(`${service.url}/api/feeds/sourcing-events`);
    expect(Object.fromEntries(next.searchParams)).toMatchObject({ page_size: '2', status: 'DRAFT' });
    const second = await organisation.call('GET', next.pathname + next.search);
    expect(first.body.data.concat(second.body.data).map((record: { name: string }) => record.name)).toEqual(
      inOrder.slice(0, 4),
    );
    expect(second.body.next).toBeNull();
  });

  test('a record that changes between two pages occurs again at the end, and no record is missed', async () => {
    const other = await service.organisation();
    const events = [];
    for (const name of ['a', 'b', 'c', 'd']) events.push(await createEvent(other, eventPayload({ name })));
    const first = await other.call('GET', '/api/feeds/sourcing-events?page_size=2');
    await desk(other, 'POST', `${events[0]}/publish`);
    await desk(other, 'POST', `${events[2]}/publish`);
    const { pathname, search } = new URL(first.body.next);
    const rest = await other.call('GET', pathname + search);
    expect(rest.body.data.map((record: { name: string }) => record.name)).toEqual(['d', 'a']);
    const last = new URL(rest.body.next);
    const end = await other.call('GET', last.pathname + last.search);
    expect(end.body.data.map((record: { name: string }) => record.name)).toEqual(['c']);
  });

  test.each(['x', 'AAAA', 'bm90LWEtdGltZXN0YW1w', '%00', 'MjAzMC0wMS0wMQ', '2030-01-01T00:00:00.000000Z'])(
    'the cursor %s is refused',
    async (cursor) => {
      const answer = await feed(`?cursor=${cursor}`);
      expect(answer.status).toBe(400);
      expect(answer.body.detail).toContain('not valid');
    },
  );
});

describe('filters', () => {
  const namesOf = async (query: string) => (await feed(query)).body.data.map((record: { name: string }) => record.name);

  test('modified_after and modified_before are inclusive, in every form', async () => {
    const [, second, , fourth] = all.map((record) => record.modified);
    const bounds = (after = '', before = '') =>
      `?modified_after=${encodeURIComponent(after)}&modified_before=${encodeURIComponent(before)}`;
    expect(await namesOf(bounds(second, fourth))).toEqual(inOrder.slice(1, 4));
    expect(await namesOf(bounds(second, second))).toEqual(inOrder.slice(1, 2));
    const offset = (stamp = '') => stamp.replace('Z', '+00:00');
    expect(await namesOf(bounds(offset(second), offset(fourth)))).toEqual(inOrder.slice(1, 4));
    expect(await namesOf(bounds(fourth, second))).toEqual([]);
  });

  test('a date means 00:00 UTC', async () => {
    const today = all[0]?.modified.slice(0, 10) ?? '';
    const tomorrow = new Date(Date.parse(today) + 86_400_000).toISOString().slice(0, 10);
    expect(await namesOf(`?modified_after=${today}`)).toEqual(inOrder);
    expect(await namesOf(`?modified_before=${today}`)).toEqual([]);
    expect(await namesOf(`?modified_before=${tomorrow}`)).toEqual(inOrder);
    expect(await namesOf(`?modified_after=${tomorrow}`)).toEqual([]);
  });

  test('polling with the last `modified` returns that record again, then the new records', async () => {
    const last = all.at(-1);
    expect(await namesOf(`?modified_after=${last?.modified}`)).toEqual([last?.name]);
  });

  test('by status and by id, and both at once', async () => {
    expect(await namesOf('?status=OPEN')).toEqual(inOrder.slice(4));
    expect(await namesOf(`?id=${ids.get('event 3')}`)).toEqual(['event 3']);
    expect(await namesOf(`?id=${ids.get('event 3')?.toUpperCase()}`)).toEqual(['event 3']);
    expect(await namesOf(`?id=${ids.get('event 3')}&status=OPEN`)).toEqual([]);
    expect(await namesOf('?status=DELETED')).toEqual([]);
  });

  test('bids and awards by their event', async () => {
    const other = await service.organisation();
    await createSuppliers(other, ['S1', 'S2']);
    const events = [];
    for (const name of ['a', 'b']) {
      const event = await createEvent(other, eventPayload({ name, lots: ['L1', 'L2'], suppliers: ['S1', 'S2'] }));
      events.push(event);
      await desk(other, 'POST', `${event}/publish`);
      for (const supplier of ['S1', 'S2'])
        await desk(other, 'POST', `${event}/bids`, { supplier, lots: [{ lot: 'L1', values: { Price: '1' } }] });
      await desk(other, 'POST', `${event}/close`);
    }
    for (const event of events) {
      const bids = await readWholeFeed(other, 'latest-bids', `sourcing_event=${event}&page_size=1`);
      expect(bids.map((bid: { sourcing_event: string }) => bid.sourcing_event)).toEqual([event, event]);
      const awards = await readWholeFeed(other, 'awards', `sourcing_event=${event}`);
      expect(awards.map((award: { lot_name: string; awards: [] }) => [award.lot_name, award.awards])).toEqual([
        ['L1', []],
        ['L2', []],
      ]);
    }
  });
});

describe('the answer', () => {
  test('says that the feed is in the order of commits', async () => {
    expect((await feed()).headers.get('feed-order')).toBe('commit');
  });

  test('has an ETag, and is 304 while nothing changed', async () => {
    const other = await service.organisation();
    await createEvent(other, eventPayload());
    const first = await other.call('GET', '/api/feeds/sourcing-events');
    const etag = first.headers.get('etag') ?? '';
    expect(etag).not.toBe('');
    // fetch adds `Cache-Control: no-cache` by itself.
    const ask = { 'if-none-match': etag };
    const again = await other.call('GET', '/api/feeds/sourcing-events', undefined, ask);
    expect([again.status, again.body]).toEqual([304, '']);
    await createEvent(other, eventPayload());
    const changed = await other.call('GET', '/api/feeds/sourcing-events', undefined, ask);
    expect([changed.status, changed.body.data.length]).toEqual([200, 2]);
  });

  test('is 304 for any of several tags, for `*`, and for the strong form; HEAD answers alike', async () => {
    const path = '/api/feeds/sourcing-events';
    const { headers } = await feed();
    const etag = headers.get('etag') ?? '';
    expect(etag).toMatch(/^W\/"[^"]+"$/);
    for (const [asked, status] of [
      ['*', 304],
      [etag.replace('W/', ''), 304],
      [`"a", W/"b", ${etag}`, 304],
      ['"a", W/"b"', 200],
      ['', 200],
    ] as const)
      for (const method of ['GET', 'HEAD']) {
        const answer = await organisation.call(method, path, undefined, { 'if-none-match': asked });
        expect([method, asked, answer.status, answer.headers.get('etag')]).toEqual([method, asked, status, etag]);
      }
    const head = await organisation.call('HEAD', path);
    expect([head.status, head.body]).toEqual([200, '']);
    // Headers of the connection or of the single answer may differ.
    const lasting = (of: Headers) =>
      [...of].filter(([name]) => !/^(connection|keep-alive|transfer-encoding|x-request-id|date)$/.test(name));
    expect(lasting(head.headers)).toEqual(lasting(headers));
  });

  test('has another ETag for another organisation, page size and next page', async () => {
    const tagged = async (of: typeof organisation, query: string) =>
      (await of.call('GET', `/api/feeds/awards?${query}`)).headers.get('etag');
    const tags = [];
    for (const of of [await service.organisation(), await service.organisation()]) {
      const write = createFeedWriter(service, of);
      const event = randomUUID();
      // The same `modified` in both.
      for (let count = 0; count < 3; count += 1)
        await write.record('awards', { id: randomUUID(), event, requests: [] });
      for (const query of ['page_size=3', 'page_size=2', 'page_size=1']) tags.push(await tagged(of, query));
      // The page has the same records, but now another page follows.
      await write.record('awards', { id: randomUUID(), event, requests: [] });
      tags.push(await tagged(of, 'page_size=3'));
    }
    expect(new Set(tags).size).toBe(8);
  });

  test('changes its ETag when records vanish, also when others take their place', async () => {
    const own = await service.organisation();
    await createSuppliers(own, ['S1']);
    const events: string[] = [];
    for (const name of ['a', 'b', 'c']) {
      const event = await createEvent(own, eventPayload({ name, suppliers: ['S1'] }));
      events.push(event);
      await desk(own, 'POST', `${event}/publish`);
      await desk(own, 'POST', `${event}/bids`, { supplier: 'S1', lots: [{ lot: 'A', values: { Price: '1' } }] });
    }
    const path = '/api/feeds/latest-bids?page_size=2';
    let held = await own.call('GET', path);
    const eventsOf = ({ body }: typeof held) => body.data.map((bid: { sourcing_event: string }) => bid.sourcing_event);
    const ask = () => own.call('GET', path, undefined, { 'if-none-match': held.headers.get('etag') ?? '' });
    for (const [command, shown] of [
      ['unpublish', [1, 2]],
      ['publish', [1, 2]],
    ] as const) {
      await desk(own, 'POST', `${events[0]}/${command}`);
      held = await ask();
      expect([held.status, eventsOf(held)]).toEqual([200, shown.map((place) => events[place])]);
    }
    await desk(own, 'POST', `${events[1]}/unpublish`);
    held = await ask();
    expect([held.status, eventsOf(held)]).toEqual([200, [events[2], events[0]]]);
  });

  test.each(['identity', 'gzip', 'br'])('of long records arrives whole, as %s', async (encoding) => {
    const own = await service.organisation();
    const write = createFeedWriter(service, own);
    const texts = Array.from({ length: 30 }, (_, number) => `${number} ${'Ж€x'.repeat(number * 200)}`);
    for (const text of texts)
      await write.record('awards', { id: randomUUID(), event: randomUUID(), requests: [], text });
    const path = '/api/feeds/awards?page_size=25';
    const headers = { 'accept-encoding': encoding };
    const { body, headers: answered } = await own.call('GET', path, undefined, headers);
    expect(body.data.map((award: { lot_name: string }) => award.lot_name)).toEqual(texts.slice(0, 25));
    expect(answered.get('content-encoding')).toBe(encoding === 'identity' ? null : encoding);
    const head = await own.call('HEAD', path, undefined, { 'accept-encoding': 'identity' });
    expect(head.headers.get('content-length')).toBe(String(Buffer.byteLength(JSON.stringify(body))));
  });

  test('of an empty feed is an empty page', async () => {
    const other = await service.organisation();
    for (const name of ['sourcing-events', 'latest-bids', 'awards', 'rfi-responses'])
      expect((await other.call('GET', `/api/feeds/${name}`)).body).toEqual({ data: [], next: null });
  });

  test('holds no nulls', async () => {
    expect(JSON.stringify(all)).not.toContain('null');
  });
});
