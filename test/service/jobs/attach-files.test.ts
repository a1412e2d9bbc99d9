import { randomUUID } from 'node:crypto';
import { createServer as createHttpServer, type RequestListener, type ServerResponse } from 'node:http';
import { createServer } from 'node:https';
import type { AddressInfo } from 'node:net';
import { gzipSync } from 'node:zlib';
import { afterEach, beforeEach, describe, expect, test } from 'vitest';
import { systemClock } from '#platform/clock.ts';
import { createGuardedFetch } from '#platform/guarded-fetch.ts';
import { silentLogger } from '#platform/log.ts';
import { createSecretBox } from '#platform/secrets.ts';
import { loadAttachedFiles } from '#service/files/find-files.ts';
import { storageUnavailable } from '#service/files/storage/file-storage.ts';
import { attachFilesToSourcingEvent } from '#service/jobs/attach-files.ts';
import { createJobWorker } from '#service/jobs/run-jobs.ts';
import { createUnitOfWork } from '#service/unit-of-work.ts';
import { closeAtEnd } from '../../harness/close-at-end.ts';
import { eventually } from '../../harness/eventually.ts';
import { breakableStorage, download, linkTo } from '../../harness/files.ts';
import { createEvent, desk, endedJob, eventPayload } from '../../harness/sourcing.ts';
import { testCertificates } from '../../harness/test-certificates.ts';
import type { TestOrganisation } from '../../harness/test-organisation.ts';
import { startTestService } from '../../harness/test-service.ts';

const bodyBytesMax = 200_000;
const storage = await breakableStorage();

/** The host names of the tests and their addresses. A test changes the answer of the next lookup here. */
const addresses = new Map<string, string[]>([['localhost', ['127.0.0.1']]]);
const lookups: string[] = [];
const certificates = testCertificates();
const outgoing = createGuardedFetch({
  extraCa: certificates.caPem,
  lookup: async (host) => {
    lookups.push(host);
    const found = addresses.get(host);
    if (!found) throw Object.assign(new Error('unknown'), { code: 'ENOTFOUND' });
    return found.map((address) => ({ address, family: address.includes(':') ? 6 : 4 }));
  },
});
closeAtEnd(() => outgoing.close());
/** The real time limit is half a minute: the tests check the limit that was set, and run with a shorter one. */
const asked: { url: string; timeoutMs: number }[] = [];
let timeoutMs = 2_000;
let fetching = 0;
let fetchingMax = 0;
const service = await startTestService({
  bodyBytesMax,
  storage,
  fetch: (request) => {
    asked.push(request);
    fetching += 1;
    fetchingMax = Math.max(fetchingMax, fetching);
    return outgoing.fetch({ ...request, timeoutMs: Math.min(request.timeoutMs, timeoutMs) }).finally(() => {
      fetching -= 1;
    });
  },
});
const { database } = service.db;
const organisation = await service.organisation();

/** The file server's answer for each path. */
const pages = new Map<string, RequestListener>();
const requested: string[] = [];
const serve: RequestListener = (request, response) => {
  requested.push(request.url ?? '');
  const page = pages.get(request.url ?? '');
  if (page) page(request, response);
  else response.writeHead(404).end('not here');
};
const fileServer = createServer({ key: certificates.keyPem, cert: certificates.certPem }, serve);
fileServer.on('tlsClientError', () => undefined);
fileServer.listen(0, '127.0.0.1');
await new Promise((resolve) => fileServer.once('listening', resolve));
closeAtEnd(() => {
  fileServer.closeAllConnections();
  return new Promise((resolve) => fileServer.close(resolve));
});
const { port } = fileServer.address() as AddressInfo;
const urlOf = (path: string) => `https://localhost:${port}${path}`;
const text = (body: string, headers: Record<string, string> = {}): RequestListener => {
  return (_request, response) => response.writeHead(200, headers).end(body);
};

beforeEach(() => {
  pages.clear();
  requested.length = 0;
  asked.length = 0;
});
afterEach(() => {
  storage.before = () => undefined;
  timeoutMs = 2_000;
  addresses.set('localhost', ['127.0.0.1']);
});

const base64 = (body: string | Buffer) => Buffer.from(body).toString('base64');
const attachPath = '/api/jobs/attach-files-to-sourcing-event';
const attach = (event: string, files: unknown[], who: TestOrganisation = organisation) =>
  endedJob(who, attachPath, { sourcing_event: event, files });
