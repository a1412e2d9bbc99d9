/** Every operation of the OpenAPI documents succeeds once here, and its answer is checked against them. */
import { expect, test } from 'vitest';
import { answerCheckOfService } from '../../harness/documented-answers.ts';
import { eventually } from '../../harness/eventually.ts';
import { createManualClock } from '../../harness/manual-clock.ts';
import { type HttpAnswer, request } from '../../harness/request.ts';
import { startTestService } from '../../harness/test-service.ts';
import { startWebhookReceiver } from '../../harness/webhook-receiver.ts';

const clock = createManualClock(Date.UTC(2030, 5, 1));
const service = await startTestService({ clock });
const check = answerCheckOfService();
const seen = new Set<string>();

async function send(
  key: string,
  method: string,
  path: string,
  body?: unknown,
  headers: Record<string, string> = {},
): Promise<HttpAnswer> {
  const url = service.url + path;
  const answer = await request(method, url, { key, headers, ...(body === undefined ? {} : { body }) });
  seen.add(check.check(method, url, answer) ?? '');
  if (answer.status >= 400) throw new Error(`${method} ${path}: ${answer.status} ${JSON.stringify(answer.body)}`);
  return answer;
}

const operator = async (method: string, path: string, body?: unknown) =>
  (await send(service.adminToken, method, path, body)).body;

const receiver = await startWebhookReceiver();

async function newOrganisation() {
  const { id } = await operator('POST', '/admin/organisations', { name: 'Every' });
  const organisation = `/admin/organisations/${id}`;
  await operator('PUT', `${organisation}/webhook-domains`, { domains: ['localhost'] });
  await operator('PUT', `${organisation}/allowed-networks`, { cidrs: ['127.0.0.0/8', '::1/128'] });
  await operator('PUT', `${organisation}/limits`, { enabled: true, jobs_read: { burst: 900, sustained: 900 } });
  await operator('POST', `${organisation}/supplier-attributes`, { name: 'Country' });
  const scopes = ['manage', 'jobs', 'feeds', 'webhooks', 'desk'];
  const { key } = await operator('POST', `${organisation}/api-keys`, { name: 'all', scopes });
  const other = await operator('POST', `${organisation}/api-keys`, { name: 'other' });
  await operator('GET', `${organisation}/api-keys`);
  await operator('DELETE', `${organisation}/api-keys/${other.id}`);
  const call = async (method: string, path: string, body?: unknown, headers?: Record<string, string>) =>
    (await send(key, method, path, body, headers)).body;
  return { organisation, call };
}

const { organisation, call } = await newOrganisation();

/** Submits a job to the path of its type, reads it there until it has ended, and returns it. */
async function job(path: string, payload: object) {
  const { id } = await call('POST', `/api/jobs/${path}`, payload);
  const ended = await eventually(`the job ${path} has ended`, async () => {
    const read = await call('GET', `/api/jobs/${path}/${id}`);
    return read.status === 'PENDING' ? undefined : read;
  });
  expect(ended).toMatchObject({ status: 'COMPLETED' });
  return ended;
}

const input = { column_type: 'INPUT', input_type: 'NUMBER' };
const sheet = {
  column_roles: { volume: 'Volume', historic_cost: 'Before' },
  columns: [
    { ...input, name: 'Volume', input_by: 'BUYER_INPUT', precision: 0 },
    { ...input, name: 'Before', input_by: 'BUYER_INPUT' },
    { ...input, name: 'Price', input_by: 'SUPPLIER_INPUT', input_type: 'CURRENCY', precision: 2 },
    { name: 'Cost', column_type: 'FORMULA', formula: '[Volume] * [Price]' },
  ],
  lots: ['A', 'B'].map((name) => ({
    name,
    values: [
      { column: 'Volume', value: '10' },
      { column: 'Before', value: '60' },
    ],
  })),
};

