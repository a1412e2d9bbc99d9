import { setImmediate } from 'node:timers/promises';
import { beforeEach, describe, expect, test } from 'vitest';
import { createFileLoader, type FileLoader } from '#bridge/push/batch/file-loader.ts';
import type { SourceClient } from '#client/source-client.ts';
import { AppError } from '#platform/errors.ts';
import { idOf, type TestClock, testClock } from '../../parts.ts';

/** A fake client: its links expire after a minute on the test's clock, and a test can delay the end of its jobs. */
let clock: TestClock;
let loader: FileLoader;
let jobs: string[][];
let downloads: string[];
let missing: Set<string>;
let failing: Map<string, string>;
let job: () => Promise<void>;
let refuse: (url: string) => boolean;
let signals: (AbortSignal | undefined)[];

const never = new AbortController().signal;
const ids = (from: number, to: number) => Array.from({ length: to - from + 1 }, (_, index) => idOf(from + index));

beforeEach(() => {
  clock = testClock();
  jobs = [];
  downloads = [];
  signals = [];
  missing = new Set();
  failing = new Map();
  job = async () => {};
  refuse = () => false;
  const links = new Map<string, number>();
  const client: Pick<SourceClient, 'submitJob' | 'waitForJob' | 'download'> = {
    submitJob: async (_type, payload, _key, signal) => {
      signals.push(signal);
      jobs.push([...(payload as { file_uuids: string[] }).file_uuids]);
      return { id: String(jobs.length), type: 'X', status: 'PENDING' };
    },
    waitForJob: async (id, _withinMs, signal) => {
      await job();
      signal?.throwIfAborted();
      const asked = jobs[Number(id) - 1] ?? [];
      const found = asked.filter((file) => !missing.has(file) && !failing.has(file));
      for (const file of found) links.set(`https://files/${id}/${file}`, clock.nowMs());
      return {
        id,
        type: 'X',
        status: 'COMPLETED',
        detail: {
          data: found.map((file) => ({
            file_uuid: file,
            file_name: `${file}.pdf`,
            download_url: `https://files/${id}/${file}`,
          })),
          errors: [
            ...asked.filter((file) => missing.has(file)).map((file) => ({ file_uuid: file, error: 'not_found' })),
            ...asked.filter((file) => failing.has(file)).map((file) => ({ file_uuid: file, error: failing.get(file) })),
          ],
        },
      };
    },
    download: async (url) => {
      downloads.push(url);
      const since = links.get(url);
      if (since === undefined || clock.nowMs() - since >= 60_000 || refuse(url))
        throw new AppError('forbidden', 'The link has expired.');
      return Buffer.from(url.split('/').at(-1) ?? '');
    },
  };
  loader = createFileLoader(client, clock);
});

async function load(of: readonly string[]) {
  return loader.load(of, never);
}

const textOf = (bytes: Uint8Array | undefined) => Buffer.from(bytes ?? []).toString();

describe('load', () => {
  test('returns files with their names and bytes, and leaves out a file that the service does not know', async () => {
    missing.add(idOf(2));
    const files = await load([idOf(1), idOf(2), idOf(3), 'no id at all']);
    expect([...files.keys()]).toEqual([idOf(1), idOf(3)]);
    expect(files.get(idOf(3))?.name).toBe(`${idOf(3)}.pdf`);
    expect(textOf(await files.get(idOf(3))?.read(never))).toBe(idOf(3));
    expect(jobs).toEqual([[idOf(1), idOf(2), idOf(3)]]);
  });

  test('asks for at most 50 files in a job', async () => {
    const files = await load(ids(1, 120));
    expect(files.size).toBe(120);
    expect(jobs.map((asked) => asked.length)).toEqual([50, 50, 20]);
    expect(new Set(jobs.flat()).size).toBe(120);
  });

  test('takes ids in upper case', async () => {
    const id = 'ABCDEF00-0000-4000-8000-00000000000A';
    expect(textOf(await (await load([id])).get(id)?.read(never))).toBe(id.toLowerCase());
  });

  test('shares one job among calls in the same turn of the event loop', async () => {
    await Promise.all(ids(1, 20).map((id) => load([id])));
    expect(jobs).toEqual([ids(1, 20)]);
  });

  test('shares the next job among calls that come while a job is running', async () => {
    const held = Promise.withResolvers<void>();
    job = () => held.promise;
    const first = load([idOf(1)]);
    await expect.poll(() => jobs.length).toBe(1);
    const others = ids(2, 5).map((id) => load([id]));
    await setImmediate();
    await setImmediate();
    others.push(...ids(6, 9).map((id) => load([id])));
    held.resolve();
    await Promise.all([first, ...others]);
    expect(jobs).toEqual([[idOf(1)], ids(2, 9)]);
  });
});

