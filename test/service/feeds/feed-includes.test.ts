/** The objects that `include` shows besides the records. Source: API document, "Included objects". */
import { randomUUID } from 'node:crypto';
import { describe, expect, test } from 'vitest';
import { feedPages } from '#contract/feed.ts';
import type { Sql } from '#platform/database/sql.ts';
import { loadIncludes } from '#service/feeds/load-includes.ts';
import { createFeedWriter } from '../../harness/feed-writer.ts';
import { changeSuppliers, createEvent, createRequest, desk, eventPayload } from '../../harness/sourcing.ts';
import type { TestOrganisation } from '../../harness/test-organisation.ts';
import { startTestService } from '../../harness/test-service.ts';

const service = await startTestService();

const contact = (name: string) => ({ name, email: `${name.toLowerCase()}@example.org` });

/** S1 with three contacts, two of them invited; S2 with one; S3 is invited and never bids. */
async function stage(organisation: TestOrganisation) {
  await changeSuppliers(
    organisation,
    { external_id: 'S1', name: 'First', contacts: ['Ann', 'Bob', 'Cid'].map(contact) },
    { external_id: 'S2', name: 'Second', contacts: [contact('Dan')] },
    { external_id: 'S3', name: 'Third' },
  );
  const request = await createRequest(organisation);
  const payload = {
    ...eventPayload({ name: 'Chairs', lots: ['A', 'B'] }),
    suppliers: [
      { external_id: 'S1', contacts: ['BOB@example.org', 'ann@example.org'] },
      { external_id: 'S2' },
      { external_id: 'S3' },
    ],
    tags: [{ name: 'Region', value: 'EMEA' }],
    secondary_currencies: [{ code: 'USD', exchange_rate: '0.9' }],
    sourcing_requests: [request],
  };
  const first = await createEvent(organisation, payload);
  const second = await createEvent(organisation, eventPayload({ name: 'Desks', suppliers: ['S2'] }));
  // All contacts of S1 are invited to an event without bids, which is on no page.
  const third = await createEvent(organisation, eventPayload({ name: 'Lamps', suppliers: ['S1'] }));
  for (const event of [first, second, third]) await desk(organisation, 'POST', `${event}/publish`);
  const bid = (event: string, supplier: string, lots: string[]) =>
    desk(organisation, 'POST', `${event}/bids`, {
      supplier,
      lots: lots.map((lot) => ({ lot, values: { Price: '1' } })),
    });
  await bid(first, 'S1', ['A', 'B']);
  await bid(first, 'S2', ['A']);
  await bid(second, 'S2', ['A']);
  const { rows } = await suppliersOf(organisation);
  return { first, second, request, ids: new Map(rows.map(({ external_id, id }) => [external_id, id])) };
}

async function suppliersOf(organisation: TestOrganisation) {
  const rows = await service.db.database.query<{ external_id: string; id: string }>(
    'select external_id, id from service.suppliers where organisation_id = $1',
    [organisation.id],
  );
  return { rows };
}

const organisation = await service.organisation();
const { first, second, request, ids } = await stage(organisation);
const read = async (feed: string, query = '') => (await organisation.call('GET', `/api/feeds/${feed}?${query}`)).body;
const byId = <T extends { id: string }>(list: readonly T[]) => list.toSorted((a, b) => (a.id < b.id ? -1 : 1));

test('`includes` is there only when requested, with the requested names, also when nothing is related', async () => {
  expect(await read('latest-bids')).not.toHaveProperty('includes');
  expect(Object.keys((await read('latest-bids', 'include=suppliers')).includes)).toEqual(['suppliers']);
  const twice = await read('latest-bids', 'include=columns&include=sourcing_events&include=columns');
  expect(Object.keys(twice)).toEqual(['data', 'includes', 'next']);
  expect(Object.keys(twice.includes).sort()).toEqual(['columns', 'sourcing_events']);
  expect(await read('rfi-responses', 'include=questions&include=suppliers&include=sourcing_events')).toEqual({
    data: [],
    includes: { questions: [], suppliers: [], sourcing_events: [] },
    next: null,
  });
  expect(await read('awards', 'include=columns')).toEqual({ data: [], includes: { columns: [] }, next: null });
});

test('sourcing_events: each once, with the members of the document, without nulls', async () => {
  const { includes } = await read('latest-bids', 'include=sourcing_events');
  expect(includes.sourcing_events).toEqual(
    byId([
      {
        id: first,
        name: 'Chairs',
        type: 'RFQ',
        status: 'OPEN',
        primary_currency: 'EUR',
        secondary_currencies: [{ code: 'USD', exchange_rate: '0.9' }],
        tags: [{ name: 'Region', value: 'EMEA' }],
        sourcing_requests: [request],
      },
      {
        id: second,
        name: 'Desks',
        type: 'RFQ',
        status: 'OPEN',
        primary_currency: 'EUR',
        secondary_currencies: [],
        tags: [],
      },
    ]),
  );
});

