/** Reads of suppliers from a plain server. The kit reads from a whole ERP (conformance.test.ts). */
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
      { page: 'page', first: 0 },
      ['', 'page=1', 'page=2', 'page=3'],
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

  test('by the id of its last entry, also where that is a number', async () => {
    const server = await startPlainServer((response, { url }) => {
      const after = Number(new URL(`http://erp${url}`).searchParams.get('starting_after') ?? 0);
      answerJson(response, 200, { data: pageOf(after) });
    });
    const next = { last: 'id', parameter: 'starting_after' };
    const session = await open(server.url, { path: '/vendors', list: 'data', next });
    expect((await read(session)).ids).toEqual(['1', '2', '3', '4', '5']);
    expect(asked(server).at(-1)).toBe('/vendors?starting_after=5');
  });

  test('with the query of a link only: never at another server, port or path', async () => {
    const links = [
      (server: string) => server.replace('http:', 'https:'),
      () => 'https://erp.example/odata/v4/vendors',
      () => '//evil.example/x',
      () => '../other',
      () => '',
    ];
    for (const placeOf of links) {
      const server = await startPlainServer((response, { url }) => {
        const from = Number(new URL(`http://erp${url}`).searchParams.get('$skip') ?? 0);
        const link = `${placeOf(server.url)}?$skip=${from + 2}`;
        answerJson(response, 200, { value: pageOf(from), ...(from + 2 < 5 ? { '@odata.nextLink': link } : {}) });
      });
      const session = await open(`${server.url}/api`, {
        path: '/vendors',
        list: 'value',
        next: { url: '@odata.nextLink' },
      });
      expect((await read(session)).ids).toEqual(['1', '2', '3', '4', '5']);
      expect(asked(server)).toEqual(['/api/vendors', '/api/vendors?$skip=2', '/api/vendors?$skip=4']);
    }
  });

  test('never by a link that names its page in the path: the setting is named', async () => {
    const server = await startPlainServer((response) =>
      answerJson(response, 200, { list: [vendor(1)], next: '/api/vendors/pages/2' }),
    );
    const session = await open(`${server.url}/api`, { path: '/vendors', list: 'list', next: { url: 'next' } });
    expect(await failureOf(ConfigError, read(session))).toMatchObject({
      message: expect.stringMatching(/\/api\/vendors\/pages\/2.*settings\.read\.supplier\.next/),
    });
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

describe('the end of a list', () => {
  /** Answers the pages one after another by `cursor`, then the last one again. */
  const serve = async (pages: readonly object[]) =>
    startPlainServer((response, { url }) => {
      const at = Number(new URL(`http://erp${url}`).searchParams.get('cursor') ?? 0);
      answerJson(response, 200, pages[Math.min(at, pages.length - 1)]);
    });
  const cursor = { cursor: 'cursor', parameter: 'cursor' };

  test('is an empty page and not a short one: the ERP may give less than it is asked for', async () => {
    const pages = [[1, 2], [3], [4, 5], []];
    const server = await startPlainServer((response, { url }) => {
      const at = Number(new URL(`http://erp${url}`).searchParams.get('page') ?? 1);
      answerJson(response, 200, pages[at - 1]?.map(vendor));
    });
    const session = await open(server.url, { path: '/v?limit=200', next: { page: 'page' } });
    expect((await read(session)).ids).toEqual(['1', '2', '3', '4', '5']);
  });

  test('is an empty page that repeats its cursor, but not one with a new cursor', async () => {
    const server = await serve([
      { list: [vendor(1)], cursor: 1 },
      { list: [], cursor: 2 },
      { list: [vendor(2)], cursor: 3 },
      { list: [], cursor: 3 },
    ]);
    const session = await open(server.url, { path: '/v', list: 'list', next: cursor });
    expect((await read(session)).ids).toEqual(['1', '2']);
  });

  test('is where the ERP says that there is no more', async () => {
    const server = await serve([
      { list: [vendor(1)], more: true, cursor: 1 },
      { list: [vendor(2)], more: false, cursor: 2 },
    ]);
    const session = await open(server.url, { path: '/v', list: 'list', next: cursor, has_more: 'more' });
    expect((await read(session)).ids).toEqual(['1', '2']);
    expect(asked(server)).toHaveLength(2);
  });

  test('is not believed where the ERP says that there is more', async () => {
    for (const [said, setting] of [
      [{ more: true }, { has_more: 'more' }],
      [{ '@odata.count': 3 }, { total: '@odata.count' }],
    ] as const) {
      const server = await startPlainServer((response) => answerJson(response, 200, { list: [vendor(1)], ...said }));
      const session = await open(server.url, { path: '/v', list: 'list', next: { url: 'nextLink' }, ...setting });
      expect(await failureOf(ConfigError, read(session))).toMatchObject({
        message: expect.stringContaining('settings.read.supplier.next'),
      });
    }
  });

  test('with fewer entries than the list has: the next read begins again', async () => {
    const all = [
      { list: [vendor(1)], total: 3, cursor: 1 },
      { list: [vendor(3)], total: 3 },
    ];
    const server = await serve(all);
    const session = await open(server.url, { path: '/v', list: 'list', next: cursor, total: 'total' });
    const pages: ReadPage<'supplier'>[] = [];
    const reading = async () => {
      for await (const page of session.read?.('supplier', undefined, never) ?? []) pages.push(page);
    };
    expect(await failureOf(TransientError, reading())).toMatchObject({
      message: expect.stringContaining('2 of 3'),
    });
    all.splice(1, 1, { list: [vendor(2)], total: 3, cursor: 2 }, { list: [vendor(3)], total: 3 });
    expect((await read(session, pages.at(-1)?.checkpoint)).ids).toEqual(['1', '2', '3']);
  });

  test.each([
    [{ value: [vendor(1)], total: 3 }, false, '1 page, no next found, total 3'],
    [{ value: [vendor(1)], meta: { total_count: 3 } }, false, '1 page, no next found, total 3'],
    [{ value: [vendor(1)], has_more: true }, false, '1 page, no next found, has_more true'],
    [{ value: [vendor(1)], total: 1 }, true, '1 page, no next found'],
  ])('check says whether a next page was found: %j', async (answer, ok, words) => {
    const server = await startPlainServer((response) => answerJson(response, 200, answer));
    for (const next of [{ url: 'nextLink' }, undefined]) {
      const session = await open(server.url, { path: '/v', list: 'value', ...(next && { next }) });
      const message = next || !ok ? words : '/v answers with a list of 1 suppliers';
      expect(await session.check()).toContainEqual({
        name: 'read /v',
        ok,
        message: expect.stringContaining(message),
      });
    }
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

test('a requisition keeps the digits of its items, and one that cannot be read is named while the others are read', async () => {
  const needs = `[{"no": "R-1", "items": [{"pos": 10, "name": "Steel", "qty": 12345678901234567890.10}]},
    {"no": "R-2", "items": [{"name": "Steel"}]}, {"no": "R-3", "items": [{"pos": 1, "name": "A"}, {"pos": 1, "name": "B"}]}]`;
  const server = await startPlainServer((response) => {
    response.writeHead(200, { 'content-type': 'application/json' }).end(needs);
  });
  const items = { at: 'items', line: 'pos', quantity: 'qty' };
  const requisition = { path: '/needs', record: { reference_id: 'no', items } };
  const settings = http.settings.parse({ base_url: server.url, read: { requisition } });
  const session = await http.open(settings, testContext({ clock: createManualClock() }).context);
  onTestFinished(() => session.close());
  const pages: ReadPage<'requisition'>[] = [];
  for await (const page of session.read?.('requisition', undefined, never) ?? []) pages.push(page);
  expect(pages.flatMap(({ records }) => records)).toEqual([
    {
      reference_id: 'R-1',
      name: 'R-1',
      tags: [],
      items: [{ line: '10', name: 'Steel', quantity: '12345678901234567890.1' }],
      open: true,
    },
  ]);
  expect(pages.flatMap(({ faults = [] }) => faults.map(({ key, why }) => [key, why]))).toEqual([
    ['R-2', expect.stringContaining('items.0.line')],
    ['R-3', expect.stringContaining('two items have the same line')],
  ]);
});

describe('the list of open requisitions', () => {
  const openWith = async (baseUrl: string, openList: object) => {
    const requisition = {
      path: '/needs',
      record: { reference_id: 'no', open: { at: 'state', is: ['open'] }, items: { at: 'items' } },
      open_list: { path: '/open', ...openList },
    };
    const settings = http.settings.parse({ base_url: baseUrl, read: { requisition } });
    const session = await http.open(settings, testContext({ clock: createManualClock() }).context);
    onTestFinished(() => session.close());
    return session;
  };
  const listed = async (session: Awaited<ReturnType<typeof openWith>>) => {
    const numbers: string[] = [];
    for await (const page of session.openRequisitions?.(never) ?? []) numbers.push(...page);
    return numbers;
  };

  test('has all pages, and of a list with others only those that are open, or do not say', async () => {
    const pages: Readonly<Record<string, object[]>> = {
      '': [
        { no: 1, state: 'open' },
        { no: 2, state: 'done' },
      ],
      '2': [{ no: 'PR-3', state: 'open' }, { no: 4 }],
    };
    const server = await startPlainServer((response, { url }) => {
      const page = new URL(`http://erp${url}`).searchParams.get('page') ?? '';
      answerJson(response, 200, { data: pages[page] ?? [] });
    });
    const open = { at: 'state', is: ['open'] };
    const session = await openWith(server.url, { list: 'data', next: { page: 'page' }, open });
    expect(await listed(session)).toEqual(['1', 'PR-3']);
    expect(asked(server)).toEqual(['/open', '/open?page=2', '/open?page=3']);
    expect(await listed(await openWith(server.url, { list: 'data' }))).toEqual(['1', '2']);
  });

  test('is an error where an entry has no number, a page is none, or the pages go in a circle', async () => {
    const answers: [unknown, object, typeof TransientError | typeof ConfigError, string][] = [
      [[{ no: 1 }, {}], {}, TransientError, 'entry 2 of its page has no number'],
      [{ error: 'maintenance' }, {}, TransientError, 'has no list'],
      [[{ no: 1 }], { next: { page: 'page' } }, ConfigError, 'settings.read.requisition.open_list.next is wrong'],
    ];
    for (const [answer, settings, kind, words] of answers) {
      const server = await startPlainServer((response) => answerJson(response, 200, answer));
      const session = await openWith(server.url, settings);
      expect((await failureOf<Error>(kind, listed(session))).message).toContain(words);
    }
  });
});

test('a quantity that JSON has with an exponent is the same number without it', async () => {
  const server = await startPlainServer((response) => {
    response.setHeader('content-type', 'application/json');
    response.end('[{"no":"PR-1","items":[{"line":1,"name":"Bolt","quantity":1E+2,"target_price":5e-7}]}]');
  });
  const requisition = { path: '/requisitions', record: { reference_id: 'no', items: { at: 'items' } } };
  const settings = http.settings.parse({ base_url: server.url, read: { requisition } });
  const session = await http.open(settings, testContext({ clock: createManualClock() }).context);
  onTestFinished(() => session.close());
  const pages = [];
  for await (const page of session.read?.('requisition', undefined, never) ?? []) pages.push(page);
  expect(pages).toMatchObject([{ faults: [], records: [{ items: [{ quantity: '100', target_price: '0.0000005' }] }] }]);
});

test('a person without an e-mail address is no contact, and keeps nothing of the supplier back', async () => {
  const vendors = [
    [
      { name: 'Ann', email: null },
      { name: 'Bob', email: 'bob@acme.example' },
      { name: 'Cy', email: ' ' },
    ],
    // The addresses have another name: that must not look like none.
    [{ name: 'Di', mail: 'di@beta.example' }],
  ].map((people, id) => ({ id, name: 'Acme', blocked: true, people }));
  const server = await startPlainServer((response) => answerJson(response, 200, vendors));
  const given = { ...record, archived: 'blocked', contacts: 'people' };
  const { pages } = await read(await open(server.url, { path: '/v', record: given }));
  expect(pages).toMatchObject([
    {
      records: [{ external_id: '0', archived: true, contacts: [{ name: 'Bob', email: 'bob@acme.example' }] }],
      faults: [{ key: '1', why: 'contacts are not a list of objects with name and email' }],
    },
  ]);
});
