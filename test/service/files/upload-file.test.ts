import { request as httpRequest } from 'node:http';
import { describe, expect, onTestFinished, test } from 'vitest';
import { silentLogger } from '#platform/log.ts';
import { storageUnavailable } from '#service/files/storage/file-storage.ts';
import { createUploadSweep } from '#service/files/sweep-uploads.ts';
import { eventually } from '../../harness/eventually.ts';
import { breakableStorage, download, linkTo, sha256, upload, uploadFile } from '../../harness/files.ts';
import { createManualClock } from '../../harness/manual-clock.ts';
import { request } from '../../harness/request.ts';
import { startTestService } from '../../harness/test-service.ts';

const bodyBytesMax = 100_000;
const dayMs = 24 * 60 * 60 * 1000;

const storage = await breakableStorage();
const clock = createManualClock();
const service = await startTestService({ bodyBytesMax, storage, clock });
const organisation = await service.organisation();
const { database } = service.db;

const countOf = async (what: 'files' | 'uploads') => {
  const [row] = await database.query<{ n: number }>(
    `select count(*)::int as n from service.files where (state = 'file') = $1`,
    [what === 'files'],
  );
  return row?.n ?? 0;
};

/** Sweeps until `look` is true: a sweep during the removal of the previous one starts nothing. */
const sweepUntil = (what: string, look: () => Promise<boolean>) =>
  eventually(what, async () => {
    await service.service.sweep();
    return look();
  });

const insertUpload = async (created: string): Promise<string> => {
  const [uploadRow] = await database.query<{ id: string }>(
    `insert into service.files (id, organisation_id, state, size, created)
     values (gen_random_uuid(), $2, 'upload', 0, $1) returning id`,
    [created, organisation.id],
  );
  return uploadRow?.id ?? '';
};
const hasUpload = async (id: string) =>
  (await database.query('select from service.files where id = $1', [id])).length > 0;

describe('an upload', () => {
  test('answers 201 with uuid, name, size and SHA-256, and the download has the same bytes', async () => {
    const bytes = Buffer.from([0, 255, 13, 10, 128, 0]);
    const { status, headers, body } = await upload(organisation, bytes);
    expect(status).toBe(201);
    expect(headers.get('content-type')).toMatch(/^application\/json/);
    expect(body).toEqual({
      uuid: expect.stringMatching(/^[0-9a-f-]{36}$/),
      file_name: 'quote.pdf',
      size: 6,
      // printf '\000\377\r\n\200\000' | sha256sum
      sha256: sha256(bytes),
    });
    expect((await download(await linkTo(organisation, body.uuid))).bytes.equals(bytes)).toBe(true);
  });

  test.each([
    'application/json',
    'text/plain; charset=iso-8859-1',
    'multipart/form-data; boundary="a b"',
    'application/vnd.oasis.opendocument.spreadsheet',
    "text/csv; header=present; name*=UTF-8''x",
  ])('of any content type is stored as it is: %s', async (type) => {
    const id = await uploadFile(organisation, 'x', '{"not": json', type);
    const read = await download(await linkTo(organisation, id));
    expect([read.headers.get('content-type'), read.bytes.toString()]).toEqual([type, '{"not": json']);
  });

  test('without bytes is an empty file', async () => {
    const { body } = await upload(organisation, '');
    // sha256sum < /dev/null
    const sha256OfNothing = 'e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855';
    expect(body).toMatchObject({ size: 0, sha256: sha256OfNothing });
    const read = await download(await linkTo(organisation, body.uuid));
    expect([read.status, read.bytes.length, read.headers.get('content-length')]).toEqual([200, 0, '0']);
  });

  test.each([
    ['report.pdf', 'report.pdf'],
    ['two words.pdf', 'two words.pdf'],
    ['a%20b%25.pdf', 'a b%.pdf'],
    ['%E2%82%AC%20%F0%9F%93%8E%20%C3%BC.pdf', '€ 📎 ü.pdf'],
    ['a+b%22c%27d;e=f.pdf', 'a+b"c\'d;e=f.pdf'],
    ['..%2e', '...'],
  ])('is named by the percent-encoded header: %s', async (header, name) => {
    const { status, body } = await upload(organisation, 'x', { 'x-file-name': header });
    expect([status, body.file_name]).toEqual([201, name]);
  });

  test('ignores an Idempotency-Key: the bytes are not kept, so they could not be compared', async () => {
    const headers = { 'idempotency-key': 'the same' };
    const [first, second] = [await upload(organisation, 'one', headers), await upload(organisation, 'two', headers)];
    expect([first.status, second.status]).toEqual([201, 201]);
    expect(second.body.sha256).toBe(sha256('two'));
  });

  test('needs a key of scope desk, which is checked before anything else', async () => {
    const made = await service.operator('POST', `/admin/organisations/${organisation.id}/api-keys`, {
      name: 'no desk',
      scopes: ['manage', 'jobs', 'feeds', 'webhooks'],
    });
    for (const [key, status] of [
      [undefined, 401],
      ['sb_wrong', 401],
      [made.body.key as string, 403],
    ] as const) {
      const headers = { 'content-type': 'nonsense', 'x-file-name': '%' };
      const answer = await request('POST', `${service.url}/desk/files`, {
        ...(key === undefined ? {} : { key }),
        body: 'x'.repeat(bodyBytesMax * 3),
        headers,
      });
      expect([answer.status, JSON.stringify(answer.body).includes('X-File-Name')]).toEqual([status, false]);
    }
  });
});