test('suppliers', async () => {
  const change = (contacts: object[]) => ({
    change_data: {
      suppliers: ['S1', 'S2'].map((id) => ({
        external_id: id,
        name: `Supplier ${id}`,
        fields: { Country: 'NO' },
        contacts,
      })),
    },
  });
  const submitted = await call(
    'POST',
    '/api/manage/supplier_changes',
    change([{ name: 'Ann', email: 'ann@s.example' }]),
  );
  // One fault of each kind: an attribute and a contact that do not exist.
  await call('POST', '/api/manage/supplier_changes', {
    change_data: {
      suppliers: [
        { external_id: 'S1', contacts: [{ email: 'nobody@s.example', delete: true }] },
        { external_id: 'S3', name: 'Third', fields: { Planet: 'Mars' } },
      ],
    },
  });
  await eventually('the submissions are processed', async () => {
    const list = await call('GET', '/api/manage/supplier_changes/');
    return list.result.every((one: { current_state: string }) => one.current_state === 'PROCESSED');
  });
  const processed = await call('GET', `/api/manage/supplier_changes/${submitted.result.uuid}`);
  expect(processed.result.change_summary).toHaveLength(2);
  expect((await call('GET', '/api/manage/suppliers?archived=false&page_size=1')).count).toBe(2);
  expect((await call('GET', '/api/manage/suppliers/S1')).result.contacts).toHaveLength(1);
});

let webhook = '';
let request_ = '';
let event = '';
let file = '';

test('webhooks, files and jobs', async () => {
  const created = await call('POST', '/api/webhooks', {
    name: 'all',
    url: receiver.url,
    triggers: [
      'SOURCING_EVENTS_FEED_UPDATED',
      'LATEST_BIDS_FEED_UPDATED',
      'AWARDS_FEED_UPDATED',
      'RFI_RESPONSES_FEED_UPDATED',
      'JOB_UPDATED',
    ],
  });
  webhook = created.uuid;
  await call('GET', `/api/webhooks/${webhook}`);
  await call('GET', '/api/webhooks');
  await call('POST', `/api/webhooks/${webhook}/test`);
  await call('PATCH', `/api/webhooks/${webhook}`, { name: 'every', is_active: true, authentication: null });
  const [delivery] = (await call('GET', `/api/webhooks/${webhook}/deliveries?page_size=5`)).result;
  await call('POST', `/api/webhooks/${webhook}/deliveries/${delivery.id}/resend`);

  const upload = { 'content-type': 'application/pdf', 'x-file-name': 'drawing.pdf' };
  file = (await call('POST', '/desk/files', 'the bytes', upload)).uuid;
  request_ = (await job('create-sourcing-requests', { name: 'Chairs', items: [{ name: 'Chair', quantity: '20' }] }))
    .created_entity;
  const attached = [{ file_name: 'a.txt', content: Buffer.from('a').toString('base64') }];
  await job('attach-files-to-sourcing-request', { sourcing_request: request_, files: attached });
  const template = (await job('create-sourcing-events', { name: 'Template', settings: { is_template: true } }))
    .created_entity;
  event = (
    await job('create-sourcing-events-from-template', {
      template,
      name: 'Chairs',
      reference_id: 'R-1',
      primary_cost_calculation: '[Cost]',
      secondary_currencies: [{ code: 'USD', exchange_rate: '0.9' }],
      tags: [{ name: 'Region', value: 'EMEA' }],
      category: 'Furniture',
      event_contact: { name: 'Bo', email: 'bo@buyer.example' },
      suppliers: [{ external_id: 'S1' }],
      sourcing_requests: [request_],
      bid_sheet: sheet,
    })
  ).created_entity;
  await job('update-sourcing-event', { sourcing_event: event, description: 'For two sites' });
  await job('update-sourcing-events', { sourcing_event: event, description: 'For two sites and a depot' });
  await job('attach-files-to-sourcing-event', {
    sourcing_event: event,
    files: [...attached, { file_name: 'b.txt', url: 'https://localhost:1/b.txt' }],
  });
  await job('generate-file-download-links', { file_uuids: [file, '7f9c24e8-3b12-4c8f-9a51-2d6f0e4b7a10'] });
  const generic = await call('POST', '/api/jobs', { type: 'GENERATE_FILE_DOWNLOAD_LINKS', file_uuids: [file] });
  await call('GET', `/api/jobs/${generic.id}`);
  const failing = await call('POST', '/api/jobs/create-sourcing-events', {
    name: 'x',
    suppliers: [{ external_id: 'nobody' }],
  });
  await eventually('the job has failed', async () => {
    const read = await call('GET', `/api/jobs/${failing.id}`);
    return read.status === 'FAILED' && read.errors.length > 0;
  });
  expect((await call('GET', '/api/jobs/?status=COMPLETED')).count).toBeGreaterThanOrEqual(7);
  await call('GET', '/api/manage/sourcing_requests?reference_id=PR-1&modified_after=2020-01-01');
  expect((await call('GET', `/api/manage/sourcing_requests/${request_}`)).result.files).toHaveLength(1);
});

