/** The journal: the last write of each document, with many documents, concurrent processes and kills at any step. */
import { mkdtemp, readdir, rm, stat } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, expect, test } from 'vitest';
import type { Document } from '#connector/documents.ts';
import { UnknownOutcome } from '#connector/errors.ts';
import type { Folder } from '../../../connectors/file/folder.ts';
import { createJournal, type Journal } from '../../../connectors/file/journal.ts';
import { Overtaken } from '../../../connectors/file/journal-errors.ts';
import { neverWritten } from '../../../connectors/file/journal-lines.ts';
import { openLocalFolder } from '../../../connectors/file/local-folder.ts';
import { findScratchRoot } from '../../harness/scratch-root.ts';
import { dyingFolder, interceptFolder } from './dying-folder.ts';

const never = new AbortController().signal;
let root: string;
beforeEach(async () => {
  root = await mkdtemp(join(await findScratchRoot(tmpdir()), 'journal-'));
});
afterEach(() => rm(root, { recursive: true, force: true }));

const documentOf = (key: string) => ({ kind: 'supplier', key }) as Document;
const entry = (key: string, contentHash: string, state = 'current') => ({
  document: documentOf(key),
  write: { contentHash, state, idempotencyKey: `id of ${contentHash}`, reference: 'a file' },
});
const openJournal = async () => createJournal(await openLocalFolder(root), 'j', Date.now);
const names = async (own = root) => (await readdir(join(own, 'j', 'log'))).sort();

async function hashes(journal: Awaited<ReturnType<typeof openJournal>>, keys: readonly string[]) {
  const documents = keys.map(documentOf);
  const { find } = await journal.read();
  const found = await find(documents);
  return documents.map((document) => found.get(document)?.contentHash);
}

test('returns the last write of each document, also after merges, and keeps few files', async () => {
  const journal = await openJournal();
  const expected = new Map<string, string>();
  for (let sequence = 1; sequence <= 100; sequence += 1) {
    const keys = [`same`, `of ${sequence % 7}`, `only ${sequence}`];
    await journal.add(
      sequence,
      keys.map((key) => entry(key, `${key} ${sequence}`)),
    );
    for (const key of keys) expected.set(key, `${key} ${sequence}`);
    await journal.merge(never);
  }
  expect(await hashes(await openJournal(), [...expected.keys(), 'another'])).toEqual([...expected.values(), undefined]);
  // 100 records: one file of 64, four of 8, four of one record.
  expect(await names()).toHaveLength(9);
});

test('finds each of many keys without reading the whole file', async () => {
  const journal = await openJournal();
  const count = 24_000;
  const size = count / 8;
  for (let sequence = 1; sequence <= 8; sequence += 1)
    await journal.add(
      sequence,
      Array.from({ length: size }, (_, n) => entry(`key ${(sequence - 1) * size + n}`, `hash ${sequence}`)),
    );
  await journal.add(9, []);
  await journal.merge(never);
  const [name = '', ...others] = await names();
  expect([name, others]).toEqual([nameOf(1, 8), [nameOf(9, 9)]]);
  const folder = await openLocalFolder(root);
  let bytes = 0;
  const counting = {
    ...folder,
    read: async (...given: Parameters<typeof folder.read>) => {
      const read = await folder.read(...given);
      bytes += read?.length ?? 0;
      return read;
    },
  };
  const other = createJournal(counting, 'j', Date.now);
  expect(await hashes(other, ['key 0', 'key 11999', `key ${count - 1}`, 'key x', `key ${count}`])).toEqual([
    'hash 1',
    'hash 4',
    'hash 8',
    undefined,
    undefined,
  ]);
  expect(bytes).toBeLessThan((await stat(join(root, 'j', 'log', name))).size / 4);
});