const newEvent = (who = organisation) => createEvent(who, eventPayload());

async function newRequest(who = organisation): Promise<string> {
  const job = await endedJob(who, '/api/jobs/create-sourcing-requests', { name: 'Chairs' });
  return job.created_entity;
}

const filesOf = async (event: string) =>
  (await loadAttachedFiles(database, 'sourcing_events', event)).map(({ file_name: name }) => name);
const codesOf = (job: { detail: { errors: { file_name: string; error: string }[] } }) =>
  Object.fromEntries(job.detail.errors.map(({ file_name: name, error }) => [name, error]));

describe('files', () => {
  test('from base64 and from URLs are attached in their order, and can be downloaded', async () => {
    const event = await newEvent();
    pages.set('/spec', text('from the web', { 'content-type': 'text/plain; charset=utf-8' }));
    pages.set('/untyped', text('no type'));
    pages.set('/odd', text('odd type', { 'content-type': 'not a type' }));
    const job = await attach(event, [
      { file_name: 'a.pdf', content_type: 'application/pdf', content: base64('from the body') },
      { file_name: 'b.txt', url: urlOf('/spec') },
      { file_name: 'c.csv', content_type: 'text/csv', url: urlOf('/spec') },
      { file_name: 'd', content: '' },
      { file_name: 'e', url: urlOf('/untyped') },
      { file_name: 'e', url: urlOf('/odd') },
    ]);
    expect(job).toMatchObject({ type: 'ATTACH_FILES_TO_SOURCING_EVENT', status: 'COMPLETED' });
    expect(job.created_entity).toBeUndefined();
    expect(job.detail).toEqual({
      data: ['a.pdf', 'b.txt', 'c.csv', 'd', 'e', 'e'].map((name) => ({
        file_uuid: expect.any(String),
        file_name: name,
      })),
      errors: [],
    });
    const octets = 'application/octet-stream';
    const expected: [string, string][] = [
      ['application/pdf', 'from the body'],
      ['text/plain; charset=utf-8', 'from the web'],
      ['text/csv', 'from the web'],
      [octets, ''],
      [octets, 'no type'],
      [octets, 'odd type'],
    ];
    for (const [index, { file_uuid: id }] of job.detail.data.entries()) {
      const { headers, bytes } = await download(await linkTo(organisation, id));
      expect([headers.get('content-type'), bytes.toString()]).toEqual(expected[index]);
    }
    expect(await loadAttachedFiles(database, 'sourcing_events', event)).toEqual(
      job.detail.data.map((file: { file_uuid: string; file_name: string }, index: number) => ({
        uuid: file.file_uuid,
        file_name: file.file_name,
        content_type: expected[index]?.[0],
        size: expected[index]?.[1].length,
        created: expect.any(String),
      })),
    );
  });

  test('can also be attached to a sourcing request', async () => {
    const request = await newRequest();
    const path = '/api/jobs/attach-files-to-sourcing-request';
    const files = [{ file_name: 'a.pdf', content: base64('x') }];
    const job = await endedJob(organisation, path, { sourcing_request: request, files });
    expect(job).toMatchObject({ type: 'ATTACH_FILES_TO_SOURCING_REQUEST', status: 'COMPLETED' });
    expect((await loadAttachedFiles(database, 'sourcing_requests', request)).map(({ uuid }) => uuid)).toEqual([
      job.detail.data[0].file_uuid,
    ]);
  });

  test('are attached after the earlier ones', async () => {
    const event = await newEvent();
    for (const name of ['z', 'a', 'm']) await attach(event, [{ file_name: name, content: '' }]);
    expect(await filesOf(event)).toEqual(['z', 'a', 'm']);
  });

  test('that cannot be fetched are named with a short code, and the job is COMPLETED with the others', async () => {
    const event = await newEvent();
    addresses.set('other-name.test', ['127.0.0.1']);
    pages.set('/good', text('good'));
    pages.set('/moved', (_, response) => response.writeHead(302, { location: urlOf('/good') }).end());
    pages.set('/error', (_, response) => response.writeHead(500).end('{"error":1}'));
    pages.set('/nothing', (_, response) => response.writeHead(204).end());
    pages.set('/packed', (_, response) => response.writeHead(200, { 'content-encoding': 'gzip' }).end(gzipSync('x')));
    pages.set('/hang-up', (request) => request.socket.destroy());
    pages.set('/half', (request, response) => {
      response.writeHead(200, { 'content-length': '10' });
      response.write('12345', () => request.socket.destroy());
    });
    const job = await attach(event, [
      { file_name: 'first', url: urlOf('/good') },
      ...['/missing', '/moved', '/error', '/nothing', '/packed', '/hang-up', '/half'].map((path) => ({
        file_name: path.slice(1),
        url: urlOf(path),
      })),
      { file_name: 'unknown', url: 'https://no-such-host.test/' },
      { file_name: 'untrusted', url: `https://other-name.test:${port}/good` },
      { file_name: 'closed', url: 'https://localhost:1/' },
      { file_name: 'last', content: base64('last') },
    ]);
    expect(job.status).toBe('COMPLETED');
    expect(codesOf(job)).toEqual({
      missing: 'http_404',
      moved: 'redirect',
      error: 'http_500',
      nothing: 'http_204',
      packed: 'encoded',
      'hang-up': 'reset',
      half: 'reset',
      unknown: 'unreachable',
      untrusted: 'tls',
      closed: 'refused',
    });
    expect(await filesOf(event)).toEqual(['first', 'last']);
  });

  test('none of which can be fetched: COMPLETED, with an empty data array', async () => {
    const event = await newEvent();
    const job = await attach(event, [{ file_name: 'x', url: urlOf('/missing') }]);
    expect(job).toMatchObject({
      status: 'COMPLETED',
      detail: { data: [], errors: [{ file_name: 'x', error: 'http_404' }] },
    });
  });

  test('up to 50 are accepted, and fetched a few at a time', async () => {
    const event = await newEvent();
    pages.set('/slow', (_, response) => void setTimeout(() => response.end('x'), 5));
    fetchingMax = 0;
    const files = Array.from({ length: 50 }, (_, index) => ({ file_name: `${index}`, url: urlOf('/slow') }));
    const job = await attach(event, files);
    expect(job.detail.errors).toEqual([]);
    expect(await filesOf(event)).toEqual(files.map(({ file_name: name }) => name));
    expect(fetchingMax).toBe(4);
    const more = [...files, { file_name: '51', url: urlOf('/slow') }];
    expect((await organisation.call('POST', attachPath, { sourcing_event: event, files: more })).status).toBe(400);
  });
});

