/** The journal of batches: what was written last under each key, however many there are and whoever dies. */
import { mkdtemp, readdir, rm, stat } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, expect, test } from 'vitest';
import type { Document } from '#connector/documents.ts';
import { createJournal, Overtaken } from '../../../connectors/file/journal.ts';
import { openLocalFolder } from '../../../connectors/file/local-folder.ts';
import { findScratchRoot } from '../../harness/scratch-root.ts';
import { dyingFolder, steerFolder } from './dying-folder.ts';

const never = new AbortController().signal;
let root: string;
beforeEach(async () => {
  root = await mkdtemp(join(await findScratchRoot(tmpdir()), 'journal-'));
});
afterEach(() => rm(root, { recursive: true, force: true }));

const documentOf = (key: string) => ({ kind: 'supplier', key }) as Document;
const entry = (key: string, contentHash: string, state = 'current') => ({
  document: documentOf(key),
  known: { key, contentHash, state, idempotencyKey: `id of ${contentHash}`, reference: 'a file' },
});
const openJournal = async () => createJournal(await openLocalFolder(root), 'j', Date.now);
const files = async () => (await readdir(join(root, 'j', 'log'))).sort();
const none = async () => new Set<number>();

async function hashes(journal: Awaited<ReturnType<typeof openJournal>>, keys: readonly string[]) {
  const documents = keys.map(documentOf);
  const found = await journal.find(documents);
  return documents.map((document) => found.get(document)?.contentHash);
}

test('tells what was written last, also after merges, and keeps few files', async () => {
  const journal = await openJournal();
  const expected = new Map<string, string>();
  for (let sequence = 1; sequence <= 100; sequence += 1) {
    const keys = [`same`, `of ${sequence % 7}`, `only ${sequence}`];
    await journal.append(
      sequence,
      keys.map((key) => entry(key, `${key} ${sequence}`)),
    );
    for (const key of keys) expected.set(key, `${key} ${sequence}`);
    await journal.merge(none, never);
  }
  expect(await hashes(await openJournal(), [...expected.keys(), 'another'])).toEqual([...expected.values(), undefined]);
  // 100 writes: one file of 64, four of 8, four of one.
  expect(await files()).toHaveLength(9);
});

