import { randomUUID } from 'node:crypto';
import { connect } from 'node:net';
import { Readable } from 'node:stream';
import * as fc from 'fast-check';
import { afterEach, describe, expect, test } from 'vitest';
import { createSecretBox } from '#platform/secrets.ts';
import { createLinkToken, readLinkToken } from '#service/files/link-token.ts';
import { downloadLink } from '#service/files/serve-downloads.ts';
import { storageUnavailable } from '#service/files/storage/file-storage.ts';
import { eventually } from '../../harness/eventually.ts';
import { breakableStorage, download, linkJob, linkTo, problemOf, uploadFile } from '../../harness/files.ts';
import { createManualClock } from '../../harness/manual-clock.ts';
import { startRecordedService } from '../../harness/test-service.ts';

const clock = createManualClock();
const storage = await breakableStorage();
const service = await startRecordedService({ clock, storage });
const { lines } = service;
const organisation = await service.organisation();
const other = await service.organisation();

afterEach(() => {
  storage.before = () => undefined;
  storage.found = (file) => file;
});

describe('a job for links', () => {
  test('returns the name and URL of each file, in the order of the request, and names unknown files', async () => {
    const [first, second] = [await uploadFile(organisation, 'first.pdf'), await uploadFile(organisation, 'second.pdf')];
    const foreign = await uploadFile(other, 'foreign.pdf');
    const nowhere = randomUUID();
    const job = await linkJob(organisation, [second, foreign, first, nowhere]);
    expect(job).toMatchObject({ type: 'GENERATE_FILE_DOWNLOAD_LINKS', status: 'COMPLETED' });
    expect(job.detail).toEqual({
      data: [
        { file_uuid: second, file_name: 'second.pdf', download_url: expect.any(String) },
        { file_uuid: first, file_name: 'first.pdf', download_url: expect.any(String) },
      ],
      errors: [
        { file_uuid: foreign, error: 'not_found' },
        { file_uuid: nowhere, error: 'not_found' },
      ],
    });
    for (const { download_url: url } of job.detail.data) expect(url.startsWith(`${service.url}/downloads/`)).toBe(true);
  });

  test('with unknown files only completes with an empty data array', async () => {
    const id = randomUUID();
    const job = await linkJob(organisation, [id]);
    expect(job).toMatchObject({
      status: 'COMPLETED',
      detail: { data: [], errors: [{ file_uuid: id, error: 'not_found' }] },
    });
  });

  test('returns a file once that is requested twice, also with its id in upper case', async () => {
    const [id, nowhere] = [await uploadFile(organisation), randomUUID()];
    const { detail } = await linkJob(organisation, [id, nowhere, id.toUpperCase(), nowhere]);
    expect(detail.data.map((entry: { file_uuid: string }) => entry.file_uuid)).toEqual([id]);
    expect(detail.errors).toEqual([{ file_uuid: nowhere, error: 'not_found' }]);
  });

  test('accepts 50 files and refuses 51', async () => {
    const id = await uploadFile(organisation);
    const ids = [id, ...Array.from({ length: 49 }, () => randomUUID())];
    expect((await linkJob(organisation, ids)).detail.errors).toHaveLength(49);
    const path = '/api/jobs/generate-file-download-links';
    for (const wrong of [[...ids, randomUUID()], [], ['not-a-uuid'], undefined])
      expect((await organisation.call('POST', path, { file_uuids: wrong })).status).toBe(400);
  });

  test('can be submitted by POST /api/jobs', async () => {
    const id = await uploadFile(organisation);
    const { status, body } = await organisation.call('POST', '/api/jobs', {
      type: 'GENERATE_FILE_DOWNLOAD_LINKS',
      file_uuids: [id],
    });
    expect(status).toBe(202);
    const read = await eventually('the job has ended', async () => {
      const job = await organisation.call('GET', `/api/jobs/${body.id}`);
      return job.body.status === 'COMPLETED' && job.body;
    });
    expect((await download(read.detail.data[0].download_url)).status).toBe(200);
  });
});

