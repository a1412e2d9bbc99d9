/** The http connector against a plain server: the requests that it sends, and the outcomes that it makes of answers. */
import { createHmac } from 'node:crypto';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { describe, expect, onTestFinished, test } from 'vitest';
import type { Operation } from '#connector/connector.ts';
import type { AwardDocument } from '#connector/documents.ts';
import { ConfigError } from '#connector/errors.ts';
import { testContext } from '#connector/testing/test-context.ts';
import type { Clock } from '#platform/clock.ts';
import http from '../../../connectors/http/index.ts';
import { answerJson, type PlainServer, type ReceivedRequest, startPlainServer } from '../../connector/plain-server.ts';
import { failureOf } from '../../harness/failure.ts';
import { createManualClock } from '../../harness/manual-clock.ts';
import { award, file, operationOf, supplier } from './documents.ts';

const never = new AbortController().signal;
const hash = operationOf(award).contentHash;

async function open(baseUrl: string, settings: object = {}, clock: Clock = createManualClock()) {
  const { context } = testContext({ clock });
  const session = await http.open(http.settings.parse({ base_url: baseUrl, ...settings }), context);
  onTestFinished(() => session.close());
  return { ...session, write: (...operations: Operation[]) => session.write(operations, never) };
}

const sent = ({ requests }: PlainServer) => requests.map(({ method, url }) => `${method} ${url}`);
const bodyOf = (request: ReceivedRequest | undefined): unknown => JSON.parse(request?.body ?? 'null');

const create = { method: 'POST', path: '/orders', body: { json: { key: '{key}', hash: '{content_hash}' } } };
const orders = {
  create,
  amend: { ...create, method: 'PATCH', path: '/orders/{reference}' },
  cancel: { method: 'DELETE', path: '/orders/{reference}' },
  reference: { body: 'order.id' },
  lookup: {
    path: '/orders?key={key}',
    list: 'items',
    where: { key: '{key}' },
    reference: 'id',
    content_hash: { body: 'hash' },
  },
};
const byPost = { documents: { award: orders } };

describe('without settings for its kind, a document', () => {
  test('is sent by PUT to its own URL with its content hash, and deleted there', async () => {
    const server = await startPlainServer((response) => response.writeHead(204).end());
    const { write } = await open(server.url);
    expect(
      await write(
        operationOf(award),
        operationOf(award, { action: 'amend' }),
        operationOf(award, { action: 'cancel' }),
      ),
    ).toEqual([
      { status: 'created', reference: award.key },
      { status: 'updated', reference: award.key },
      { status: 'cancelled', reference: award.key },
    ]);
    expect(sent(server).toSorted()).toEqual([
      'DELETE /award/ev-1%2Fsu-1',
      'PUT /award/ev-1%2Fsu-1',
      'PUT /award/ev-1%2Fsu-1',
    ]);
    expect(bodyOf(server.requests.find(({ method }) => method === 'PUT'))).toEqual({ content_hash: hash, ...award });
  });

  test('is looked up at its own URL', async () => {
    const server = await startPlainServer((response, { url }) =>
      url === '/supplier/V-1'
        ? answerJson(response, 200, { content_hash: hash.toUpperCase() })
        : answerJson(response, 404, {}),
    );
    const session = await open(server.url);
    expect(await session.lookup([supplier, award], never)).toEqual([
      { key: 'V-1', reference: 'V-1', contentHash: hash },
    ]);
  });

  test('of a file is sent together with its bytes', async () => {
    const server = await startPlainServer((response) => response.end());
    const { write } = await open(server.url);
    const name = 'Zeichnung "1".pdf';
    await write(operationOf(file, { file: { name, read: async () => Buffer.from('bytes') } }));
    const [request] = server.requests;
    const form = await new Response(request?.body, {
      headers: { 'content-type': request?.headers['content-type'] ?? '' },
    }).formData();
    const [document, bytes] = [form.get('document') as File, form.get('file') as File];
    expect(JSON.parse(await document.text())).toEqual({ content_hash: hash, ...file });
    expect([await bytes.text(), bytes.type]).toEqual(['bytes', 'application/octet-stream']);
  });

  test('of a file whose bytes cannot be read is a retry, and nothing is sent', async () => {
    const server = await startPlainServer((response) => response.end());
    const { write } = await open(server.url);
    const read = async () => Promise.reject(new Error('the link has expired'));
    expect(await write(operationOf(file, { file: { name: 'x', read } }))).toMatchObject([
      { status: 'retry', error: { type: 'transient', message: expect.stringContaining('the link has expired') } },
    ]);
    expect(server.requests).toEqual([]);
  });

  test('can be sent as bytes alone', async () => {
    const server = await startPlainServer((response) => response.end());
    const put = {
      method: 'PUT',
      path: '/files/{key}',
      body: 'file',
      headers: { 'X-Hash': '{content_hash}', 'X-Name': '{file_name}' },
    };
    const documents = { file: { create: put, cancel: { method: 'DELETE', path: '/files/{key}' } } };
    const session = await open(server.url, { documents });
    await session.write(operationOf(file, { file: { name: 'a.pdf', read: async () => Buffer.from('bytes') } }));
    expect(server.requests).toMatchObject([
      { body: 'bytes', headers: { 'content-type': 'application/octet-stream', 'x-hash': hash, 'x-name': 'a.pdf' } },
    ]);
    // Without a lookup the file counts as held: another PUT brings it into the right state.
    expect(await session.lookup([file], never)).toEqual([
      { key: file.key, reference: file.key, contentHash: undefined },
    ]);
  });
});

