/** Reads of suppliers from a plain server. The kit reads from a whole ERP (connectors/http/conformance.test.ts). */
import { describe, expect, onTestFinished, test } from 'vitest';
import { ConfigError, TransientError } from '#connector/errors.ts';
import type { ReadPage } from '#connector/records.ts';
import { testContext } from '#connector/testing/test-context.ts';
import http from '../../../connectors/http/index.ts';
import { answerJson, type PlainServer, startPlainServer } from '../../connector/plain-server.ts';
import { failureOf } from '../../harness/failure.ts';
import { createManualClock } from '../../harness/manual-clock.ts';

const never = new AbortController().signal;
const record = { external_id: 'id', name: 'name' };
const vendor = (id: number) => ({ id, name: `Vendor ${id}` });

async function open(baseUrl: string, supplier: object, clock = createManualClock()) {
  const settings = http.settings.parse({ base_url: baseUrl, read: { supplier: { record, ...supplier } } });
  const session = await http.open(settings, testContext({ clock }).context);
  onTestFinished(() => session.close());
  return session;
}

async function read(session: Awaited<ReturnType<typeof open>>, checkpoint?: string) {
  const pages: ReadPage<'supplier'>[] = [];
  for await (const page of session.read?.('supplier', checkpoint, never) ?? []) pages.push(page);
  return {
    pages,
    ids: pages.flatMap(({ records }) => records.map(({ external_id }) => external_id)),
    last: pages.at(-1)?.checkpoint,
  };
}
const asked = ({ requests }: PlainServer) => requests.map(({ url }) => url);

/** Vendors 1 to 5 in pages of two; `next` makes what an answer says of the next page. */
const pageOf = (from: number) => [1, 2, 3, 4, 5].slice(from, from + 2).map(vendor);

describe('the next page is asked for', () => {
  test('by the header Link, and by a URL in the answer', async () => {
    for (const next of ['link', { url: 'paging.next' }] as const) {
      const server = await startPlainServer((response, { url }) => {
        const from = Number(new URL(`http://erp${url}`).searchParams.get('from') ?? 0);
        const link = from + 2 < 5 ? `/api/vendors?from=${from + 2}` : undefined;
        if (next === 'link' && link !== undefined)
          response.setHeader('link', `<${link}>; rel="next", </api>; rel="up"`);
        answerJson(response, 200, { list: pageOf(from), paging: { next: link ?? null } });
      });
      const session = await open(`${server.url}/api`, { path: '/vendors', list: 'list', next });
      expect((await read(session)).ids).toEqual(['1', '2', '3', '4', '5']);
      expect(asked(server)).toEqual(['/api/vendors', '/api/vendors?from=2', '/api/vendors?from=4']);
    }
  });

  test.each([
    [
      { page: 'page', first: 1 },
      ['', 'page=2', 'page=3', 'page=4'],
      (q: URLSearchParams) => (Number(q.get('page') ?? 1) - 1) * 2,
    ],
    [
      { page: 'page', first: 0, size: 2 },
      ['', 'page=1', 'page=2'],
      (q: URLSearchParams) => Number(q.get('page') ?? 0) * 2,
    ],
    [{ offset: 'skip' }, ['', 'skip=2', 'skip=4', 'skip=5'], (q: URLSearchParams) => Number(q.get('skip') ?? 0)],
  ])('by a number: %j', async (next, queries, fromOf) => {
    const server = await startPlainServer((response, { url }) =>
      answerJson(response, 200, pageOf(fromOf(new URL(`http://erp${url}`).searchParams))),
    );
    const session = await open(server.url, { path: '/vendors', next });
    expect((await read(session)).ids).toEqual(['1', '2', '3', '4', '5']);
    expect(asked(server)).toEqual(queries.map((query) => `/vendors${query === '' ? '' : `?${query}`}`));
  });

  test('only below the base URL: no answer sends the login elsewhere', async () => {
    for (const next of ['https://evil.example/api/vendors', '//evil.example/x', '/other', '../other']) {
      const server = await startPlainServer((response) => answerJson(response, 200, { list: [vendor(1)], next }));
      const session = await open(`${server.url}/api`, { path: '/vendors', list: 'list', next: { url: 'next' } });
      expect(await failureOf(ConfigError, read(session))).toMatchObject({
        type: 'config',
        message: expect.stringContaining('not below base_url'),
      });
      expect(server.requests).toHaveLength(1);
    }
  });

  test('never for ever: an ERP that ignores the page number is found out', async () => {
    const server = await startPlainServer((response) => answerJson(response, 200, [vendor(1)]));
    const session = await open(server.url, { path: '/vendors', next: { page: 'page' } });
    expect(await failureOf(ConfigError, read(session))).toMatchObject({
      message: expect.stringContaining('the same page again'),
    });
    expect(server.requests.length).toBeLessThan(4);
    const endless = await startPlainServer((response, _request, n) => answerJson(response, 200, [vendor(n)]));
    const bounded = await open(endless.url, { path: '/vendors', next: { page: 'page' }, pages_max: 5 });
    expect(await failureOf(ConfigError, read(bounded))).toMatchObject({
      message: expect.stringContaining('more than 5 pages'),
    });
  });
});

