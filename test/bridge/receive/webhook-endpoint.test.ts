import { createHmac } from 'node:crypto';
import { readFileSync } from 'node:fs';
import { request as httpRequest, type IncomingHttpHeaders } from 'node:http';
import * as fc from 'fast-check';
import { afterEach, beforeAll, beforeEach, describe, expect, test } from 'vitest';
import type { BearerCheck } from '#bridge/receive/bearer/bearer-deps.ts';
import { createSigningKeys } from '#bridge/receive/signing-keys.ts';
import { createWebhookEndpoint } from '#bridge/receive/webhook-endpoint.ts';
import type { Clock } from '#platform/clock.ts';
import { createDatabase, type Database } from '#platform/database/database.ts';
import { AppError } from '#platform/errors.ts';
import { type Application, createApplication } from '#platform/http/application.ts';
import { listen } from '#platform/http/server.ts';
import { createLogger, silentLogger } from '#platform/log.ts';
import { Registry } from '#platform/metrics.ts';
import { createSecretBox } from '#platform/secrets.ts';
import { createTestDatabase, type TestDatabase } from '../../harness/test-database.ts';
import { testClock } from '../parts.ts';
import { roomyBounds } from './receiver.ts';

const current = 'the-current-key-zażółć';
const previous = 'the-previous-key';

interface Endpoint {
  url: string;
  application: Application;
  registry: Registry;
  woken: string[];
  logged: () => string;
  /** How many notifications had this result. */
  count(result: string): Promise<number>;
  commits(): Promise<number>;
}

let db: TestDatabase;
const closers: (() => Promise<void>)[] = [];
beforeAll(async () => {
  db = await createTestDatabase();
});
beforeEach(async () => {
  await db.database.query('truncate bridge.inbox, bridge.jobs');
});
afterEach(async () => {
  for (const close of closers.splice(0).reverse()) await close();
});

async function startEndpoint(
  options: {
    database?: Database;
    bodyBytesMax?: number;
    backlogMax?: number;
    keys?: string[];
    woken?: string[];
    clock?: Clock;
    freshnessMs?: number;
    bearer?: BearerCheck;
  } = {},
): Promise<Endpoint> {
  const lines: string[] = [];
  const log = createLogger({ level: 'trace', name: 'test', destination: { write: (line) => lines.push(line) } });
  const registry = new Registry();
  const application = createApplication({ log, registry, readiness: {} });
  const woken = options.woken ?? [];
  const clock = options.clock ?? testClock();
  const { route, drain } = createWebhookEndpoint({
    refusals: { refused: () => undefined, accepted: () => undefined },
    database: options.database ?? db.database,
    clock,
    log,
    registry,
    bodyBytesMax: options.bodyBytesMax ?? 10_000,
    bodies: roomyBounds(),
    backlogMax: options.backlogMax ?? 1_000,
    freshnessMs: options.freshnessMs ?? Number.POSITIVE_INFINITY,
    signingKeys: createSigningKeys({
      configured: new Map([['main', options.keys ?? [current, previous]]]),
      // The keys are read elsewhere when the test makes the inbox unavailable.
      database: db.database,
      secrets: createSecretBox(Buffer.alloc(32, 7)),
      clock,
      log,
    }),
    sources: new Map([
      [
        'main',
        {
          feeds: new Set(['sourcing-events', 'awards', 'rfi-responses'] as const),
          bearer: options.bearer,
        },
      ],
    ]),
    wakePull: (key) => void woken.push(key),
    wakeJobs: (source) => void woken.push(`jobs of ${source}`),
  });
  application.addDirect(route);
  application.finish();
  const server = await listen(application.listener, { host: '127.0.0.1', port: 0 });
  closers.push(async () => {
    await server.close(0);
    await drain();
  });
  const valueOf = async (name: string, labels: Record<string, string>) => {
    const metric = await registry.getSingleMetric(name)?.get();
    return metric?.values.find((one) => Object.entries(labels).every(([key, value]) => one.labels[key] === value))
      ?.value;
  };
  return {
    url: `${server.url}/webhooks/main`,
    application,
    registry,
    woken,
    logged: () => lines.join(''),
    count: async (result) => (await valueOf('bridge_notifications_total', { result })) ?? 0,
    commits: async () => (await valueOf('bridge_inbox_commits_total', {})) ?? 0,
  };
}

