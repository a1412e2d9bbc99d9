/** Attaching files by their names: the job is RUNNING until a client has PUT the bytes of each to its URL. */
import { createHash, randomUUID } from 'node:crypto';
import { describe, expect, test } from 'vitest';
import { createSecretBox } from '#platform/secrets.ts';
import { loadAttachedFiles } from '#service/files/find-files.ts';
import { createUploadUrl } from '#service/files/serve-uploads.ts';
import { eventually } from '../../harness/eventually.ts';
import { breakableStorage, download, linkTo } from '../../harness/files.ts';
import { createManualClock } from '../../harness/manual-clock.ts';
import { createEvent, createRequest, desk } from '../../harness/sourcing.ts';
import type { TestOrganisation } from '../../harness/test-organisation.ts';
import { startTestService, type TestService } from '../../harness/test-service.ts';
import { createHook } from '../../harness/webhook-receiver.ts';

const hourMs = 3_600_000;
const bodyBytesMax = 100_000;
const clock = createManualClock(Date.UTC(2031, 0, 1));
const storage = await breakableStorage();
const service = await startTestService({ clock, storage, bodyBytesMax });
const { database } = service.db;
const attachToEvent = '/api/jobs/attach-files-to-sourcing-event';

const readJob = async (organisation: TestOrganisation, id: string) =>
  (await organisation.call('GET', `/api/jobs/${id}`)).body;

function jobThatIs(organisation: TestOrganisation, id: string, status: string) {
  return eventually(`the job is ${status}`, async () => {
    const job = await readJob(organisation, id);
    return job.status === status && job;
  });
}

/** Submits a job that names these files, and returns it when it is RUNNING. */
async function runningJob(organisation: TestOrganisation, files: readonly string[], more: object = {}) {
  const event = await createEvent(organisation, { name: 'With files' });
  const { status, body } = await organisation.call('POST', attachToEvent, { sourcing_event: event, files, ...more });
  expect([status, body.status]).toEqual([202, 'PENDING']);
  const job = await jobThatIs(organisation, body.id, 'RUNNING');
  const urls: string[] = job.detail.files.map((file: { upload_url: string }) => file.upload_url);
  return { event, id: body.id as string, job, urls };
}

async function put(url: string | undefined, body: string | Buffer, headers: Record<string, string> = {}) {
  const answer = await fetch(url ?? '', { method: 'PUT', body: body as string, headers });
  return { status: answer.status, headers: answer.headers, text: await answer.text() };
}

const usedBytes = async (organisation: TestOrganisation) => {
  const [row] = await database.query<{ used: number }>(
    'select file_bytes as used from service.organisations where id = $1',
    [organisation.id],
  );
  return row?.used;
};

