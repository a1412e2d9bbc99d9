/**
 * The rules of the documents for all feeds: the size of a page, the cost of a page, and the notifications of updates.
 */
import { randomUUID } from 'node:crypto';
import { expect, test } from 'vitest';
import { feedNames } from '#contract/feed.ts';
import type { Sql } from '#platform/database/sql.ts';
import { createFeedWriter } from '../../harness/feed-writer.ts';
import { request } from '../../harness/request.ts';
import { createEvent, createSuppliers, desk, endedJob, readWholeFeed } from '../../harness/sourcing.ts';
import { createTestDatabase } from '../../harness/test-database.ts';
import { startTestService } from '../../harness/test-service.ts';
import { startWebhookReceiver } from '../../harness/webhook-receiver.ts';

const db = await createTestDatabase();
const asked: { text: string; params: readonly unknown[] }[] = [];
/** A database that records its statements. */
const query: Sql['query'] = (statement, params = []) => {
  asked.push({ text: typeof statement === 'string' ? statement : statement.text, params });
  return db.database.query(statement, params);
};
const service = await startTestService({ db: { ...db, database: { ...db.database, query } } });

test.each(feedNames)('%s: a page has 100 records by default, and at most 1,000', async (feed) => {
  const organisation = await service.organisation();
  await db.database.query(
    `insert into service.feed_records (organisation_id, feed, id, modified, sourcing_event, visible, content_hash, body)
     select $1, $2, n::text, timestamptz '2030-01-01Z' + n * interval '1 microsecond', $1, true, '\\x00',
       '{"n":' || n || ',"modified":"2030-01-01T00:00:00.' || lpad(n::text, 6, '0') || 'Z"}'
     from generate_series(1, 1001) as n`,
    [organisation.id, feed],
  );
  const sizeOf = async (parameters: string) => {
    // These records have only a time of change; the check against the OpenAPI document would refuse them.
    const answer = await fetch(`${service.url}/api/feeds/${feed}${parameters}`, {
      headers: { authorization: `Bearer ${organisation.key}` },
    });
    const { data, next } = (await answer.json()) as { data: object[]; next: string | null };
    return [data.length, typeof next];
  };
  expect(await sizeOf('')).toEqual([100, 'string']);
  expect(await sizeOf('?page_size=1000')).toEqual([1_000, 'string']);
  const refused = await organisation.call('GET', `/api/feeds/${feed}?page_size=1001`);
  expect([refused.status, refused.body.errors[0].path]).toEqual([400, 'page_size']);
});

test('the last of ten thousand pages reads as many rows as the first', async () => {
  const organisation = await service.organisation();
  await db.database.query(
    `insert into service.feed_records (organisation_id, feed, id, modified, sourcing_event, visible, content_hash, body)
     select $1, 'latest-bids', n::text, timestamptz '2030-01-01Z' + n * interval '1 microsecond', $1, true, '\\x00',
       '{"n":' || n || ',"modified":"2030-01-01T00:00:00.' || lpad(n::text, 6, '0') || 'Z"}'
     from generate_series(1, 100000) as n`,
    [organisation.id],
  );
  await db.database.query('vacuum analyze service.feed_records');
  const url = `${service.url}/api/feeds/latest-bids`;
  const costOf = async (parameters: string) => {
    asked.length = 0;
    const answer = await fetch(url + parameters, { headers: { authorization: `Bearer ${organisation.key}` } });
    expect(((await answer.json()) as { data: object[] }).data).toHaveLength(10);
    const read = asked.find(({ text }) => text.includes('from service.feed_records'));
    const [row] = await db.database.query<{ 'QUERY PLAN': { Plan: object }[] }>(
      `explain (analyze, buffers, format json) ${read?.text}`,
      read?.params,
    );
    const plan = JSON.stringify(row?.['QUERY PLAN'][0]?.Plan);
    expect(plan).not.toContain('Seq Scan');
    return rowsRead(row?.['QUERY PLAN'][0]?.Plan);
  };
  const cursor = Buffer.from('latest-bids 2030-01-01T00:00:00.099990Z').toString('base64url');
  const [first, last] = [await costOf('?page_size=10'), await costOf(`?page_size=10&cursor=${cursor}`)];
  // One more row shows whether a page follows; after the last page there is none.
  expect([first, last]).toEqual([11, 10]);
});