test('finds each document of a large record with many files, before and after it is merged', async () => {
  const journal = await openJournal();
  const keys = Array.from({ length: 1_000 }, (_, n) => `key ${n}`);
  const files = keys.map((key) => `attachments/00000000-0000-4000-8000-000000000001/${key}${'x'.repeat(120)}.pdf`);
  await journal.add(
    1,
    keys.map((key) => entry(key, key.repeat(20))),
    { id: 'x', files },
  );
  expect((await stat(join(root, 'j', 'log', nameOf(1, 1)))).size).toBeGreaterThan(400_000);
  const expected = keys.map((key) => key.repeat(20));
  expect(await hashes(await openJournal(), keys)).toEqual(expected);
  expect(await newestBatch(await openJournal())).toEqual({ id: 'x', files });
  for (let sequence = 2; sequence <= 9; sequence += 1) await journal.add(sequence, []);
  await journal.merge(never);
  expect(await names()).toEqual([nameOf(1, 8), nameOf(9, 9)]);
  expect(await hashes(await openJournal(), keys)).toEqual(expected);
});

test('lets one of two concurrent writers succeed', async () => {
  const [first, second] = [await openJournal(), await openJournal()];
  const results = await Promise.allSettled([first.add(1, [entry('a', '1')]), second.add(1, [entry('a', '2')])]);
  expect(results.map(({ status }) => status).sort()).toEqual(['fulfilled', 'rejected']);
  expect(results.find(({ status }) => status === 'rejected')).toMatchObject({
    reason: expect.any(Overtaken) as unknown,
  });
  const winner = results[0]?.status === 'fulfilled' ? '1' : '2';
  expect(await hashes(await openJournal(), ['a'])).toEqual([winner]);
});

test('a process that is paused at any step of an add never claims what is not true, also after merges by others', async () => {
  const claims = { added: 0, overtaken: 0, unknown: 0 };
  await atEachPause(async (own, { folder, untilPaused, resume }) => {
    const writing = createJournal(folder, 'j', Date.now)
      .add(1, [entry('same', 'paused'), entry('own', 'paused')])
      .then(
        () => 'added' as const,
        (error: unknown) =>
          error instanceof Overtaken ? 'overtaken' : error instanceof UnknownOutcome ? 'unknown' : error,
      );
    const isOver = await untilPaused(writing);
    const others = createJournal(await openLocalFolder(own), 'j', Date.now);
    const { next } = await others.read();
    for (let sequence = next; sequence < next + 9; sequence += 1) await others.add(sequence, [entry('same', 'other')]);
    await others.merge(never);
    resume();
    const claim = (await writing) as keyof typeof claims;
    claims[claim] += 1;
    await others.merge(never);
    const fresh = createJournal(await openLocalFolder(own), 'j', Date.now);
    expect(await hashes(fresh, ['same'])).toEqual(['other']);
    const [held] = await hashes(fresh, ['own']);
    // The record counts if its number was taken before the other process read the journal, even after a merge.
    expect(held).toBe(next === 1 ? undefined : 'paused');
    expect({ added: ['paused'], overtaken: [undefined], unknown: ['paused', undefined] }[claim]).toContain(held);
    expect((await fresh.read()).next).toBe(next + 9);
    return isOver;
  });
  expect(claims.added).toBeGreaterThan(0);
  // A process that stood still before its link finds the name taken, or free again after a merge.
  expect(claims.overtaken + claims.unknown).toBeGreaterThan(3);
});

test('a number that another process has taken is always refused while its file exists', async () => {
  let overtaken = 0;
  await atEachPause(async (own, { folder, untilPaused, resume }) => {
    const writing = createJournal(folder, 'j', Date.now)
      .add(1, [entry('a', 'paused')])
      .then(
        () => undefined,
        (error: unknown) => error,
      );
    const isOver = await untilPaused(writing);
    const others = createJournal(await openLocalFolder(own), 'j', Date.now);
    const { next } = await others.read();
    await others.add(next, [entry('a', 'other')]);
    resume();
    const error = await writing;
    expect(error instanceof Overtaken).toBe(next === 1);
    expect(error === undefined).toBe(next === 2);
    if (next === 1) overtaken += 1;
    expect(await hashes(others, ['a'])).toEqual(['other']);
    return isOver;
  });
  expect(overtaken).toBeGreaterThan(1);
});