describe('a write', () => {
  test('takes its reference from the answer, with each digit', async () => {
    const server = await startPlainServer((response) =>
      response.writeHead(201).end('{"order":{"id":12345678901234567890}}'),
    );
    const { write } = await open(server.url, byPost);
    expect(await write(operationOf(award))).toEqual([{ status: 'created', reference: '12345678901234567890' }]);
    await write(
      operationOf(award, { action: 'amend', reference: 'a/b' }),
      operationOf(award, { action: 'cancel', reference: 'a/b' }),
    );
    expect(sent(server)).toEqual(['POST /orders', 'PATCH /orders/a%2Fb', 'DELETE /orders/a%2Fb']);
  });

  test.each([
    ['location', { location: 'https://erp.example/orders/PO%201?x=1' }, 'PO 1'],
    ['location', { location: '/orders/7/' }, '7'],
    [{ header: 'X-Order' }, { 'x-order': '8' }, '8'],
  ])('takes its reference from %j of the headers %j', async (reference, headers, expected) => {
    const server = await startPlainServer((response) => answerJson(response, 201, {}, headers));
    const { write } = await open(server.url, { documents: { award: { ...orders, reference } } });
    expect(await write(operationOf(award))).toEqual([{ status: 'created', reference: expected }]);
  });

  test('whose answer has no reference is unknown; an amend keeps the known reference', async () => {
    const server = await startPlainServer((response) => answerJson(response, 200, {}));
    const { write } = await open(server.url, byPost);
    expect(await write(operationOf(award))).toMatchObject([{ status: 'unknown' }]);
    expect(await write(operationOf(award, { action: 'amend', reference: '7' }))).toEqual([
      { status: 'updated', reference: '7' },
    ]);
  });

  test('whose path needs a reference that is missing is a dead letter, and nothing is sent', async () => {
    const server = await startPlainServer((response) => response.end());
    const { write } = await open(server.url, byPost);
    expect(await write(operationOf(award, { action: 'amend' }))).toMatchObject([
      { status: 'rejected', error: { type: 'data' } },
    ]);
    expect(server.requests).toEqual([]);
  });

  test('has the idempotency key, and a signature over the bytes that are sent', async () => {
    const server = await startPlainServer((response) => response.end());
    const signature = { secret: 'Jefe', header: 'X-Signature', prefix: 'sha256=', timestamp_header: 'X-Time' };
    const { write } = await open(
      server.url,
      { signature, idempotency_header: 'Idempotency-Key' },
      createManualClock(1_700_000_000_000),
    );
    await write(operationOf(award));
    const [{ body, headers } = { body: '', headers: {} as ReceivedRequest['headers'] }] = server.requests;
    expect(headers).toMatchObject({
      'idempotency-key': 'id-1',
      'x-time': '1700000000',
      'x-signature': `sha256=${createHmac('sha256', 'Jefe').update(`1700000000.${body}`).digest('hex')}`,
    });
  });

  test('uses a token until it expires', async () => {
    const clock = createManualClock();
    const server = await startPlainServer((response, { url }, number) =>
      answerJson(response, 200, url === '/token' ? { access_token: `t-${number}`, expires_in: 600 } : {}),
    );
    const auth = { type: 'oauth', token_url: '/token', client_id: 'a', client_secret: 'b' };
    const { write } = await open(server.url, { auth }, clock);
    await write(operationOf(award));
    clock.advance(560_000);
    await write(operationOf(award));
    clock.advance(10_000);
    await write(operationOf(award));
    expect(server.requests.map(({ url, headers }) => (url === '/token' ? url : headers.authorization))).toEqual([
      '/token',
      'Bearer t-1',
      'Bearer t-1',
      '/token',
      'Bearer t-4',
    ]);
  });

  test('does not follow a redirection with its login', async () => {
    const elsewhere = await startPlainServer((response) => response.end());
    const server = await startPlainServer((response) => response.writeHead(307, { location: elsewhere.url }).end());
    const { write } = await open(server.url, { auth: { type: 'bearer', token: 'tok-123456' } });
    expect(await write(operationOf(award))).toMatchObject([{ status: 'retry', error: { type: 'config' } }]);
    expect(elsewhere.requests).toEqual([]);
  });

  test('does not start requests after its start limit: those operations are retried', async () => {
    const clock = createManualClock();
    const server = await startPlainServer((response) => {
      clock.advance(40_000);
      response.end();
    });
    const { write } = await open(server.url, { concurrency: 1 }, clock);
    const outcomes = await write(...Array.from({ length: 4 }, () => operationOf(award)));
    expect(outcomes.map(({ status }) => status)).toEqual(['created', 'created', 'retry', 'retry']);
    expect(server.requests).toHaveLength(2);
  });
});

