/** Rate limits over HTTP, with a clock that the test moves. The figures are from the tables of the two documents. */
import { expect, test } from 'vitest';
import type { LimitName } from '#contract/limits.ts';
import { systemClock } from '#platform/clock.ts';
import { createManualClock } from '../../harness/manual-clock.ts';
import { type HttpAnswer, request } from '../../harness/request.ts';
import { startTestService, type TestService } from '../../harness/test-service.ts';
import { organisationEndpoints } from '../endpoint-tables.ts';

const clock = createManualClock();
const service = await startTestService({ clock });

/**
 * The endpoints of each bucket, and [burst, window, sustained, window]. Source: API document, "Limits", and decisions,
 * "Feeds".
 */
const tables: Record<string, { numbers: [number, number, number, number]; endpoints: string[] }> = {
  suppliers: {
    numbers: [30, 60, 600, 3_600],
    endpoints: ['GET /api/manage/suppliers', 'GET /api/manage/suppliers/:external_id'],
  },
  supplier_changes_read: {
    numbers: [30, 60, 600, 3_600],
    endpoints: ['GET /api/manage/supplier_changes', 'GET /api/manage/supplier_changes/:uuid'],
  },
  supplier_changes_write: { numbers: [60, 3_600, 500, 86_400], endpoints: ['POST /api/manage/supplier_changes'] },
  jobs_write: {
    numbers: [150, 3_600, 750, 86_400],
    endpoints: [
      'POST /api/jobs',
      'POST /api/jobs/create-sourcing-events',
      'POST /api/jobs/create-sourcing-events-from-template',
      'POST /api/jobs/create-sourcing-requests',
      'POST /api/jobs/update-sourcing-event',
      'POST /api/jobs/update-sourcing-events',
      'POST /api/jobs/attach-files-to-sourcing-request',
      'POST /api/jobs/attach-files-to-sourcing-event',
    ],
  },
  jobs_read: {
    numbers: [30, 60, 600, 3_600],
    endpoints: [
      'GET /api/jobs',
      'GET /api/jobs/:id',
      'GET /api/jobs/:type/:id',
      'GET /api/manage/sourcing_requests',
      'GET /api/manage/sourcing_requests/:uuid',
    ],
  },
  feeds: {
    numbers: [60, 60, 43_200, 86_400],
    endpoints: ['sourcing-events', 'latest-bids', 'awards', 'rfi-responses'].map((feed) => `GET /api/feeds/${feed}`),
  },
  webhooks: {
    numbers: [30, 60, 600, 3_600],
    endpoints: [
      'POST /api/webhooks',
      'GET /api/webhooks',
      'GET /api/webhooks/:uuid',
      'DELETE /api/webhooks/:uuid',
      'POST /api/webhooks/:uuid/test',
      'PATCH /api/webhooks/:uuid',
      'GET /api/webhooks/:uuid/deliveries',
      'POST /api/webhooks/:uuid/deliveries/:id/resend',
    ],
  },
  file_links: { numbers: [30, 60, 600, 3_600], endpoints: ['POST /api/jobs/generate-file-download-links'] },
};

interface Key {
  organisation: string;
  key: string;
  call(method: string, path: string, body?: unknown): Promise<HttpAnswer>;
}

/** A new organisation whose limits are on, as they are by default. */
async function limited(limits: object = {}, on: TestService = service): Promise<Key> {
  const { id, key } = await on.organisation();
  await putLimits(id, limits, on);
  return {
    organisation: id,
    key,
    call: (method, path, body) => request(method, on.url + path, { key, ...(body === undefined ? {} : { body }) }),
  };
}

async function putLimits(organisation: string, limits: object, on: TestService = service): Promise<HttpAnswer> {
  const answer = await on.operator('PUT', `/admin/organisations/${organisation}/limits`, limits);
  expect(answer.status).toBe(200);
  return answer;
}

const read = async (key: Key, path = '/api/webhooks') => (await key.call('GET', path)).status;

async function statuses(count: number, call: () => Promise<number>): Promise<number[]> {
  const all: number[] = [];
  for (let number = 0; number < count; number += 1) all.push(await call());
  return all;
}

test('each endpoint counts for its bucket: those under /api for one of the tables, those under /desk for one of their own', () => {
  /** The limit of each endpoint. Where the body decides, the limit of most bodies. */
  const counted = organisationEndpoints.flatMap((endpoint) => {
    const limit = endpoint.limitOf?.({}) ?? endpoint.limit;
    return limit === undefined ? [] : [{ name: nameOf(endpoint), limit }];
  });
  const found = Map.groupBy(counted, ({ limit }) => limit);
  for (const [limit, { endpoints }] of Object.entries(tables))
    expect([limit, [...new Set(found.get(limit as LimitName)?.map(({ name }) => name))].toSorted()]).toEqual([
      limit,
      endpoints.toSorted(),
    ]);
  expect(found.get('desk')?.length).toBe(organisationEndpoints.filter(({ path }) => path.startsWith('/desk/')).length);
  expect(found.size).toBe(Object.keys(tables).length + 1);
  expect(counted.length).toBe(organisationEndpoints.length);
});