/** Computed here and not by the code under test: the header is a contract with other programs. */
function sign(body: string | Uint8Array, key = current): string {
  return `hmac-sha256=${createHmac('sha256', Buffer.from(key, 'utf8')).update(body).digest('hex')}`;
}

function notificationOf(trigger: string, more: Record<string, unknown> = {}): string {
  return JSON.stringify({ trigger, timestamp: '2030-01-01T00:00:00.000000Z', payload: { text: 'zażółć' }, ...more });
}

const awards = notificationOf('AWARDS_FEED_UPDATED');

async function post(url: string, body: string | Uint8Array, signature: string | undefined = sign(body)) {
  const headers: Record<string, string> = { 'content-type': 'application/json' };
  if (signature !== undefined) headers['x-signature'] = signature;
  const answer = await fetch(url, { method: 'POST', headers, body: body as string });
  return { status: answer.status, headers: answer.headers, text: await answer.text() };
}

const inbox = () =>
  db.database.query<{ source: string; trigger: string; feed: string | null; body: string; received: string }>(
    'select source, trigger, feed, body, received from bridge.inbox order by id',
  );

describe('a notification of a job', () => {
  const ofJob = (payload: Record<string, unknown>) => notificationOf('JOB_UPDATED', { payload });
  const id = '0199C0DE-0000-4000-8000-00000000000A';
  const named = () =>
    db.database.query<{ source: string; job: string; next_look: string | null; notices: number }>(
      'select source, job, next_look, notices from bridge.jobs order by job',
    );

  test('names it to be read, in the commit that stores the notification, and wakes its reader', async () => {
    let committed: unknown[] = [];
    const database: Database = {
      ...db.database,
      execute: async (statement, params) => {
        const written = await db.database.execute(statement, params);
        committed = [(await inbox()).length, (await named()).length];
        return written;
      },
    };
    const endpoint = await startEndpoint({ database });
    expect(
      (await post(endpoint.url, ofJob({ job: id, type: 'CREATE_SOURCING_EVENT', status: 'COMPLETED' }))).status,
    ).toBe(200);
    expect(committed).toEqual([1, 1]);
    const now = '2030-01-01T00:00:00.000000Z';
    expect(await named()).toEqual([{ source: 'main', job: id.toLowerCase(), next_look: now, notices: 1 }]);
    expect(endpoint.woken).toEqual(['jobs of main']);
  });

  test('that comes twice, among others of one commit, names it once', async () => {
    const endpoint = await startEndpoint();
    const bodies = [
      awards,
      ...['PENDING', 'COMPLETED'].map((status) => ofJob({ job: id, status })),
      ofJob({ job: 'J-9' }),
    ];
    const answers = await Promise.all(bodies.map((body) => post(endpoint.url, body)));
    expect(answers.map(({ status }) => status)).toEqual([200, 200, 200, 200]);
    expect(await inbox()).toHaveLength(4);
    expect((await named()).map(({ job }) => job)).toEqual([id.toLowerCase(), 'J-9']);
  });

  test('that has ended makes it due again', async () => {
    const endpoint = await startEndpoint();
    await post(endpoint.url, ofJob({ job: id, status: 'RUNNING' }));
    await db.database.query(`update bridge.jobs set ended = 'COMPLETED', next_look = null`);
    await post(endpoint.url, ofJob({ job: id, status: 'COMPLETED' }));
    expect(await named()).toMatchObject([{ next_look: expect.any(String), notices: 2 }]);
  });

  test.each([
    ['no id', {}],
    ['an id that is no text', { job: 7 }],
    ['an id that is too long', { job: 'x'.repeat(256) }],
    ['the type of links to files', { job: id, type: 'GENERATE_FILE_DOWNLOAD_LINKS' }],
  ])('with %s is stored, and names none', async (_what, payload) => {
    const endpoint = await startEndpoint();
    expect((await post(endpoint.url, ofJob(payload))).status).toBe(200);
    expect(await inbox()).toMatchObject([{ trigger: 'JOB_UPDATED', feed: null }]);
    expect([await named(), endpoint.woken]).toEqual([[], []]);
  });
});

