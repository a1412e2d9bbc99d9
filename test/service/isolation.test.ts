/**
 * Two organisations with the same names for everything. A call that names a thing of the other organisation, by its id
 * or its name, is answered as if it did not exist: exactly as a call with an unknown id or name. It shows nothing of
 * the other organisation, and changes nothing there. The table has an entry for every endpoint; a new endpoint without
 * one fails.
 */
import { randomUUID } from 'node:crypto';
import { expect, test } from 'vitest';
import { uploadFile } from '../harness/files.ts';
import { createManualClock } from '../harness/manual-clock.ts';
import { changeSuppliers, createEvent, desk, jobEnd, processedSubmission, readEvent } from '../harness/sourcing.ts';
import type { TestOrganisation } from '../harness/test-organisation.ts';
import { startTestService } from '../harness/test-service.ts';
import { startTokenServer } from '../harness/token-server.ts';
import { startWebhookReceiver } from '../harness/webhook-receiver.ts';
import { createOrganisationData, type FuzzFixture, jobPayloads, type OrganisationData } from './fuzz/fuzz-fixture.ts';
import { type Seed, seedsOf, testedEndpoints } from './fuzz/seeds.ts';
import { requestOfSeed } from './fuzz/send-request.ts';

const service = await startTestService({ clock: createManualClock() });
const { database } = service.db;
const receiver = await startWebhookReceiver();
const tokenServer = await startTokenServer();

interface Party extends TestOrganisation, OrganisationData {
  /**
   * Things that only this organisation has: a supplier, a question and a scenario of the open event, a file, a domain.
   */
  readonly only: { supplier: string; question: string; scenario: string; file: string; domain: string };
  /** Ids that clients choose: the stranger creates its own things with them, so no other call may name them. */
  readonly taken: { supplier: string; question: string };
  readonly apiKey: string;
}

async function createParty(mark: string): Promise<Party> {
  const organisation = await service.organisation();
  const urls = { receiverUrl: receiver.url, tokenUrl: tokenServer.url };
  const data = await createOrganisationData(service, organisation, { ...urls, mark: ` of ${mark}` });
  const supplier = `Supplier of ${mark} alone`;
  const taken = { supplier: `Supplier of ${mark} at first`, question: randomUUID() };
  const suppliers = [supplier, taken.supplier].map((name) => ({ external_id: name, name }));
  await changeSuppliers(organisation, ...suppliers);
  const asked = (await readEvent(organisation, data.events.open)).questions;
  const question = randomUUID();
  await desk(organisation, 'PUT', `${data.events.open}/questions`, [
    ...asked.map(
      ({ id, sourcing_event: _event, modified: _modified, ...rest }: { id: string } & Record<string, unknown>) => ({
        uuid: id,
        ...rest,
      }),
    ),
    { uuid: question, identifier: '9', question_text: `Asked by ${mark}`, input_type: 'TEXT' },
    { uuid: taken.question, identifier: '10', question_text: `Asked by ${mark}, too`, input_type: 'TEXT' },
  ]);
  const scenario = `Scenario of ${mark}`;
  await desk(organisation, 'PUT', `${data.events.open}/scenarios/${encodeURIComponent(scenario)}`, { awards: [] });
  const domain = `${mark.toLowerCase()}.example`;
  const admin = `/admin/organisations/${organisation.id}`;
  await service.operator('PUT', `${admin}/webhook-domains`, { domains: ['localhost', domain] });
  const { body: key } = await service.operator('POST', `${admin}/api-keys`, { name: mark });
  const file = await uploadFile(organisation, `${mark}.txt`);
  const only = { supplier, question, scenario, file, domain };
  return { ...organisation, ...data, only, taken, apiKey: key.id };
}

/** All rows of the database, as texts. */
async function allRows(): Promise<Map<string, string>> {
  const tables = await database.query<{ name: string }>(
    `select relname as name from pg_class where relnamespace = 'service'::regnamespace and relkind = 'r'
       and relname <> 'processes'`,
  );
  const rows = new Map<string, string>();
  for (const { name } of tables)
    for (const { row } of await database.query<{ row: string }>(`select t::text as row from service.${name} t`))
      rows.set(`${name} ${row}`, row);
  return rows;
}