/** The rows that the scans of a plan returned or dropped. */
function rowsRead(plan: object | undefined): number {
  const { Plans: inner, ...node } = plan as { Plans?: object[]; 'Node Type': string } & Record<string, unknown>;
  const below = (inner ?? []).reduce((sum, node) => sum + rowsRead(node), 0);
  const own = node['Node Type'].includes('Scan') ? Number(node['Actual Rows']) * Number(node['Actual Loops']) : 0;
  return below + own + Number(node['Rows Removed by Filter'] ?? 0);
}

test('every page of a filtered feed has only matching records, and the last page has next null', async () => {
  const organisation = await service.organisation();
  const writer = createFeedWriter(service, organisation);
  const events = [randomUUID(), randomUUID()];
  for (let number = 0; number < 20; number += 1)
    await writer.record('awards', { id: randomUUID(), event: events[number % 2] ?? '', requests: [] });
  const records = await readWholeFeed(organisation, 'awards', `sourcing_event=${events[1]}&page_size=3`);
  expect(records.map((record: { sourcing_event: string }) => record.sourcing_event)).toEqual(
    Array.from({ length: 10 }, () => events[1]),
  );
});

test("each feed has its trigger, with the event, its request and the newest record's time in the payload", async () => {
  const organisation = await service.organisation();
  await createSuppliers(organisation, ['S1']);
  const receiver = await startWebhookReceiver();
  const triggers = {
    'sourcing-events': 'SOURCING_EVENTS_FEED_UPDATED',
    'latest-bids': 'LATEST_BIDS_FEED_UPDATED',
    awards: 'AWARDS_FEED_UPDATED',
    'rfi-responses': 'RFI_RESPONSES_FEED_UPDATED',
  };
  await organisation.call('POST', '/api/webhooks', {
    name: 'all',
    url: receiver.url,
    triggers: Object.values(triggers),
  });
  const wanted = await endedJob(organisation, '/api/jobs/create-sourcing-requests', { name: 'Chairs wanted' });
  const question = randomUUID();
  const event = await createEvent(organisation, {
    name: 'Chairs — 2030',
    suppliers: [{ external_id: 'S1' }],
    sourcing_requests: [wanted.created_entity],
    primary_cost_calculation: '1',
    bid_sheet: { lots: [{ name: 'A' }] },
    questions: [{ uuid: question, identifier: '1', question_text: '?', input_type: 'TEXT' }],
  });
  await desk(organisation, 'POST', `${event}/publish`);
  await desk(organisation, 'POST', `${event}/bids`, { supplier: 'S1', lots: [{ lot: 'A' }] });
  const answers = [{ question_uuid: question, value: 'x' }];
  await desk(organisation, 'POST', `${event}/answers`, { supplier: 'S1', answers });
  await desk(organisation, 'POST', `${event}/close`);
  for (const [feed, trigger] of Object.entries(triggers)) {
    const newest = (await readWholeFeed(organisation, feed)).at(-1).modified;
    const of = () => receiver.received.filter(({ json }) => json.trigger === trigger).map(({ json }) => json);
    await expect.poll(() => of().at(-1)?.payload['feed_modified'], { timeout: 10_000 }).toBe(newest);
    expect(of().at(-1)).toEqual({
      trigger,
      timestamp: expect.stringMatching(/^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}Z$/),
      payload: {
        sourcing_event: event,
        sourcing_event_name: 'Chairs — 2030',
        sourcing_request: wanted.created_entity,
        feed_modified: newest,
      },
    });
  }
});

test('feeds are read-only', async () => {
  const organisation = await service.organisation();
  for (const feed of feedNames)
    for (const method of ['POST', 'PUT', 'PATCH', 'DELETE']) {
      const answer = await request(method, `${service.url}/api/feeds/${feed}`, { key: organisation.key });
      expect([answer.status, answer.headers.get('allow')]).toEqual([405, 'GET, HEAD']);
    }
});