const question = { question_text: 'Which standard?', question_type: 'MANDATORY' };
const text = '00000000-0000-4000-8000-000000000001';
const choice = '00000000-0000-4000-8000-000000000002';
const papers = '00000000-0000-4000-8000-000000000003';

test('an event from draft to its second award', async () => {
  const at = `/desk/events/${event}`;
  await call('POST', `${at}/rounds`, { ends: '2030-06-10T00:00:00Z' });
  await call('PUT', `${at}/questions`, [
    { ...question, uuid: text, identifier: '1', input_type: 'TEXT', allow_comments: true },
    {
      ...question,
      uuid: choice,
      identifier: '1.1',
      parent_question_uuid: text,
      question_type: 'GATING',
      input_type: 'SINGLE_CHOICE',
      options: [{ value: 'yes', satisfies_gating: true }, { value: 'no' }],
      attachment_file_uuids: [file],
    },
    { ...question, uuid: papers, identifier: '2', input_type: 'FILE' },
  ]);
  await call('POST', `${at}/invitations`, { suppliers: ['S2'] });
  await call('POST', `${at}/publish`, {});
  await call('POST', `${at}/pause`);
  await call('POST', `${at}/resume`);
  const lots = ['A', 'B'].map((lot) => ({ lot, values: { Price: '5.00' } }));
  await call('POST', `${at}/bids`, { supplier: 'S1', lots });
  await call('POST', `${at}/bids`, {
    supplier: 'S2',
    lots: [{ lot: 'A', values: { Price: { value: '4.00', currency: 'USD' } } }, { lot: 'B' }],
  });
  await call('POST', `${at}/answers`, {
    supplier: 'S1',
    answers: [
      { question_uuid: text, value: 'EN 1335', comment: 'since 2020' },
      { question_uuid: choice, selected_options: ['yes'] },
      { question_uuid: papers, document_file_uuids: [file] },
    ],
  });
  await call('DELETE', `${at}/answers/S1/${papers}/files/${file}`);
  await call('POST', `${at}/rounds/1/extend`, { ends: '2030-06-12T00:00:00Z' });
  await call('POST', `${at}/rounds/1/close`);
  await call('PATCH', `${at}/bids`, { supplier: 'S1', lots: [{ lot: 'A', values: { Price: '4.50' } }] });
  await call('PUT', `${at}/buyer-values`, { lots: [{ lot: 'A', values: { Before: '70' } }] });
  await call('PUT', `${at}/scenarios/best`, {
    awards: [
      { lot: 'A', supplier: 'S1', share_awarded: '0.6' },
      { lot: 'A', supplier: 'S2', share_awarded: '0.4' },
    ],
  });
  await call('POST', `${at}/award`, { scenario: 'best' });
  expect((await call('GET', at)).allowed).toContain('close');
  await call('POST', `${at}/close`);
  await call('POST', `${at}/reopen`);
  await call('POST', `${at}/bids/withdraw`, { supplier: 'S2', lots: ['A'] });
  await call('POST', `${at}/rounds/1/close`);
  await call('POST', `${at}/rounds/1/reopen`, {});
  await call('POST', `${at}/close`);
  await call('GET', at);
  await call('GET', '/desk/events?page_size=5');
});

