/** A valid request for every endpoint, as full as its schema allows: random input replaces parts of it. */
import type { Endpoint } from '#platform/http/endpoint.ts';
import { operatorEndpoints, organisationEndpoints } from '../endpoint-tables.ts';
import { type FuzzFixture, fullPayload, jobPayloads } from './fuzz-fixture.ts';

export interface Seed {
  /** The parameters of the path, in its order. */
  readonly params?: readonly string[];
  readonly query?: Readonly<Record<string, string>>;
  readonly body?: unknown;
  /** The body of an endpoint that takes raw bytes. */
  readonly bytes?: string;
  readonly headers?: Readonly<Record<string, string>>;
}

/** The secret in all seeds: no answer may repeat it. */
export const secretOfSeeds = 'hunter2-hunter2-hunter2';

const paging = { page_number: '1', page_size: '20' };
const page = { modified_after: '2020-01-01', modified_before: '2040-01-01T00:00:00Z', page_size: '2' };

const commandOn = (
  event: keyof FuzzFixture['events'],
  body?: (fixture: FuzzFixture) => unknown,
  ...more: readonly string[]
) => {
  return (fixture: FuzzFixture): Seed[] => [
    { params: [fixture.events[event], ...more], ...(body ? { body: body(fixture) } : { body: {} }) },
  ];
};

const operatedWith =
  (body: unknown) =>
  (fixture: FuzzFixture): Seed[] => [{ params: [fixture.operated.id], body }];

const bid = {
  supplier: 'S1',
  lots: [{ lot: 'A', values: { Price: { value: '7.25', currency: 'USD' } } }],
  global: { Freight: '3' },
};

const typeOf = (path: string) =>
  path
    .replace(/-(events|requests)(?=-|$)/, (plural) => plural.slice(0, -1))
    .toUpperCase()
    .replaceAll('-', '_');

