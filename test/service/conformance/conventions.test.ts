/** The general conventions of the two documents, in all answers about an organisation with data of every kind. */
import { randomUUID } from 'node:crypto';
import { describe, expect, test } from 'vitest';
import { parseTimestamp } from '#contract/timestamp.ts';
import { uploadFile } from '../../harness/files.ts';
import { createEvent, createRequest, desk, endedJob, readEvent, readWholeFeed } from '../../harness/sourcing.ts';
import { at, someUuid, startConformanceService } from './conformance-service.ts';

const conformance = await startConformanceService();
const { service, organisation, requests } = conformance;
const admin = `/admin/organisations/${organisation.id}`;

const input = { column_type: 'INPUT', input_by: 'BUYER_INPUT', input_type: 'NUMBER' };
const sheet = {
  column_roles: { historic_cost: 'Before' },
  columns: [
    { ...input, name: 'Volume', precision: 0 },
    { ...input, name: 'Before', input_type: 'CURRENCY' },
    { ...input, name: 'Index', scope: 'EVENT' },
    { ...input, name: 'Price', input_by: 'SUPPLIER_INPUT', input_type: 'CURRENCY', precision: 2 },
    { name: 'Each', column_type: 'FORMULA', formula: 'Price * Index' },
  ],
  global_values: [{ column: 'Index', value: '2' }],
  lots: ['A', 'B'].map((name) => ({
    name,
    values: [
      { column: 'Volume', value: '10' },
      { column: 'Before', value: '90', currency: 'USD' },
    ],
  })),
};

/** Data of every kind, at minute 1. */
conformance.moveTo(1);
const file = await uploadFile(organisation);
const questions = [
  { uuid: randomUUID(), identifier: '1', question_text: 'How many?', input_type: 'NUMBER', precision: 2 },
  {
    uuid: randomUUID(),
    identifier: '2',
    question_text: 'Which?',
    input_type: 'SINGLE_CHOICE',
    options: [{ value: 'This' }],
    attachment_file_uuids: [file],
  },
  { uuid: randomUUID(), identifier: '3', question_text: 'Papers?', input_type: 'FILE' },
];
const event = await createEvent(organisation, {
  name: 'Chairs',
  secondary_currencies: [{ code: 'USD', exchange_rate: '0.9' }],
  tags: [{ name: 'Region', value: 'EMEA' }],
  event_contact: { email: 'eve@buyer.example' },
  suppliers: ['S1', 'S2'].map((external_id) => ({ external_id })),
  rounds: [{ ends: at(1_000) }],
  sourcing_requests: [requests[0]],
  primary_cost_calculation: 'Volume * Each',
  bid_sheet: sheet,
  questions,
});
await createEvent(organisation, { name: 'Bare' });
const dutch = await createEvent(organisation, {
  name: 'Flowers',
  event_type: 'DUTCH',
  suppliers: [{ external_id: 'S1' }],
  bid_sheet: { lots: [{ name: 'A' }] },
});
for (const id of [event, dutch]) await desk(organisation, 'POST', `${id}/publish`);
await desk(organisation, 'POST', `${dutch}/bids`, {
  supplier: 'S1',
  lots: [{ lot: 'A', offers: [{ value: '1.50', volume: '100' }] }],
});
await desk(organisation, 'POST', `${event}/bids`, {
  supplier: 'S1',
  lots: [{ lot: 'A', values: { Price: { value: '2.50', currency: 'USD' } } }, { lot: 'B' }],
});
await desk(organisation, 'POST', `${event}/answers`, {
  supplier: 'S1',
  answers: [
    { question_uuid: questions[0]?.uuid, value: '12.5' },
    { question_uuid: questions[1]?.uuid, selected_options: ['This'] },
    { question_uuid: questions[2]?.uuid, document_file_uuids: [file] },
  ],
});
const awards = [{ lot: 'A', supplier: 'S1', share_awarded: '0.5' }];
await desk(organisation, 'PUT', `${event}/scenarios/best`, { awards });
await desk(organisation, 'POST', `${event}/award`, { scenario: 'best' });
await desk(organisation, 'POST', `${event}/close`);
const links = await endedJob(organisation, '/api/jobs/generate-file-download-links', {
  file_uuids: [file, randomUUID()],
});
const hook = await organisation.call('POST', '/api/webhooks', {
  name: 'hook',
  url: 'https://localhost:1/',
  triggers: ['TEST'],
});
await organisation.call('POST', `/api/webhooks/${hook.body.uuid}/test`);

