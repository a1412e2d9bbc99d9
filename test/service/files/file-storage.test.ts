import { createHash, randomUUID } from 'node:crypto';
import { readdirSync } from 'node:fs';
import { mkdtemp, readdir, rm, stat, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { buffer } from 'node:stream/consumers';
import * as fc from 'fast-check';
import { afterAll, afterEach, beforeAll, describe, expect, test } from 'vitest';
import { AppError } from '#platform/errors.ts';
import { checkStorage, type FileStorage, oneChunk } from '#service/files/storage/file-storage.ts';
import { createLocalStorage } from '#service/files/storage/local-storage.ts';
import { createS3Storage, type S3Settings } from '#service/files/storage/s3-storage.ts';
import { failureOf } from '../../harness/failure.ts';
import { type FakeS3, fakeBucket, fakeCredentials, fakeRegion, startFakeS3 } from './fake-s3.ts';

let folder: string;
let s3: FakeS3;
const opened: FileStorage[] = [];

beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), 'file-storage-'));
  s3 = await startFakeS3();
});
afterAll(async () => {
  for (const storage of opened) storage.close();
  await s3.close();
  await rm(folder, { recursive: true });
});
afterEach(() => {
  s3.instead = undefined;
});

const local = async () => createLocalStorage(join(folder, 'files'));

async function inS3(settings: Partial<S3Settings> = {}): Promise<FileStorage> {
  const storage = await createS3Storage(
    {
      bucket: fakeBucket,
      region: fakeRegion,
      endpoint: s3.endpoint,
      credentials: fakeCredentials,
      ...settings,
    },
    join(folder, 'spool'),
  );
  opened.push(storage);
  return storage;
}

/** A real store too, when one is named: TEST_S3_ENDPOINT, _BUCKET, _REGION, _ACCESS_KEY, _SECRET_KEY. */
function inRealS3(): Promise<FileStorage> {
  const { env } = process;
  return inS3({
    endpoint: env['TEST_S3_ENDPOINT'],
    bucket: env['TEST_S3_BUCKET'] ?? 'test',
    region: env['TEST_S3_REGION'] ?? 'us-east-1',
    credentials: { accessKeyId: env['TEST_S3_ACCESS_KEY'] ?? '', secretAccessKey: env['TEST_S3_SECRET_KEY'] ?? '' },
  });
}

const kinds: [string, () => Promise<FileStorage>][] = [
  ['a folder', local],
  ['a fake of S3', inS3],
  ...(process.env['TEST_S3_ENDPOINT'] ? [['a real S3', inRealS3] as [string, () => Promise<FileStorage>]] : []),
];

/** Files and sockets of this process. */
function openFiles(): number {
  return readdirSync('/proc/self/fd').length;
}

async function* chunks(list: readonly Uint8Array[], end?: unknown) {
  yield* list;
  if (end !== undefined) throw end;
}

async function readBack(storage: FileStorage, id: string): Promise<Buffer | undefined> {
  const open = await storage.get(id);
  if (open === undefined) return undefined;
  const bytes = await buffer(open.stream);
  expect(open.size).toBe(bytes.length);
  return bytes;
}

const failure = (run: Promise<unknown>) => failureOf(AppError, run);

