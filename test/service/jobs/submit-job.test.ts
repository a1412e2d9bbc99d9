/** POST to each job type's path, and POST /api/jobs: the same types and the same checks, before a job has an id. */
import { randomUUID } from 'node:crypto';
import { describe, expect, test } from 'vitest';
import { type JobType, jobTypeNames, jobTypes } from '#contract/job.ts';
import { type HttpAnswer, request } from '../../harness/request.ts';
import { endedJob, eventPayload } from '../../harness/sourcing.ts';
import type { TestOrganisation } from '../../harness/test-organisation.ts';
import { startTestService } from '../../harness/test-service.ts';

const service = await startTestService();
const { database } = service.db;
const organisation = await service.organisation();

const id = randomUUID();
const file = { file_name: 'a.txt', content: Buffer.from('a').toString('base64') };

/** The smallest valid payload of each type. */
const least: Record<JobType, object> = {
  CREATE_SOURCING_EVENT: { name: 'Chairs' },
  CREATE_SOURCING_EVENT_FROM_TEMPLATE: { template: id },
  CREATE_SOURCING_REQUEST: { name: 'Chairs' },
  UPDATE_SOURCING_EVENT: { sourcing_event: id },
  ATTACH_FILES_TO_SOURCING_REQUEST: { sourcing_request: id, files: [file] },
  ATTACH_FILES_TO_SOURCING_EVENT: { sourcing_event: id, files: [file] },
  GENERATE_FILE_DOWNLOAD_LINKS: { file_uuids: [id] },
};

const submissions = jobTypeNames.flatMap((type) => [
  { type, path: `/api/jobs/${jobTypes[type].path}`, bodyOf: (payload: object): object => payload },
  { type, path: '/api/jobs', bodyOf: (payload: object): object => ({ type, ...payload }) },
]);

const paths = (answer: HttpAnswer) => answer.body.errors?.map((error: { path: string }) => error.path);

async function countJobs(of: TestOrganisation): Promise<number> {
  const [row] = await database.query<{ count: number }>(
    'select count(*) from service.jobs where organisation_id = $1',
    [of.id],
  );
  return row?.count ?? 0;
}

describe.each(submissions)('POST $path with a $type', ({ type, path, bodyOf }) => {
  test('returns a pending job, with or without a final slash', async () => {
    for (const form of [path, `${path}/`]) {
      const answer = await organisation.call('POST', form, bodyOf(least[type]));
      expect(answer.status).toBe(202);
      expect(answer.body).toEqual({
        id: expect.stringMatching(/^[0-9a-f-]{36}$/),
        type,
        status: 'PENDING',
        created: expect.stringMatching(/^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}Z$/),
      });
      const read = await organisation.call('GET', `/api/jobs/${answer.body.id}`);
      expect(read.body).toMatchObject({ id: answer.body.id, type, created: answer.body.created });
    }
  });

  test('refuses an unknown field and a missing one with their paths, and creates no job', async () => {
    const stranger = await service.organisation();
    const [required = ''] = Object.keys(least[type]);
    const { [required]: _left, ...rest } = least[type] as Record<string, unknown>;
    const answer = await stranger.call('POST', path, bodyOf({ ...rest, nmae: 'x' }));
    expect(answer.status).toBe(400);
    expect(new Set(paths(answer))).toEqual(new Set([required, 'nmae']));
    expect(await countJobs(stranger)).toBe(0);
  });

  test('keeps the address that was called, for the links of the result', async () => {
    const { port } = new URL(service.url);
    const answer = await request('POST', `http://localhost:${port}${path}`, {
      key: organisation.key,
      body: bodyOf(least[type]),
    });
    const rows = await database.query('select base_url from service.jobs where id = $1', [answer.body.id]);
    expect(rows).toEqual([{ base_url: `http://localhost:${port}` }]);
  });
});

test.each<[string, object, string[]]>([
  ['no type', {}, ['type']],
  ['an unknown type', { type: 'DELETE_EVERYTHING' }, ['type']],
  ['a type of another case', { type: 'create_sourcing_event', name: 'x' }, ['type']],
  ["another type's payload", { type: 'CREATE_SOURCING_REQUEST', name: 'x', bid_sheet: {} }, ['bid_sheet']],
])('POST /api/jobs with %s is refused', async (_what, body, expected) => {
  const answer = await organisation.call('POST', '/api/jobs', body);
  expect([answer.status, paths(answer)]).toEqual([400, expected]);
});

const lot = { name: 'A', values: [{ column: 'Volume', value: 'ten' }] };
const question = { identifier: '1', question_text: 'Which?', input_type: 'TEXT' };