const seeds: Readonly<Record<string, (fixture: FuzzFixture) => readonly Seed[]>> = {
  'GET /api/manage/suppliers': () => [
    { query: { ...paging, archived: 'false', name: 'Supplier S1', external_id: 'S1', modified_after: '2020-01-01' } },
  ],
  'GET /api/manage/suppliers/:external_id': () => [{ params: ['S1'] }],
  'GET /api/manage/sourcing_requests': () => [
    { query: { ...paging, reference_id: 'REQ-1', modified_after: '2020-01-01' } },
  ],
  'GET /api/manage/sourcing_requests/:uuid': ({ request }) => [{ params: [request] }],
  'POST /api/manage/supplier_changes': () => [
    {
      body: {
        change_data: {
          suppliers: [
            {
              external_id: 'S1',
              name: 'Supplier one',
              fields: { Country: 'SE' },
              contacts: [
                { name: 'Ann', email: 'ann@s1.example', delete: false },
                { email: 'bob@s1.example', delete: true },
              ],
              archived: false,
            },
            { external_id: 'S9', name: 'A new one' },
          ],
        },
      },
    },
  ],
  'GET /api/manage/supplier_changes': () => [{ query: paging }],
  'GET /api/manage/supplier_changes/:uuid': ({ submission }) => [{ params: [submission] }],

  ...Object.fromEntries(
    Object.entries(jobPayloads).flatMap(([path, payload]) => [
      [`POST /api/jobs/${path}`, (fixture: FuzzFixture) => [{ body: payload(fixture) }]],
      [`GET /api/jobs/${path}/:id`, ({ jobs }: FuzzFixture) => [{ params: [jobs[path] ?? ''] }]],
    ]),
  ),
  'POST /api/jobs': (fixture) =>
    Object.entries(jobPayloads).map(([path, payload]) => ({ body: { type: typeOf(path), ...payload(fixture) } })),
  'GET /api/jobs': () => [
    {
      query: {
        ...paging,
        type: 'CREATE_SOURCING_EVENT',
        status: 'COMPLETED',
        created_after: '2020-01-01',
        created_before: '2040-01-01',
      },
    },
  ],
  'GET /api/jobs/:id': ({ jobs }) => Object.values(jobs).map((id) => ({ params: [id] })),

  'GET /api/feeds/sourcing-events': ({ events, request }) => [
    { query: { ...page, id: events.open, sourcing_requests: request, status: 'OPEN', 'filter[tags.Region]': 'EMEA' } },
  ],
  ...Object.fromEntries(
    [
      ['latest-bids', 'columns'],
      ['awards', 'suppliers'],
      ['rfi-responses', 'questions'],
    ].map(([feed = '', include = '']) => [
      `GET /api/feeds/${feed}`,
      ({ events, request }: FuzzFixture) => [
        {
          query: {
            ...page,
            sourcing_event: events.open,
            sourcing_request: request,
            include,
            'filter[sourcing_event.tags.Region]': 'EMEA',
          },
        },
      ],
    ]),
  ),

  'POST /api/webhooks': ({ receiverUrl, tokenUrl }) => [
    {
      body: {
        name: 'hook',
        description: 'for tests',
        url: receiverUrl,
        triggers: ['TEST', 'JOB_UPDATED'],
        signing_alg: 'HMAC_SHA256',
        authentication: {
          type: 'OAUTH_CLIENT_CREDENTIALS',
          parameters: { access_token_url: tokenUrl, client_id: 'me', client_secret: secretOfSeeds, scope: 'a b' },
        },
      },
    },
  ],
  'GET /api/webhooks': () => [{ query: paging }],
  'GET /api/webhooks/:uuid': ({ webhook }) => [{ params: [webhook] }],
  'PATCH /api/webhooks/:uuid': ({ webhook, tokenUrl }) => [
    {
      params: [webhook],
      body: {
        name: 'renamed',
        triggers: ['JOB_UPDATED', 'TEST'],
        is_active: true,
        authentication: {
          type: 'OAUTH_CLIENT_CREDENTIALS',
          parameters: { access_token_url: tokenUrl, client_id: 'me', client_secret: secretOfSeeds, scope: 'a b' },
        },
      },
    },
    { params: [webhook], body: { authentication: null } },
  ],
  'GET /api/webhooks/:uuid/deliveries': ({ webhook }) => [
    { params: [webhook], query: { ...paging, status: 'delivered' } },
  ],
  'POST /api/webhooks/:uuid/deliveries/:id/resend': ({ webhook, delivery }) => [
    { params: [webhook, delivery], body: {} },
  ],
  'DELETE /api/webhooks/:uuid': ({ webhook }) => [{ params: [webhook] }],
  'POST /api/webhooks/:uuid/test': ({ webhook }) => [{ params: [webhook], body: {} }],

  'POST /desk/files': () => [
    { bytes: 'the bytes', headers: { 'content-type': 'application/pdf', 'x-file-name': 'a%20b.pdf' } },
  ],
  'GET /desk/events': () => [{ query: { ...paging, status: 'OPEN', type: 'RFQ' } }],
  'GET /desk/events/:id': ({ events }) => [{ params: [events.open] }],
  'POST /desk/events/:id/publish': commandOn('draft'),
  'POST /desk/events/:id/unpublish': commandOn('open'),
  'POST /desk/events/:id/pause': commandOn('open'),
  'POST /desk/events/:id/resume': commandOn('paused'),
  'POST /desk/events/:id/close': commandOn('open'),
  'POST /desk/events/:id/reopen': commandOn('closed'),
  'POST /desk/events/:id/delete': commandOn('closed'),
  'POST /desk/events/:id/rounds': commandOn('open', () => ({
    starts: '2030-07-01T00:00:00Z',
    ends: '2030-08-01T00:00:00+02:00',
  })),
  'POST /desk/events/:id/rounds/:number/close': commandOn('open', () => ({}), '1'),
  'POST /desk/events/:id/rounds/:number/extend': commandOn('open', () => ({ ends: '2030-09-01' }), '1'),
  'POST /desk/events/:id/rounds/:number/reopen': commandOn('between', () => ({ ends: '2030-09-01' }), '1'),
  'POST /desk/events/:id/invitations': commandOn('open', () => ({ suppliers: ['S2', 'S3'] })),
  'POST /desk/events/:id/bids': ({ events }) => [
    { params: [events.open], body: bid },
    {
      params: [events.dutch],
      body: {
        supplier: 'S1',
        lots: [{ lot: 'A', values: { Price: '1' }, offers: [{ value: '9.5', volume: '10' }] }],
        global: {},
      },
    },
  ],
  'POST /desk/events/:id/bids/withdraw': commandOn('again', () => ({ supplier: 'S1', lots: ['A', 'B'] })),
  'PATCH /desk/events/:id/bids': commandOn('between', () => bid),
  'PUT /desk/events/:id/buyer-values': commandOn('open', () => ({
    lots: [{ lot: 'A', values: { Volume: '11', Before: { value: '800', currency: 'USD' } } }],
    global: { Days: '14' },
  })),
  'PUT /desk/events/:id/scenarios/:name': commandOn(
    'open',
    () => ({
      awards: [
        { lot: 'A', supplier: 'S1', share_awarded: '0.5' },
        { lot: 'A', supplier: 'S2', share_awarded: '0.5' },
      ],
    }),
    'best',
  ),
  'POST /desk/events/:id/award': commandOn('open', () => ({ scenario: 'best' })),
  'PUT /desk/events/:id/questions': commandOn('draft', (fixture) => fullPayload(9, fixture).questions),
  'POST /desk/events/:id/answers': commandOn('open', ({ questions, files }) => ({
    supplier: 'S2',
    answers: [
      { question_uuid: questions.text, value: 'Norway', comment: 'mostly', document_file_uuids: [files.offer] },
      { question_uuid: questions.number, value: '12.50', currency: 'EUR' },
      { question_uuid: questions.choice, selected_options: ['yes', 'no'] },
      { question_uuid: questions.file, document_file_uuids: [files.proof] },
    ],
  })),
  'DELETE /desk/events/:id/answers/:supplier/:question/files/:file': ({ events, questions, files }) => [
    { params: [events.open, 'S1', questions.file, files.proof], body: {} },
  ],

  'POST /admin/organisations': () => [{ body: { name: 'Another' } }],
  'POST /admin/organisations/:id/api-keys': operatedWith({
    name: 'third',
    scopes: ['manage', 'desk'],
    expires_at: '2031-01-01',
    user: { name: 'Una', email: 'una@buyer.example' },
  }),
  'GET /admin/organisations/:id/api-keys': ({ operated }) => [{ params: [operated.id], query: paging }],
  'DELETE /admin/organisations/:id/api-keys/:keyId': ({ operated }) => [{ params: [operated.id, operated.apiKey] }],
  'PUT /admin/organisations/:id/webhook-domains': operatedWith({
    domains: ['localhost', '*.example.org', '192.0.2.1'],
  }),
  'PUT /admin/organisations/:id/allowed-networks': operatedWith({ cidrs: ['10.0.0.0/8', 'fd00::/8'] }),
  'POST /admin/organisations/:id/supplier-attributes': operatedWith({ name: 'City' }),
  'PUT /admin/organisations/:id/limits': operatedWith({
    enabled: true,
    suppliers: { burst: 10, sustained: 100 },
    feeds: { burst: 1, sustained: 1_000_000 },
    webhooks_max: 3,
  }),
  'GET /admin/organisations/:id/deliveries': ({ operated }) => [
    { params: [operated.id], query: { ...paging, webhook: operated.webhook, status: 'delivered' } },
  ],
  'POST /admin/deliveries/:id/resend': ({ operated }) => [{ params: [operated.delivery], body: {} }],
};

export interface TestedEndpoint
  extends Pick<Endpoint<never>, 'method' | 'path' | 'body' | 'nullsAreLeftOut' | 'query' | 'raw'> {
  /** `POST /api/jobs` */
  readonly name: string;
  readonly by: 'organisation' | 'operator';
}

/** Every endpoint of the service's tables. */
export const testedEndpoints: readonly TestedEndpoint[] = [
  ...organisationEndpoints.map((endpoint) => ({
    ...endpoint,
    name: `${endpoint.method} ${endpoint.path}`,
    by: 'organisation' as const,
  })),
  ...operatorEndpoints.map((endpoint) => ({
    ...endpoint,
    name: `${endpoint.method} ${endpoint.path}`,
    by: 'operator' as const,
  })),
];

/** The valid requests of an endpoint. Throws for an endpoint without seeds: each new endpoint needs one. */
export function seedsOf(endpoint: TestedEndpoint, fixture: FuzzFixture): readonly Seed[] {
  const make = seeds[endpoint.name];
  if (!make) throw new Error(`${endpoint.name} has no valid request in test/service/fuzz/seeds.ts: write one.`);
  return make(fixture);
}