describe.each(kinds)('files in %s', (_, open) => {
  test('are returned byte for byte, with their size and SHA-256, however they were split into chunks', async () => {
    const storage = await open();
    await fc.assert(
      fc.asyncProperty(fc.array(fc.uint8Array({ maxLength: 300 }), { maxLength: 5 }), async (pieces) => {
        const id = randomUUID();
        const whole = Buffer.concat(pieces);
        const stored = await storage.put(id, chunks(pieces));
        expect(stored).toEqual({ size: whole.length, sha256: createHash('sha256').update(whole).digest() });
        expect(await readBack(storage, id)).toEqual(whole);
      }),
      { numRuns: 30 },
    );
  });

  test('of some megabytes are stored and read completely', async () => {
    const storage = await open();
    const id = randomUUID();
    const pieces = Array.from({ length: 100 }, (_, index) => Buffer.alloc(65_537, index));
    await storage.put(id, chunks(pieces));
    expect((await readBack(storage, id))?.equals(Buffer.concat(pieces))).toBe(true);
  });

  test('that were never stored, or were removed, are not found; removing a missing file is no failure', async () => {
    const storage = await open();
    const id = randomUUID();
    expect(await storage.get(id)).toBeUndefined();
    await storage.remove(id);
    await storage.put(id, oneChunk(Buffer.from('here')));
    await storage.remove(id);
    expect(await storage.get(id)).toBeUndefined();
    await storage.remove(id);
  });

  test('do not mix when many are stored, read and removed at once', async () => {
    const storage = await open();
    await Promise.all(
      Array.from({ length: 20 }, async (_, index) => {
        const id = randomUUID();
        await storage.put(id, chunks([Buffer.alloc(40_000, index), Buffer.from(id)]));
        expect((await readBack(storage, id))?.subarray(40_000).toString()).toBe(id);
        if (index % 2 === 0) await storage.remove(id);
        expect((await readBack(storage, id)) === undefined).toBe(index % 2 === 0);
      }),
    );
  });

  test('whose source fails leave nothing, and the error is the source’s own', async () => {
    const storage = await open();
    for (const before of [[], [Buffer.from('the beginning')]]) {
      const id = randomUUID();
      const own = new AppError('too-large', 'The body is too large.');
      expect(await failure(storage.put(id, chunks(before, own)))).toBe(own);
      expect(await storage.get(id)).toBeUndefined();
      await storage.remove(id);
    }
  });

  test('cannot be seen before they are complete', async () => {
    const storage = await open();
    const id = randomUUID();
    const { promise: rest, resolve } = Promise.withResolvers<Buffer>();
    const begun = Promise.withResolvers<void>();
    const stored = storage.put(
      id,
      (async function* () {
        yield Buffer.alloc(100_000);
        begun.resolve();
        yield await rest;
      })(),
    );
    await begun.promise;
    expect(await storage.get(id)).toBeUndefined();
    resolve(Buffer.from('end'));
    await stored;
    expect((await readBack(storage, id))?.length).toBe(100_003);
  });

  test.each(['../../etc/passwd', '', 'a', randomUUID().toUpperCase(), `${randomUUID()}/x`, `${randomUUID()}\n`])(
    'are addressed by a UUID only, not %j',
    async (id) => {
      const storage = await open();
      for (const call of [storage.get(id), storage.put(id, oneChunk(Buffer.of(1))), storage.remove(id)])
        expect((await failure(call)).code).toBe('internal');
    },
  );

  test('may be opened and not read: the stream is destroyed, and nothing stays open', async () => {
    const storage = await open();
    const id = randomUUID();
    await storage.put(id, oneChunk(Buffer.alloc(3_000_000)));
    const before = openFiles();
    for (let round = 0; round < 100; round++) (await storage.get(id))?.stream.destroy();
    await expect.poll(openFiles).toBeLessThan(before + 20);
    expect((await readBack(storage, id))?.length).toBe(3_000_000);
  });

  test('pass the check that a program makes at its start, which leaves nothing behind', async () => {
    const storage = await open();
    const before = new Set(s3.objects.keys());
    await checkStorage(storage);
    expect(new Set(s3.objects.keys())).toEqual(before);
  });
});

describe('a folder', () => {
  test('lets only the owner read files', async () => {
    const id = randomUUID();
    await (await local()).put(id, oneChunk(Buffer.from('secret')));
    const path = join(folder, 'files', id.slice(0, 2), id);
    expect((await stat(path)).mode & 0o777).toBe(0o600);
    expect((await stat(join(folder, 'files', id.slice(0, 2)))).mode & 0o777).toBe(0o700);
  });

  test('reads nothing of a file that a kill left half written, and removes it with the file', async () => {
    const storage = await local();
    const id = randomUUID();
    await storage.put(id, oneChunk(Buffer.from('whole')));
    await storage.remove(id);
    await writeFile(join(folder, 'files', id.slice(0, 2), `${id}.part`), 'hal');
    expect(await storage.get(id)).toBeUndefined();
    await storage.remove(id);
    expect(await readdir(join(folder, 'files', id.slice(0, 2)))).not.toContain(`${id}.part`);
  });

  test('that was deleted while the program runs is written to again from the second try on', async () => {
    const directory = join(folder, 'emptied');
    const storage = createLocalStorage(directory);
    const freshId = () => `00${randomUUID().slice(2)}`;
    await storage.put(freshId(), chunks([Buffer.from('before')]));
    await rm(directory, { recursive: true });
    await storage.put(freshId(), chunks([Buffer.from('refused')])).catch(() => undefined);
    const id = freshId();
    await storage.put(id, chunks([Buffer.from('after')]));
    expect((await readBack(storage, id))?.toString()).toBe('after');
  });

  test('that cannot be written to is unavailable; only the log gets the path', async () => {
    const file = join(folder, 'not-a-folder');
    await writeFile(file, '');
    const storage = createLocalStorage(join(file, 'files'));
    const error = await failure(storage.put(randomUUID(), oneChunk(Buffer.of(1))));
    expect(error).toMatchObject({ code: 'unavailable', recovery: { do: 'retry' } });
    expect(error.publicMessage).not.toContain(file);
    expect(error.message).toContain('ENOTDIR');
    expect(await failure(checkStorage(storage))).toMatchObject({
      recovery: { do: 'halt' },
      publicMessage: expect.stringContaining('service.files'),
    });
  });
});