/** Faults that no schema finds, but that need no database. */
const faults: [string, object, string][] = [
  ['a formula with an unknown column', { primary_cost_calculation: '[Volume] * [Prise]' }, 'primary_cost_calculation'],
  ['a value that is not a number', { lots: [lot] }, 'bid_sheet.lots[0].values[0]'],
  ['two lots of one name', { lots: [{ name: 'A' }, { name: 'A' }] }, 'bid_sheet.lots[1].name'],
  ['a round before the previous one', { rounds: [{ ends: '2031-02-01' }, { ends: '2031-01-01' }] }, 'rounds[1].ends'],
  [
    'rounds that overlap',
    { rounds: [{ ends: '2031-02-01' }, { starts: '2031-01-31', ends: '2031-03-01' }] },
    'rounds[1].starts',
  ],
  ['a round that ends before it starts', { rounds: [{ starts: '2031-02-01', ends: '2031-01-01' }] }, 'rounds[0].ends'],
  ['two questions of one identifier', { questions: [question, question] }, 'questions[1].identifier'],
  ['a request twice', { sourcing_requests: [id, id.toUpperCase()] }, 'sourcing_requests[1]'],
  ['a supplier twice', { suppliers: [{ external_id: 'S' }, { external_id: 'S' }] }, 'suppliers[1].external_id'],
  [
    'a contact twice',
    { suppliers: [{ external_id: 'S', contacts: ['a@s.example', 'A@S.example'] }] },
    'suppliers[0].contacts[1]',
  ],
  [
    'a rate of 0',
    { secondary_currencies: [{ code: 'USD', exchange_rate: '0' }] },
    'secondary_currencies[0].exchange_rate',
  ],
];

describe.each(['CREATE_SOURCING_EVENT', 'CREATE_SOURCING_EVENT_FROM_TEMPLATE', 'UPDATE_SOURCING_EVENT'] as const)(
  'a %s',
  (type) => {
    test.each(faults)('with %s is refused, and gets no id', async (_what, { ...fault }, expected) => {
      const { lots, ...members } = fault as { lots?: object[] };
      const { name, primary_cost_calculation, bid_sheet } = eventPayload();
      const sheet = { ...bid_sheet, ...(lots && { lots }) };
      const payload = { ...least[type], name, primary_cost_calculation, bid_sheet: sheet, ...members };
      for (const { path, bodyOf } of submissions.filter((submission) => submission.type === type)) {
        const before = await countJobs(organisation);
        const answer = await organisation.call('POST', path, bodyOf(payload));
        expect([answer.status, paths(answer)]).toEqual([400, [expected]]);
        expect(await countJobs(organisation)).toBe(before);
      }
    });
  },
);

test.each(['CREATE_SOURCING_EVENT_FROM_TEMPLATE', 'UPDATE_SOURCING_EVENT'] as const)(
  'a %s is not refused for a fault that depends on the stored event',
  async (type) => {
    const parts = [
      { primary_cost_calculation: '[Of] * [The event]' },
      { bid_sheet: { lots: [{ name: 'A', values: [{ column: 'Of the event', value: '1' }] }] } },
      { bid_sheet: { column_roles: { volume: 'Of the event' } } },
      { bid_sheet: { global_values: [{ column: 'Of the event', value: '1' }] } },
      { secondary_currencies: [{ code: 'EUR', exchange_rate: '2' }] },
      { bid_sheet: { ...eventPayload().bid_sheet, lots: [{ name: 'A', values: [] }] } },
      {
        bid_sheet: {
          columns: [{ name: 'Old', column_type: 'INPUT', input_by: 'BUYER_INPUT', input_type: 'CURRENCY' }],
          lots: [{ name: 'A', values: [{ column: 'Old', value: '1', currency: 'USD' }] }],
        },
      },
    ];
    for (const part of parts) {
      const answer = await organisation.call('POST', `/api/jobs/${jobTypes[type].path}`, { ...least[type], ...part });
      expect([answer.status, answer.body.errors]).toEqual([202, undefined]);
    }
  },
);

test('a list may have 1 to 50 files', async () => {
  const path = '/api/jobs/generate-file-download-links';
  const uuids = Array.from({ length: 51 }, () => randomUUID());
  expect((await organisation.call('POST', path, { file_uuids: uuids.slice(0, 50) })).status).toBe(202);
  for (const file_uuids of [uuids, []]) {
    const answer = await organisation.call('POST', path, { file_uuids });
    expect([answer.status, paths(answer)]).toEqual([400, ['file_uuids']]);
  }
});

test('two submissions at once are two jobs, and both run', async () => {
  const own = await service.organisation();
  const payloads = ['one', 'two'].map((name) => ({ name }));
  const jobs = await Promise.all(payloads.map((payload) => endedJob(own, '/api/jobs/create-sourcing-events', payload)));
  expect(jobs.map(({ status }) => status)).toEqual(['COMPLETED', 'COMPLETED']);
  expect(new Set(jobs.map((job) => job.created_entity)).size).toBe(2);
});

test('the path of a job type accepts only POST, and the answer to GET says so', async () => {
  for (const method of ['GET', 'PUT', 'DELETE']) {
    const answer = await organisation.call(method, '/api/jobs/create-sourcing-events');
    expect([answer.status, answer.headers.get('allow')]).toEqual([405, 'POST']);
  }
});

test.each(jobTypeNames)('a %s counts against its limit by either path', async (type) => {
  const own = await service.organisation();
  const limit = type === 'GENERATE_FILE_DOWNLOAD_LINKS' ? 'file_links' : 'jobs_write';
  const other = limit === 'file_links' ? 'jobs_write' : 'file_links';
  await service.operator('PUT', `/admin/organisations/${own.id}/limits`, {
    enabled: true,
    [limit]: { burst: 2, sustained: 2 },
    [other]: { burst: 1, sustained: 1 },
  });
  const [direct, generic] = submissions.filter((submission) => submission.type === type);
  const statuses = [];
  for (const submission of [direct, generic, generic, direct]) {
    if (!submission) throw new Error('each type has two paths');
    statuses.push((await own.call('POST', submission.path, submission.bodyOf(least[type]))).status);
  }
  expect(statuses).toEqual([202, 202, 429, 429]);
});