describe('a download', () => {
  test('needs no key, and has the headers that keep a browser from running it', async () => {
    const html = '<script>alert(1)</script>';
    const id = await uploadFile(organisation, 'page.html', html, 'text/html');
    const { status, headers, bytes } = await download(await linkTo(organisation, id));
    expect([status, bytes.toString()]).toEqual([200, html]);
    expect(Object.fromEntries(headers)).toMatchObject({
      'content-type': 'text/html',
      'content-length': String(html.length),
      'content-disposition': 'attachment; filename="page.html"',
      'x-content-type-options': 'nosniff',
      'cache-control': 'private, no-store',
      'content-security-policy': "sandbox; default-src 'none'",
    });
  });

  test('is sent uncompressed with its length, also to a client that accepts compression', async () => {
    const id = await uploadFile(organisation, 'long.txt', 'a'.repeat(100_000), 'text/plain');
    const answer = await fetch(await linkTo(organisation, id), { headers: { 'accept-encoding': 'gzip, br' } });
    expect([answer.headers.get('content-encoding'), answer.headers.get('content-length')]).toEqual([null, '100000']);
    expect((await answer.text()).length).toBe(100_000);
  });

  test('HEAD has the same headers without the body, and leaves no file open', async () => {
    const url = await linkTo(organisation, await uploadFile(organisation, 'head.pdf', Buffer.alloc(500_000)));
    const names = ['content-type', 'content-length', 'content-disposition', 'cache-control', 'x-content-type-options'];
    const get = await download(url);
    const opened: Readable[] = [];
    storage.found = (file) => {
      if (file) opened.push(file.stream);
      return file;
    };
    const head = await download(url, 'HEAD');
    await eventually('the file is closed', async () => opened[0]?.closed === true);
    expect(opened).toHaveLength(1);
    expect([head.status, head.bytes.length]).toEqual([200, 0]);
    for (const name of names) expect(head.headers.get(name)).toBe(get.headers.get(name));
    expect(head.headers.get('content-length')).toBe('500000');
  });

  // The expected values are written out by hand after RFC 6266 and RFC 8187.
  test.each([
    ['plain.pdf', 'attachment; filename="plain.pdf"'],
    ['two words.pdf', 'attachment; filename="two words.pdf"'],
    ['a"b".pdf', String.raw`attachment; filename="a\"b\".pdf"`],
    ['€ rates.pdf', 'attachment; filename="? rates.pdf"; filename*=UTF-8\'\'%E2%82%AC%20rates.pdf'],
    ['📎.pdf', 'attachment; filename="?.pdf"; filename*=UTF-8\'\'%F0%9F%93%8E.pdf'],
    ['100%41.pdf', 'attachment; filename="100%41.pdf"; filename*=UTF-8\'\'100%2541.pdf'],
    ["x'; filename=evil.exe", 'attachment; filename="x\'; filename=evil.exe"'],
  ])('names the file %s so that every client reads the name correctly', async (name, disposition) => {
    const url = await linkTo(organisation, await uploadFile(organisation, name));
    expect((await download(url)).headers.get('content-disposition')).toBe(disposition);
  });

  test('any name that an upload accepts makes one header line, from which the name can be read', async () => {
    const id = await uploadFile(organisation);
    const names = fc
      .string({ unit: 'binary', minLength: 1, maxLength: 100 })
      // oxlint-disable-next-line no-control-regex -- an upload refuses these characters
      .filter((name) => !/[\u0000-\u001f\u007f/\\]/.test(name) && name.isWellFormed());
    await fc.assert(
      fc.asyncProperty(names, async (name) => {
        await service.db.database.query('update service.files set file_name = $2 where id = $1', [id, name]);
        const { status, headers } = await download(await linkTo(organisation, id));
        const given = headers.get('content-disposition') ?? '';
        const [, plain = '', extended] =
          /^attachment; filename="((?:[^"\\]|\\")*)"(?:; filename\*=UTF-8''([\w%!#$&+.^`|~-]+))?$/.exec(given) ?? [];
        expect(plain).toMatch(/^[ -~]+$/);
        expect(status).toBe(200);
        expect(extended === undefined ? plain.replaceAll('\\"', '"') : decodeURIComponent(extended)).toBe(name);
      }),
      { numRuns: 60 },
    );
  });

  test('of one range sends that part, with its place in the whole', async () => {
    const bytes = Buffer.from('0123456789'.repeat(10));
    const url = await linkTo(organisation, await uploadFile(organisation, 'part.txt', bytes, 'text/plain'));
    expect((await download(url)).headers.get('accept-ranges')).toBe('bytes');
    for (const [range, place, part] of [
      ['bytes=0-9', 'bytes 0-9/100', '0123456789'],
      ['bytes=95-', 'bytes 95-99/100', '56789'],
      ['bytes=-3', 'bytes 97-99/100', '789'],
      ['bytes=98-500', 'bytes 98-99/100', '89'],
      ['bytes=-500', 'bytes 0-99/100', bytes.toString()],
    ] as const) {
      const answer = await download(url, 'GET', { range });
      expect([answer.status, answer.headers.get('content-range')]).toEqual([206, place]);
      expect(answer.bytes.toString()).toBe(part);
      expect(answer.headers.get('content-length')).toBe(String(part.length));
      expect(answer.headers.get('content-disposition')).toBe('attachment; filename="part.txt"');
    }
  });

  test('of a range that the file does not have is 416, with the size of the file', async () => {
    const url = await linkTo(organisation, await uploadFile(organisation, 'short.txt', '12345'));
    for (const range of ['bytes=5-', 'bytes=9-10', 'bytes=-0']) {
      const answer = await download(url, 'GET', { range });
      expect([answer.status, answer.headers.get('content-range')]).toEqual([416, 'bytes */5']);
      expect(problemOf(answer.bytes)).toMatchObject({ status: 416, detail: 'The file has 5 bytes.' });
    }
  });

  test('of several ranges, of another unit or of none that can be read is whole, and so is the answer to HEAD', async () => {
    const url = await linkTo(organisation, await uploadFile(organisation, 'whole.txt', '12345'));
    for (const range of ['bytes=0-0,2-3', 'lines=0-1', 'bytes=3-1', 'bytes=-', 'bytes=a-b', '']) {
      const answer = await download(url, 'GET', { range });
      expect([range, answer.status, answer.bytes.toString()]).toEqual([range, 200, '12345']);
      expect(answer.headers.get('content-range')).toBeNull();
    }
    const head = await download(url, 'HEAD', { range: 'bytes=0-1' });
    expect([head.status, head.headers.get('content-length')]).toEqual([200, '5']);
  });

  test('continues with If-Range by another link to the same file, and begins anew with that of another file', async () => {
    const id = await uploadFile(organisation, 'long.txt', '0123456789');
    const [url, again] = [await linkTo(organisation, id), await linkTo(organisation, id)];
    const tag = (await download(url)).headers.get('etag') ?? '';
    expect(tag).toMatch(/^"[^"]+"$/);
    const rest = await download(again, 'GET', { range: 'bytes=4-', 'if-range': tag });
    expect([rest.status, rest.bytes.toString()]).toEqual([206, '456789']);
    for (const other of ['"another"', `W/${tag}`, 'Tue, 01 Jan 2030 00:00:00 GMT']) {
      const whole = await download(again, 'GET', { range: 'bytes=4-', 'if-range': other });
      expect([whole.status, whole.bytes.toString()]).toEqual([200, '0123456789']);
    }
    expect((await download(again, 'GET', { 'if-none-match': tag })).status).toBe(304);
  });

  test('of a part of an empty file is 416', async () => {
    const id = await uploadFile(organisation, 'empty.txt', '1');
    await service.db.database.query('update service.files set size = 0 where id = $1', [id]);
    expect((await download(await linkTo(organisation, id), 'GET', { range: 'bytes=0-' })).status).toBe(416);
  });

  test('of another method is 405', async () => {
    const url = await linkTo(organisation, await uploadFile(organisation));
    const answer = await download(url, 'POST');
    expect([answer.status, answer.headers.get('allow')]).toEqual([405, 'GET, HEAD']);
  });

  test('may be repeated while the link is valid', async () => {
    const url = await linkTo(organisation, await uploadFile(organisation));
    expect([(await download(url)).status, (await download(`${url}/`)).status]).toEqual([200, 200]);
  });
});

describe('a link is valid for 60 seconds after the job has completed', () => {
  test('after 59.999 seconds it returns the file, after 60 a 403 that says what to do', async () => {
    const url = await linkTo(organisation, await uploadFile(organisation));
    clock.advance(59_999);
    expect((await download(url)).status).toBe(200);
    clock.advance(1);
    const { status, headers, bytes } = await download(url);
    expect([status, headers.get('content-type')]).toEqual([403, 'application/problem+json; charset=utf-8']);
    expect(problemOf(bytes)).toMatchObject({ status: 403, detail: expect.stringContaining('Submit a new job') });
    expect((await download(url, 'HEAD')).status).toBe(403);
  });

  test('a download that has begun in time is not interrupted', async () => {
    const bytes = Buffer.alloc(3_000_000, 1);
    const url = await linkTo(organisation, await uploadFile(organisation, 'big', bytes));
    const answer = await fetch(url);
    clock.advance(120_000);
    expect(Buffer.from(await answer.arrayBuffer()).equals(bytes)).toBe(true);
  });
});

describe('a token', () => {
  const secrets = createSecretBox(Buffer.alloc(32, 1));
  const id = '01234567-89ab-cdef-0123-456789abcdef';

  test('returns the id until the millisecond of its expiry, for every id and time', () => {
    fc.assert(
      fc.property(fc.uuid(), fc.integer({ min: 1, max: 253_402_300_799_999 }), (file, expires) => {
        const token = createLinkToken(secrets, downloadLink, file, expires);
        expect(token).toMatch(/^[\w-]{72}$/);
        expect(readLinkToken(secrets, downloadLink, token, expires - 1)).toBe(file);
        expect(readLinkToken(secrets, downloadLink, token, expires)).toBeUndefined();
      }),
    );
  });

  test('with any single bit changed is refused', () => {
    const bytes = Buffer.from(createLinkToken(secrets, downloadLink, id, 1_000_000), 'base64url');
    for (let bit = 0; bit < bytes.length * 8; bit++) {
      const altered = Buffer.from(bytes);
      altered[bit >> 3] = (altered[bit >> 3] as number) ^ (1 << (bit & 7));
      expect(readLinkToken(secrets, downloadLink, altered.toString('base64url'), 0)).toBeUndefined();
    }
  });

  test('that is shorter, longer or spelled differently is refused', () => {
    const token = createLinkToken(secrets, downloadLink, id, 1_000_000);
    expect(readLinkToken(secrets, downloadLink, token, 0)).toBe(id);
    for (let length = 0; length < token.length; length++)
      expect(readLinkToken(secrets, downloadLink, token.slice(0, length), 0)).toBeUndefined();
    for (const other of [`${token}A`, `${token}=`, ` ${token}`, `${token}\n`, `${token.slice(0, -1)}+`, '\u0000', '.'])
      expect(readLinkToken(secrets, downloadLink, other, 0)).toBeUndefined();
    fc.assert(
      fc.property(fc.string({ unit: 'binary' }), (text) => {
        expect(readLinkToken(secrets, downloadLink, text, 0)).toBeUndefined();
      }),
    );
  });

  test('of another installation is refused', () => {
    const token = createLinkToken(createSecretBox(Buffer.alloc(32, 2)), downloadLink, id, 1_000_000);
    expect(readLinkToken(secrets, downloadLink, token, 0)).toBeUndefined();
  });

  test('that is forged, expired or of an unknown file is the same 403', async () => {
    const url = await linkTo(organisation, await uploadFile(organisation));
    const token = url.slice(url.lastIndexOf('/') + 1);
    const foreign = createLinkToken(secrets, downloadLink, randomUUID(), clock.nowMs() + 60_000);
    const altered = `${token.startsWith('A') ? 'B' : 'A'}${token.slice(1)}`;
    const wrong = await Promise.all(
      [altered, token.slice(1), foreign, 'x', '%00', '%F0%9F%93%8E', 'a%2Fb'].map((forged) =>
        download(`${service.url}/downloads/${forged}`),
      ),
    );
    clock.advance(60_000);
    const answers = [...wrong, await download(url)].map(({ status, bytes }) => [status, bytes.toString()]);
    expect(answers.map(([status]) => status)).toEqual(answers.map(() => 403));
    expect(new Set(answers.map(([, text]) => text)).size).toBe(1);
  });
});

describe('failures', () => {
  const logged = (text: string) => lines.filter((line) => line.includes(text));

  test('a file without its bytes is a 500 problem, and the log names the file', async () => {
    const id = await uploadFile(organisation);
    const url = await linkTo(organisation, id);
    await storage.remove(id);
    for (const method of ['GET', 'HEAD']) {
      const { status, headers, bytes } = await download(url, method);
      expect([status, headers.get('content-type')]).toEqual([500, 'application/problem+json; charset=utf-8']);
      expect(bytes.toString()).not.toContain(id);
      expect(headers.get('content-disposition')).toBeNull();
    }
    expect(logged(id).map((line) => JSON.parse(line))).toMatchObject([
      { level: 'error', err: { message: `file ${id} has no bytes` } },
      { level: 'error' },
    ]);
  });

  test('a file that lost some of its bytes is a 500, not a shorter file', async () => {
    const id = await uploadFile(organisation, 'x', 'ten bytes.');
    const url = await linkTo(organisation, id);
    await service.db.database.query('update service.files set size = 11 where id = $1', [id]);
    expect((await download(url)).status).toBe(500);
  });

  test('a storage that is down is 503 with Retry-After', async () => {
    const url = await linkTo(organisation, await uploadFile(organisation));
    storage.before = () => {
      throw storageUnavailable('open a file', new Error('away'));
    };
    const { status, headers } = await download(url);
    expect([status, headers.has('retry-after')]).toEqual([503, true]);
  });

  test('a storage failure during the download breaks the connection: half a file never looks complete', async () => {
    const id = await uploadFile(organisation, 'x', Buffer.alloc(1000));
    const url = await linkTo(organisation, id);
    storage.found = (file) => {
      file?.stream.destroy();
      return {
        size: 1000,
        stream: Readable.from(
          (async function* () {
            yield Buffer.alloc(100);
            await new Promise(setImmediate);
            throw new Error('the disk is gone');
          })(),
        ),
      };
    };
    await expect(download(url)).rejects.toThrow(/terminated|fetch failed/);
    await eventually('it is logged', async () => logged('the disk is gone').length > 0);
  });

  test('a client that disconnects releases the file, and is no error in the log', async () => {
    const id = await uploadFile(organisation, 'x', Buffer.alloc(5_000_000));
    const url = new URL(await linkTo(organisation, id));
    const opened: Readable[] = [];
    storage.found = (file) => {
      if (file) opened.push(file.stream);
      return file;
    };
    const before = lines.length;
    const socket = connect(Number(url.port), url.hostname);
    socket.write(`GET ${url.pathname} HTTP/1.1\r\nHost: x\r\n\r\n`);
    await new Promise((resolve) => socket.once('data', resolve));
    // The client reads no more than the first chunk: the rest stays in the storage, not in memory.
    socket.pause();
    expect(opened[0]?.destroyed).toBe(false);
    socket.destroy();
    await eventually('the stream is closed', async () => opened[0]?.closed === true);
    expect(lines.slice(before).filter((line) => JSON.parse(line).level !== 'debug')).toEqual([]);
  });

  test('no log line has a token', async () => {
    const url = await linkTo(organisation, await uploadFile(organisation));
    const token = url.slice(url.lastIndexOf('/') + 1);
    await download(url);
    await download(`${url}/deeper`);
    await download(url, 'DELETE');
    storage.before = () => {
      throw new Error('a fault of ours');
    };
    expect((await download(url)).status).toBe(500);
    clock.advance(60_000);
    await download(url);
    expect(lines.length).toBeGreaterThan(10);
    expect(logged(token)).toEqual([]);
    expect((await service.registry.metrics()).includes(token)).toBe(false);
  });
});