test('suppliers: each once, with all contacts, and those invited in the events of the page', async () => {
  const { includes } = await read('latest-bids', 'include=suppliers');
  const id = expect.stringMatching(/^[0-9a-f-]{36}$/);
  expect(includes.suppliers).toEqual(
    byId([
      {
        id: ids.get('S1') ?? '',
        name: 'First',
        external_id: 'S1',
        bidder_contacts: ['Ann', 'Bob'].map((name) => ({ ...contact(name), invitation_state: 'SENT' })),
        contacts: ['Ann', 'Bob', 'Cid'].map((name) => ({ id, ...contact(name) })),
      },
      {
        id: ids.get('S2') ?? '',
        name: 'Second',
        external_id: 'S2',
        bidder_contacts: [{ ...contact('Dan'), invitation_state: 'SENT' }],
        contacts: [{ id, ...contact('Dan') }],
      },
    ]),
  );
});

test('columns: those of the events of the page, as the create payload has them', async () => {
  const { includes } = await read('latest-bids', `include=columns&sourcing_event=${second}`);
  expect(includes.columns).toEqual([
    {
      sourcing_event: second,
      name: 'Volume',
      column_type: 'INPUT',
      input_by: 'BUYER_INPUT',
      input_type: 'NUMBER',
      precision: 0,
      allow_negative: false,
      scope: 'LOT',
    },
    {
      sourcing_event: second,
      name: 'Price',
      column_type: 'INPUT',
      input_by: 'SUPPLIER_INPUT',
      input_type: 'CURRENCY',
      precision: 2,
      allow_negative: false,
      scope: 'LOT',
    },
  ]);
});

test('only objects to which the records of the page refer, page by page', async () => {
  const include = 'include=sourcing_events&include=suppliers&include=columns';
  let path = `/api/feeds/latest-bids?page_size=1&${include}`;
  const pages = [];
  for (;;) {
    const { body } = await organisation.call('GET', path);
    const [record] = body.data;
    pages.push(record.lot_name);
    const eventsOf = (list: { sourcing_event: string }[]) => [...new Set(list.map((one) => one.sourcing_event))];
    expect(body.includes.sourcing_events.map((one: { id: string }) => one.id)).toEqual([record.sourcing_event]);
    expect(body.includes.suppliers.map((one: { id: string }) => one.id)).toEqual([record.supplier]);
    expect(eventsOf(body.includes.columns)).toEqual([record.sourcing_event]);
    if (body.next === null) break;
    const next = new URL(body.next);
    path = next.pathname + next.search;
  }
  expect(pages).toEqual(['A', 'B', 'A', 'A']);
});

describe('as time goes on', () => {
  test('shows the event as its feed has it and the supplier as it is now, and the ETag changes with them', async () => {
    const own = await service.organisation();
    const staged = await stage(own);
    const path = `/api/feeds/latest-bids?include=sourcing_events&include=suppliers&sourcing_event=${staged.first}`;
    const before = await own.call('GET', path);
    const ask = (answer: { headers: Headers }) =>
      own.call('GET', path, undefined, { 'if-none-match': answer.headers.get('etag') ?? '' });
    expect((await ask(before)).status).toBe(304);

    // Pausing does not update the events feed: the record and the included event lag behind the live event.
    await desk(own, 'POST', `${staged.first}/pause`);
    expect((await ask(before)).status).toBe(304);
    await desk(own, 'POST', `${staged.first}/resume`);
    await desk(own, 'POST', `${staged.first}/close`);
    const closed = await ask(before);
    expect(closed.body.data).toEqual(before.body.data);
    expect(closed.body.includes.sourcing_events).toMatchObject([{ status: 'CLOSED' }]);

    await changeSuppliers(own, { external_id: 'S1', name: 'First & Sons', contacts: [contact('Eve')] });
    const renamed = await ask(closed);
    expect(renamed.body.data).toEqual(before.body.data);
    const supplier = renamed.body.includes.suppliers.find((one: { external_id: string }) => one.external_id === 'S1');
    expect(supplier).toMatchObject({ name: 'First & Sons', contacts: [{}, {}, {}, { name: 'Eve' }] });
    // Two contacts were invited by name, so a new one is not.
    expect(supplier.bidder_contacts.map((one: { name: string }) => one.name)).toEqual(['Ann', 'Bob']);
    expect((await ask(renamed)).status).toBe(304);
  });

  test('an invitation is UNSENT until its event is published', async () => {
    const own = await service.organisation();
    await changeSuppliers(own, { external_id: 'S1', name: 'First', contacts: [contact('Ann')] });
    const draft = await createEvent(own, eventPayload({ suppliers: ['S1'] }));
    const [supplier] = (await suppliersOf(own)).rows;
    const record = { id: randomUUID(), event: draft, requests: [], ...(supplier && { supplier: supplier.id }) };
    await createFeedWriter(service, own).record('latest-bids', record);
    const states = async () => {
      const { body } = await own.call('GET', '/api/feeds/latest-bids?include=suppliers');
      return body.includes.suppliers[0].bidder_contacts;
    };
    expect(await states()).toEqual([{ ...contact('Ann'), invitation_state: 'UNSENT' }]);
    await desk(own, 'POST', `${draft}/publish`);
    expect(await states()).toEqual([{ ...contact('Ann'), invitation_state: 'SENT' }]);
  });

  test('awards: the supplier of every entry', async () => {
    const own = await service.organisation();
    const staged = await stage(own);
    const awards = ['S1', 'S2'].map((supplier) => ({ lot: 'A', supplier, share_awarded: '0.5' }));
    await desk(own, 'PUT', `${staged.first}/scenarios/shared`, { awards });
    await desk(own, 'POST', `${staged.first}/award`, { scenario: 'shared' });
    await desk(own, 'POST', `${staged.first}/close`);
    const path = '/api/feeds/awards?include=suppliers&include=sourcing_events&include=columns';
    const { body } = await own.call('GET', path);
    expect(body.includes.suppliers.map((one: { external_id: string }) => one.external_id).sort()).toEqual(['S1', 'S2']);
    expect(body.includes.sourcing_events).toMatchObject([{ id: staged.first, status: 'CLOSED' }]);
    expect(body.includes.columns).toHaveLength(2);
    // The answer is as it is documented.
    expect(feedPages.awards.safeParse(body).error).toBeUndefined();
  });
});