test('reports what others have written or looked up since the last read, also after merges', async () => {
  const [own, other] = [await openJournal(), await openJournal()];
  const [a, b, c] = ['a', 'b', 'c'].map(documentOf) as [Document, Document, Document];
  const touched = async (journal: Journal) => {
    const { touchedByOthers } = await journal.read();
    return [...(await touchedByOthers([a, b, c]))].map(({ key }) => key);
  };
  await own.add(1, [entry('a', '1'), entry('b', '1')]);
  expect([await touched(own), await touched(other)]).toEqual([[], []]);
  await other.add(2, [entry('b', '2'), entry('d', '2')]);
  expect([await touched(other), await touched(own), await touched(own)]).toEqual([[], ['b'], []]);
  await other.add(3, [{ document: c, write: neverWritten }]);
  for (let sequence = 4; sequence <= 9; sequence += 1) await other.add(sequence, [entry('d', `${sequence}`)]);
  await other.merge(never);
  expect(await names()).toHaveLength(2);
  expect([await touched(other), await touched(own), await touched(own)]).toEqual([[], ['c'], []]);
  await other.add(10, [entry('d', '10')]);
  expect([await touched(other), await touched(own)]).toEqual([[], []]);
  expect(await hashes(own, ['a', 'b', 'd'])).toEqual(['1', '2', '10']);
});

test('keeps the batch of the newest record, and does not merge that record', async () => {
  const journal = await openJournal();
  for (let sequence = 1; sequence <= 8; sequence += 1) {
    const batch = { id: `batch ${sequence}`, files: ['x', 'y'] };
    await journal.add(sequence, [entry('a', `${sequence}`)], batch);
    await journal.merge(never);
    expect(await names()).toHaveLength(sequence);
    expect(await newestBatch(journal)).toEqual(batch);
    expect(await newestBatch(await openJournal())).toEqual(batch);
  }
  await journal.add(9, []);
  await journal.merge(never);
  expect(await names()).toEqual([nameOf(1, 8), nameOf(9, 9)]);
  expect(await newestBatch(await openJournal())).toBeUndefined();
});

test('forgets old withdrawals when everything before them is merged; a process that missed them treats the documents as touched', async () => {
  const [journal, absent] = [await openJournal(), await openJournal()];
  const stateOf = async (key: string) => {
    const { find } = await (await openJournal()).read();
    const document = documentOf(key);
    return (await find([document])).get(document)?.state;
  };
  const meanwhile: unknown[] = [];
  for (let sequence = 1; sequence <= 1_025; sequence += 1) {
    // Each was written, then withdrawn: the earlier write must not reappear.
    const isWithdrawn = sequence > 16 && sequence % 2 === 0;
    const key = sequence === 600 ? 'k1' : `k${isWithdrawn ? sequence - 1 : sequence}`;
    await journal.add(sequence, [entry(key, `${sequence}`, isWithdrawn ? 'withdrawn' : 'current')]);
    if (sequence === 2) await absent.read();
    await journal.merge(never);
    if ([65, 130, 512].includes(sequence)) meanwhile.push(await stateOf('k17'));
  }
  expect(meanwhile).toEqual(['withdrawn', 'withdrawn', 'withdrawn']);
  expect(await names()).toEqual([nameOf(1, 512), nameOf(513, 1_024), nameOf(1_025, 1_025)]);
  expect(await Promise.all(['k2', 'k17', 'k447', 'k449', 'k513', 'k1'].map(stateOf))).toEqual([
    'current',
    undefined,
    undefined,
    'withdrawn',
    'withdrawn',
    'withdrawn',
  ]);
  const { touchedByOthers } = await absent.read();
  const [k2, unknown] = [documentOf('k2'), documentOf('unknown')];
  expect([...(await touchedByOthers([k2, unknown]))]).toEqual([unknown]);
});