describe('an answer', () => {
  const rules = {
    answers: [
      { status: 200, body: { 'result.code': ['LOCKED', 'BUSY'] }, means: 'locked' },
      { status: '2xx', body: { success: false }, means: 'data' },
      { status: [409, '500-501'], body: { error: { exists: true } }, means: 'done' },
      { status: '5xx', body: { 'error.text': { matches: '^Deadlock' } }, means: 'transient' },
      { status: 400, body: { code: '0042' }, means: 'conflict' },
      { status: 403, means: 'data' },
      { status: 418, means: 'rate-limited' },
      { status: 420, means: 'auth' },
      { status: 421, means: 'config' },
      { status: 404, means: 'unknown' },
    ],
    message: 'error.text',
  };
  test.each<[number, unknown, object]>([
    [200, { result: { code: 'BUSY' } }, { status: 'retry', error: { type: 'locked' } }],
    [
      200,
      { success: false, error: { text: 'no plant' } },
      {
        status: 'rejected',
        error: { type: 'data', message: 'the ERP answered 200 to PUT /award/ev-1%2Fsu-1: no plant' },
      },
    ],
    [200, { success: true }, { status: 'created' }],
    [409, { error: { text: 'is there' } }, { status: 'created' }],
    [409, {}, { status: 'rejected', error: { type: 'conflict' } }],
    [500, { error: 'done all the same' }, { status: 'created' }],
    [502, { error: { text: 'Deadlock found' } }, { status: 'retry', error: { type: 'transient' } }],
    [502, { error: { text: 'No deadlock' } }, { status: 'unknown' }],
    [400, { code: '0042' }, { status: 'rejected', error: { type: 'conflict' } }],
    [400, { code: 42 }, { status: 'rejected', error: { type: 'data' } }],
    [403, {}, { status: 'rejected', error: { type: 'data' } }],
    [418, {}, { status: 'retry', error: { type: 'rate-limited', retryAfterMs: 7_000 } }],
    [420, {}, { status: 'retry', error: { type: 'auth' } }],
    [421, {}, { status: 'retry', error: { type: 'config' } }],
    [404, {}, { status: 'unknown' }],
    [
      422,
      { error: { text: 'no such material' } },
      {
        status: 'rejected',
        error: { type: 'data', message: 'the ERP answered 422 to PUT /award/ev-1%2Fsu-1: no such material' },
      },
    ],
    [
      422,
      { other: 'words' },
      { status: 'rejected', error: { type: 'data', message: expect.stringContaining('{"other":"words"}') } },
    ],
  ])('with %i and %j means what the settings say', async (status, body, outcome) => {
    const server = await startPlainServer((response) => answerJson(response, status, body, { 'retry-after': '7' }));
    const { write } = await open(server.url, rules);
    expect(await write(operationOf(award))).toMatchObject([outcome]);
  });

  test.each(['<html>Maintenance</html>', '{"id": ', 'OK'])(
    'with 200 and %j is no success, unless the settings accept any body',
    async (body) => {
      const server = await startPlainServer((response) => response.end(body));
      const strict = await open(server.url);
      expect(await strict.write(operationOf(award))).toMatchObject([{ status: 'unknown' }]);
      const lax = await open(server.url, { expect: 'anything' });
      expect(await lax.write(operationOf(award))).toMatchObject([{ status: 'created' }]);
    },
  );

  test.each<[string, object, (response: Parameters<typeof answerJson>[0]) => unknown, object]>([
    ['a 500', {}, (response) => answerJson(response, 500, {}), { answered: true }],
    ['a 201 without the reference', byPost, (response) => answerJson(response, 201, {}), { answered: true }],
    ['a 202 without the reference', byPost, (response) => answerJson(response, 202, {}), {}],
    ["a gateway's 504", {}, (response) => answerJson(response, 504, {}), {}],
    ['a page with 200', {}, (response) => response.end('<html>Maintenance</html>'), {}],
    ['a connection that breaks', {}, (response) => response.destroy(), {}],
    [
      'a 500 that the settings call unknown',
      { answers: [{ status: 500, means: 'unknown' }] },
      (response) => answerJson(response, 500, {}),
      {},
    ],
  ])('tells whether the ERP has ended its work: %s', async (_case, settings, respond, expected) => {
    const server = await startPlainServer((response) => void respond(response));
    const { write } = await open(server.url, settings);
    const [outcome] = await write(operationOf(award));
    expect(outcome).toEqual({ status: 'unknown', message: expect.any(String), ...expected });
  });

  test('that means login-expired without being a 401 renews the login once', async () => {
    const server = await startPlainServer((response, { url }, number) =>
      answerJson(
        response,
        200,
        url === '/token' ? { access_token: `t-${number}` } : number < 3 ? { code: 'SESSION' } : {},
      ),
    );
    const auth = { type: 'oauth', token_url: '/token', client_id: 'a', client_secret: 'b' };
    const { write } = await open(server.url, {
      auth,
      answers: [{ body: { code: 'SESSION' }, means: 'login-expired' }],
    });
    expect(await write(operationOf(award))).toMatchObject([{ status: 'created' }]);
    expect(server.requests.map(({ headers }) => headers.authorization).slice(1)).toEqual([
      'Bearer t-1',
      expect.stringMatching(/^Basic/),
      'Bearer t-3',
    ]);
  });

  test('404 to a cancellation counts as done only if the lookup finds nothing either', async () => {
    let held = true;
    const server = await startPlainServer((response, { method }) =>
      method === 'DELETE'
        ? answerJson(response, 404, {})
        : answerJson(response, 200, { items: held ? [{ key: award.key, id: '7' }] : [] }),
    );
    const { write } = await open(server.url, byPost);
    const cancel = operationOf(award, { action: 'cancel', reference: '7' });
    expect(await write(cancel)).toMatchObject([
      { status: 'rejected', error: { message: expect.stringContaining('still holds 7') } },
    ]);
    held = false;
    expect(await write(cancel)).toEqual([{ status: 'cancelled', reference: '7' }]);
  });

  test('429 stops the batch: the other operations are not sent', async () => {
    const server = await startPlainServer((response) => response.writeHead(429, { 'retry-after': '7' }).end());
    const { write } = await open(server.url, { concurrency: 1 });
    const outcomes = await write(operationOf(award), operationOf(supplier));
    expect(outcomes).toMatchObject(
      Array.from({ length: 2 }, () => ({ status: 'retry', error: { type: 'rate-limited', retryAfterMs: 7_000 } })),
    );
    expect(server.requests).toHaveLength(1);
  });
});