describe('a header', () => {
  test.each<[Record<string, string>, string, RegExp]>([
    [{ 'x-file-name': '' }, 'X-File-Name', /is missing/],
    [{ 'x-file-name': '100%.pdf' }, 'X-File-Name', /%25/],
    [{ 'x-file-name': '%ff.pdf' }, 'X-File-Name', /percent-encoded UTF-8/],
    [{ 'x-file-name': 'ü.pdf' }, 'X-File-Name', /percent-encoded UTF-8/],
    [{ 'x-file-name': '%ED%A0%80' }, 'X-File-Name', /percent-encoded UTF-8/],
    [{ 'x-file-name': 'a%2Fb' }, 'X-File-Name', /plain file name/],
    [{ 'x-file-name': '..%2f..%2fetc%2fpasswd' }, 'X-File-Name', /plain file name/],
    [{ 'x-file-name': 'C:%5Cx' }, 'X-File-Name', /plain file name/],
    [{ 'x-file-name': '%2e%2e' }, 'X-File-Name', /plain file name/],
    [{ 'x-file-name': 'a%0D%0ASet-Cookie:%20b' }, 'X-File-Name', /plain file name/],
    [{ 'x-file-name': 'a%00b' }, 'X-File-Name', /plain file name/],
    [{ 'x-file-name': 'annual%E2%80%AEfdp.exe' }, 'X-File-Name', /turn the direction/],
    [{ 'x-file-name': 'x'.repeat(256) }, 'X-File-Name', /at most 255/],
    [{ 'content-type': '' }, 'Content-Type', /at least 3|media type|missing/],
    [{ 'content-type': 'pdf' }, 'Content-Type', /media type/],
    [{ 'content-type': 'text/plain; charset' }, 'Content-Type', /media type/],
  ])('that is missing or wrong is named in the 400: %j', async (headers, name, text) => {
    const { status, body } = await upload(organisation, 'x', headers);
    expect(status).toBe(400);
    expect(body.errors).toEqual([{ path: name, message: expect.stringMatching(text) }]);
    expect(body.detail).toContain(`The header ${name} `);
  });

  test('each missing header is named when both are missing', async () => {
    const answer = await fetch(`${service.url}/desk/files`, {
      method: 'POST',
      headers: { authorization: `Bearer ${organisation.key}` },
      body: Buffer.from('x'),
    });
    const { errors } = (await answer.json()) as { errors: { path: string }[] };
    expect([answer.status, errors.map(({ path }) => path)]).toEqual([400, ['X-File-Name', 'Content-Type']]);
  });

  test('Content-Encoding is 415: the stored bytes would not have the stated type', async () => {
    expect((await upload(organisation, 'x', { 'content-encoding': 'gzip' })).status).toBe(415);
  });

  test('an unknown query parameter is 400', async () => {
    const answer = await organisation.call('POST', '/desk/files?name=x', Buffer.from('x'), {
      'x-file-name': 'x',
      'content-type': 'a/b',
    });
    expect(answer.status).toBe(400);
  });
});

describe('the size', () => {
  const whole = Buffer.alloc(bodyBytesMax, 1);

  test('of exactly the limit is accepted', async () => {
    expect((await upload(organisation, whole)).body).toMatchObject({ size: bodyBytesMax, sha256: sha256(whole) });
  });

  test.each(['announced', 'in chunks'])('of one byte more is 413, and leaves no file: %s', async (how) => {
    const [files, stored] = [await countOf('files'), storage.stored.size];
    const more = Buffer.concat([whole, Buffer.of(1)]);
    const body = how === 'announced' ? more : new Blob([more]).stream();
    const answer = await fetch(`${service.url}/desk/files`, {
      method: 'POST',
      headers: { authorization: `Bearer ${organisation.key}`, 'x-file-name': 'x', 'content-type': 'a/b' },
      body,
      duplex: 'half',
    });
    expect(answer.status).toBe(413);
    expect([await countOf('files'), storage.stored.size]).toEqual([files, stored]);
  });
});

