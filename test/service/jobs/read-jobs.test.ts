/** Reading jobs: one job by either path, and the list with its filters and pages. */
import { randomUUID } from 'node:crypto';
import { expect, test } from 'vitest';
import { jobTypes } from '#contract/job.ts';
import { endedJob } from '../../harness/sourcing.ts';
import type { TestOrganisation } from '../../harness/test-organisation.ts';
import { startTestService } from '../../harness/test-service.ts';

const service = await startTestService();
const { database } = service.db;

/** Inserts ended jobs, one for each minute from 00:01 on. No worker sees them. */
async function endedJobs(organisation: TestOrganisation, jobs: readonly { type?: string; status?: string }[]) {
  const rows = await database.query<{ id: string }>(
    `insert into service.jobs (id, organisation_id, type, status, payload, created_by, created)
     select gen_random_uuid(), $1, type, status, '{}', $1,
       timestamptz '2030-01-01 00:00:00Z' + place * interval '1 minute'
     from unnest($2::text[], $3::text[]) with ordinality as given (type, status, place) order by place returning id`,
    [
      organisation.id,
      jobs.map(({ type }) => type ?? 'CREATE_SOURCING_EVENT'),
      jobs.map(({ status }) => status ?? 'COMPLETED'),
    ],
  );
  return rows.map(({ id }) => id);
}

async function listed(organisation: TestOrganisation, query: string): Promise<string[]> {
  const answer = await organisation.call('GET', `/api/jobs/?${query}`);
  expect(answer.status).toBe(200);
  return answer.body.result.map(({ id }: { id: string }) => id);
}

test('a job is read by the path of its own type only, with or without a final slash', async () => {
  const organisation = await service.organisation();
  const job = await endedJob(organisation, '/api/jobs/create-sourcing-events', { name: 'Chairs' });
  for (const { path } of Object.values(jobTypes))
    for (const slash of ['', '/']) {
      const { status, body } = await organisation.call('GET', `/api/jobs/${path}/${job.id}${slash}`);
      const isItsType = path === 'create-sourcing-events';
      expect([path, status, isItsType ? body : job]).toEqual([path, isItsType ? 200 : 404, job]);
    }
  expect((await organisation.call('GET', `/api/jobs/${job.id.toUpperCase()}/`)).body).toEqual(job);
});

test("another organisation's job is 404, as one that does not exist", async () => {
  const organisation = await service.organisation();
  const [theirs] = await endedJobs(await service.organisation(), [{}]);
  for (const id of [theirs, randomUUID(), 'x', '%00', 'create-sourcing-events%2Fx'])
    for (const path of ['/api/jobs', '/api/jobs/create-sourcing-events'])
      expect([400, 404]).toContain((await organisation.call('GET', `${path}/${id}`)).status);
  expect((await organisation.call('GET', `/api/jobs/${theirs}`)).body).toEqual(
    (await organisation.call('GET', `/api/jobs/${randomUUID()}`)).body,
  );
});

test('a failed job shows its errors, and a job for links its detail', async () => {
  const organisation = await service.organisation();
  const failed = await endedJob(organisation, '/api/jobs', {
    type: 'UPDATE_SOURCING_EVENT',
    sourcing_event: randomUUID(),
  });
  expect(failed).toMatchObject({ status: 'FAILED', errors: [{ path: 'sourcing_event' }] });
  const missing = randomUUID();
  const links = await endedJob(organisation, '/api/jobs/generate-file-download-links', { file_uuids: [missing] });
  expect(links).toMatchObject({
    status: 'COMPLETED',
    detail: { data: [], errors: [{ file_uuid: missing, error: 'not_found' }] },
  });
  const { body } = await organisation.call('GET', '/api/jobs');
  expect(body.result).toEqual([links, failed]);
});

test('the list has the manage envelope, newest first, with or without a final slash', async () => {
  const organisation = await service.organisation();
  const ids = await endedJobs(organisation, [{}, { status: 'FAILED' }]);
  for (const path of ['/api/jobs', '/api/jobs/']) {
    const { body } = await organisation.call('GET', path);
    expect(body).toEqual({
      result: [
        { id: ids[1], type: 'CREATE_SOURCING_EVENT', status: 'FAILED', created: '2030-01-01T00:02:00.000000Z' },
        { id: ids[0], type: 'CREATE_SOURCING_EVENT', status: 'COMPLETED', created: '2030-01-01T00:01:00.000000Z' },
      ],
      count: 2,
      page_size: 20,
      page_number: 1,
      num_pages: 1,
      next: null,
      previous: null,
      used_endpoints: ['/api/jobs'],
      gsn: 0,
      includes: {},
      extras: {},
    });
  }
});