test('the feeds, with every filter and every include', async () => {
  const bounds = 'modified_after=2030-05-01&modified_before=2031-01-01T00:00:00Z';
  const events = await call(
    'GET',
    `/api/feeds/sourcing-events?${bounds}&id=${event}&status=CLOSED&sourcing_requests=${request_}&filter[tags.Region]=EMEA`,
  );
  expect(events.data[0].rounds[0]).toMatchObject({ status: 'COMPLETE', awarded_lot_count: 1 });
  expect((await call('GET', '/api/feeds/sourcing-events?page_size=1')).next).toContain('cursor=');
  const filters = `sourcing_event=${event}&sourcing_request=${request_}&filter[sourcing_event.tags.Region]=EMEA`;
  const all = 'include=sourcing_events&include=suppliers';
  const bids = await call('GET', `/api/feeds/latest-bids?${bounds}&${filters}&${all}&include=columns`);
  // Two bids of S1, and the withdrawn bid of S2.
  expect(bids.data).toHaveLength(3);
  expect(bids.includes).toMatchObject({ suppliers: [{}, {}], sourcing_events: [{}], columns: [{}, {}, {}, {}] });
  const awards = await call('GET', `/api/feeds/awards?${bounds}&${filters}&${all}&include=columns`);
  expect(awards.data).toHaveLength(2);
  const answers = await call('GET', `/api/feeds/rfi-responses?${bounds}&${filters}&${all}&include=questions`);
  expect(answers.includes.questions).toHaveLength(3);
  const tag = (await send(service.adminToken, 'GET', `${organisation}/api-keys`)).headers.get('etag') ?? '';
  expect(
    (await send(service.adminToken, 'GET', `${organisation}/api-keys`, undefined, { 'if-none-match': tag })).status,
  ).toBe(304);
});

test('ends: an event that is deleted, a notification sent again, a webhook that is deleted', async () => {
  const made = (await job('create-sourcing-events', { name: 'Short' })).created_entity;
  await call('POST', `/desk/events/${made}/publish`);
  await call('POST', `/desk/events/${made}/unpublish`);
  await call('POST', `/desk/events/${made}/delete`);
  const delivered = await eventually('a notification was delivered', async () => {
    const log = await operator('GET', `${organisation}/deliveries?webhook=${webhook}&status=delivered`);
    return log.result[0];
  });
  await operator('POST', `/admin/deliveries/${delivered.id}/resend`);
  const triggers = ['LATEST_BIDS', 'AWARDS', 'RFI_RESPONSES', 'SOURCING_EVENTS'].map((feed) => `${feed}_FEED_UPDATED`);
  const kinds = [...triggers, 'JOB_UPDATED', 'TEST'];
  const missing = () => kinds.filter((kind) => !receiver.received.some(({ json }) => json.trigger === kind));
  await eventually('every kind of notification has come', async () => missing().length === 0);
  expect(missing()).toEqual([]);
  await call('DELETE', `/api/webhooks/${webhook}`);
});

test('every operation of the documents has succeeded above', () => {
  const succeeded = new Set([...seen].filter((one) => / 2\d\d$/.test(one)).map((one) => one.slice(0, -4)));
  const missing = check.operations.filter((operation) => !succeeded.has(operation));
  expect(missing, 'call these operations in a test of this file').toEqual([]);
  expect(check.operations.length).toBeGreaterThanOrEqual(67);
});