test('keeps its content after a kill at any step of a merge, and the next merge removes all remains', async () => {
  let isOver = false;
  let at = 1;
  for (; !isOver; at += 1) {
    const own = join(root, `${at}`);
    await addEight(own);
    const dying = await dyingFolder(own, at);
    await createJournal(dying.folder, 'j', Date.now)
      .merge(never)
      .catch(() => undefined);
    const next = createJournal(await openLocalFolder(own), 'j', Date.now);
    await next.merge(never);
    expect([at, ...(await hashes(next, ['same', 'only 1', 'only 8']))]).toEqual([at, '8', '1', '8']);
    expect(await next.read()).toMatchObject({ next: 10 });
    expect((await names(own)).filter((name) => !name.startsWith('.'))).toEqual([nameOf(1, 8), nameOf(9, 9)]);
    isOver = dying.count() < at;
  }
  expect(at).toBeGreaterThan(10);
});

test('keeps its content when one of two merging processes is paused at any step while the other continues', async () => {
  await atEachPause(async (own, { folder, untilPaused, resume }) => {
    await addEight(own);
    const merging = createJournal(folder, 'j', Date.now)
      .merge(never)
      .catch((error: unknown) => {
        if (!(error instanceof Overtaken)) throw error;
      });
    const isOver = await untilPaused(merging);
    const other = createJournal(await openLocalFolder(own), 'j', Date.now);
    await other.merge(never);
    for (let sequence = 10; sequence <= 65; sequence += 1) {
      await other.add(sequence, [entry('same', `${sequence}`)]);
      await other.merge(never);
    }
    resume();
    await merging;
    const next = createJournal(await openLocalFolder(own), 'j', Date.now);
    expect(await hashes(next, ['same', 'only 1', 'only 8'])).toEqual(['65', '1', '8']);
    expect(await next.read()).toMatchObject({ next: 66 });
    await next.merge(never);
    expect((await names(own)).filter((name) => !name.startsWith('.'))).toEqual([nameOf(1, 64), nameOf(65, 65)]);
    return isOver;
  });
});

test('that has lost records is not taken for an empty one, and a gap is an error', async () => {
  const journal = await openJournal();
  for (let sequence = 1; sequence <= 3; sequence += 1) await journal.add(sequence, [entry('a', '1')]);
  await rm(join(root, 'j', 'log', nameOf(2, 2)));
  await expect((await openJournal()).read()).rejects.toMatchObject({ type: 'transient' });
  await rm(join(root, 'j'), { recursive: true });
  await expect(journal.read()).rejects.toMatchObject({ type: 'transient' });
});

const nameOf = (first: number, last: number) =>
  `${[first, last].map((number) => String(number).padStart(12, '0')).join('-')}.jsonl`;

/** Adds enough records for a merge, and a newest one. */
async function addEight(own: string): Promise<void> {
  const journal = createJournal(await openLocalFolder(own), 'j', Date.now);
  for (let sequence = 1; sequence <= 8; sequence += 1)
    await journal.add(sequence, [entry('same', `${sequence}`), entry(`only ${sequence}`, `${sequence}`)]);
  await journal.add(9, []);
}

const newestBatch = async (journal: Journal) => {
  const snapshot = await journal.read();
  return snapshot.newestBatch();
};

interface Pausing {
  readonly folder: Folder;
  /** Waits until the work is paused; returns true when it has ended before. */
  readonly untilPaused: (work: Promise<unknown>) => Promise<boolean>;
  readonly resume: () => void;
}

/** Calls `run` for each step in a new folder, until `run` returns that the work had ended before. */
async function atEachPause(run: (own: string, pausing: Pausing) => Promise<boolean>): Promise<void> {
  let isOver = false;
  let at = 0;
  while (!isOver) {
    at += 1;
    const own = join(root, `${at}`);
    const paused = Promise.withResolvers<boolean>();
    const { promise, resolve } = Promise.withResolvers<void>();
    const { folder } = await interceptFolder(own, async (n) => {
      if (n !== at) return;
      paused.resolve(false);
      await promise;
    });
    const untilPaused = (work: Promise<unknown>) => Promise.race([paused.promise, work.then(() => true)]);
    isOver = await run(own, { folder, untilPaused, resume: () => resolve() });
  }
  expect(at).toBeGreaterThan(3);
}