describe('a signed notification', () => {
  test('is stored byte for byte, answered with 2xx, and wakes the puller of its feed', async () => {
    const received = '2030-01-01T00:00:00.000000Z';
    const endpoint = await startEndpoint();
    expect((await post(endpoint.url, awards)).status).toBe(200);
    expect(await inbox()).toEqual([
      { source: 'main', trigger: 'AWARDS_FEED_UPDATED', feed: 'awards', body: awards, received },
    ]);
    expect(endpoint.woken).toEqual(['main/awards']);
    expect(await endpoint.count('accepted')).toBe(1);
  });

  test.each([
    ['a byte order mark', '\uFEFF', '1'],
    ['a number that PostgreSQL does not hold', '', '1e999999'],
  ])('with %s is stored so that the documented query reads the inbox', async (_what, before, number) => {
    const endpoint = await startEndpoint();
    const body = `${before}{"trigger":"AWARDS_FEED_UPDATED","timestamp":"2030-01-01T00:00:00.000000Z","payload":{"sourcing_event":"here","n":${number}}}`;
    expect((await post(endpoint.url, body)).status).toBe(200);
    const documented = /```sql\n(select id, received, trigger, body from bridge\.inbox[^]*?)```/.exec(
      readFileSync(new URL('../../../docs/webhooks.md', import.meta.url), 'utf8'),
    );
    const query = (documented?.[1] ?? '').replace('<uuid>', 'here').replace('now()', "timestamptz '2030-01-01'");
    expect(await db.database.query(query)).toMatchObject([{ trigger: 'AWARDS_FEED_UPDATED' }]);
  });

  test('is committed before it is answered, and the puller is woken after the commit', async () => {
    const order: string[] = [];
    const database: Database = {
      ...db.database,
      execute: async (statement, params) => {
        const written = await db.database.execute(statement, params);
        // It is visible on another connection: it is committed, not only written.
        order.push(`committed ${(await inbox()).length}`);
        return written;
      },
    };
    const woken = { push: (key: string) => order.push(`woken ${key}`) } as unknown as string[];
    const endpoint = await startEndpoint({ database, woken });
    await post(endpoint.url, awards);
    order.push('answered');
    expect(order.indexOf('committed 1')).toBe(0);
    expect(new Set(order.slice(1))).toEqual(new Set(['woken main/awards', 'answered']));
  });

  test('may be signed in upper-case hex', async () => {
    const endpoint = await startEndpoint();
    const signature = `hmac-sha256=${sign(awards).slice(12).toUpperCase()}`;
    expect((await post(endpoint.url, awards, signature)).status).toBe(200);
    expect(await endpoint.count('accepted')).toBe(1);
  });

  test('may be signed with the current or the previous key', async () => {
    const endpoint = await startEndpoint();
    expect((await post(endpoint.url, awards, sign(awards, previous))).status).toBe(200);
    expect((await post(endpoint.url, awards, sign(awards, current))).status).toBe(200);
    expect((await post(endpoint.url, awards, sign(awards, 'an older key'))).status).toBe(401);
  });

  test.each([
    ['trigger', 'SOURCING_EVENTS_FEED_UPDATED', 'sourcing-events'],
    ['triggers', 'SOURCING_EVENTS_FEED_UPDATED', 'sourcing-events'],
    ['trigger', 'AWARD_FEED_UPDATED', 'awards'],
    ['triggers', 'AWARDS_FEED_UPDATED', 'awards'],
  ])('with %s %s wakes the puller of the feed %s', async (key, trigger, feed) => {
    const endpoint = await startEndpoint();
    const body = JSON.stringify({ [key]: trigger, timestamp: '2030-01-01T00:00:00Z', payload: {} });
    expect((await post(endpoint.url, body)).status).toBe(200);
    expect(await inbox()).toMatchObject([{ trigger, feed }]);
    expect(endpoint.woken).toEqual([`main/${feed}`]);
  });

  test.each(['TEST', 'SOMETHING_OF_TOMORROW', 'LATEST_BIDS_FEED_UPDATED'])(
    'that concerns no feed read here (%s) is acknowledged, stored, and wakes nothing',
    async (trigger) => {
      const endpoint = await startEndpoint();
      expect((await post(endpoint.url, notificationOf(trigger))).status).toBe(200);
      expect(await inbox()).toMatchObject([{ trigger, feed: null }]);
      expect(endpoint.woken).toEqual([]);
    },
  );

  test.each([
    ['no JSON', 'not json'],
    ['an array', '[]'],
    ['no bytes', ''],
    ['no trigger', '{"timestamp":"2030-01-01T00:00:00Z"}'],
    ['no time', '{"trigger":"TEST"}'],
  ])('that holds %s is refused with 400 and not stored', async (_what, body) => {
    const endpoint = await startEndpoint();
    expect((await post(endpoint.url, body)).status).toBe(400);
    expect(await inbox()).toEqual([]);
    expect(await endpoint.count('invalid')).toBe(1);
  });
});