test('a storage that does not answer does not block the closing of the sweep', async () => {
  const hung = Promise.withResolvers<void>();
  const sweep = createUploadSweep({
    database,
    storage: { ...storage, remove: () => hung.promise },
    clock: createManualClock(),
    log: silentLogger,
  });
  const uploadRow = await insertUpload('2029-01-01T00:00:00Z');
  sweep.start();
  await sweep.close();
  expect(await hasUpload(uploadRow)).toBe(true);
  hung.resolve();
});

describe('failures during an upload', () => {
  test('a client that disconnects leaves no file and no bytes', async () => {
    const [files, stored] = [await countOf('files'), storage.stored.size];
    const notes = await countOf('uploads');
    const sending = httpRequest(`${service.url}/desk/files`, {
      method: 'POST',
      headers: {
        authorization: `Bearer ${organisation.key}`,
        'x-file-name': 'x',
        'content-type': 'a/b',
        'content-length': 1000,
      },
    });
    sending.on('error', () => undefined);
    sending.write('the beginning');
    await eventually('the upload has begun', async () => (await countOf('uploads')) > notes);
    sending.destroy();
    // Other uploads succeed meanwhile and afterwards.
    await uploadFile(organisation);
    expect([await countOf('files'), storage.stored.size]).toEqual([files + 1, stored + 1]);
  });

  test('a storage that is down is 503 with Retry-After, and leaves no file', async () => {
    const files = await countOf('files');
    storage.before = () => {
      throw storageUnavailable('write a file', new Error('no space left on /dev/secret'));
    };
    const { status, headers, body } = await upload(organisation, 'x');
    storage.before = () => undefined;
    expect([status, headers.has('retry-after')]).toEqual([503, true]);
    expect(JSON.stringify(body)).not.toContain('secret');
    expect(await countOf('files')).toBe(files);
  });

  test('bytes without a file, as a crash leaves them, are removed after a day and not before', async () => {
    await database.query(`alter table service.files add constraint never check (file_name <> 'crash') not valid`);
    const before = new Set(storage.stored);
    expect((await upload(organisation, 'x', { 'x-file-name': 'crash' })).status).toBe(500);
    const [orphan = ''] = [...storage.stored].filter((id) => !before.has(id));
    expect(orphan).not.toBe('');
    const kept = await uploadFile(organisation);

    clock.advance(dayMs - 1_000);
    const older = await insertUpload('2029-01-01T00:00:00Z');
    await sweepUntil('an older one is removed', async () => !(await hasUpload(older)));
    expect(storage.stored.has(orphan)).toBe(true);

    clock.advance(2_000);
    await sweepUntil('nothing is noted any more', async () => (await countOf('uploads')) === 0);
    expect(storage.stored.has(orphan)).toBe(false);
    expect(storage.stored.has(kept)).toBe(true);
  });

  test('an upload whose bytes cannot be removed is kept, and the next sweep removes it', async () => {
    const uploadRow = await insertUpload('2029-01-01T00:00:00Z');
    let removals = 0;
    storage.before = (call) => {
      removals += 1;
      if (call === 'remove') throw storageUnavailable('remove a file', new Error('away'));
    };
    await sweepUntil('a removal was attempted', async () => removals > 0);
    expect(await hasUpload(uploadRow)).toBe(true);
    storage.before = () => undefined;
    await sweepUntil('it is removed', async () => !(await hasUpload(uploadRow)));
  });

  test.each(['has abandoned', 'is removing'])(
    'an upload that the sweep %s becomes no file: 503, and the client sends it again',
    async (when) => {
      const files = await countOf('files');
      const stored = Promise.withResolvers<void>();
      const removed = Promise.withResolvers<void>();
      const entered = Promise.withResolvers<string>();
      const removing = Promise.withResolvers<void>();
      onTestFinished(() => {
        stored.resolve();
        removed.resolve();
        storage.before = () => undefined;
      });
      storage.before = async (call, id) => {
        if (call === 'put') {
          entered.resolve(id);
          await stored.promise;
        }
        if (call === 'remove') {
          removing.resolve();
          await removed.promise;
        }
      };
      if (when === 'has abandoned') removed.resolve();
      const sent = upload(organisation, 'slow');
      const id = await entered.promise;
      clock.advance(dayMs + 1_000);
      let begun = false;
      void removing.promise.then(() => {
        begun = true;
      });
      await sweepUntil('the removal has begun', async () => begun);
      if (when === 'has abandoned') await eventually('the upload row is deleted', async () => !(await hasUpload(id)));
      stored.resolve();
      expect((await sent).status).toBe(503);
      removed.resolve();
      await sweepUntil('the upload row is deleted', async () => !(await hasUpload(id)));
      expect(await countOf('files')).toBe(files);
      expect((await database.query('select from service.files where id = $1', [id])).length).toBe(0);
    },
  );
});