test('filters are inclusive, and all must match', async () => {
  const organisation = await service.organisation();
  const [a, b, c, d] = await endedJobs(organisation, [
    { type: 'CREATE_SOURCING_REQUEST' },
    { status: 'FAILED' },
    { type: 'CREATE_SOURCING_REQUEST', status: 'FAILED' },
    {},
  ]);
  await endedJobs(await service.organisation(), [{}, { status: 'FAILED' }]);
  expect(await listed(organisation, 'type=CREATE_SOURCING_REQUEST')).toEqual([c, a]);
  expect(await listed(organisation, 'status=FAILED')).toEqual([c, b]);
  expect(await listed(organisation, 'status=FAILED&type=CREATE_SOURCING_REQUEST')).toEqual([c]);
  expect(await listed(organisation, 'status=PENDING')).toEqual([]);
  expect(await listed(organisation, 'created_after=2030-01-01T00:03:00Z')).toEqual([d, c]);
  expect(await listed(organisation, 'created_before=2030-01-01T00:02:00.000000Z')).toEqual([b, a]);
  expect(await listed(organisation, 'created_after=2030-01-01T00:03:00.000001Z')).toEqual([d]);
  expect(
    await listed(organisation, 'created_after=2030-01-01T01:02:00+01:00&created_before=2030-01-01T01:03:00%2B01:00'),
  ).toEqual([c, b]);
  expect(await listed(organisation, 'created_before=2030-01-01')).toEqual([]);
});

test.each([
  'type=NOTHING',
  'status=DONE',
  'created_after=yesterday',
  'page_number=0',
  'page_size=0',
  'page_size=1001',
  'page_size=x',
  'sort=created',
  'status=FAILED&status=PENDING',
])('the query %s is refused by the name of its parameter', async (query) => {
  const organisation = await service.organisation();
  const answer = await organisation.call('GET', `/api/jobs?${query}`);
  expect([answer.status, answer.body.errors[0].path]).toEqual([400, query.split('=')[0]]);
});

test('the pages have every job once, and their links keep the filters', async () => {
  const organisation = await service.organisation();
  const ids = await endedJobs(
    organisation,
    Array.from({ length: 50 }, (_, index) => ({ status: index % 2 === 0 ? 'FAILED' : 'COMPLETED' })),
  );
  const expected = ids.filter((_id, index) => index % 2 === 0).reverse();
  const seen: string[] = [];
  let link: string | null = `${service.url}/api/jobs?status=FAILED&page_size=10&created_after=2030-01-01`;
  const previous: (string | null)[] = [];
  while (link !== null) {
    const { pathname, search } = new URL(link);
    const { body } = await organisation.call('GET', pathname + search);
    expect([body.count, body.num_pages, body.page_size]).toEqual([25, 3, 10]);
    seen.push(...body.result.map(({ id }: { id: string }) => id));
    previous.push(body.previous);
    link = body.next;
  }
  expect(seen).toEqual(expected);
  const back = await organisation.call('GET', new URL(previous[2] ?? '').pathname + new URL(previous[2] ?? '').search);
  expect(back.body.result.map(({ id }: { id: string }) => id)).toEqual(expected.slice(10, 20));
});

test('a page beyond the end is empty, has the count, and links to the last page', async () => {
  const organisation = await service.organisation();
  await endedJobs(organisation, [{}, {}, {}]);
  const { body } = await organisation.call('GET', '/api/jobs?page_number=999999999&page_size=1000');
  expect(body).toMatchObject({ result: [], count: 3, num_pages: 1, page_number: 999_999_999, next: null });
  expect(new URL(body.previous).searchParams.get('page_number')).toBe('1');
  const empty = await (await service.organisation()).call('GET', '/api/jobs?page_number=2');
  expect(empty.body).toMatchObject({ result: [], count: 0, num_pages: 1 });
});

test('a page of a very long list is read by an index, not by reading the whole list', async () => {
  const organisation = await service.organisation();
  await database.query(
    `insert into service.jobs (id, organisation_id, type, status, payload, created_by, created)
     select gen_random_uuid(), $1, 'CREATE_SOURCING_EVENT', case when n % 1000 = 0 then 'FAILED' else 'COMPLETED' end,
       jsonb_build_object('name', repeat('x', 500)), $1, timestamptz '2030-01-01 00:00:00Z' + n * interval '1 second'
     from generate_series(1, 50000) as n`,
    [organisation.id],
  );
  await database.query('vacuum analyze service.jobs');
  const explained = await database.query<Record<string, string>>(
    `explain select id, detail from service.jobs where organisation_id = '${organisation.id}'
     order by created desc, number desc limit 20`,
  );
  expect(JSON.stringify(explained)).toContain('jobs_newest');
  const counted = await database.query<Record<string, string>>(
    `explain select count(*) from service.jobs where organisation_id = '${organisation.id}' and status = 'FAILED'`,
  );
  expect(JSON.stringify(counted)).toContain('Index Only Scan using jobs_newest');
  const { body } = await organisation.call('GET', '/api/jobs?status=FAILED&page_number=3');
  expect([body.count, body.num_pages, body.result.length]).toEqual([50, 3, 10]);
});