const feeds = [
  '/api/feeds/sourcing-events',
  '/api/feeds/latest-bids?include=sourcing_events&include=suppliers&include=columns',
  '/api/feeds/awards?include=sourcing_events&include=suppliers&include=columns',
  '/api/feeds/rfi-responses?include=sourcing_events&include=suppliers&include=questions',
];
const reads = [
  ...feeds,
  '/api/manage/suppliers',
  '/api/manage/supplier_changes',
  '/api/jobs',
  `/api/jobs/${links.id}`,
  '/api/webhooks',
  '/desk/events',
  `/desk/events/${event}`,
];

interface Leaf {
  /** `data[].rounds[].awarded_cost` */
  path: string;
  name: string;
  value: unknown;
}

/** Every value that is neither an object nor a list, with the name of its member. */
function leaves(value: unknown, path = '', name = ''): Leaf[] {
  if (Array.isArray(value)) return value.flatMap((item) => leaves(item, `${path}[]`, name));
  if (typeof value !== 'object' || value === null) return [{ path, name, value }];
  return Object.entries(value).flatMap(([member, inner]) =>
    leaves(inner, path === '' ? member : `${path}.${member}`, member),
  );
}

async function leavesOf(path: string): Promise<Leaf[]> {
  const answer = path.startsWith('/admin') ? await service.operator('GET', path) : await organisation.call('GET', path);
  expect([path, answer.status, answer.headers.get('content-type')]).toEqual([
    path,
    200,
    'application/json; charset=utf-8',
  ]);
  const found = leaves(answer.body);
  expect(found.length).toBeGreaterThan(3);
  return found;
}

/** Members that have a time, by the documents and in the answers to the desk and the operator. */
const times = new Set(
  `created published closed modified starts ends last_successful_bid last_failed_bid last_accessed last_changed
   needed_by expires_at revoked_at time due`.split(/\s+/),
);

test.each([...reads, `${admin}/api-keys`, `${admin}/deliveries`])(
  '%s is JSON, and its times are ISO 8601 in UTC with microseconds',
  async (path) => {
    const all = await leavesOf(path);
    const form = /^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}Z$/;
    const known = all.filter(({ name, value }) => times.has(name) && value !== null);
    expect(known.filter(({ value }) => typeof value !== 'string' || !form.test(value))).toEqual([]);
    // No other member has a value that looks like a time.
    const others = all.filter(({ value }) => typeof value === 'string' && parseTimestamp(value) !== undefined);
    expect(others.filter(({ name }) => !times.has(name))).toEqual([]);
    expect([path, known.length > 0]).toEqual([path, !['/api/manage/suppliers', '/api/webhooks'].includes(path)]);
  },
);

/** Members that have the id of an event, a supplier, a question, a job, a submission or a file. */
const identifiers = new Set(
  `id uuid sourcing_event sourcing_request sourcing_requests sourcing_events supplier question_uuid parent_question_uuid
   document_file_uuids attachment_file_uuids file_uuid created_entity created_by organisation webhook`.split(/\s+/),
);

test.each(reads)('%s: every identifier is a UUID string', async (path) => {
  const all = await leavesOf(path);
  const found = all.filter(({ name, value }) => identifiers.has(name) && value !== null);
  // By the document, the id of an RFI response is an integer. The desk names suppliers by their external_id.
  const isException = ({ path: place, name }: Leaf) =>
    (path.includes('rfi-responses') && place === 'data[].id') ||
    (path.startsWith('/desk/') && (name === 'supplier' || place === 'answers[].id'));
  const wrong = found.filter(({ value }) => typeof value !== 'string' || !someUuid.test(value));
  expect(wrong.filter((leaf) => !isException(leaf))).toEqual([]);
  expect([path, found.length > 0]).toEqual([path, path !== '/api/manage/suppliers']);
});