describe('a redelivery of the same bytes', () => {
  test('is acknowledged, stored once and wakes once, one after the other', async () => {
    const endpoint = await startEndpoint();
    for (let count = 0; count < 3; count += 1) expect((await post(endpoint.url, awards)).status).toBe(200);
    expect(await inbox()).toHaveLength(1);
    expect(await endpoint.count('accepted')).toBe(1);
    expect(await endpoint.count('repeated')).toBe(2);
    expect(endpoint.woken).toEqual(['main/awards']);
  });

  test('is acknowledged, and stored once by each process, also concurrently', async () => {
    const [first, second] = [await startEndpoint(), await startEndpoint()];
    const different = notificationOf('AWARDS_FEED_UPDATED', { number: 1 });
    const answers = await Promise.all(
      Array.from({ length: 60 }, (_, index) =>
        post(index % 2 === 0 ? first.url : second.url, index % 3 === 0 ? different : awards),
      ),
    );
    expect(new Set(answers.map(({ status }) => status))).toEqual(new Set([200]));
    expect(await inbox()).toHaveLength(4);
    expect(await Promise.all([first.count('accepted'), second.count('accepted')])).toEqual([2, 2]);
  });
});

describe('refused with 401 before the body is parsed is', () => {
  const valid = sign(awards);
  test.each([
    ['forged with another key', sign(awards, 'guessed')],
    ['signed over other bytes', sign(`${awards} `)],
    ['altered by one bit', valid.replace(/.$/, (last) => (Number.parseInt(last, 16) ^ 1).toString(16))],
    ['missing', undefined],
    ['empty', ''],
    ['without a digest', 'hmac-sha256='],
    ['shortened', valid.slice(0, -2)],
    ['too long', `${valid}00`],
    ['that is no hex', `hmac-sha256=${'z'.repeat(64)}`],
    ['without its algorithm', valid.slice(12)],
    ['of another algorithm', `hmac-sha512=${valid.slice(12)}`],
    ['given twice', `${valid}, ${valid}`],
    ['of an empty key', sign(awards, '')],
  ])('a signature %s', async (_what, signature) => {
    const endpoint = await startEndpoint({ keys: [current, previous, ''] });
    const answer = await (signature === undefined
      ? fetch(endpoint.url, { method: 'POST', body: awards })
      : post(endpoint.url, awards, signature));
    expect(answer.status).toBe(401);
    expect(await inbox()).toEqual([]);
    expect(endpoint.woken).toEqual([]);
    expect(await endpoint.count('unauthorized')).toBe(1);
  });

  test('also a body of arbitrary bytes: it is not parsed', async () => {
    const endpoint = await startEndpoint();
    const bytes = Buffer.from([0xff, 0x7b, 0x00]);
    expect((await post(endpoint.url, bytes, sign(awards))).status).toBe(401);
    expect((await post(endpoint.url, bytes)).status, 'parsed once it is signed').toBe(400);
  });

  test('an altered body', async () => {
    const endpoint = await startEndpoint();
    const body = Buffer.from(awards);
    const signature = sign(body);
    body[10] = (body[10] ?? 0) ^ 1;
    expect((await post(endpoint.url, body, signature)).status).toBe(401);
  });

  test('a notification of an unknown source, with the same answer as for a wrong signature', async () => {
    const endpoint = await startEndpoint();
    const unknown = await post(endpoint.url.replace('main', 'other'), awards);
    const wrong = await post(endpoint.url, awards, sign(awards, 'guessed'));
    expect([unknown.status, wrong.status]).toEqual([401, 401]);
    expect(unknown.text).toBe(wrong.text);
  });

  test('a request whose header cannot be genuine, without waiting for its body', async () => {
    const endpoint = await startEndpoint();
    const answer = await raw(endpoint.url, { 'content-length': '5000', 'x-signature': 'hmac-sha256=00' }, []);
    expect(answer.status).toBe(401);
  });
});