describe('a lookup', () => {
  const lookUp = async (answer: (response: Parameters<typeof answerJson>[0]) => unknown, lookup: object = {}) => {
    const server = await startPlainServer(answer);
    const session = await open(server.url, {
      documents: { award: { ...orders, lookup: { ...orders.lookup, ...lookup } } },
    });
    return session.lookup([award], never);
  };
  const unclear = (reason: RegExp) => ({ key: award.key, unclear: expect.stringMatching(reason) as string });
  const items =
    (...list: object[]) =>
    (response: Parameters<typeof answerJson>[0]) =>
      answerJson(response, 200, { items: list });

  test('returns what the search returns, with the hash if it is one', async () => {
    expect(await lookUp(items({ key: award.key, id: 7, hash }))).toEqual([
      { key: award.key, reference: '7', contentHash: hash },
    ]);
    expect(await lookUp(items({ key: award.key, id: 7, hash: 'older' }))).toEqual([
      { key: award.key, reference: '7', contentHash: undefined },
    ]);
    expect(await lookUp(items())).toEqual([]);
  });

  test('returns both objects of a document that has two', async () => {
    expect(await lookUp(items({ key: award.key, id: 7 }, { key: award.key, id: 8 }))).toHaveLength(2);
  });

  test('that returns other objects is unclear, unless the settings ignore them', async () => {
    const others = items({ key: 'x', id: 1 });
    expect(await lookUp(others)).toEqual([unclear(/returned other objects as well/)]);
    expect(await lookUp(others, { ignore_others: true })).toEqual([]);
  });

  test('leaves out withdrawn objects', async () => {
    const withdrawn = { path: 'status', is: ['cancelled', 9] };
    expect(
      await lookUp(items({ key: award.key, id: 7, status: 'cancelled' }, { key: award.key, id: 8, status: '9' }), {
        withdrawn,
      }),
    ).toEqual([]);
    expect(await lookUp(items({ key: award.key, id: 7, status: 'open' }), { withdrawn })).toHaveLength(1);
  });

  test.each<[string, (response: Parameters<typeof answerJson>[0]) => unknown, RegExp]>([
    ['a page', (response) => response.end('<html>'), /answered 200 with a body that is not JSON/],
    ['no list', (response) => answerJson(response, 200, { rows: [] }), /has no list at items/],
    ['an error', (response) => answerJson(response, 500, {}), /answered 500/],
    ['an object without its reference', items({ key: award.key }), /has no reference at id/],
  ])('that is answered with %s is unclear, and does not claim that nothing is held', async (_name, answer, reason) => {
    expect(await lookUp(answer)).toEqual([unclear(reason)]);
  });

  test('for one object finds none where the answer is null', async () => {
    const one = { path: '/orders/{key}', list: undefined, where: {}, reference: undefined };
    const settings = { ...orders, reference: 'key', lookup: { ...orders.lookup, ...one } };
    const server = await startPlainServer((response, { method }) =>
      method === 'GET'
        ? response.setHeader('content-type', 'application/json').end('null')
        : answerJson(response, 404, {}),
    );
    const session = await open(server.url, { documents: { award: settings } });
    expect(await session.lookup([award], never)).toEqual([]);
    const cancel = operationOf(award, { action: 'cancel', reference: award.key });
    expect(await session.write(cancel)).toEqual([{ status: 'cancelled', reference: award.key }]);
  });

  test('that fails for one document does not affect the others', async () => {
    const other: AwardDocument = { ...award, key: 'ev-2/su-1' };
    const server = await startPlainServer((response, { url }) =>
      url.includes('ev-2') ? answerJson(response, 500, {}) : answerJson(response, 200, { items: [] }),
    );
    const session = await open(server.url, { documents: { award: orders } });
    expect(await session.lookup([award, other, award], never)).toEqual([
      { key: other.key, unclear: expect.stringContaining('answered 500') as string },
    ]);
  });

  test('can be a HEAD that reads the content hash from a header', async () => {
    const server = await startPlainServer((response) => response.writeHead(200, { etag: `W/"${hash}"` }).end());
    const lookup = { method: 'HEAD', path: '/orders/{event.id}', content_hash: { header: 'ETag' } };
    const session = await open(server.url, { documents: { award: { ...orders, reference: 'key', lookup } } });
    expect(await session.lookup([award], never)).toEqual([{ key: award.key, reference: award.key, contentHash: hash }]);
    expect(sent(server)).toEqual(['HEAD /orders/ev-1']);
  });
});