/** The integers in the document's tables; every other number is a text. */
const integers = new Set([
  'data[].lot_count',
  'data[].scenario_count',
  'data[].evaluated_scenario_count',
  'data[].rounds[].awarded_lot_count',
  'data[].suppliers[].invite_count',
  'includes.questions[].precision',
  'includes.columns[].precision',
]);
/** Money, quantities, shares and rates. */
const decimals = new Set([
  'data[].rounds[].awarded_cost',
  'data[].secondary_currencies[].exchange_rate',
  'includes.sourcing_events[].secondary_currencies[].exchange_rate',
  'data[].bids[].value',
  'data[].bids[].volume',
  'data[].awards[].share_awarded',
  'data[].awards[].cost',
  'data[].awards[].savings',
  'data[].awards[].historic_cost',
]);

test('in feeds money, quantities and values are strings; the only numbers are those of the document', async () => {
  const all = (await Promise.all(feeds.map(leavesOf))).flat();
  const numbers = all.filter(({ value }) => typeof value === 'number');
  const answerIds = numbers.filter(({ path }) => path === 'data[].id');
  expect(answerIds).toHaveLength(3);
  expect(new Set(numbers.filter(({ path }) => path !== 'data[].id').map(({ path }) => path))).toEqual(integers);
  expect(numbers.filter(({ value }) => !Number.isInteger(value))).toEqual([]);
  const amounts = all.filter(({ path }) => decimals.has(path));
  expect(new Set(amounts.map(({ path }) => path))).toEqual(decimals);
  for (const { path, value } of amounts)
    expect([path, value]).toEqual([path, expect.stringMatching(/^-?\d+(\.\d+)?$/)]);
  const values = all.filter(({ path }) => path.endsWith('bid_sheet_values[].value') || path === 'data[].value');
  expect(values.length).toBeGreaterThan(10);
  expect(values.filter(({ value }) => typeof value !== 'string')).toEqual([]);
});

test('feeds have no null except `next`, and show empty arrays that have a meaning', async () => {
  const nulls = (await Promise.all(feeds.map(leavesOf))).flat().filter(({ value }) => value === null);
  expect(new Set(nulls.map(({ path }) => path))).toEqual(new Set(['next']));
  const unawarded = (await readWholeFeed(organisation, 'awards')).find(({ lot_name: lot }) => lot === 'B');
  expect(unawarded.awards).toEqual([]);
});

test('a record that was stored before its feed had a field is served and found without the field', async () => {
  const own = await service.organisation();
  const old = await createEvent(own, { name: 'Old', tags: [{ name: 'Region', value: 'EMEA' }], category: 'Furniture' });
  await service.db.database.query(
    `update service.feed_records set body = regexp_replace(body, '"category":"Furniture",', '')
     where organisation_id = $1 and id = $2`,
    [own.id, old],
  );
  await createEvent(own, { name: 'New', tags: [{ name: 'Region', value: 'EMEA' }], category: 'Furniture' });
  const records = await readWholeFeed(own, 'sourcing-events', 'filter[tags.Region]=EMEA&status=DRAFT&page_size=1');
  expect(records.map(({ name, category }) => [name, category])).toEqual([
    ['Old', undefined],
    ['New', 'Furniture'],
  ]);
  expect(records[0]).not.toHaveProperty('category');
  // After its next change it has the field.
  await desk(own, 'POST', `${old}/publish`);
  expect((await readWholeFeed(own, 'sourcing-events')).at(-1)).toMatchObject({ name: 'Old', category: 'Furniture' });
});

/** The instant of minute 600, or its day, in every form that the documents accept. */
const forms = [
  '2030-01-01T10:00:00Z',
  '2030-01-01T10:00:00+00:00',
  '2030-01-01T10:00:00.000000Z',
  '2030-01-01T12:00:00+02:00',
  '2030-01-01T04:30:00-05:30',
];
const instant = at(600);