const owner = await createParty('Olga');
const ownersRows = await allRows();
/** The ids that the service has made. Ids of questions are the client's, and the other organisation has the same. */
const ownersIds = new Set(
  [...ownersRows.values()].flatMap(
    (row) => row.match(/[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[0-9a-f]{4}-[0-9a-f]{12}/g) ?? [],
  ),
);
for (const id of ownersIds) if (/^(\d)\1{7}-/.test(id)) ownersIds.delete(id);
const stranger = await createParty('Stella');

/** Fails for an answer that shows anything of the owner except the texts that the call itself named. */
function expectNothingOfOwner(answer: unknown, named: readonly string[]): void {
  let text = JSON.stringify(answer);
  for (const each of named) text = text.replaceAll(JSON.stringify(each).slice(1, -1), '');
  for (const id of text.match(/[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}/g) ?? [])
    if (ownersIds.has(id)) throw new Error(`${id} is the owner's: ${text.slice(0, 1_000)}`);
  expect(text).not.toMatch(/Olga/i);
}

/** A call by the stranger that names things. It is made with the owner's ids or names, and with unknown ones. */
interface Case {
  readonly what: string;
  readonly named: (of: Party) => readonly string[];
  /** Ids or names of the same kind that do not exist. */
  readonly nowhere?: readonly string[];
  readonly seed: (names: readonly string[]) => Seed;
  /** The status of the answer, or the outcome of the job. */
  readonly expected: number | 'nothing found' | 'FAILED' | 'COMPLETED' | 'not_found';
}

const [none, another]: readonly string[] = [randomUUID(), randomUUID()];
const ids = (...of: ((party: Party) => string)[]) => ({
  named: (party: Party) => of.map((id) => id(party)),
  nowhere: [none, another].slice(0, of.length) as string[],
});
const names = (name: (party: Party) => string, nowhere = 'Unknown name') => ({
  named: (party: Party) => [name(party)],
  nowhere: [nowhere],
});

const first = (list: readonly string[]) => list[0] ?? '';

const updateCases: readonly Case[] = [
  {
    what: 'an event',
    ...ids(({ events }) => events.draft),
    seed: (named) => ({ body: { sourcing_event: first(named), name: 'Mine' } }),
    expected: 'FAILED',
  },
  {
    what: 'a supplier in the own event',
    ...names(({ only }) => only.supplier),
    seed: (named) => ({
      body: { sourcing_event: stranger.events.draft, suppliers: [{ external_id: first(named) }] },
    }),
    expected: 'FAILED',
  },
  {
    what: 'a request in the own event',
    ...ids(({ request }) => request),
    seed: (named) => ({ body: { sourcing_event: stranger.events.draft, sourcing_requests: named } }),
    expected: 'FAILED',
  },
  {
    what: 'a file in the own event',
    ...ids(({ files }) => files.offer),
    seed: (named) => ({
      body: { sourcing_event: stranger.events.draft, questions: [{ ...question, attachment_file_uuids: named }] },
    }),
    expected: 'FAILED',
  },
];

/** The cases of each job type, by the last part of its path. */
const jobCases: Readonly<Record<string, readonly Case[]>> = {
  'create-sourcing-events': [
    {
      what: 'a supplier',
      ...names(({ only }) => only.supplier),
      seed: (named) => ({ body: { name: 'Mine', suppliers: named.map((external_id) => ({ external_id })) } }),
      expected: 'FAILED',
    },
    {
      what: 'a request',
      ...ids(({ request }) => request),
      seed: (named) => ({ body: { name: 'Mine', sourcing_requests: named } }),
      expected: 'FAILED',
    },
    {
      what: "a lot's request",
      ...ids(({ request }) => request),
      seed: (named) => ({
        body: { name: 'Mine', bid_sheet: { lots: [{ name: 'A', sourcing_request: first(named) }] } },
      }),
      expected: 'FAILED',
    },
    {
      what: "a question's file",
      ...ids(({ files }) => files.offer),
      seed: (named) => ({ body: { name: 'Mine', questions: [{ ...question, attachment_file_uuids: named }] } }),
      expected: 'FAILED',
    },
    {
      what: "a question's parent",
      ...ids(({ only }) => only.question),
      seed: (named) => ({ body: { name: 'Mine', questions: [{ ...question, parent_question_uuid: first(named) }] } }),
      expected: 400,
    },
    {
      // Clients choose these ids, and those of another organisation do not collide.
      what: "a question's id",
      named: ({ taken }) => [taken.question],
      nowhere: [randomUUID()],
      seed: (named) => ({ body: { name: 'Mine', questions: [{ ...question, uuid: first(named) }] } }),
      expected: 'COMPLETED',
    },
  ],
  'create-sourcing-events-from-template': [
    {
      what: 'a template',
      ...ids(({ events }) => events.template),
      seed: (named) => ({ body: { template: first(named) } }),
      expected: 'FAILED',
    },
    {
      what: 'a request over the own template',
      ...ids(({ request }) => request),
      seed: (named) => ({ body: { template: stranger.events.template, questions: [], sourcing_requests: named } }),
      expected: 'FAILED',
    },
  ],
  'create-sourcing-requests': [],
  'update-sourcing-event': updateCases,
  'update-sourcing-events': updateCases,
  'attach-files-to-sourcing-request': [
    {
      what: 'a request',
      ...ids(({ request }) => request),
      seed: (named) => ({ body: { sourcing_request: first(named), files } }),
      expected: 'FAILED',
    },
    {
      what: 'an event',
      ...ids(({ events }) => events.draft),
      seed: (named) => ({ body: { sourcing_request: first(named), files } }),
      expected: 'FAILED',
    },
  ],
  'attach-files-to-sourcing-event': [
    {
      what: 'an event',
      ...ids(({ events }) => events.draft),
      seed: (named) => ({ body: { sourcing_event: first(named), files } }),
      expected: 'FAILED',
    },
  ],
  'generate-file-download-links': [
    {
      what: 'files',
      ...ids(
        ({ files: { offer } }) => offer,
        ({ only }) => only.file,
      ),
      seed: (named) => ({ body: { file_uuids: named } }),
      expected: 'not_found',
    },
  ],
};

const question = { identifier: '1', question_text: 'Why?', input_type: 'TEXT' };
const files = [{ file_name: 'a.txt', content: 'aGVsbG8=' }];

const typeOf = (path: string) =>
  path
    .replace(/-(events|requests)(?=-|$)/, (plural) => plural.slice(0, -1))
    .toUpperCase()
    .replaceAll('-', '_');

/** A call on the owner's event instead of the stranger's. */
const onEvent = (
  event: keyof OrganisationData['events'],
  body?: unknown,
  ...more: readonly string[]
): readonly Case[] => [
  {
    what: 'an event',
    ...ids(({ events }) => events[event]),
    seed: (named) => ({ params: [first(named), ...more], ...(body === undefined ? {} : { body }) }),
    expected: 404,
  },
];

const byId = (what: string, id: (party: Party) => string, body?: unknown): readonly Case[] => [
  { what, ...ids(id), seed: (named) => ({ params: named, ...(body === undefined ? {} : { body }) }), expected: 404 },
];

const filters = (...members: readonly [string, (party: Party) => string][]): readonly Case[] =>
  members.map(([member, id]) => ({
    what: member,
    ...ids(id),
    seed: (named) => ({ query: { [member]: first(named) } }),
    expected: 'nothing found' as const,
  }));

const ofEventFilters = filters(
  ['sourcing_event', ({ events }) => events.closed],
  ['sourcing_request', ({ request }) => request],
);

const own = (
  more: Omit<Case, 'seed'> & {
    event?: keyof OrganisationData['events'];
    params?: (name: string) => readonly string[];
    body?: (name: string) => unknown;
  },
): Case => ({
  ...more,
  seed: ([name = '']) => ({
    params: [stranger.events[more.event ?? 'open'], ...(more.params?.(name) ?? [])],
    ...(more.body ? { body: more.body(name) } : {}),
  }),
});

const tokenOf = (url: string) => ({
  type: 'OAUTH_CLIENT_CREDENTIALS',
  parameters: { access_token_url: url, client_id: 'me', client_secret: 'mine' },
});

const bid = (supplier: string) => ({ supplier, lots: [{ lot: 'A', values: { Price: '1' } }] });

/** The cases of each endpoint; none for an endpoint whose calls cannot name a thing of another organisation. */
const cases: Readonly<Record<string, readonly Case[]>> = {
  'GET /api/manage/suppliers': [
    {
      what: 'external_id',
      ...names(({ only }) => only.supplier),
      seed: (named) => ({ query: { external_id: first(named) } }),
      expected: 'nothing found',
    },
    {
      what: 'name',
      ...names(() => 'Supplier S1 of Olga'),
      seed: (named) => ({ query: { name: first(named) } }),
      expected: 'nothing found',
    },
  ],
  'GET /api/manage/suppliers/:external_id': [
    { what: 'a supplier', ...names(({ only }) => only.supplier), seed: (named) => ({ params: named }), expected: 404 },
  ],
  'POST /api/manage/supplier_changes': [
    {
      what: 'a supplier',
      ...names(({ taken }) => taken.supplier, 'Unknown supplier'),
      seed: (named) => ({
        body: {
          change_data: { suppliers: named.map((external_id) => ({ external_id, name: 'Mine', archived: true })) },
        },
      }),
      expected: 202,
    },
  ],
  'GET /api/manage/supplier_changes': [],
  'GET /api/manage/supplier_changes/:uuid': byId('a submission', ({ submission }) => submission),

  ...Object.fromEntries(
    Object.entries(jobCases).flatMap(([path, list]) => [
      [`POST /api/jobs/${path}`, list],
      [`GET /api/jobs/${path}/:id`, byId('a job', ({ jobs }) => jobs[path] ?? '')],
    ]),
  ),
  'POST /api/jobs': Object.entries(jobCases).flatMap(([path, list]) =>
    // The job's own path has created the ids of these cases already, so here they would be the stranger's own.
    list
      .filter(({ expected }) => expected !== 'COMPLETED')
      .map((ofType) => ({
        ...ofType,
        what: `${path}: ${ofType.what}`,
        seed: (named: readonly string[]) => ({ body: { type: typeOf(path), ...(ofType.seed(named).body as object) } }),
      })),
  ),
  'GET /api/jobs': [],
  'GET /api/jobs/:id': byId('a job', ({ jobs }) => jobs['create-sourcing-requests'] ?? ''),

  'GET /api/feeds/sourcing-events': filters(
    ['id', ({ events }) => events.open],
    ['sourcing_requests', ({ request }) => request],
  ),
  'GET /api/feeds/latest-bids': ofEventFilters,
  'GET /api/feeds/awards': ofEventFilters,
  'GET /api/feeds/rfi-responses': filters(
    ['sourcing_event', ({ events }) => events.open],
    ['sourcing_request', ({ request }) => request],
  ),

  'POST /api/webhooks': [
    {
      what: 'a domain that only the other may name',
      ...names(({ only }) => only.domain, 'unknown.example'),
      seed: (named) => ({ body: { name: 'hook', url: `https://${first(named)}/`, triggers: ['TEST'] } }),
      expected: 400,
    },
  ],
  'GET /api/webhooks': [],
  'GET /api/webhooks/:uuid': byId('a webhook', ({ webhook }) => webhook),
  'DELETE /api/webhooks/:uuid': byId('a webhook', ({ webhook }) => webhook),
  'POST /api/webhooks/:uuid/test': byId('a webhook', ({ webhook }) => webhook, {}),
  'PATCH /api/webhooks/:uuid': [
    ...byId('a webhook', ({ webhook }) => webhook, { name: 'Mine', is_active: true }),
    ...byId('a webhook, with a token', ({ webhook }) => webhook, { authentication: tokenOf(tokenServer.url) }),
  ],
  'GET /api/webhooks/:uuid/deliveries': byId('a webhook', ({ webhook }) => webhook),
  'POST /api/webhooks/:uuid/deliveries/:id/resend': [
    {
      what: 'a webhook and its delivery',
      ...ids(
        ({ webhook }) => webhook,
        ({ delivery }) => delivery,
      ),
      seed: (named) => ({ params: named, body: {} }),
      expected: 404,
    },
    {
      what: 'a delivery under the own webhook',
      ...ids(({ delivery }) => delivery),
      seed: (named) => ({ params: [stranger.webhook, ...named], body: {} }),
      expected: 404,
    },
    {
      what: 'a webhook of the own delivery',
      ...ids(({ webhook }) => webhook),
      seed: (named) => ({ params: [...named, stranger.delivery], body: {} }),
      expected: 404,
    },
  ],

  'POST /desk/files': [],
  'GET /desk/events': [],
  'GET /desk/events/:id': onEvent('open'),
  'POST /desk/events/:id/publish': onEvent('draft', {}),
  'POST /desk/events/:id/unpublish': onEvent('open', {}),
  'POST /desk/events/:id/pause': onEvent('open', {}),
  'POST /desk/events/:id/resume': onEvent('paused', {}),
  'POST /desk/events/:id/close': onEvent('open', {}),
  'POST /desk/events/:id/reopen': onEvent('closed', {}),
  'POST /desk/events/:id/delete': onEvent('closed', {}),
  'POST /desk/events/:id/rounds': onEvent('open', { ends: '2031-01-01' }),
  'POST /desk/events/:id/rounds/:number/close': onEvent('open', {}, '1'),
  'POST /desk/events/:id/rounds/:number/extend': onEvent('open', { ends: '2031-01-01' }, '1'),
  'POST /desk/events/:id/rounds/:number/reopen': onEvent('between', {}, '1'),
  'POST /desk/events/:id/invitations': [
    ...onEvent('open', { suppliers: ['S3'] }),
    own({
      what: 'a supplier',
      ...names(({ only }) => only.supplier),
      body: (name) => ({ suppliers: [name] }),
      expected: 400,
    }),
  ],
  'POST /desk/events/:id/bids': [
    ...onEvent('open', bid('S1')),
    own({ what: 'a supplier', ...names(({ only }) => only.supplier), body: bid, expected: 409 }),
  ],
  'POST /desk/events/:id/bids/withdraw': [
    ...onEvent('again', { supplier: 'S1', lots: ['A'] }),
    own({
      what: 'a supplier',
      event: 'again',
      ...names(({ only }) => only.supplier),
      body: (supplier) => ({ supplier, lots: ['A'] }),
      expected: 409,
    }),
  ],
  'PATCH /desk/events/:id/bids': [
    ...onEvent('between', bid('S1')),
    own({ what: 'a supplier', event: 'between', ...names(({ only }) => only.supplier), body: bid, expected: 409 }),
  ],
  'PUT /desk/events/:id/buyer-values': onEvent('open', { lots: [{ lot: 'A', values: { Volume: '1' } }] }),
  'PUT /desk/events/:id/scenarios/:name': [
    ...onEvent('open', { awards: [] }, 'best'),
    own({
      what: 'a supplier',
      ...names(({ only }) => only.supplier),
      params: () => ['best'],
      body: (supplier) => ({ awards: [{ lot: 'A', supplier, share_awarded: '1' }] }),
      expected: 400,
    }),
  ],
  'POST /desk/events/:id/award': [
    ...onEvent('open', { scenario: 'best' }),
    own({
      what: 'a scenario',
      ...names(({ only }) => only.scenario),
      body: (scenario) => ({ scenario }),
      expected: 409,
    }),
  ],
  'PUT /desk/events/:id/questions': [
    ...onEvent('draft', []),
    own({
      what: 'a file',
      event: 'draft',
      ...ids(({ only }) => only.file),
      body: (file) => [{ ...question, attachment_file_uuids: [file] }],
      expected: 400,
    }),
    own({
      what: "a question's parent",
      event: 'draft',
      ...ids(({ only }) => only.question),
      body: (parent) => [{ ...question, parent_question_uuid: parent }],
      expected: 400,
    }),
  ],
  'POST /desk/events/:id/answers': [
    ...onEvent('open', { supplier: 'S1', answers: [{ question_uuid: none, value: 'a' }] }),
    own({
      what: 'a question',
      ...ids(({ only }) => only.question),
      body: (id) => ({ supplier: 'S1', answers: [{ question_uuid: id, value: 'a' }] }),
      expected: 400,
    }),
    own({
      what: 'a supplier',
      ...names(({ only }) => only.supplier),
      body: (supplier) => ({ supplier, answers: [{ question_uuid: stranger.questions.text, value: 'a' }] }),
      expected: 409,
    }),
    own({
      what: 'a file',
      ...ids(({ only }) => only.file),
      body: (file) => ({
        supplier: 'S1',
        answers: [{ question_uuid: stranger.questions.file, document_file_uuids: [file] }],
      }),
      expected: 400,
    }),
  ],
  'DELETE /desk/events/:id/answers/:supplier/:question/files/:file': [
    {
      what: 'an event',
      ...ids(({ events }) => events.open),
      seed: (named) => ({ params: [first(named), 'S1', owner.questions.file, owner.files.proof] }),
      expected: 404,
    },
    own({
      what: 'a file',
      ...ids(({ files: { proof } }) => proof),
      params: (file) => ['S1', stranger.questions.file, file],
      expected: 404,
    }),
    own({
      what: 'a question',
      ...ids(({ only }) => only.question),
      params: (id) => ['S1', id, stranger.files.proof],
      expected: 404,
    }),
    own({
      what: 'a supplier',
      ...names(({ only }) => only.supplier),
      params: (supplier) => [supplier, stranger.questions.file, stranger.files.proof],
      expected: 404,
    }),
  ],
  // Both organisations have a request of this reference: each sees its own, as the lists above show.
  'GET /api/manage/sourcing_requests': [],
  'GET /api/manage/sourcing_requests/:uuid': byId('a request', ({ request }) => request),

  // The operator may see all organisations; a thing of another one is unknown only below the path of an organisation.
  'POST /admin/organisations': [],
  'POST /admin/organisations/:id/api-keys': [],
  'GET /admin/organisations/:id/api-keys': [],
  'DELETE /admin/organisations/:id/api-keys/:keyId': [
    {
      what: 'a key',
      ...ids(({ apiKey }) => apiKey),
      seed: (named) => ({ params: [stranger.id, first(named)] }),
      expected: 404,
    },
  ],
  'PUT /admin/organisations/:id/webhook-domains': [],
  'PUT /admin/organisations/:id/allowed-networks': [],
  'POST /admin/organisations/:id/supplier-attributes': [],
  'PUT /admin/organisations/:id/limits': [],
  'GET /admin/organisations/:id/deliveries': [
    {
      what: 'a webhook',
      ...ids(({ webhook }) => webhook),
      seed: (named) => ({ params: [stranger.id], query: { webhook: first(named) } }),
      expected: 'nothing found',
    },
  ],
  'POST /admin/deliveries/:id/resend': [],
};

/** Makes the stranger's call, and waits for the end of a job or of a supplier change. */
async function call(endpoint: (typeof testedEndpoints)[number], seed: Seed) {
  const request = requestOfSeed({ service, organisation: stranger } as unknown as FuzzFixture, endpoint, seed);
  const path = request.path;
  const answer =
    endpoint.by === 'operator'
      ? await service.operator(endpoint.method, path, seed.body)
      : await stranger.call(endpoint.method, path, seed.body);
  if (endpoint.name === 'POST /api/manage/supplier_changes')
    await processedSubmission(stranger, answer.body.result.uuid);
  if (!endpoint.name.startsWith('POST /api/jobs') || answer.status !== 202)
    return { status: answer.status, body: answer.body };
  const job = await jobEnd(stranger, answer.body.id);
  return { status: job.status as string, body: { errors: job.errors, detail: job.detail } };
}

test("every list, feed, filter and include shows only the organisation's own data, also with equal names", async () => {
  const fixture = {
    ...stranger,
    service,
    organisation: stranger,
    operated: stranger,
    receiverUrl: receiver.url,
  } as unknown as FuzzFixture;
  for (const endpoint of testedEndpoints.filter(({ method }) => method === 'GET')) {
    for (const seed of seedsOf(endpoint, fixture)) {
      const { body } = await call(endpoint, seed);
      expectNothingOfOwner(body, []);
      const paths = [
        seed.query ?? {},
        ...Object.entries(seed.query ?? {}).map(([key, value]) => ({ [key]: value })),
        {},
      ];
      for (const query of paths) expectNothingOfOwner((await call(endpoint, { ...seed, query })).body, []);
    }
  }
  const includes = 'include=sourcing_events&include=suppliers&page_size=1000';
  for (const [path, count] of [
    ['/api/feeds/sourcing-events?filter[tags.Region]=EMEA&page_size=1000', 9],
    [`/api/feeds/latest-bids?${includes}&include=columns&filter[sourcing_event.tags.Region]=EMEA`, 16],
    [`/api/feeds/awards?${includes}&include=columns`, 2],
    [`/api/feeds/rfi-responses?${includes}&include=questions`, 4],
  ] as const) {
    const { body } = await stranger.call('GET', path);
    expectNothingOfOwner(body, []);
    expect([path, body.data.length >= count, JSON.stringify(body.includes ?? 'Stella').includes('Stella')]).toEqual([
      path,
      true,
      true,
    ]);
  }
});

const notFound = (id: string) => ({ file_uuid: id, error: 'not_found' });

test.each(testedEndpoints.map((endpoint) => [endpoint.name, endpoint] as const))(
  "%s with another organisation's ids and names",
  async (name, endpoint) => {
    const list = cases[name];
    if (!list) throw new Error(`${name} has no entry in the table of test/service/isolation.test.ts: write one.`);
    for (const { what, named, nowhere = [], seed, expected } of list) {
      const theirs = named(owner);
      const found = await call(endpoint, seed(theirs));
      const missing = await call(endpoint, seed(nowhere));
      const [shown, wanted] =
        expected === 'nothing found'
          ? [found.body.result ?? found.body.data, [200, []]]
          : expected === 'not_found'
            ? [found.body.detail, ['COMPLETED', { data: [], errors: theirs.map(notFound) }]]
            : [undefined, [expected, undefined]];
      expect([what, found.status, shown]).toEqual([what, ...wanted]);
      // An accepted submission has its own id and times.
      const unnamed = (answer: { body: unknown }, texts: readonly string[]) =>
        expected !== 202 &&
        texts.reduce((text, each, index) => text.replaceAll(each, `<${index}>`), JSON.stringify(answer.body ?? ''));
      expect(unnamed(found, theirs)).toBe(unnamed(missing, nowhere));
      expect(missing.status).toBe(found.status);
      expectNothingOfOwner(found, theirs);
    }
  },
);

test('the table has no endpoint that does not exist', () => {
  expect(Object.keys(cases).filter((name) => !testedEndpoints.some((endpoint) => endpoint.name === name))).toEqual([]);
  expect(Object.keys(jobCases)).toEqual(Object.keys(jobPayloads));
});

test("the owner's rows have not changed", async () => {
  const now = await allRows();
  expect([...ownersRows.keys()].filter((row) => !now.has(row))).toEqual([]);
});

test("a cursor of another organisation's feed shows only own records", async () => {
  const { body } = await owner.call('GET', '/api/feeds/latest-bids?page_size=1');
  const next = new URL(body.next);
  const read = await stranger.call('GET', next.pathname + next.search);
  expect(read.status).toBe(200);
  expectNothingOfOwner(read.body, []);
});

test('an Idempotency-Key belongs to the organisation that sent it', async () => {
  const headers = { 'idempotency-key': 'the-same' };
  const send = (party: Party, name: string) =>
    party.call('POST', '/api/jobs/create-sourcing-requests', { name }, headers);
  const theirs = await send(owner, 'Wanted');
  const same = await send(stranger, 'Wanted');
  expect([theirs.status, same.status]).toEqual([202, 202]);
  expect(same.body.id).not.toBe(theirs.body.id);
  expect((await send(stranger, 'Another')).status).toBe(409);
  const other = await owner.call(
    'POST',
    '/api/webhooks',
    { name: 'w', url: receiver.url, triggers: ['TEST'] },
    headers,
  );
  const [mine] = [
    await stranger.call('POST', '/api/webhooks', { name: 'x', url: receiver.url, triggers: ['TEST'] }, headers),
  ];
  expect([other.status, mine?.status]).toEqual([201, 201]);
});

test('a webhook gets no notifications of another organisation', async () => {
  const triggers = ['SOURCING_EVENTS_FEED_UPDATED', 'JOB_UPDATED'];
  // A new organisation, because the stranger's jobs of the tests above may still be running.
  const bystander = await service.organisation();
  const { body: hook } = await bystander.call('POST', '/api/webhooks', { name: 'all', url: receiver.url, triggers });
  const counted = async () =>
    (await database.query('select from service.deliveries where webhook_id = $1', [hook.uuid])).length;
  await desk(owner, 'POST', `${await createEvent(owner, { name: 'Theirs' })}/publish`);
  expect(await counted()).toBe(0);
  await createEvent(bystander, { name: 'Ours' });
  expect(await counted()).toBeGreaterThan(0);
});