test('finds each of many keys without reading them all', async () => {
  const journal = await openJournal();
  const count = 24_000;
  const size = count / 8;
  for (let sequence = 1; sequence <= 8; sequence += 1)
    await journal.append(
      sequence,
      Array.from({ length: size }, (_, n) => entry(`key ${(sequence - 1) * size + n}`, `hash ${sequence}`)),
    );
  await journal.merge(none, never);
  const [name = '', ...others] = await files();
  expect([name, others]).toEqual(['000000000001-000000000008.jsonl', []]);
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

test('of two who write at once lets one go on', async () => {
  const [one, other] = [await openJournal(), await openJournal()];
  await Promise.all([one.news([]), other.news([])]);
  const results = await Promise.allSettled([one.append(1, [entry('a', '1')]), other.append(1, [entry('a', '2')])]);
  expect(results.map(({ status }) => status).sort()).toEqual(['fulfilled', 'rejected']);
  expect(results.find(({ status }) => status === 'rejected')).toMatchObject({
    reason: expect.any(Overtaken) as unknown,
  });
  const winner = results[0]?.status === 'fulfilled' ? '1' : '2';
  expect(await hashes(await openJournal(), ['a'])).toEqual([winner]);
});

test('asleep anywhere in a write, finds its number taken also when the others were merged meanwhile', async () => {
  let isOver = false;
  let overtaken = 0;
  for (let at = 1; !isOver; at += 1) {
    const own = join(root, `${at}`);
    const asleep = Promise.withResolvers<void>();
    const awake = Promise.withResolvers<void>();
    const { folder } = await steerFolder(own, async (n) => {
      if (n !== at) return;
      asleep.resolve();
      await awake.promise;
    });
    const writing = createJournal(folder, 'j', Date.now)
      .append(1, [entry('a', 'sleeper')])
      .then(
        () => undefined,
        (error: unknown) => error,
      );
    isOver = await Promise.race([asleep.promise.then(() => false), writing.then(() => true)]);
    const others = createJournal(await openLocalFolder(own), 'j', Date.now);
    const { next } = await others.news([]);
    for (let sequence = next; sequence < next + 8; sequence += 1) await others.append(sequence, [entry('a', 'other')]);
    await others.merge(none, never);
    awake.resolve();
    // Where it came before the others, it may have been merged with them.
    const isOvertaken = (await writing) instanceof Overtaken;
    if (isOvertaken) overtaken += 1;
    expect([at, next === 1 && !isOvertaken]).toEqual([at, false]);
    expect([at, ...(await hashes(others, ['a']))]).toEqual([at, 'other']);
  }
  expect(overtaken).toBeGreaterThan(2);
});

test('tells who has written or asked since one looked last, through merges', async () => {
  const [one, other] = [await openJournal(), await openJournal()];
  await one.append(1, [entry('a', '1'), entry('b', '1')]);
  expect(await one.news([])).toMatchObject({ next: 2 });
  await other.news([]);
  await other.fence(2, [documentOf('a'), documentOf('c')]);
  for (let sequence = 3; sequence <= 8; sequence += 1) await other.append(sequence, [entry(`x${sequence}`, '1')]);
  await other.merge(none, never);
  expect(await files()).toHaveLength(1);
  const [a, b, c] = ['a', 'b', 'c'].map(documentOf) as [Document, Document, Document];
  expect(await one.news([a, b, c])).toEqual({ touched: new Set([a, c]), next: 9 });
  expect(await one.news([a, b, c])).toEqual({ touched: new Set(), next: 9 });
  expect(await hashes(one, ['a', 'b', 'c'])).toEqual(['1', '1', undefined]);
});

test('does not merge a write that is not settled, and takes one back that did not happen', async () => {
  const journal = await openJournal();
  const head = { batch: 'x', files: [] };
  for (let sequence = 1; sequence <= 9; sequence += 1)
    await journal.append(sequence, [entry('a', `${sequence}`)], head);
  await journal.merge(async () => new Set([1, 5]), never);
  expect(await files()).toHaveLength(9);
  // Not of another that has the number.
  await journal.retract(9, 'y');
  expect(await hashes(journal, ['a'])).toEqual(['9']);
  await journal.retract(9, 'x');
  expect(await hashes(journal, ['a'])).toEqual(['8']);
  expect(await hashes(await openJournal(), ['a'])).toEqual(['8']);
  expect((await (await openJournal()).unmerged()).map(({ sequence }) => sequence)).toEqual([8, 7, 6, 5, 4, 3, 2, 1]);
  // The number stays taken.
  expect(await (await openJournal()).news([])).toMatchObject({ next: 10 });
});

test('forgets what was withdrawn when everything before it is merged', async () => {
  const journal = await openJournal();
  for (let sequence = 1; sequence <= 8; sequence += 1)
    await journal.append(sequence, [entry(`k${sequence}`, '1', sequence === 3 ? 'withdrawn' : 'current')]);
  await journal.merge(none, never);
  expect(await hashes(journal, ['k2', 'k3', 'k4'])).toEqual(['1', undefined, '1']);
});

test('killed anywhere in a merge, holds what it held', async () => {
  let isOver = false;
  let at = 1;
  for (; !isOver; at += 1) {
    const folder = join(root, `${at}`);
    const journal = createJournal(await openLocalFolder(folder), 'j', Date.now);
    for (let sequence = 1; sequence <= 8; sequence += 1)
      await journal.append(sequence, [entry('same', `${sequence}`), entry(`only ${sequence}`, `${sequence}`)]);
    const dying = await dyingFolder(folder, at);
    await createJournal(dying.folder, 'j', Date.now)
      .merge(none, never)
      .catch(() => undefined);
    const next = createJournal(await openLocalFolder(folder), 'j', Date.now);
    await next.merge(none, never);
    expect([at, ...(await hashes(next, ['same', 'only 1', 'only 8']))]).toEqual([at, '8', '1', '8']);
    expect(await next.news([])).toMatchObject({ next: 9 });
    isOver = dying.count() < at;
  }
  expect(at).toBeGreaterThan(10);
});

test('that has lost what it had is not taken for an empty one', async () => {
  const journal = await openJournal();
  await journal.append(1, [entry('a', '1')]);
  await rm(join(root, 'j'), { recursive: true });
  await expect(journal.find([documentOf('a')])).rejects.toMatchObject({ type: 'transient' });
});