describe.each(forms)('the time %s', (form) => {
  test('in a body is that instant, in every member that takes a time', async () => {
    const draft = await createEvent(organisation, {
      name: 'Timed',
      rounds: [{ starts: form }, { starts: at(601), ends: '2030-01-02' }],
      questions: [{ uuid: randomUUID(), identifier: '1', question_text: 'When?', input_type: 'DATE' }],
      suppliers: [{ external_id: 'S1' }],
    });
    const { rounds, questions: asked } = await readEvent(organisation, draft);
    expect([rounds[0].starts, rounds[1].ends]).toEqual([instant, '2030-01-02T00:00:00.000000Z']);
    const bounded = await createEvent(organisation, { name: 'Timed', rounds: [{ ends: form }] });
    expect((await readEvent(organisation, bounded)).rounds[0].ends).toBe(instant);
    const extended = await desk(organisation, 'POST', `${bounded}/rounds/1/extend`, { ends: at(700) });
    expect(extended.ends).toBe(at(700));
    expect((await desk(organisation, 'POST', `${bounded}/rounds/1/extend`, { ends: form })).ends).toBe(instant);
    const empty = await createEvent(organisation, { name: 'Timed' });
    expect(await desk(organisation, 'POST', `${empty}/rounds`, { starts: form, ends: at(601) })).toMatchObject({
      starts: instant,
    });
    await desk(organisation, 'POST', `${bounded}/publish`);
    await desk(organisation, 'POST', `${bounded}/rounds/1/close`);
    expect(await desk(organisation, 'POST', `${bounded}/rounds/1/reopen`, { ends: form })).toMatchObject({
      ends: instant,
      status: 'ACTIVE',
    });
    await endedJob(organisation, '/api/jobs/update-sourcing-event', {
      sourcing_event: empty,
      rounds: [{ ends: form }],
    });
    expect((await readEvent(organisation, empty)).rounds).toMatchObject([{ ends: instant }]);

    const needed = await createRequest(organisation, { needed_by: form });
    const request = await organisation.call('GET', `/api/manage/sourcing_requests/${needed}`);
    expect(request.body.result.needed_by).toBe(instant);
    const key = await service.operator('POST', `${admin}/api-keys`, { name: form, expires_at: form });
    expect(key.status).toBe(201);
    const keys = (await service.operator('GET', `${admin}/api-keys?page_size=1000`)).body.result;
    expect(keys.find(({ name }: { name: string }) => name === form).expires_at).toBe(instant);

    await desk(organisation, 'POST', `${draft}/publish`);
    const answered = await desk(organisation, 'POST', `${draft}/answers`, {
      supplier: 'S1',
      answers: [{ question_uuid: asked[0].id, value: form }],
    });
    expect(answered.answers[0].value).toBe('2030-01-01');
  });

  test('in a query is that instant, in every parameter that takes a time', async () => {
    const own = await service.organisation();
    const made = await createEvent(own, { name: 'Timed', suppliers: [] });
    await desk(own, 'POST', `${made}/publish`);
    await own.call('POST', '/api/manage/supplier_changes', {
      change_data: { suppliers: [{ external_id: 'S', name: 'S' }] },
    });
    await expect.poll(async () => (await own.call('GET', '/api/manage/suppliers')).body.count).toBe(1);
    // Everything that the queries find is set to minute 600 exactly.
    const { database } = service.db;
    for (const [table, column] of [
      ['jobs', 'created'],
      ['suppliers', 'modified'],
      ['feed_records', 'modified'],
    ] as const)
      await database.query(`update service.${table} set ${column} = $2 where organisation_id = $1`, [own.id, instant]);
    const given = encodeURIComponent(form);
    const later = encodeURIComponent('2030-01-01T10:00:00.000001Z');
    const countOf = async (path: string) => {
      const { body, status } = await own.call('GET', path);
      return status === 200 ? (body.result ?? body.data).length : status;
    };
    for (const asked of [
      '/api/jobs?created_after',
      '/api/manage/suppliers?modified_after',
      '/api/feeds/sourcing-events?modified_after',
    ])
      expect([asked, await countOf(`${asked}=${given}`), await countOf(`${asked}=${later}`)]).toEqual([asked, 1, 0]);
    const earlier = encodeURIComponent('2030-01-01T09:59:59.999999Z');
    for (const asked of ['/api/jobs?created_before', '/api/feeds/sourcing-events?modified_before'])
      expect([asked, await countOf(`${asked}=${given}`), await countOf(`${asked}=${earlier}`)]).toEqual([asked, 1, 0]);
    for (const feed of ['latest-bids', 'awards', 'rfi-responses'])
      expect(await countOf(`/api/feeds/${feed}?modified_after=${given}&modified_before=${given}`)).toBe(0);
    // An unencoded plus sign is read as a blank, and accepted as a plus.
    expect(await countOf(`/api/jobs?created_after=${form}&created_before=${form}`)).toBe(1);
  });
});