describe.each(kinds)('a part of a file in %s', (_kind, create) => {
  test('holds the bytes from the first to the last, with the size of the whole file', async () => {
    const storage = await create();
    const id = randomUUID();
    await storage.put(id, oneChunk(Buffer.from('0123456789')));
    for (const [first, last, expected] of [
      [0, 0, '0'],
      [3, 6, '3456'],
      [8, 9, '89'],
    ] as const) {
      const open = await storage.get(id, { first, last });
      expect(open?.size).toBe(10);
      expect((await buffer(open?.stream ?? chunks([]))).toString()).toBe(expected);
    }
    expect(await storage.get(randomUUID(), { first: 0, last: 0 })).toBeUndefined();
  });
});

describe('S3', () => {
  test('a store that answers with another part than the one asked for is unavailable', async () => {
    const storage = await inS3();
    for (const [status, headers] of [
      [200, { 'content-length': 10 }],
      [206, { 'content-length': 2, 'content-range': 'bytes 4-5/10' }],
      [206, { 'content-length': 1, 'content-range': 'bytes 3-3/10' }],
    ] as const) {
      s3.instead = (_, response) => response.writeHead(status, headers).end(Buffer.alloc(headers['content-length']));
      expect(await failure(storage.get(randomUUID(), { first: 3, last: 4 }))).toMatchObject({ code: 'unavailable' });
    }
  });

  test('keeps a file under its id, and the spool is empty', async () => {
    const id = randomUUID();
    await (await inS3()).put(id, oneChunk(Buffer.from('x')));
    expect(s3.objects.get(id)?.toString()).toBe('x');
    expect(await readdir(join(folder, 'spool'))).toEqual([]);
  });

  test.each(['a 503', 'a broken connection'])('an upload that meets %s is sent again completely', async (fault) => {
    const storage = await inS3();
    const id = randomUUID();
    s3.instead = (request, response) => {
      if (fault === 'a 503') request.resume().once('end', () => response.writeHead(503).end());
      else request.once('data', () => request.socket.destroy());
    };
    const bytes = Buffer.alloc(500_000, 7);
    await storage.put(id, oneChunk(bytes));
    expect(s3.objects.get(id)?.equals(bytes)).toBe(true);
  });

  test('a body that breaks off is an error of the stream, not the end of the file', async () => {
    const storage = await inS3();
    s3.instead = (_, response) => {
      response.writeHead(200, { 'content-length': 10 });
      response.write('12345');
      setTimeout(() => response.destroy(), 20);
    };
    const open = await storage.get(randomUUID());
    await expect(buffer(open?.stream ?? chunks([]))).rejects.toThrow(/aborted/);
  });

  test.each<[string, Partial<S3Settings>, string]>([
    ['a wrong secret', { credentials: { ...fakeCredentials, secretAccessKey: 'hunter2' } }, 'refused by the fake'],
    ['an unknown key', { credentials: { ...fakeCredentials, accessKeyId: 'AKIDOTHER' } }, 'refused by the fake'],
    ['a bucket that does not exist', { bucket: 'another-bucket' }, 'refused by the fake'],
    ['a store that is down', { endpoint: 'http://127.0.0.1:1' }, 'ECONNREFUSED'],
  ])('%s is unavailable: no request is repeated, and no secret is shown', async (_, settings, why) => {
    const storage = await inS3(settings);
    const requestsBefore = s3.requests.length;
    for (const call of [
      () => storage.put(randomUUID(), oneChunk(Buffer.of(1))),
      () => storage.get(randomUUID()),
      () => storage.remove(randomUUID()),
    ]) {
      const error = await failure(call());
      expect(error.code).toBe('unavailable');
      expect(error.message).toContain(why);
      expect(error.publicMessage).not.toContain('127.0.0.1');
      expect(`${error.message}${error.publicMessage}${JSON.stringify(error)}`).not.toMatch(/hunter2|wJalr/);
    }
    expect(s3.requests.length - requestsBefore).toBe(settings.endpoint === undefined ? 3 : 0);
    expect((await failure(checkStorage(storage))).publicMessage).toContain('service.files');
  });

  test('connections of streams that were not read to their end are closed or used again', async () => {
    for (const other of opened) other.close();
    const storage = await inS3();
    const id = randomUUID();
    await storage.put(id, oneChunk(Buffer.alloc(3_000_000)));
    for (let round = 0; round < 60; round++) (await storage.get(id))?.stream.destroy();
    await expect.poll(() => s3.openConnections()).toBeLessThan(10);
  });
});