/** The endpoint's name in the tables, which have one name for the reads of all job types. */
function nameOf({ method, path }: { method: string; path: string }): string {
  return `${method} ${path.replace(/^(\/api\/jobs\/)[^/]+(\/:id)$/, '$1:type$2').replace(/(.)\/$/, '$1')}`;
}

test('POST /api/jobs counts for the bucket of the job type in its body, also if the body is invalid', async () => {
  const key = await limited({ file_links: { burst: 1, sustained: 10 }, jobs_write: { burst: 2, sustained: 10 } });
  const post = async (body: unknown) => {
    const { status, headers } = await key.call('POST', '/api/jobs', body);
    return [status, headers.get('ratelimit')?.split('.')[0]];
  };
  const links = { type: 'GENERATE_FILE_DOWNLOAD_LINKS', file_uuids: ['no uuid'] };
  expect([await post(links), await post(links)]).toEqual([
    [400, '"file_links'],
    [429, '"file_links'],
  ]);
  expect([await post({ type: 'CREATE_SOURCING_EVENT' }), await post('no JSON'), await post({ type: 'x' })]).toEqual([
    [400, '"jobs_write'],
    [400, '"jobs_write'],
    [429, '"jobs_write'],
  ]);
});

test('the operator sees the numbers of the tables', async () => {
  const { id } = await service.organisation();
  const expected = Object.fromEntries(
    Object.entries(tables).map(([name, { numbers }]) => [name, { burst: numbers[0], sustained: numbers[2] }]),
  );
  const desk = { burst: 1_200, sustained: 200_000 };
  expect((await putLimits(id, {})).body).toEqual({
    enabled: true,
    ...expected,
    desk,
    webhooks_max: 50,
    file_bytes_max: 1_073_741_824,
  });
});

const examples: [string, string, string, unknown?][] = [
  ['suppliers', 'GET', '/api/manage/suppliers'],
  ['supplier_changes_read', 'GET', '/api/manage/supplier_changes/'],
  ['supplier_changes_write', 'POST', '/api/manage/supplier_changes', {}],
  ['jobs_write', 'POST', '/api/jobs/create-sourcing-events', {}],
  ['jobs_read', 'GET', '/api/jobs/'],
  ['feeds', 'GET', '/api/feeds/awards'],
  ['webhooks', 'GET', '/api/webhooks'],
  ['file_links', 'POST', '/api/jobs/generate-file-download-links', {}],
];

test.each(examples)('%s: exactly the burst of the table passes', async (name, method, path, body) => {
  const [burst, burstSeconds, sustained, sustainedSeconds] = tables[name]?.numbers ?? [0, 0, 0, 0];
  const key = await limited();
  const first = await key.call(method, path, body);
  const bucket = name === 'feeds' ? 'feeds.awards' : name;
  expect(first.headers.get('ratelimit-policy')).toBe(
    `"${bucket}.burst";q=${burst};w=${burstSeconds}, "${bucket}.sustained";q=${sustained};w=${sustainedSeconds}`,
  );
  expect(first.headers.get('ratelimit')).toBe(
    [
      `"${bucket}.burst";r=${burst - 1};t=${burstSeconds}`,
      `"${bucket}.sustained";r=${sustained - 1};t=${sustainedSeconds}`,
    ].join(', '),
  );
  const rest = await Promise.all(Array.from({ length: burst + 4 }, () => key.call(method, path, body)));
  const refused = rest.filter(({ status }) => status === 429);
  expect(refused).toHaveLength(5);
  expect(refused[0]?.headers.get('retry-after')).toBe(String(burstSeconds));
  expect(refused[0]?.headers.get('ratelimit')).toMatch(new RegExp(`^"${bucket}.burst";r=0;t=${burstSeconds}, `));
});