describe('a body', () => {
  const refused = async (file: unknown) => {
    const { status, body } = await organisation.call('POST', attachPath, {
      sourcing_event: randomUUID(),
      files: [file],
    });
    return [status, body.errors?.[0]?.path, body.errors?.[0]?.message];
  };

  test.each<[string, unknown, string, RegExp]>([
    ['line breaks in base64', { file_name: 'x', content: 'AAAA\nAAAA' }, 'files[0].content', /line breaks/],
    ['URL-safe base64', { file_name: 'x', content: 'AA-_' }, 'files[0].content', /URL-safe/],
    ['base64 without padding', { file_name: 'x', content: 'AAA' }, 'files[0].content', /padding/],
    ['no base64', { file_name: 'x', content: 'ä!' }, 'files[0].content', /must be base64/],
    ['a data URL', { file_name: 'x', content: 'data:text/plain;base64,AAAA' }, 'files[0].content', /must be base64/],
    ['neither content nor URL', { file_name: 'x' }, 'files[0]', /content or url/],
    ['both', { file_name: 'x', content: 'AAAA', url: 'https://x.test/' }, 'files[0]', /only one/],
    ['plain http', { file_name: 'x', url: 'http://x.test/' }, 'files[0].url', /HTTPS/],
    ['a file URL', { file_name: 'x', url: 'file:///etc/passwd' }, 'files[0].url', /HTTPS/],
    ['a password in the URL', { file_name: 'x', url: 'https://a:hunter2@x.test/' }, 'files[0].url', /password/],
    ['a path in the name', { file_name: '../x', content: '' }, 'files[0].file_name', /plain file name/],
    ['a line break in the name', { file_name: 'a\r\nb', content: '' }, 'files[0].file_name', /plain file name/],
    [
      'a line break in the type',
      { file_name: 'x', content: '', content_type: 'a/b;\n c=d' },
      'files[0].content_type',
      /media type/,
    ],
    ['an unknown field', { file_name: 'x', content: '', nme: 1 }, 'files[0].nme', /not a known field/],
  ])('with %s is 400 with the path of the fault', async (_, file, path, message) => {
    expect(await refused(file)).toEqual([400, path, expect.stringMatching(message)]);
  });

  test('the refusal repeats no value of the body', async () => {
    expect(JSON.stringify(await refused({ file_name: 'x', url: 'https://a:hunter2@x.test/' }))).not.toContain(
      'hunter2',
    );
  });
});