describe('limits', () => {
  test('a body that announces more than the limit is refused with 413 without being read', async () => {
    const endpoint = await startEndpoint({ bodyBytesMax: 1_000 });
    const answer = await raw(endpoint.url, { 'content-length': '1001', 'x-signature': sign('') }, []);
    expect(answer.status).toBe(413);
    expect(await endpoint.count('too-large')).toBe(1);
  });

  test('a body of unknown length is refused with 413 as soon as it passes the limit', async () => {
    const endpoint = await startEndpoint({ bodyBytesMax: 1_000 });
    // The request never ends: an answer shows that the receiver did not wait for the rest.
    const answer = await raw(endpoint.url, { 'transfer-encoding': 'chunked', 'x-signature': sign('') }, [
      Buffer.alloc(600),
      Buffer.alloc(600),
    ]);
    expect(answer.status).toBe(413);
    expect(await endpoint.count('too-large')).toBe(1);
  });

  test('a body of exactly the limit is accepted', async () => {
    const endpoint = await startEndpoint({ bodyBytesMax: 1_000 });
    const shell = notificationOf('TEST', { pad: '' });
    const body = notificationOf('TEST', { pad: 'x'.repeat(1_000 - Buffer.byteLength(shell)) });
    expect(Buffer.byteLength(body)).toBe(1_000);
    expect((await post(endpoint.url, body)).status).toBe(200);
  });

  test.each(['GET', 'PUT', 'DELETE', 'PATCH'])('%s is answered with 405 and the allowed method', async (method) => {
    const endpoint = await startEndpoint();
    const answer = await fetch(endpoint.url, { method, headers: { 'x-signature': sign('') } });
    expect(answer.status).toBe(405);
    expect(answer.headers.get('allow')).toBe('POST');
    expect(await endpoint.count('method-not-allowed')).toBe(1);
  });
});