test('nothing of another organisation is included, even if a record names it', async () => {
  const own = await service.organisation();
  const write = createFeedWriter(service, own);
  await write.record('latest-bids', { id: randomUUID(), event: first, requests: [], supplier: ids.get('S1') ?? '' });
  const include = 'include=sourcing_events&include=columns&include=suppliers';
  const { body } = await own.call('GET', `/api/feeds/latest-bids?${include}`);
  expect(body.data).toHaveLength(1);
  expect(body.includes).toEqual({ sourcing_events: [], columns: [], suppliers: [] });
});

test('text in a record that looks like a member is not taken for an id', async () => {
  const own = await service.organisation();
  await changeSuppliers(own, { external_id: 'S1', name: 'First' }, { external_id: 'S2', name: 'Second' });
  const { rows } = await suppliersOf(own);
  const lot = `"supplier":"${rows.find(({ external_id }) => external_id === 'S2')?.id}"`;
  const event = await createEvent(own, eventPayload({ lots: [lot], suppliers: ['S1'] }));
  await desk(own, 'POST', `${event}/publish`);
  await desk(own, 'POST', `${event}/bids`, { supplier: 'S1', lots: [{ lot, values: { Price: '1' } }] });
  const { body } = await own.call('GET', '/api/feeds/latest-bids?include=suppliers');
  expect(body.data[0].lot_name).toBe(lot);
  expect(body.includes.suppliers).toMatchObject([{ external_id: 'S1', bidder_contacts: [], contacts: [] }]);
});

test('every feed answers as it is documented', async () => {
  const asked = {
    'sourcing-events': '',
    'latest-bids': 'include=sourcing_events&include=suppliers&include=columns',
    awards: 'include=sourcing_events&include=suppliers&include=columns',
    'rfi-responses': 'include=sourcing_events&include=suppliers&include=questions',
  } as const;
  for (const [feed, query] of Object.entries(asked)) {
    const parsed = feedPages[feed as keyof typeof asked].safeParse(await read(feed, query));
    expect([feed, parsed.error]).toEqual([feed, undefined]);
  }
});

test('each name takes one statement, for a page of any size', async () => {
  const counted = async (pageSize: number) => {
    const { data } = await read('latest-bids', `page_size=${pageSize}`);
    const statements: unknown[] = [];
    const sql: Sql = {
      query: (statement, params) => {
        statements.push(statement);
        return service.db.database.query(statement, params);
      },
    };
    const names = ['sourcing_events', 'suppliers', 'questions', 'columns'] as const;
    const bodies = data.map((record: object) => JSON.stringify(record));
    const includes = JSON.parse(await loadIncludes(sql, organisation.id, names, bodies));
    return { objects: includes.sourcing_events.length + includes.suppliers.length, statements: statements.length };
  };
  expect(await counted(1)).toEqual({ objects: 2, statements: 4 });
  expect(await counted(1_000)).toEqual({ objects: 4, statements: 4 });
});