describe('the event or request that files are attached to', () => {
  const files = [{ file_name: 'x', content: 'AAAA' }];

  test("fails the job if it does not exist or is another organisation's", async () => {
    const other = await service.organisation();
    const [event, request] = [await newEvent(other), await newRequest(other)];
    for (const id of [event, randomUUID()])
      expect(await attach(id, files)).toMatchObject({
        status: 'FAILED',
        errors: [{ path: 'sourcing_event', message: 'there is no such sourcing event' }],
      });
    for (const id of [request, randomUUID()])
      expect(
        await endedJob(organisation, '/api/jobs/attach-files-to-sourcing-request', { sourcing_request: id, files }),
      ).toMatchObject({
        status: 'FAILED',
        errors: [{ path: 'sourcing_request', message: 'there is no such sourcing request' }],
      });
    expect(await filesOf(event)).toEqual([]);
  });

  test('fails the job if it is a deleted event, and nothing is fetched', async () => {
    const event = await newEvent();
    await desk(organisation, 'POST', `${event}/delete`);
    const job = await attach(event, [{ file_name: 'x', url: urlOf('/good') }]);
    expect(job).toMatchObject({
      status: 'FAILED',
      errors: [{ path: 'sourcing_event', message: expect.stringMatching(/deleted/) }],
    });
    expect(requested).toEqual([]);
  });

  test('gets no files if it is deleted while they are fetched', async () => {
    const event = await newEvent();
    const arrived = Promise.withResolvers<void>();
    const go = Promise.withResolvers<void>();
    pages.set('/slow', (_, response) => {
      arrived.resolve();
      void go.promise.then(() => response.end('x'));
    });
    const ended = attach(event, [{ file_name: 'x', url: urlOf('/slow') }]);
    await arrived.promise;
    await desk(organisation, 'POST', `${event}/delete`);
    go.resolve();
    expect(await ended).toMatchObject({ status: 'FAILED', errors: [{ path: 'sourcing_event' }] });
    expect(await filesOf(event)).toEqual([]);
  });
});