describe('a link', () => {
  test('is used while it is valid', async () => {
    const files = await load(ids(1, 3));
    clock.advance(44_000);
    for (const file of files.values()) await file.read(never);
    expect([jobs.length, downloads.length]).toEqual([1, 3]);
  });

  test('that is too old is not tried: one job makes new links for all files that are not read yet', async () => {
    const files = await load(ids(1, 60));
    await files.get(idOf(1))?.read(never);
    clock.advance(46_000);
    for (const id of ids(2, 51)) await files.get(id)?.read(never);
    expect(jobs.map((asked) => asked.length)).toEqual([50, 10, 50]);
    expect(jobs[2]).not.toContain(idOf(1));
    expect(downloads.every((url) => url.startsWith('https://files/3/') || url.endsWith(idOf(1)))).toBe(true);
  });

  test('that has expired sooner than expected is replaced once, and not a second time', async () => {
    const files = await load([idOf(1)]);
    refuse = (url) => url.includes('/1/');
    expect(textOf(await files.get(idOf(1))?.read(never))).toBe(idOf(1));
    expect(jobs.length).toBe(2);
    clock.advance(50_000);
    refuse = () => true;
    await expect(files.get(idOf(1))?.read(never)).rejects.toMatchObject({ code: 'forbidden' });
    expect(jobs.length).toBe(4);
  });

  test('is downloaded again by each read', async () => {
    const file = (await load([idOf(1)])).get(idOf(1));
    await file?.read(never);
    await file?.read(never);
    expect([jobs.length, downloads.length]).toEqual([1, 2]);
  });
});

describe('a failure', () => {
  test('with one file does not affect the others: its read rejects, and the next read asks again', async () => {
    failing.set(idOf(1), 'scanning');
    const files = await load([idOf(1), idOf(2)]);
    expect(textOf(await files.get(idOf(2))?.read(never))).toBe(idOf(2));
    await expect(files.get(idOf(1))?.read(never)).rejects.toThrow(
      `The service made no link to the file ${idOf(1)}: scanning.`,
    );
    failing.clear();
    expect(textOf(await files.get(idOf(1))?.read(never))).toBe(idOf(1));
  });

  test('of a job rejects all calls that waited for it, and no later call', async () => {
    job = () => Promise.reject(new AppError('unavailable', 'The job has not ended.'));
    const all = await Promise.allSettled([load([idOf(1)]), load([idOf(2)])]);
    expect(all.map(({ status }) => status)).toEqual(['rejected', 'rejected']);
    job = async () => {};
    expect((await load([idOf(1)])).size).toBe(1);
  });

  test('an abort ends only its own call; a job that no call waits for any more is aborted', async () => {
    const held = Promise.withResolvers<void>();
    job = () => held.promise;
    const [first, second] = [new AbortController(), new AbortController()];
    const loads = Promise.allSettled([
      loader.load([idOf(1), idOf(2)], first.signal),
      loader.load([idOf(3)], second.signal),
    ]);
    await expect.poll(() => jobs.length).toBe(1);
    first.abort(new Error('enough'));
    expect(signals[0]?.aborted).toBe(false);
    second.abort(new Error('enough'));
    expect(signals[0]?.aborted).toBe(true);
    expect((await loads).map(({ status }) => status)).toEqual(['rejected', 'rejected']);
    held.resolve();
    expect((await load([idOf(1)])).size).toBe(1);
  });

  test('an abort before the job is submitted does not affect the next call', async () => {
    const held = Promise.withResolvers<void>();
    job = () => held.promise;
    const first = load([idOf(1)]);
    await expect.poll(() => jobs.length).toBe(1);
    const stop = new AbortController();
    const given = loader.load([idOf(2)], stop.signal);
    stop.abort(new Error('enough'));
    const next = load([idOf(3)]);
    held.resolve();
    await expect(given).rejects.toThrow('enough');
    expect((await first).size + (await next).size).toBe(2);
  });

  test('of a file that was deleted meanwhile rejects its read', async () => {
    const files = await load([idOf(1)]);
    missing.add(idOf(1));
    clock.advance(50_000);
    await expect(files.get(idOf(1))?.read(never)).rejects.toMatchObject({
      code: 'not-found',
      recovery: { do: 'skip' },
    });
  });
});