test.each<[string, string, string, object]>([
  ['a round', 'POST', '/api/jobs/create-sourcing-events', { name: 'x', rounds: [{ ends: '2030-01-01T10:00:00' }] }],
  ['a request', 'POST', '/api/jobs/create-sourcing-requests', { name: 'x', needed_by: 1_893_456_000 }],
  ['a key', 'POST', `${admin}/api-keys`, { name: 'x', expires_at: 'tomorrow' }],
  ['a new round', 'POST', `/desk/events/${dutch}/rounds`, { ends: '2030-02-30' }],
  ['a new end', 'POST', `/desk/events/${dutch}/rounds/1/extend`, { ends: '31.12.2030' }],
])('a time of %s that is no ISO 8601 with an offset is 400', async (_what, method, path, body) => {
  const { status, body: problem } = path.startsWith('/admin')
    ? await service.operator(method, path, body)
    : await organisation.call(method, path, body);
  expect([status, problem.errors.length]).toEqual([400, 1]);
});

test.each<[string, string, object, string]>([
  [
    'an exchange rate',
    'POST',
    { secondary_currencies: [{ code: 'USD', exchange_rate: 0.9 }] },
    'secondary_currencies[0].exchange_rate',
  ],
  [
    'a value of a lot',
    'POST',
    { bid_sheet: { lots: [{ name: 'A', values: [{ column: 'V', value: 1 }] }] } },
    'bid_sheet.lots[0].values[0].value',
  ],
  [
    'a value of the event',
    'POST',
    { bid_sheet: { global_values: [{ column: 'V', value: 1 }] } },
    'bid_sheet.global_values[0].value',
  ],
  [
    'a bound of a question',
    'POST',
    { questions: [{ identifier: '1', question_text: '?', input_type: 'NUMBER', minimum_value: 1 }] },
    'questions[0].minimum_value',
  ],
])('%s as a JSON number is 400: decimals are strings', async (_what, method, members, path) => {
  const answer = await organisation.call(method, '/api/jobs/create-sourcing-events', { name: 'x', ...members });
  expect([answer.status, answer.body.errors.map((error: { path: string }) => error.path)]).toEqual([400, [path]]);
});

test.each<[string, string, object, string]>([
  [
    'a quantity',
    '/api/jobs/create-sourcing-requests',
    { name: 'x', items: [{ name: 'y', quantity: 2 }] },
    'items[0].quantity',
  ],
  [
    'a target price',
    '/api/jobs/create-sourcing-requests',
    { name: 'x', items: [{ name: 'y', target_price: 2 }] },
    'items[0].target_price',
  ],
  [
    'a bid',
    `/desk/events/${dutch}/bids`,
    { supplier: 'S1', lots: [{ lot: 'A', values: { Price: 1 } }] },
    'lots[0].values.Price',
  ],
  [
    'an offer',
    `/desk/events/${dutch}/bids`,
    { supplier: 'S1', lots: [{ lot: 'A', offers: [{ value: 1, volume: '1' }] }] },
    'lots[0].offers[0].value',
  ],
  [
    'a volume',
    `/desk/events/${dutch}/bids`,
    { supplier: 'S1', lots: [{ lot: 'A', offers: [{ value: '1', volume: 1 }] }] },
    'lots[0].offers[0].volume',
  ],
  [
    'an answer',
    `/desk/events/${event}/answers`,
    { supplier: 'S1', answers: [{ question_uuid: questions[0]?.uuid, value: 1 }] },
    'answers[0].value',
  ],
])('%s as a JSON number is 400, too', async (_what, path, body, place) => {
  const answer = await organisation.call('POST', path, body);
  expect([answer.status, answer.body.errors.map((error: { path: string }) => error.path)]).toEqual([400, [place]]);
});