describe('URLs that point to private networks', () => {
  const inside = 'the secret of the inside';

  test.each([
    'localhost',
    '127.0.0.1',
    '127.1',
    '0x7f.1',
    '0177.0.0.1',
    '2130706433',
    '0',
    '[::1]',
    '[::ffff:127.0.0.1]',
    '[::ffff:7f00:1]',
    '10.0.0.1',
    '169.254.169.254',
    '[fd00:ec2::254]',
    '[fe80::1]',
    '100.64.0.1',
  ])('are blocked, without a connection: https://%s', async (host) => {
    const strict = await service.organisation();
    await service.operator('PUT', `/admin/organisations/${strict.id}/allowed-networks`, { cidrs: [] });
    pages.set('/latest/meta-data', text(inside));
    const url = `https://${host}:${port}/latest/meta-data`;
    const job = await attach(await newEvent(strict), [{ file_name: 'x', url }], strict);
    expect(job).toMatchObject({
      status: 'COMPLETED',
      detail: { data: [], errors: [{ file_name: 'x', error: 'unreachable' }] },
    });
    expect(requested).toEqual([]);
  });

  test('by a name that resolves to a private address, also beside a public one, are blocked', async () => {
    const event = await newEvent();
    for (const [index, found] of [['10.0.0.1'], ['127.0.0.1', '10.0.0.1'], ['fd00::1'], ['0.0.0.0']].entries()) {
      addresses.set(`name-${index}.test`, found);
      const job = await attach(event, [{ file_name: 'x', url: `https://name-${index}.test:${port}/x` }]);
      expect(codesOf(job)).toEqual({ x: 'unreachable' });
    }
    expect(requested).toEqual([]);
  });

  test('by a redirect are not followed', async () => {
    pages.set('/out', (_, response) => response.writeHead(307, { location: 'https://127.0.0.1/latest' }).end());
    expect(codesOf(await attach(await newEvent(), [{ file_name: 'x', url: urlOf('/out') }]))).toEqual({
      x: 'redirect',
    });
    expect(requested).toEqual(['/out']);
  });

  test('by a name that resolves differently later are blocked: only the checked address is used', async () => {
    pages.set('/good', (_, response) => response.writeHead(200, { connection: 'close' }).end('good'));
    // Networks that no other test uses, so that no kept connection of theirs is used.
    const fresh = await service.organisation();
    await service.operator('PUT', `/admin/organisations/${fresh.id}/allowed-networks`, { cidrs: ['127.0.0.0/8'] });
    const event = await newEvent(fresh);
    const files = [{ file_name: 'x', url: urlOf('/good') }];
    lookups.length = 0;
    // Each connection makes one lookup, whose answer is both checked and used.
    expect((await attach(event, files, fresh)).detail.data).toHaveLength(1);
    expect(lookups).toEqual(['localhost']);
    addresses.set('localhost', ['10.0.0.1']);
    expect(codesOf(await attach(event, files, fresh))).toEqual({ x: 'unreachable' });
    expect(lookups).toEqual(['localhost', 'localhost']);
  });

  test('that one organisation may reach cannot be reached by another', async () => {
    pages.set('/good', text('good'));
    const job = await attach(await newEvent(), [{ file_name: 'x', url: urlOf('/good') }]);
    expect(job.detail.data).toHaveLength(1);
    const strict = await service.organisation();
    await service.operator('PUT', `/admin/organisations/${strict.id}/allowed-networks`, { cidrs: ['10.0.0.0/8'] });
    const other = await attach(await newEvent(strict), [{ file_name: 'x', url: urlOf('/good') }], strict);
    expect(codesOf(other)).toEqual({ x: 'unreachable' });
  });
});

describe('slow and endless servers', () => {
  test('have half a minute for a file', async () => {
    pages.set('/good', text('good'));
    await attach(await newEvent(), [{ file_name: 'x', url: urlOf('/good') }]);
    expect(asked).toMatchObject([{ timeoutMs: 30_000 }]);
  });

  test('that never answer, never end or send very slowly time out, and the other files are attached', async () => {
    timeoutMs = 1_000;
    const closed: string[] = [];
    const until = (name: string, page: RequestListener) =>
      pages.set(`/${name}`, (request, response) => {
        response.on('close', () => closed.push(name));
        page(request, response);
      });
    until('never', () => undefined);
    until('stops', (_, response) => void response.write('x'));
    until('drips', (_, response) => {
      const timer = setInterval(() => response.write('x'), 20);
      response.on('close', () => clearInterval(timer));
    });
    const event = await newEvent();
    const job = await attach(event, [
      ...['never', 'stops', 'drips'].map((name) => ({ file_name: name, url: urlOf(`/${name}`) })),
      { file_name: 'good', content: 'AAAA' },
    ]);
    expect(codesOf(job)).toEqual({ never: 'timeout', stops: 'timeout', drips: 'timeout' });
    expect(await filesOf(event)).toEqual(['good']);
    await eventually('the connections are closed', async () => closed.length === 3);
  });

  test('a file of exactly the limit is stored; one byte more, announced or not, is too_large', async () => {
    const whole = 'x'.repeat(bodyBytesMax);
    pages.set('/whole', text(whole));
    pages.set('/announced', text(`${whole}x`, { 'content-length': String(bodyBytesMax + 1) }));
    pages.set('/chunked', (_, response) => {
      response.write(whole);
      response.end('x');
    });
    let ended = false;
    pages.set('/endless', (_, response) => {
      const write = () => {
        while (!response.destroyed && response.write(Buffer.alloc(16_384)));
      };
      response.on('drain', write).on('close', () => {
        ended = true;
      });
      write();
    });
    const names = ['whole', 'announced', 'chunked', 'endless'];
    const event = await newEvent();
    const job = await attach(
      event,
      names.map((name) => ({ file_name: name, url: urlOf(`/${name}`) })),
    );
    expect(codesOf(job)).toEqual({ announced: 'too_large', chunked: 'too_large', endless: 'too_large' });
    expect((await loadAttachedFiles(database, 'sourcing_events', event)).map(({ size }) => size)).toEqual([
      bodyBytesMax,
    ]);
    await eventually('the endless body is aborted', async () => ended);
  });

  test('cannot delay a job longer than two minutes: the remaining files time out without a request', async () => {
    let elapsed = 0;
    const now = performance.now.bind(performance);
    const work = attachFilesToSourcingEvent({
      database,
      storage,
      secrets: createSecretBox(Buffer.alloc(32)),
      clock: systemClock,
      log: silentLogger,
      settings: { bodyBytesMax, fileBytesMax: 1_000_000_000 },
      fetch: async (request) => {
        elapsed += request.timeoutMs;
        return outgoing.fetch({ ...request, timeoutMs: 1 });
      },
    });
    performance.now = () => now() + elapsed / 4;
    try {
      const files = Array.from({ length: 50 }, (_, index) => ({ file_name: `${index}`, url: 'https://localhost:1/' }));
      const job = { id: randomUUID(), organisationId: organisation.id, createdBy: randomUUID(), baseUrl: '' };
      const event = await newEvent();
      const prepared = await work.prepare?.({ sourcing_event: event, files }, job, new AbortController().signal);
      expect(prepared).toHaveLength(50);
      // 4 at once, 30 s each, 120 s in total: 16 are requested.
      expect(elapsed).toBeLessThan(16 * 30_000 + 4 * 30_000);
      expect(prepared?.at(-1)).toEqual({ fileName: '49', error: 'timeout' });
    } finally {
      performance.now = now;
    }
  });
});