describe('a job that names files', () => {
  test('is RUNNING with an upload URL for each, and COMPLETED when the last has come: the event has them in their order', async () => {
    const organisation = await service.organisation();
    const { event, id, job, urls } = await runningJob(organisation, ['b.txt', 'a.pdf'], {
      created_by: 'ann@buyer.example',
    });
    expect(job.detail).toEqual({
      data: [],
      errors: [],
      files: [
        { file_name: 'b.txt', upload_url: expect.stringMatching(new RegExp(`^${service.url}/uploads/`)) },
        { file_name: 'a.pdf', upload_url: expect.stringMatching(new RegExp(`^${service.url}/uploads/`)) },
      ],
    });
    expect(await put(urls[1], 'second', { 'content-type': 'application/pdf' })).toMatchObject({
      status: 200,
      text: '',
    });
    expect((await readJob(organisation, id)).status).toBe('RUNNING');
    expect(await loadAttachedFiles(database, 'sourcing_events', event)).toEqual([]);
    await put(urls[0], 'first file');
    const ended = await jobThatIs(organisation, id, 'COMPLETED');
    expect(ended.detail).toEqual({
      data: [
        { file_uuid: expect.any(String), file_name: 'b.txt' },
        { file_uuid: expect.any(String), file_name: 'a.pdf' },
      ],
      errors: [],
    });
    expect(await loadAttachedFiles(database, 'sourcing_events', event)).toMatchObject([
      { file_name: 'b.txt', size: 10 },
      { file_name: 'a.pdf', size: 6, content_type: 'application/pdf' },
    ]);
    const { bytes } = await download(await linkTo(organisation, ended.detail.data[0].file_uuid));
    expect(bytes.toString()).toBe('first file');
    expect(await usedBytes(organisation)).toBe(16);
  });

  test('attaches to a sourcing request, too, and is told to webhooks once, at its end', async () => {
    const { organisation, receiver } = await createHook(service, ['JOB_UPDATED']);
    const uuid = await createRequest(organisation);
    const path = '/api/jobs/attach-files-to-sourcing-request';
    const { body } = await organisation.call('POST', path, {
      sourcing_request: uuid,
      files: ['a.txt'],
      requester: 'Ann',
    });
    const job = await jobThatIs(organisation, body.id, 'RUNNING');
    await put(job.detail.files[0].upload_url, 'x');
    await jobThatIs(organisation, body.id, 'COMPLETED');
    const shown = await organisation.call('GET', `/api/manage/sourcing_requests/${uuid}`);
    expect(shown.body.result.files).toEqual([{ file_uuid: expect.any(String), file_name: 'a.txt' }]);
    const told = await eventually('the end was told', async () => {
      const own = receiver.received.filter(({ json }) => json.payload['job'] === body.id);
      return own.length > 0 && own;
    });
    expect(told.map(({ json }) => json.payload['status'])).toEqual(['COMPLETED']);
  });

  test('does not hold up the jobs that are submitted after it', async () => {
    const organisation = await service.organisation();
    const { event, id } = await runningJob(organisation, ['late.txt']);
    const { body } = await organisation.call('POST', attachToEvent, {
      sourcing_event: event,
      files: [{ file_name: 'now.txt', content: 'eA==' }],
    });
    await jobThatIs(organisation, body.id, 'COMPLETED');
    expect((await readJob(organisation, id)).status).toBe('RUNNING');
  });

  test('FAILS an hour later, and names the files that did not come; their room is free again a day later', async () => {
    const organisation = await service.organisation();
    const { id, urls } = await runningJob(organisation, ['a.txt', 'b.txt']);
    await put(urls[0], 'came');
    clock.advance(hourMs - 1);
    await service.service.sweep();
    expect((await readJob(organisation, id)).status).toBe('RUNNING');
    clock.advance(1);
    await service.service.sweep();
    const failed = await jobThatIs(organisation, id, 'FAILED');
    expect(failed.errors).toEqual([
      { path: 'files[1]', message: 'b.txt was not uploaded in time: submit the job again' },
    ]);
    expect((await put(urls[1], 'too late')).status).toBe(403);
    clock.advance(25 * hourMs);
    await eventually('the upload is gone', async () => {
      await service.service.sweep();
      return (await usedBytes(organisation)) === 0;
    });
  });

  test('FAILS when its event was deleted meanwhile', async () => {
    const organisation = await service.organisation();
    const { event, id, urls } = await runningJob(organisation, ['a.txt']);
    await desk(organisation, 'POST', `${event}/delete`);
    expect((await put(urls[0], 'x')).status).toBe(200);
    const failed = await jobThatIs(organisation, id, 'FAILED');
    expect(failed.errors).toEqual([{ path: 'sourcing_event', message: 'this sourcing event is deleted' }]);
  });

  test.each([
    ['a name twice', ['a.txt', 'a.txt'], {}, 'files[1]'],
    ['a name beside a file with contents', [{ file_name: 'a.txt', content: '' }, 'b.txt'], {}, 'files[1]'],
    ['a path instead of a name', ['../a.txt'], {}, 'files[0]'],
    ['no file', [], {}, 'files'],
    ['two senders', ['a.txt'], { created_by: 'ann', requester: 'bob' }, 'requester'],
  ])('with %s is refused with the path', async (_what, files, more, path) => {
    const organisation = await service.organisation();
    const event = await createEvent(organisation, { name: 'x' });
    const answer = await organisation.call('POST', attachToEvent, { sourcing_event: event, files, ...more });
    expect([answer.status, answer.body.errors.map((issue: { path: string }) => issue.path)]).toEqual([400, [path]]);
  });
});