describe('when a notification cannot be stored', () => {
  test('the answer is 503 with Retry-After, whether the database is away or refuses the login', async () => {
    const closed = createDatabase({ url: db.url, log: silentLogger, applicationName: 'test' });
    await closed.close();
    const wrong = new URL(db.url);
    wrong.pathname = '/there_is_no_such_database';
    const missing = createDatabase({ url: wrong.href, log: silentLogger, applicationName: 'test' });
    closers.push(() => missing.close());
    for (const database of [closed, missing]) {
      const endpoint = await startEndpoint({ database });
      const answer = await post(endpoint.url, awards);
      expect(answer.status).toBe(503);
      expect(Number(answer.headers.get('retry-after'))).toBeGreaterThan(0);
      expect(endpoint.woken).toEqual([]);
      expect(await endpoint.count('unavailable')).toBe(1);
    }
  });

  test('beyond the backlog the answer is 503 with Retry-After, and all others are stored', async () => {
    const open = Promise.withResolvers<void>();
    let writes = 0;
    const database: Database = {
      ...db.database,
      execute: async (statement, params) => {
        writes += 1;
        await open.promise;
        return db.database.execute(statement, params);
      },
    };
    const endpoint = await startEndpoint({ database, backlogMax: 3 });
    const first = post(endpoint.url, notificationOf('TEST', { number: -1 }));
    await expect.poll(() => writes).toBe(1);
    const answers = Array.from({ length: 8 }, (_, index) =>
      post(endpoint.url, notificationOf('TEST', { number: index })),
    );
    await expect.poll(() => endpoint.count('unavailable')).toBe(5);
    open.resolve();
    const settled = await Promise.all([first, ...answers]);
    const refused = settled.filter(({ status }) => status === 503);
    expect(refused).toHaveLength(5);
    for (const { headers } of refused) expect(Number(headers.get('retry-after'))).toBeGreaterThan(0);
    expect(await inbox()).toHaveLength(4);
  });
});

describe('a notification whose time is too far from now', () => {
  // The time of these tests is 2030-01-01.
  test.each([
    ['2029-12-31T23:55:00.000000Z', 200, 'accepted'],
    ['2029-12-31T23:54:59.999000Z', 200, 'stale'],
    ['2030-01-01T00:05:00.000000Z', 200, 'accepted'],
    ['2030-01-01T00:05:00.001000Z', 200, 'stale'],
    ['2030-01-01T02:00:00+02:00', 200, 'accepted'],
    ['2026-01-01T00:00:00Z', 200, 'stale'],
  ])('%s: %i, %s', async (timestamp, status, result) => {
    const endpoint = await startEndpoint({ freshnessMs: 300_000 });
    const answer = await post(endpoint.url, notificationOf('AWARDS_FEED_UPDATED', { timestamp }));
    // Always acknowledged: a refused notification would come again with the same time, in vain.
    expect({ status: answer.status, body: JSON.parse(answer.text) }).toEqual({ status, body: { status: result } });
    expect(await endpoint.count(result)).toBe(1);
    expect(await inbox()).toHaveLength(result === 'accepted' ? 1 : 0);
    expect(endpoint.woken).toEqual(result === 'accepted' ? ['main/awards'] : []);
    expect(endpoint.logged().includes('stale notification')).toBe(result === 'stale');
  });

  test('is recognised by the signed time alone', async () => {
    const clockMs = Date.UTC(2030, 0, 1);
    const clock = { nowMs: () => clockMs, sleep: async () => undefined };
    const endpoint = await startEndpoint({ freshnessMs: 60_000, clock });
    const expected = { accepted: 0, stale: 0 };
    await fc.assert(
      fc.asyncProperty(
        fc.integer({ min: -120_000, max: 120_000 }),
        fc.integer(),
        fc.constantFrom('trigger', 'triggers'),
        async (offsetMs, number, spelling) => {
          const timestamp = new Date(clockMs + offsetMs).toISOString();
          const body = JSON.stringify({ [spelling]: 'AWARDS_FEED_UPDATED', timestamp, payload: { number } });
          const answer = await post(endpoint.url, body);
          const isFresh = Math.abs(offsetMs) <= 60_000;
          expect([answer.status, JSON.parse(answer.text).status]).toEqual([200, isFresh ? 'accepted' : 'stale']);
          expected[isFresh ? 'accepted' : 'stale'] += 1;
          // Another time under the same signature is refused before it is read.
          const moved = body.replace(timestamp, new Date(clockMs + offsetMs + 1).toISOString());
          expect((await post(endpoint.url, moved, sign(body))).status).toBe(401);
        },
      ),
      { numRuns: 60 },
    );
    expect(await endpoint.count('stale')).toBe(expected.stale);
    expect((await endpoint.count('accepted')) + (await endpoint.count('repeated'))).toBe(expected.accepted);
  });
});