describe('crashes', () => {
  const deps = {
    database,
    runUnitOfWork: createUnitOfWork({ database, signals: { signal: async () => undefined } }),
    signals: { wakeHere: () => undefined },
    storage,
    fetch: outgoing.fetch,
    secrets: createSecretBox(Buffer.alloc(32, 7)),
    clock: systemClock,
    log: silentLogger,
    settings: { bodyBytesMax, fileBytesMax: 1_000_000_000 },
  };
  const workerOf = () => createJobWorker(deps, 'file-jobs').work;
  const running = () => new AbortController().signal;
  const key = organisation.id;

  /** Inserts a pending job without waking a worker. */
  async function insertJob(event: string, files: unknown[]): Promise<string> {
    const id = randomUUID();
    await database.query(
      `insert into service.jobs (id, organisation_id, type, status, payload, created_by, created)
       values ($1, $2, 'ATTACH_FILES_TO_SOURCING_EVENT', 'PENDING', $3, $1, now())`,
      [id, organisation.id, JSON.stringify({ sourcing_event: event, files })],
    );
    return id;
  }
  const jobOf = async (id: string) => (await organisation.call('GET', `/api/jobs/${id}`)).body;

  test('slow servers of some organisations delay no other job', async () => {
    timeoutMs = 8_000;
    const held: ServerResponse[] = [];
    pages.set('/never', (_, response) => void held.push(response));
    const slow = await Promise.all([service.organisation(), service.organisation(), service.organisation()]);
    for (const other of slow) {
      const files = [{ file_name: 'x', url: urlOf('/never') }];
      await other.call('POST', attachPath, { sourcing_event: await newEvent(other), files });
    }
    await eventually('all of them wait', async () => requested.length === slow.length);
    const startedAt = performance.now();
    for (const each of [organisation, ...slow]) await newEvent(each);
    expect(performance.now() - startedAt).toBeLessThan(timeoutMs);
    for (const response of held) response.destroy();
    for (const other of slow)
      await eventually('the job has ended', async () => {
        const { body } = await other.call('GET', '/api/jobs/?type=ATTACH_FILES_TO_SOURCING_EVENT');
        return body.result[0]?.status === 'COMPLETED';
      });
  });

  test('an ended job has the bytes of its files in the storage only', async () => {
    const event = await newEvent();
    const kept = async (id: string) =>
      (await database.query<{ payload: object }>('select payload from service.jobs where id = $1', [id]))[0]?.payload;
    const done = await attach(event, [{ file_name: 'a', content: base64('megabytes') }]);
    expect(await kept(done.id)).toEqual({ sourcing_event: event });
    const nowhere = randomUUID();
    const failed = await attach(nowhere, [{ file_name: 'a', content: base64('megabytes') }]);
    expect(await kept(failed.id)).toEqual({ sourcing_event: nowhere });
  });

  test('two workers with the same job at once attach each file once', async () => {
    const event = await newEvent();
    pages.set('/spec', text('x'));
    const id = await insertJob(event, [
      { file_name: 'a', content: 'AAAA' },
      { file_name: 'b', url: urlOf('/spec') },
    ]);
    await Promise.all([workerOf()(key, running()), workerOf()(key, running()), workerOf()(key, running())]);
    expect(await filesOf(event)).toEqual(['a', 'b']);
    const job = await jobOf(id);
    expect(job.status).toBe('COMPLETED');
    expect(job.detail.data.map((file: { file_uuid: string }) => file.file_uuid)).toEqual(
      (await loadAttachedFiles(database, 'sourcing_events', event)).map(({ uuid }) => uuid),
    );
  });

  test('a worker that dies after storing the bytes leaves the job pending; the next worker attaches once', async () => {
    const event = await newEvent();
    const id = await insertJob(event, [{ file_name: 'a', content: 'AAAA' }]);
    const before = storage.stored.size;
    const runUnitOfWork = async () => {
      throw Object.assign(new Error('terminated'), { code: '40001' });
    };
    const dying = createJobWorker({ ...deps, runUnitOfWork }, 'file-jobs').work;
    await expect(dying(key, running())).rejects.toThrow('terminated');
    expect(storage.stored.size).toBe(before + 1);
    expect((await jobOf(id)).status).toBe('PENDING');
    expect(await filesOf(event)).toEqual([]);
    await workerOf()(key, running());
    expect(await filesOf(event)).toEqual(['a']);
    expect((await jobOf(id)).status).toBe('COMPLETED');
    // The first worker's bytes have an upload row that never became a file: the sweep removes them after a day.
    const [orphans] = await database.query<{ n: number }>(
      "select count(*)::int as n from service.files where state = 'upload'",
    );
    expect(orphans?.n).toBeGreaterThanOrEqual(1);
  });

  test('a failing storage leaves the job pending and ends the other fetches; later the job completes', async () => {
    const event = await newEvent();
    pages.set('/never', () => undefined);
    const id = await insertJob(event, [
      { file_name: 'slow', url: urlOf('/never') },
      { file_name: 'a', content: 'AAAA' },
    ]);
    storage.before = () => {
      throw storageUnavailable('write a file', new Error('full'));
    };
    const startedAt = performance.now();
    await expect(workerOf()(key, running())).rejects.toThrow('full');
    expect(performance.now() - startedAt).toBeLessThan(5_000);
    expect((await jobOf(id)).status).toBe('PENDING');
    storage.before = () => undefined;
    pages.set('/never', text('not so slow'));
    await workerOf()(key, running());
    expect(await filesOf(event)).toEqual(['slow', 'a']);
  });

  test('a process that stops leaves the job at once, with nothing done', async () => {
    const event = await newEvent();
    const arrived = Promise.withResolvers<void>();
    pages.set('/never', () => arrived.resolve());
    const id = await insertJob(event, [{ file_name: 'a', url: urlOf('/never') }]);
    const stop = new AbortController();
    const work = workerOf()(key, stop.signal);
    await arrived.promise;
    stop.abort(new Error('the process is stopping'));
    await expect(work).rejects.toThrow(/given up/);
    expect((await jobOf(id)).status).toBe('PENDING');
    pages.set('/never', text('now'));
    await workerOf()(key, running());
    expect((await jobOf(id)).status).toBe('COMPLETED');
  });
});

test('a file server with plain HTTP on its HTTPS port is a tls error', async () => {
  const plain = createHttpServer((_, response) => response.end('plain')).listen(0, '127.0.0.1');
  await new Promise((resolve) => plain.once('listening', resolve));
  const url = `https://localhost:${(plain.address() as AddressInfo).port}/`;
  expect(codesOf(await attach(await newEvent(), [{ file_name: 'x', url }]))).toEqual({ x: 'tls' });
  plain.close();
});