describe('an upload', () => {
  test('that is sent twice is one file, before and after the job has ended; other bytes are refused', async () => {
    const organisation = await service.organisation();
    const { event, id, urls } = await runningJob(organisation, ['a.txt', 'b.txt']);
    expect([(await put(urls[0], 'same')).status, (await put(urls[0], 'same')).status]).toEqual([200, 200]);
    expect((await put(urls[0], 'else')).status).toBe(409);
    await put(urls[1], 'b');
    await jobThatIs(organisation, id, 'COMPLETED');
    expect([(await put(urls[0], 'same')).status, (await put(urls[0], 'else')).status]).toEqual([200, 409]);
    expect(await loadAttachedFiles(database, 'sourcing_events', event)).toMatchObject([{ size: 4 }, { size: 1 }]);
    expect(await usedBytes(organisation)).toBe(5);
  });

  test('that is sent many times at once is one file', async () => {
    const organisation = await service.organisation();
    const { event, id, urls } = await runningJob(organisation, ['a.txt', 'b.txt']);
    const answers = await Promise.all(Array.from({ length: 12 }, (_, index) => put(urls[index % 2], 'bytes')));
    expect(new Set(answers.map(({ status }) => status))).toEqual(new Set([200]));
    await jobThatIs(organisation, id, 'COMPLETED');
    expect(await loadAttachedFiles(database, 'sourcing_events', event)).toHaveLength(2);
    expect(await usedBytes(organisation)).toBe(10);
  });

  test('needs no key, but the link of its own file: any other link is 403', async () => {
    const organisation = await service.organisation();
    const { id, urls } = await runningJob(organisation, ['a.txt', 'b.txt']);
    const [, token = ''] = /\/uploads\/([^/]+)\/1$/.exec(urls[0] ?? '') ?? [];
    const foreign = createUploadUrl(
      createSecretBox(Buffer.alloc(32, 1)),
      { id, baseUrl: service.url },
      0,
      clock.nowMs() + hourMs,
    );
    const altered = `${token[0] === 'A' ? 'B' : 'A'}${token.slice(1)}`;
    for (const url of [
      foreign,
      ...['2', '0', '3', 'x'].map((number) => `${service.url}/uploads/${token}/${number}`),
      `${service.url}/uploads/${altered}/1`,
    ])
      expect([url, (await put(url, 'x')).status]).toEqual([url, 403]);
    // A link for uploads is none for downloads.
    expect((await download(`${service.url}/downloads/${token}`)).status).toBe(403);
    expect((await readJob(organisation, id)).status).toBe('RUNNING');
  });

  test('is bounded like other files: 413 over the limit of bodies, 507 without room, and can be sent again', async () => {
    const organisation = await service.organisation();
    const { id, urls } = await runningJob(organisation, ['a.txt']);
    expect((await put(urls[0], 'x'.repeat(bodyBytesMax + 1))).status).toBe(413);
    await service.operator('PUT', `/admin/organisations/${organisation.id}/limits`, {
      enabled: false,
      file_bytes_max: 9,
    });
    expect((await put(urls[0], '0123456789')).status).toBe(507);
    expect((await put(urls[0], 'short', { 'content-encoding': 'gzip' })).status).toBe(415);
    expect((await put(urls[0], 'short')).status).toBe(200);
    await jobThatIs(organisation, id, 'COMPLETED');
    expect(await usedBytes(organisation)).toBe(5);
  });

  test('that the storage does not take is answered 503, and can be sent again', async () => {
    const organisation = await service.organisation();
    const { id, urls } = await runningJob(organisation, ['a.txt']);
    storage.before = () => {
      throw new Error('no disk');
    };
    const refused = await put(urls[0], 'x').finally(() => {
      storage.before = () => undefined;
    });
    expect(refused.status).toBeGreaterThanOrEqual(500);
    expect(await usedBytes(organisation)).toBe(0);
    expect((await put(urls[0], 'x')).status).toBe(200);
    await jobThatIs(organisation, id, 'COMPLETED');
  });

  test('is taken by PUT alone', async () => {
    const answer = await fetch(`${service.url}/uploads/${'A'.repeat(72)}/1`, { method: 'POST' });
    expect([answer.status, answer.headers.get('allow')]).toEqual([405, 'PUT']);
  });

  test('of a job whose organisation is gone is 404', async () => {
    const url = createUploadUrl(
      createSecretBox(Buffer.alloc(32, 7)),
      { id: randomUUID(), baseUrl: service.url },
      0,
      clock.nowMs() + hourMs,
    );
    expect((await put(url, 'x')).status).toBe(404);
  });
});

describe('over a restart', () => {
  async function restarted(): Promise<TestService> {
    const db = service.db;
    return startTestService({ clock, storage, db });
  }

  test('a job stays RUNNING, and takes the rest at another process', async () => {
    const organisation = await service.organisation();
    const { event, id, urls } = await runningJob(organisation, ['a.txt', 'b.txt']);
    await put(urls[0], 'before');
    const second = await restarted();
    const url = (urls[1] ?? '').replace(service.url, second.url);
    expect((await put(url, 'after')).status).toBe(200);
    await jobThatIs(organisation, id, 'COMPLETED');
    expect(await loadAttachedFiles(database, 'sourcing_events', event)).toMatchObject([{ size: 6 }, { size: 5 }]);
  });

  test('a last file whose process died before it woke the worker is found by the sweep', async () => {
    // This service's signals of the lane are lost, as those of a process that dies after its commit.
    const db = service.db;
    const deaf = await startTestService({ clock, storage, db, isSignalled: (lane) => lane !== 'file-jobs' });
    const organisation = await service.organisation();
    const { id, urls } = await runningJob(organisation, ['a.txt']);
    expect((await put((urls[0] ?? '').replace(service.url, deaf.url), 'x')).status).toBe(200);
    await service.service.sweep();
    await jobThatIs(organisation, id, 'COMPLETED');
  });

  test('an upload that was stored and not noted is no file, and its bytes are removed', async () => {
    const organisation = await service.organisation();
    const { id, urls } = await runningJob(organisation, ['a.txt']);
    await database.query(
      'create or replace function service.refuse_upload() returns trigger language plpgsql as $$ begin raise $q$no$q$; end $$',
    );
    await database.query(
      'create trigger refuse_upload before update of uploads on service.jobs for each row execute function service.refuse_upload()',
    );
    expect((await put(urls[0], 'lost')).status).toBe(500);
    await database.query('drop trigger refuse_upload on service.jobs');
    expect([(await readJob(organisation, id)).status, await usedBytes(organisation)]).toEqual(['RUNNING', 0]);
    expect((await put(urls[0], 'found')).status).toBe(200);
    const { detail } = await jobThatIs(organisation, id, 'COMPLETED');
    const { bytes } = await download(await linkTo(organisation, detail.data[0].file_uuid));
    expect(createHash('sha256').update(bytes).digest('hex')).toBe(createHash('sha256').update('found').digest('hex'));
  });
});