describe('when a bearer token is required', () => {
  const asked: string[] = [];
  const bearer: BearerCheck = async (token) => {
    asked.push(token);
    if (token === 'unknown') throw new AppError('unavailable', 'The token cannot be checked at the moment.');
    return token === 'good';
  };
  const send = (url: string, authorization: string | undefined, signature = sign(awards)) =>
    fetch(url, {
      method: 'POST',
      headers: { 'x-signature': signature, ...(authorization === undefined ? {} : { authorization }) },
      body: awards,
    });

  test.each([
    ['no token', undefined, 401, 'Bearer'],
    ['another scheme', 'Basic Z29vZA==', 401, 'Bearer'],
    ['an empty token', 'Bearer ', 401, 'Bearer'],
    ['two tokens', 'Bearer good, Bearer good', 401, 'Bearer'],
    ['a wrong token', 'Bearer wrong', 401, 'Bearer error="invalid_token"'],
    ['a token that cannot be checked now', 'Bearer unknown', 503, null],
    ['the right token', 'Bearer good', 200, null],
    ['the right token, with the scheme in lower case', 'bearer good', 200, null],
  ])(
    '%s: authorization %s is answered with %i and the challenge %s',
    async (_what, authorization, status, challenge) => {
      const endpoint = await startEndpoint({ bearer });
      const answer = await send(endpoint.url, authorization);
      expect([answer.status, answer.headers.get('www-authenticate')]).toEqual([status, challenge]);
      expect(answer.headers.has('retry-after')).toBe(status === 503);
      expect(await inbox()).toHaveLength(status === 200 ? 1 : 0);
    },
  );

  test('the signature is checked before the token: no forged request reaches the token check', async () => {
    const endpoint = await startEndpoint({ bearer });
    asked.length = 0;
    expect((await send(endpoint.url, 'Bearer good', sign(awards, 'guessed'))).status).toBe(401);
    expect((await send(endpoint.url, 'Bearer good', '')).status).toBe(401);
    expect(asked).toEqual([]);
    expect((await send(endpoint.url, 'Bearer good')).status).toBe(200);
    expect(asked).toEqual(['good']);
  });

  test('a client that cannot sign gets the same answer as for an unknown source', async () => {
    const endpoint = await startEndpoint({ bearer });
    const textAt = async (url: string) => (await send(url, undefined, sign(awards, 'guessed'))).text();
    expect(await textAt(endpoint.url)).toBe(await textAt(`${endpoint.url}-unknown`));
  });
});