describe('a read', () => {
  test('asks for what changed since the last one began, by the earlier clock, with an overlap', async () => {
    const clock = createManualClock();
    const erpMs = clock.nowMs() - 3_600_000;
    const server = await startPlainServer((response) => {
      response.setHeader('date', new Date(erpMs).toUTCString());
      answerJson(response, 200, [vendor(1)]);
    });
    const session = await open(server.url, { path: '/v?since={since}', since: { overlap_seconds: 60 } }, clock);
    const { last } = await read(session);
    await read(session, last);
    const since = new Date(Math.floor(erpMs / 1_000) * 1_000 - 60_000).toISOString().slice(0, 19);
    expect(asked(server)).toEqual([
      `/v?since=${encodeURIComponent('1970-01-01T00:00:00Z')}`,
      `/v?since=${encodeURIComponent(`${since}Z`)}`,
    ]);
  });

  test('that was cut off goes on with its next page; where that is gone, it begins again and misses nothing', async () => {
    let isGone = false;
    const server = await startPlainServer((response, { url }) => {
      const cursor = new URL(`http://erp${url}`).searchParams.get('cursor');
      if (isGone && cursor !== null) {
        isGone = false;
        return answerJson(response, 400, { error: 'cursor expired' });
      }
      const from = Number(cursor ?? 0);
      return answerJson(response, 200, { list: pageOf(from), cursor: from + 2 < 5 ? String(from + 2) : '' });
    });
    const session = await open(server.url, {
      path: '/v',
      list: 'list',
      next: { cursor: 'cursor', parameter: 'cursor' },
    });
    const stored = (await read(session)).pages[0]?.checkpoint;
    expect((await read(session, stored)).ids).toEqual(['3', '4', '5']);
    isGone = true;
    expect((await read(session, stored)).ids).toEqual(['1', '2', '3', '4', '5']);
  });

  test('keeps each digit, and names the entries that are no suppliers', async () => {
    const server = await startPlainServer((response) =>
      response
        .setHeader('content-type', 'application/json')
        .end('[{"id":90071992547409931,"name":"A","rate":12.50,"open":true,"of":{"x":1}},{"id":2},"nonsense"]'),
    );
    const { pages } = await read(await open(server.url, { path: '/v' }));
    expect(pages).toMatchObject([
      {
        records: [
          {
            external_id: '90071992547409931',
            name: 'A',
            archived: false,
            fields: { rate: '12.50', open: 'true' },
            contacts: [],
          },
        ],
        faults: [
          { where: 'GET /v, entry 2 of its page', key: '2', why: 'it has no name' },
          { where: 'GET /v, entry 3 of its page', why: 'it has no number' },
        ],
      },
    ]);
  });

  test('of an answer without its list is tried again, and says so', async () => {
    const server = await startPlainServer((response) => answerJson(response, 200, { error: 'busy' }));
    const session = await open(server.url, { path: '/v', list: 'data.items' });
    expect(await failureOf(TransientError, read(session))).toMatchObject({
      type: 'transient',
      message: expect.stringContaining('data.items'),
    });
    expect(await session.check()).toContainEqual(expect.objectContaining({ name: 'read /v', ok: false }));
  });
});

test.each([
  [{ path: '/v?x={since}' }, 'read.supplier.since: and {since} in the path belong together'],
  [{ path: '/v', since: {} }, 'read.supplier.since: and {since} in the path belong together'],
  [{ path: '/v', list: 'a[' }, 'read.supplier.list'],
  [{ path: 'v' }, 'read.supplier.path: must begin with /'],
  [{ path: '/v', record: { external_id: 'a[', name: 'n' } }, 'read.supplier.record'],
])('settings that cannot work are refused: %j', (supplier, message) => {
  const given = { base_url: 'https://erp.example', read: { supplier: { record, ...supplier } } };
  const issues = http.settings
    .safeParse(given)
    .error?.issues.map(({ path, message: text }) => `${path.join('.')}: ${text}`);
  expect(issues?.join('\n')).toContain(message);
});
