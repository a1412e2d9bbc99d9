/** For each endpoint that takes a body, a body with every possible member. Its ids name nothing that exists. */
import { type JobType, jobPathsOf, jobTypeNames } from '#contract/job.ts';

const id = '00000000-0000-4000-8000-000000000000';
const parentId = '00000000-0000-4000-8000-000000000001';
const instant = '2031-01-01T00:00:00Z';
const tags = [{ name: 'Region', value: 'EMEA' }];
const cells = { Price: '1', Freight: { value: '1', currency: 'EUR' } };

const question = {
  uuid: id,
  identifier: '1',
  question_text: 'Which?',
  description: 'Say it',
  question_type: 'OPTIONAL',
  input_type: 'SINGLE_CHOICE',
  parent_question_uuid: parentId,
  categories: ['Quality'],
  options: [{ value: 'Yes', satisfies_gating: true }],
  allow_comments: true,
  supporting_documents_enabled: true,
  attachment_file_uuids: [id],
};

const parent = { uuid: parentId, identifier: '0', question_text: 'Who?', input_type: 'TEXT' };

const event = {
  name: 'Chairs',
  description: 'For all offices',
  reference_id: 'R-1',
  event_type: 'RFQ',
  primary_currency: 'EUR',
  secondary_currencies: [{ code: 'USD', exchange_rate: '0.9' }],
  tags,
  category: 'Furniture',
  event_contact: { name: 'Eve', email: 'eve@buyer.example' },
  suppliers: [{ external_id: 'S1', contacts: ['ann@one.example'] }],
  rounds: [{ starts: instant, ends: '2031-01-02' }],
  questions: [question, parent],
  sourcing_requests: [id],
  primary_cost_calculation: 'Volume',
  bid_sheet: {
    column_roles: { lot_identifier: 'Volume', volume: 'Volume', historic_cost: 'Volume', description: 'Volume' },
    columns: [
      {
        name: 'Volume',
        column_type: 'INPUT',
        input_by: 'BUYER_INPUT',
        input_type: 'CURRENCY',
        precision: 2,
        scope: 'LOT',
      },
      { name: 'Freight', column_type: 'INPUT', input_by: 'BUYER_INPUT', input_type: 'CURRENCY', scope: 'EVENT' },
      { name: 'Twice', column_type: 'FORMULA', formula: 'Volume * 2' },
    ],
    lots: [{ name: 'A', values: [{ column: 'Volume', value: '1', currency: 'USD' }], sourcing_request: id }],
    global_values: [{ column: 'Freight', value: '1', currency: 'USD' }],
  },
  settings: { is_test: true, is_template: true, close_after_last_round: true },
};

const files = [
  { file_name: 'a.txt', content_type: 'text/plain', content: '' },
  { file_name: 'b.txt', url: 'https://files.example/b' },
];

export const fullJobPayloads: Record<JobType, object> = {
  CREATE_SOURCING_EVENT: event,
  CREATE_SOURCING_EVENT_FROM_TEMPLATE: { template: id, ...event },
  CREATE_SOURCING_REQUEST: {
    name: 'Chairs',
    description: 'Wanted',
    reference_id: 'R-1',
    requested_by: 'Eve',
    needed_by: instant,
    category: 'Furniture',
    tags,
    items: [{ name: 'Chair', description: 'red', quantity: '2', unit: 'piece', target_price: '9.50', currency: 'EUR' }],
  },
  UPDATE_SOURCING_EVENT: { sourcing_event: id, ...event },
  ATTACH_FILES_TO_SOURCING_REQUEST: { sourcing_request: id, files },
  ATTACH_FILES_TO_SOURCING_EVENT: { sourcing_event: id, files },
  GENERATE_FILE_DOWNLOAD_LINKS: { file_uuids: [id] },
};

const bid = {
  supplier: 'S1',
  lots: [{ lot: 'A', values: cells, offers: [{ value: '1', volume: '2' }] }],
  global: cells,
};

/** The bodies by method and path template. */
export const fullBodies: Record<string, object> = {
  'POST /api/manage/supplier_changes': {
    change_data: {
      suppliers: [
        {
          external_id: 'S1',
          name: 'One',
          fields: { Region: 'EMEA' },
          contacts: [{ name: 'Ann', email: 'ann@one.example', delete: false }],
          archived: false,
        },
      ],
    },
  },
  ...Object.fromEntries(
    jobTypeNames.flatMap((type) => jobPathsOf(type).map((path) => [`POST /api/jobs/${path}`, fullJobPayloads[type]])),
  ),
  'POST /api/jobs': { type: 'CREATE_SOURCING_EVENT', ...event },
  'POST /api/webhooks': {
    name: 'hook',
    description: 'all of it',
    url: 'https://localhost:1/',
    triggers: ['TEST'],
    signing_alg: 'HMAC_SHA256',
    authentication: {
      type: 'OAUTH_CLIENT_CREDENTIALS',
      parameters: { access_token_url: 'https://localhost:1/', client_id: 'a', client_secret: 'b', scope: 'c d' },
    },
  },
  'PATCH /api/webhooks/:uuid': {
    name: 'hook',
    triggers: ['TEST'],
    authentication: {
      type: 'OAUTH_CLIENT_CREDENTIALS',
      parameters: { access_token_url: 'https://localhost:1/', client_id: 'a', client_secret: 'b', scope: 'c d' },
    },
    is_active: true,
  },
  'POST /desk/events/:id/rounds': { starts: instant, ends: '2031-01-02' },
  'POST /desk/events/:id/rounds/:number/extend': { ends: instant },
  'POST /desk/events/:id/rounds/:number/reopen': { ends: instant },
  'POST /desk/events/:id/invitations': { suppliers: ['S1'] },
  'POST /desk/events/:id/bids': bid,
  'PATCH /desk/events/:id/bids': bid,
  'POST /desk/events/:id/bids/withdraw': { supplier: 'S1', lots: ['A'] },
  'PUT /desk/events/:id/buyer-values': { lots: [{ lot: 'A', values: cells }], global: cells },
  'PUT /desk/events/:id/scenarios/:name': { awards: [{ lot: 'A', supplier: 'S1', share_awarded: '1' }] },
  'POST /desk/events/:id/award': { scenario: 'best' },
  'PUT /desk/events/:id/questions': [question, parent],
  'POST /desk/events/:id/answers': {
    supplier: 'S1',
    answers: [
      {
        question_uuid: id,
        value: 'x',
        selected_options: ['Yes'],
        comment: 'y',
        currency: 'EUR',
        document_file_uuids: [id],
      },
    ],
  },
  'POST /admin/organisations': { name: 'x' },
  'POST /admin/organisations/:id/api-keys': {
    name: 'x',
    scopes: ['jobs'],
    expires_at: instant,
    user: { name: 'Una', email: 'una@buyer.example' },
  },
  'PUT /admin/organisations/:id/webhook-domains': { domains: ['localhost'] },
  'PUT /admin/organisations/:id/allowed-networks': { cidrs: ['127.0.0.0/8'] },
  'POST /admin/organisations/:id/supplier-attributes': { name: 'x' },
  'PUT /admin/organisations/:id/limits': { enabled: true, feeds: { burst: 1, sustained: 2 }, webhooks_max: 3 },
};