describe('check', () => {
  test.each([
    [200, true],
    [404, true],
    [401, false],
    [403, false],
    [503, false],
  ])('of an endpoint that answers %i has ok: %s', async (status, ok) => {
    const server = await startPlainServer((response) => response.writeHead(status).end());
    const [line] = await (await open(`${server.url}/api`, { check_path: '/health' })).check();
    expect(line).toMatchObject({ ok, message: expect.stringContaining(String(status)) });
    expect(sent(server)).toEqual(['GET /api/health']);
  });
});

describe('limits', () => {
  const limits = { per_minute: 2 };

  test('count the requests of all sessions with the same address, also logins and look-ups', async () => {
    const sleptMs: number[] = [];
    const still = createManualClock();
    const clock = { ...still, sleep: async (ms: number) => void sleptMs.push(ms) };
    const server = await startPlainServer((response, { url }) =>
      answerJson(response, 200, url.endsWith('/token') ? { access_token: 't' } : {}),
    );
    const auth = { type: 'oauth', token_url: '/token', client_id: 'a', client_secret: 'b' };
    const orders = await open(`${server.url}/api`, { auth, limits }, clock);
    const vendors = await open(`${server.url}/api/`, { auth, limits }, clock);
    expect(await orders.write(operationOf(award))).toMatchObject([{ status: 'created' }]);
    expect(sleptMs).toEqual([]);
    await vendors.lookup([award], never);
    expect(sleptMs).toEqual([60_050, 60_050]);
    expect(server.requests).toHaveLength(4);
  });

  test('a call that is stopped while it waits for its turn sends nothing', async () => {
    const server = await startPlainServer((response) => response.end());
    const session = await open(server.url, { limits });
    await session.write(operationOf(award), operationOf(award));
    const stop = new AbortController();
    const looking = session.lookup([award], stop.signal);
    stop.abort();
    expect(await looking).toEqual([{ key: award.key, unclear: 'stopped before it was sent' }]);
    expect(server.requests).toHaveLength(2);
  });
});

test('plan shows each request with its readable content, and sends nothing', async () => {
  const session = await open('http://127.0.0.1:1', byPost);
  const planned = await session.plan?.([operationOf(award), operationOf(award, { action: 'cancel' })], never);
  expect(planned).toEqual([
    { key: award.key, action: 'create', steps: ['POST /orders', `key: ${award.key}`, `hash: ${hash}`] },
    {
      key: award.key,
      action: 'cancel',
      steps: [`It cannot be sent: award ${award.key} has no reference, which the path /orders/{reference} needs`],
    },
  ]);
});

test('a certificate file that does not exist is a ConfigError', async () => {
  const dataDir = await mkdtemp(join(tmpdir(), 'http-connector-'));
  onTestFinished(() => rm(dataDir, { recursive: true }));
  const settings = http.settings.parse({ base_url: 'https://x.example', ca_file: 'missing.pem' });
  const error = await failureOf(ConfigError, http.open(settings, testContext({ dataDir }).context));
  expect(error.message).toMatch(/missing\.pem \(settings\.ca_file\) cannot be read/);
});