test('a refusal is a problem with the time to wait; a request passes then, and not a second earlier', async () => {
  const key = await limited();
  for (let number = 0; number < 30; number += 1) {
    expect(await read(key)).toBe(200);
    clock.advance(100);
  }
  clock.advance(7_250);
  const refused = await key.call('GET', '/api/webhooks');
  expect([refused.status, refused.headers.get('content-type')]).toEqual([
    429,
    'application/problem+json; charset=utf-8',
  ]);
  expect(refused.body).toEqual({
    type: 'about:blank',
    title: 'Too many requests',
    status: 429,
    detail:
      'Too many requests: an API key may make 30 in 60 s and 600 in 3600 s of this kind. Wait 50 s and send it again.',
  });
  // The first request was 10.25 s ago, and leaves its window in 49.75 s.
  expect(refused.headers.get('retry-after')).toBe('50');
  clock.advance(49_000);
  expect(await read(key)).toBe(429);
  clock.advance(749);
  expect(await read(key)).toBe(429);
  clock.advance(1);
  expect(await read(key)).toBe(200);
  // Only the first request has left: the window slides.
  expect(await read(key)).toBe(429);
  clock.advance(99);
  expect(await read(key)).toBe(429);
  clock.advance(1);
  expect(await statuses(2, () => read(key))).toEqual([200, 429]);
});

test('a refused request does not count: repeated requests do not lengthen the wait', async () => {
  const key = await limited({ webhooks: { burst: 2, sustained: 100 } });
  expect(await statuses(2, () => read(key))).toEqual([200, 200]);
  for (let second = 0; second < 59; second += 1) {
    clock.advance(1_000);
    expect(await read(key)).toBe(429);
  }
  clock.advance(1_000);
  expect(await statuses(3, () => read(key))).toEqual([200, 200, 429]);
});

test('the sustained window also refuses, when the burst window would not, for as long as it says', async () => {
  const key = await limited({ webhooks: { burst: 5, sustained: 6 } });
  expect(await statuses(5, () => read(key))).toEqual([200, 200, 200, 200, 200]);
  clock.advance(600_000);
  expect(await statuses(2, () => read(key))).toEqual([200, 429]);
  const refused = await key.call('GET', '/api/webhooks');
  expect(refused.headers.get('retry-after')).toBe('3000');
  expect(refused.headers.get('ratelimit')).toBe('"webhooks.burst";r=4;t=60, "webhooks.sustained";r=0;t=3000');
  clock.advance(2_999_000);
  expect(await read(key)).toBe(429);
  clock.advance(1_000);
  expect(await statuses(6, () => read(key))).toEqual([200, 200, 200, 200, 200, 429]);
});

test('a row of the table is one bucket for all of its endpoints, with or without a final slash', async () => {
  const key = await limited({ webhooks: { burst: 4, sustained: 100 } });
  const id = '00000000-0000-4000-8000-000000000000';
  expect((await key.call('GET', '/api/webhooks/')).status).toBe(200);
  expect((await key.call('GET', `/api/webhooks/${id}`)).status).toBe(404);
  expect((await key.call('POST', '/api/webhooks', { wrong: true })).status).toBe(400);
  expect((await key.call('HEAD', '/api/webhooks')).status).toBe(200);
  for (const [method, path] of [
    ['GET', '/api/webhooks'],
    ['POST', '/api/webhooks'],
    ['DELETE', `/api/webhooks/${id}`],
    ['POST', `/api/webhooks/${id}/test`],
    ['HEAD', '/api/webhooks/'],
  ] as const)
    expect((await key.call(method, path)).status).toBe(429);
  // The other rows are not counted.
  expect(await read(key, '/api/feeds/awards')).toBe(200);
});

test('each feed has a bucket of its own', async () => {
  const key = await limited({ feeds: { burst: 1, sustained: 10 } });
  for (const feed of ['awards', 'latest-bids', 'sourcing-events', 'rfi-responses'])
    expect(await statuses(2, () => read(key, `/api/feeds/${feed}`))).toEqual([200, 429]);
});

test('each API key is counted separately, also within one organisation', async () => {
  const key = await limited({ webhooks: { burst: 1, sustained: 10 } });
  expect(await statuses(2, () => read(key))).toEqual([200, 429]);
  const made = await service.operator('POST', `/admin/organisations/${key.organisation}/api-keys`, { name: 'second' });
  const second = async () => (await request('GET', `${service.url}/api/webhooks`, { key: made.body.key })).status;
  expect(await statuses(2, second)).toEqual([200, 429]);
  const stranger = await limited({ webhooks: { burst: 1, sustained: 10 } });
  expect(await read(stranger)).toBe(200);
});

test('a call without permission is not counted, and its answer reveals no limits', async () => {
  const key = await limited({ webhooks: { burst: 1, sustained: 10 } });
  const made = await service.operator('POST', `/admin/organisations/${key.organisation}/api-keys`, {
    name: 'feeds',
    scopes: ['feeds'],
  });
  const attempts: [string | undefined, number][] = [
    [undefined, 401],
    ['sb_x', 401],
    [made.body.key, 403],
  ];
  for (const [bearer, status] of attempts)
    for (let number = 0; number < 3; number += 1) {
      const answer = await request('GET', `${service.url}/api/webhooks`, bearer === undefined ? {} : { key: bearer });
      expect([answer.status, answer.headers.get('ratelimit')]).toEqual([status, null]);
    }
  expect(await read(key)).toBe(200);
});