describe('like every other path', () => {
  test('the answer has the given request id or a new one, and errors are problem documents', async () => {
    const endpoint = await startEndpoint();
    const headers = { 'x-signature': sign(awards), 'x-request-id': 'from-the-sender' };
    const given = await fetch(endpoint.url, { method: 'POST', headers, body: awards });
    expect(given.headers.get('x-request-id')).toBe('from-the-sender');
    expect(given.headers.get('content-type')).toBe('application/json; charset=utf-8');
    const refused = await fetch(endpoint.url, { method: 'POST', headers: { 'x-request-id': 'a b' }, body: awards });
    expect(refused.headers.get('x-request-id')).toMatch(/^[0-9a-f-]{36}$/);
    expect(refused.headers.get('content-type')).toBe('application/problem+json; charset=utf-8');
    expect(refused.headers.get('www-authenticate')).toBe('Bearer');
    expect(await refused.json()).toMatchObject({ type: 'about:blank', title: 'Unauthorized', status: 401 });
  });

  test.each(['', '?a=b', '/', '/?a=b'])('the path may end with "%s"', async (end) => {
    const endpoint = await startEndpoint();
    expect((await post(endpoint.url + end, awards)).status).toBe(200);
  });

  test.each(['/webhooks', '/webhooks/', '/webhooks/main/more', '/Webhooks/main'])('%s is not found', async (path) => {
    const endpoint = await startEndpoint();
    expect((await post(new URL(path, endpoint.url).href, awards)).status).toBe(404);
    expect((await post(new URL('/webhooks/%zz', endpoint.url).href, awards)).status, 'no encoding').toBe(400);
    expect((await post(new URL('/webhooks/m%61in', endpoint.url).href, awards)).status, 'encoded').toBe(200);
  });

  test('requests are counted under the template of the path, with their status', async () => {
    const endpoint = await startEndpoint();
    await post(endpoint.url, awards);
    await post(endpoint.url, awards, 'nonsense');
    const counts = async () => {
      const metric = await endpoint.registry.getSingleMetric('http_request_duration_seconds')?.get();
      const values = (metric?.values ?? []) as {
        metricName?: string;
        labels: Record<string, unknown>;
        value: number;
      }[];
      return values
        .filter(({ metricName }) => metricName?.endsWith('_count'))
        .map(({ labels, value }) => [labels['method'], labels['route'], labels['status'], value]);
    };
    await expect.poll(counts).toEqual([
      ['POST', '/webhooks/:source', 200, 1],
      ['POST', '/webhooks/:source', 401, 1],
    ]);
  });

  test('a receiver that shuts down answers 503 with Retry-After and stores nothing', async () => {
    const endpoint = await startEndpoint();
    endpoint.application.beginShutdown();
    const answer = await post(endpoint.url, awards);
    expect([answer.status, Number(answer.headers.get('retry-after')) > 0]).toEqual([503, true]);
    expect(await inbox()).toEqual([]);
  });
});

test('requests that arrive together share commits', async () => {
  const endpoint = await startEndpoint();
  const answers = await Promise.all(
    Array.from({ length: 200 }, (_, number) => post(endpoint.url, notificationOf('TEST', { number }))),
  );
  expect(answers.every(({ status }) => status === 200)).toBe(true);
  expect(await inbox()).toHaveLength(200);
  const commits = await endpoint.commits();
  expect(commits).toBeGreaterThan(0);
  expect(commits).toBeLessThan(200);
});

test('no key, body or signature is ever in the log or in an answer', async () => {
  const closed = createDatabase({ url: db.url, log: silentLogger, applicationName: 'test' });
  await closed.close();
  const secret = 'a word of the body';
  const body = notificationOf('AWARDS_FEED_UPDATED', { payload: { secret } });
  for (const database of [db.database, closed]) {
    const endpoint = await startEndpoint({ database });
    const answers = await Promise.all([
      post(endpoint.url, body),
      post(endpoint.url, body, sign(body, 'guessed')),
      post(endpoint.url, secret),
      post(endpoint.url, `{"trigger":"${secret}"}`),
    ]);
    const said = endpoint.logged() + answers.map(({ text }) => text).join('');
    for (const hidden of [current, previous, secret, sign(body).slice(12), sign(body, 'guessed').slice(12)])
      expect(said).not.toContain(hidden);
    expect(endpoint.logged()).toContain('notification refused');
  }
});

/** Sends a request with these chunks that never ends; resolves with the head of the answer. */
function raw(url: string, headers: Record<string, string>, chunks: Uint8Array[]) {
  return new Promise<{ status: number; headers: IncomingHttpHeaders }>((resolve, reject) => {
    const request = httpRequest(url, { method: 'POST', headers, agent: false }, (answer) => {
      resolve({ status: answer.statusCode ?? 0, headers: answer.headers });
      answer.resume();
      request.destroy();
    });
    request.on('error', reject);
    request.flushHeaders();
    for (const chunk of chunks) request.write(chunk);
  });
}