test('a change is in force from the next request on, and counted requests stay counted', async () => {
  const key = await limited({ webhooks: { burst: 3, sustained: 100 } });
  expect(await statuses(4, () => read(key))).toEqual([200, 200, 200, 429]);
  await putLimits(key.organisation, { webhooks: { burst: 5, sustained: 100 } });
  expect(await statuses(3, () => read(key))).toEqual([200, 200, 429]);
  // The quota is lowered below the used requests: all but one have to leave the window.
  clock.advance(10_000);
  await putLimits(key.organisation, { webhooks: { burst: 9, sustained: 100 } });
  expect(await read(key)).toBe(200);
  clock.advance(20_000);
  await putLimits(key.organisation, { webhooks: { burst: 1, sustained: 100 } });
  const refused = await key.call('GET', '/api/webhooks');
  expect([refused.status, refused.headers.get('retry-after')]).toEqual([429, '40']);
  clock.advance(39_000);
  expect(await read(key)).toBe(429);
  clock.advance(1_000);
  expect(await statuses(2, () => read(key))).toEqual([200, 429]);
});

test('while limits are off, nothing is counted, shown or refused; a PUT replaces all earlier limits', async () => {
  const key = await limited({ webhooks: { burst: 1, sustained: 1 } });
  expect(await statuses(2, () => read(key))).toEqual([200, 429]);
  expect((await putLimits(key.organisation, { enabled: false })).body).toMatchObject({
    enabled: false,
    webhooks: { burst: 30, sustained: 600 },
  });
  const free = await key.call('GET', '/api/webhooks');
  expect([free.status, free.headers.get('ratelimit'), free.headers.get('ratelimit-policy')]).toEqual([200, null, null]);
  const [row] = await service.db.database.query<{ count: number }>(
    `select count(*) from service.counted_requests c join service.api_keys k on k.id = c.api_key_id
     where k.organisation_id = $1`,
    [key.organisation],
  );
  expect(row?.count).toBe(1);
  await putLimits(key.organisation, {});
  expect((await key.call('GET', '/api/webhooks')).headers.get('ratelimit')).toMatch(/r=28;/);
});

test.each([
  [{ enabled: 'no' }, 'enabled'],
  [{ webhooks: { burst: 0, sustained: 1 } }, 'webhooks.burst'],
  [{ webhooks: { burst: 1.5, sustained: 2 } }, 'webhooks.burst'],
  [{ webhooks: { burst: 1 } }, 'webhooks.sustained'],
  [{ webhooks: { burst: 1, sustained: 2, per: 'minute' } }, 'webhooks.per'],
  [{ admin: { burst: 1, sustained: 2 } }, 'admin'],
])('PUT %j is refused with the path of the fault, and changes nothing', async (body, path) => {
  const { organisation } = await limited({ feeds: { burst: 7, sustained: 8 } });
  const answer = await service.operator('PUT', `/admin/organisations/${organisation}/limits`, body);
  expect([answer.status, answer.body.errors[0].path]).toEqual([400, path]);
  const [row] = await service.db.database.query('select limits from service.organisations where id = $1', [
    organisation,
  ]);
  expect(row).toEqual({ limits: { feeds: { burst: 7, sustained: 8 } } });
});

test('two services on one database together pass no more than the limit, and a restart keeps the counts', async () => {
  const first = await startTestService({ clock: systemClock });
  const second = await startTestService({ clock: systemClock, db: first.db });
  const { key } = await limited({ webhooks: { burst: 40, sustained: 1_000 } }, first);
  const answers = await Promise.all(
    Array.from({ length: 120 }, (_, index) =>
      request('GET', `${index % 2 === 0 ? first.url : second.url}/api/webhooks`, { key }),
    ),
  );
  expect(answers.filter(({ status }) => status === 200)).toHaveLength(40);
  expect(answers.filter(({ status }) => status === 429)).toHaveLength(80);
  await first.service.close(0);
  await second.service.close(0);
  const third = await startTestService({ clock: systemClock, db: first.db });
  expect((await request('GET', `${third.url}/api/webhooks`, { key })).status).toBe(429);
});

test('only requests that have left every window are deleted', async () => {
  const key = await limited({ supplier_changes_write: { burst: 1, sustained: 1 } });
  const submit = async () => (await key.call('POST', '/api/manage/supplier_changes', {})).status;
  expect(await submit()).toBe(400);
  clock.advance(24 * 3_600_000 - 1);
  await service.service.sweep();
  expect(await submit()).toBe(429);
  clock.advance(1);
  expect(await submit()).toBe(400);
  clock.advance(25 * 3_600_000 + 1);
  await service.service.sweep();
  expect(await service.db.database.query('select from service.counted_requests')).toEqual([]);
});
