/**
 * The layout `batch`, with a reader that removes the files: each document is imported once, whatever is killed or
 * paused during a write.
 */
import { createHash } from 'node:crypto';
import { mkdtemp, readdir, readFile, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeEach, describe, expect, test } from 'vitest';
import type { Operation, Outcome } from '#connector/connector.ts';
import type { Document } from '#connector/documents.ts';
import { type Sample, sampleOf } from '#connector/testing/sample-documents.ts';
import { testContext } from '#connector/testing/test-context.ts';
import { createBatchLayout } from '../../../connectors/file/batch-layout.ts';
import type { Folder } from '../../../connectors/file/folder.ts';
import fileConnector from '../../../connectors/file/index.ts';
import { openLocalFolder } from '../../../connectors/file/local-folder.ts';
import type { FileSettings } from '../../../connectors/file/settings.ts';
import { scratchFolder } from '../../harness/scratch-folder.ts';
import { findScratchRoot } from '../../harness/scratch-root.ts';
import { dyingFolder, interceptFolder, losingFolder } from './dying-folder.ts';
import { operation } from './operations.ts';

const never = new AbortController().signal;
let root: string;
beforeEach(async () => {
  root = await scratchFolder();
});

const settingsOf = (more: Record<string, unknown> = {}) =>
  fileConnector.settings.parse({ directory: '.', layout: 'batch', ...more }) as FileSettings;
const layoutIn = (folder: Folder, more?: Record<string, unknown>) =>
  createBatchLayout(folder, settingsOf(more), testContext().context);
const fresh = async (more?: Record<string, unknown>) => layoutIn(await openLocalFolder(root), more);

/** What the reader has imported: the states of each document, in their order. */
type Imported = Map<string, string[]>;

/** Imports the batches that have a manifest, and removes their files. */
async function importAll(imported: Imported): Promise<void> {
  for (const name of (await readdir(root)).sort()) {
    if (!name.endsWith('.manifest.json')) continue;
    const manifest = JSON.parse(await readFile(join(root, name), 'utf8')) as {
      files: { name: string; sha256: string }[];
      documents: { key: string; state: string; content_hash: string }[];
    };
    for (const file of manifest.files) {
      const bytes = await readFile(join(root, file.name));
      expect(createHash('sha256').update(bytes).digest('hex')).toBe(file.sha256);
      await rm(join(root, file.name));
    }
    for (const { key, state, content_hash } of manifest.documents)
      imported.set(key, [...(imported.get(key) ?? []), `${state} ${content_hash}`]);
    await rm(join(root, name));
  }
}

/** Continues as the bridge does after a kill: calls lookup, and writes what is not in place. */
async function recover(layout: Awaited<ReturnType<typeof fresh>>, operations: readonly Operation[]) {
  let open = [...operations];
  for (let round = 0; open.length > 0 && round < 5; round += 1) {
    const found = new Map(
      (
        await layout.lookup(
          open.map(({ document }) => document),
          never,
        )
      ).map((entry) => [entry.key, entry]),
    );
    open = open.filter(({ action, document, contentHash }) => {
      const held = found.get(document.key);
      return action === 'cancel' ? held !== undefined : held?.contentHash !== contentHash;
    });
    const outcomes = open.length > 0 ? await layout.write(open, never) : [];
    open = open.filter((_, index) => !('reference' in (outcomes[index] as Outcome)));
  }
  expect(open).toEqual([]);
}

/**
 * Writes and imports first versions; returns the operations to test (create, amend, cancel) and the expected imports.
 */
async function prepare(
  kind: 'award' | 'file',
  imported: Imported,
  more: Record<string, unknown> = {},
  importFiles = importAll,
) {
  const [created, amended, cancelled] = [0, 1, 2].map((n) => sampleOf(kind, n)) as [Sample, Sample, Sample];
  const layout = await fresh(more);
  const first = [amended, cancelled].map((sample) => operation('create', sample, sample.versions[0]));
  await layout.write(first, never);
  await importFiles(imported);
  const operations = [
    operation('create', created, created.versions[0]),
    // For a batch an amend is the same as a create. It is left out for files, whose bytes would add steps to test.
    ...(kind === 'file' ? [] : [operation('amend', amended, amended.versions[1])]),
    operation('cancel', cancelled, cancelled.withdrawn as Document),
  ];
  const expected: Imported = new Map(imported);
  const state = kind === 'award' ? 'awarded' : 'current';
  for (const { document, action, contentHash } of operations)
    expected.set(document.key, [
      ...(imported.get(document.key) ?? []),
      `${action === 'cancel' ? 'withdrawn' : state} ${contentHash}`,
    ]);
  return { operations, expected };
}

describe.each(['award', 'file'] as const)('a write of kind %s', (kind) => {
  // Killed before each step of a write, and after the last one.
  test.each([true, false])(
    'that is killed at any step is completed once by the next process (the reader imports before it: %s)',
    async (isReaderFirst) => {
      await atEachPoint(async (at) => {
        const imported: Imported = new Map();
        const { operations, expected } = await prepare(kind, imported);
        const { folder, count } = await dyingFolder(root, at);
        await layoutIn(folder).write(operations, never);
        if (isReaderFirst) await importAll(imported);
        await recover(await fresh(), operations);
        await importAll(imported);
        expect([at, imported]).toEqual([at, expected]);
        expect((await readdir(root)).filter((name) => /csv|manifest/.test(name))).toEqual([]);
        return count() < at;
      });
    },
  );

  test('of a process that is paused at any step is not repeated when it continues, after another has done it', async () => {
    await atEachPoint(async (at) => {
      const imported: Imported = new Map();
      const { operations, expected } = await prepare(kind, imported);
      const { paused, writeAndPause } = await pausedProcess(kind, imported, expected);
      const { resume, isOver } = await writeAndPause(at, operations);
      await recover(await fresh(), operations);
      await resume();
      // The bridge calls lookup again.
      await recover(await fresh(), operations);
      await importAll(imported);
      expect([at, imported]).toEqual([at, expected]);
      expect(await paused.lookup([], never)).toEqual([]);
      return isOver;
    });
  });
});

test('a write of a process that is paused at any step changes nothing after another process has looked up', async () => {
  await atEachPoint(async (at) => {
    const imported: Imported = new Map();
    const { operations } = await prepare('award', imported);
    const { writeAndPause } = await pausedProcess('award', imported, new Map());
    const { resume, isOver } = await writeAndPause(at, operations);
    const documents = operations.map(({ document }) => document);
    const found = await (await fresh()).lookup(documents, never);
    await resume();
    expect([at, await (await fresh()).lookup(documents, never)]).toEqual([at, found]);
    await importAll(imported);
    for (const { document, action, contentHash } of operations) {
      const last = imported.get(document.key)?.at(-1)?.split(' ');
      const held = last === undefined || last[0] === 'withdrawn' ? undefined : last[1];
      expect([at, action, held]).toEqual([at, action, found.find(({ key }) => key === document.key)?.contentHash]);
      const isDone = isOver && action !== 'cancel';
      expect([at, isDone && held]).toEqual([at, isDone && contentHash]);
    }
    return isOver;
  });
});

test('a batch that another process has recorded and not published is published first', async () => {
  await atEachPoint(async (at) => {
    const imported: Imported = new Map();
    const { operations, expected } = await prepare('award', imported);
    const { writeAndPause } = await pausedProcess('award', imported, expected);
    const { resume, isOver } = await writeAndPause(at, operations);
    // The other process is killed before the first of its files gets its name.
    const local = await openLocalFolder(root);
    await layoutIn({ ...local, move: () => Promise.reject(new Error('killed')) }).write(operations, never);
    const outcomes = await resume();
    await recover(
      await fresh(),
      operations.filter((_, index) => !('reference' in (outcomes[index] as Outcome))),
    );
    await importAll(imported);
    expect([at, imported]).toEqual([at, expected]);
    return isOver;
  });
});

test('a write in which the answer to any step is lost, and which continues, is done once', async () => {
  let unknown = 0;
  await atEachPoint(async (at) => {
    const imported: Imported = new Map();
    const { operations, expected } = await prepare('award', imported);
    const { folder, count } = await losingFolder(root, at);
    const layout = layoutIn(folder);
    const outcomes = await layout.write(operations, never);
    if (outcomes.some(({ status }) => status === 'unknown')) unknown += 1;
    const isOver = count() < at;
    // Like the bridge: `retry` is written again without a lookup, `unknown` after one.
    const again = operations.filter((_, index) => outcomes[index]?.status === 'retry');
    const second = again.length > 0 ? await layout.write(again, never) : [];
    await recover(
      layout,
      operations.filter(
        (operation, index) =>
          outcomes[index]?.status === 'unknown' || second[again.indexOf(operation)]?.status === 'unknown',
      ),
    );
    await importAll(imported);
    expect([at, imported]).toEqual([at, expected]);
    return isOver;
  });
  expect(unknown).toBeGreaterThan(2);
});

test('two processes that write different documents with one journal rarely make each other retry', async () => {
  const [first, second] = [await fresh(), await fresh()];
  let refused = 0;
  for (let n = 0; n < 20; n += 1)
    for (const [layout, kind] of [
      [first, 'award'],
      [second, 'supplier'],
    ] as const) {
      const sample = sampleOf(kind, n);
      const write = async () =>
        (await layout.write([operation('create', sample, sample.versions[0])], never))[0]?.status;
      const status = await write();
      if (status === 'retry') refused += 1;
      expect(status === 'retry' ? await write() : status).toBe('created');
    }
  expect(refused).toBeLessThan(10);
});

test('a write that is aborted at any step is done or not done, as its outcomes say', async () => {
  const seen = new Set<string>();
  await atEachPoint(async (at) => {
    const imported: Imported = new Map();
    const { operations, expected } = await prepare('award', imported);
    const before: Imported = new Map(imported);
    const stop = new AbortController();
    const { folder, count } = await interceptFolder(root, async (n) => {
      if (n === at) stop.abort();
    });
    const outcomes = await layoutIn(folder).write(operations, stop.signal);
    const isOver = count() < at;
    await importAll(imported);
    const statuses = outcomes.map(({ status }) => status).join();
    seen.add(statuses);
    expect([at, statuses, imported]).toEqual([at, statuses, statuses === 'retry,retry,retry' ? before : expected]);
    return isOver;
  });
  expect([...seen]).toEqual(['retry,retry,retry', 'created,updated,cancelled']);
});

test('a name that a foreign file has is not touched, and pauses the flow', async () => {
  const sample = sampleOf('award');
  const layout = await fresh({ name: 'awards_{sequence}' });
  await writeFile(join(root, 'awards_00000001.manifest.json'), 'theirs');
  const operations = [operation('create', sample, sample.versions[0])];
  expect(await layout.write(operations, never)).toMatchObject([{ status: 'retry', error: { type: 'config' } }]);
  expect(await readdir(root)).toEqual(['.sourcing-bridge', 'awards_00000001.manifest.json']);
  expect(await readdir(join(root, '.sourcing-bridge', 'staged'))).toEqual([]);
  expect(await readFile(join(root, 'awards_00000001.manifest.json'), 'utf8')).toBe('theirs');
});

test('a write that is repeated under its idempotency key changes nothing, in any process', async () => {
  const imported: Imported = new Map();
  const { operations, expected } = await prepare('award', imported);
  const layout = await fresh();
  const statuses = async (by: typeof layout) => (await by.write(operations, never)).map(({ status }) => status);
  expect(await statuses(layout)).toEqual(['created', 'updated', 'cancelled']);
  expect(await statuses(layout)).toEqual(['unchanged', 'unchanged', 'cancelled']);
  expect(await statuses(await fresh())).toEqual(['unchanged', 'unchanged', 'cancelled']);
  await importAll(imported);
  expect(imported).toEqual(expected);
});

test('a writer that is killed at any step, and the next process that is killed in its recovery, lose and double nothing', async () => {
  let killedTwice = 0;
  await atEachPoint(async (at) => {
    let isOver = false;
    // Every second point, and the others in the next round.
    for (let secondAt = 1 + (at % 2); !isOver; secondAt += 2) {
      root = await scratchRootOf();
      const imported: Imported = new Map();
      const { operations, expected } = await prepare('award', imported);
      const first = await dyingFolder(root, at);
      await layoutIn(first.folder).write(operations, never);
      const second = await dyingFolder(root, secondAt);
      await recover(layoutIn(second.folder), operations).catch(() => undefined);
      if (secondAt % 4 < 2) await importAll(imported);
      await recover(await fresh(), operations);
      await importAll(imported);
      expect([at, secondAt, imported]).toEqual([at, secondAt, expected]);
      isOver = second.count() < secondAt;
      killedTwice += 1;
      if (isOver && first.count() < at) return true;
    }
    return false;
  });
  expect(killedTwice).toBeGreaterThan(100);
});

// Without a manifest a batch has a single file here, and its name shows that it is complete.
describe.each(['json', 'none'] as const)('with manifest: %s', (manifest) => {
  const more = { manifest, format: 'jsonl' };
  const importFiles = manifest === 'json' ? importAll : importLines;

  test('a write of a process that is paused at any step is not repeated, although all records were merged', async () => {
    let pausedDuringMerges = 0;
    await atEachPoint(async (at) => {
      const imported: Imported = new Map();
      const { operations, expected } = await prepare('award', imported, more, importFiles);
      const { writeAndPause } = await pausedProcess('award', imported, expected, more, importFiles);
      const { resume, isOver } = await writeAndPause(at, operations);
      const other = await fresh(more);
      await recover(other, operations);
      for (let n = 10; n < 20; n += 1) {
        const sample = sampleOf('supplier', n);
        const [outcome] = await other.write([operation('create', sample, sample.versions[0])], never);
        expect(outcome).toMatchObject({ status: 'created' });
        if (n % 2 === 0) await importFiles(imported);
      }
      pausedDuringMerges += isOver ? 0 : 1;
      const outcomes = await resume();
      await recover(
        await fresh(more),
        operations.filter((_, index) => !('reference' in (outcomes[index] as Outcome))),
      );
      await importFiles(imported);
      for (const key of expected.keys()) expect([at, key, imported.get(key)]).toEqual([at, key, expected.get(key)]);
      expect(imported.size).toBe(expected.size + 10);
      expect(await readdir(join(root, '.sourcing-bridge', 'staged'))).toEqual([]);
      return isOver;
    });
    expect(pausedDuringMerges).toBeGreaterThan(10);
  });

  test('a lookup of a process that is paused at any step returns what is true when it continues, and loses nothing', async () => {
    await atEachPoint(async (at) => {
      const imported: Imported = new Map();
      const { operations, expected } = await prepare('award', imported, more, importFiles);
      // There is something to recover: a process was killed before the first of its files got its name.
      const local = await openLocalFolder(root);
      await layoutIn({ ...local, move: () => Promise.reject(new Error('killed')) }, more).write(operations, never);
      const { folder, untilPaused, resume } = await pausingFolder(at);
      const documents = operations.map(({ document }) => document);
      const looking = layoutIn(folder, more).lookup(documents, never);
      const isOver = await untilPaused(looking);
      const other = await fresh(more);
      await recover(other, operations);
      const sample = sampleOf('award', 5);
      const versions = [sample.versions[0], sample.versions[1], sample.versions[0], sample.versions[1]];
      for (const version of [...versions, ...versions]) await other.write([operation('amend', sample, version)], never);
      await importFiles(imported);
      resume();
      const found = await looking;
      for (const { action, document, contentHash } of operations)
        expect(found.find(({ key }) => key === document.key)?.contentHash).toBe(
          action === 'cancel' ? undefined : contentHash,
        );
      expect(await (await fresh(more)).lookup(documents, never)).toEqual(found);
      await importFiles(imported);
      for (const key of expected.keys()) expect([at, key, imported.get(key)]).toEqual([at, key, expected.get(key)]);
      expect(imported.get(sample.key)).toHaveLength(8);
      return isOver;
    });
  });
});

test('an interrupted batch is published before the next one, also when that has other documents', async () => {
  await atEachPoint(async (at) => {
    const [first, second] = [sampleOf('award', 0), sampleOf('award', 1)];
    const { folder, count } = await dyingFolder(root, at);
    await layoutIn(folder, { name: '{sequence}' }).write([operation('create', first, first.versions[0])], never);
    await (await fresh({ name: '{sequence}' })).write([operation('create', second, second.versions[0])], never);
    const manifests = (await readdir(root)).filter((name) => name.endsWith('.manifest.json')).sort();
    const keys = await Promise.all(
      manifests.map(async (name) => JSON.parse(await readFile(join(root, name), 'utf8')).documents[0].key as string),
    );
    // The first batch was recorded as a whole, or not at all.
    expect([[second.key], [first.key, second.key]]).toContainEqual(keys);
    const found = await (await fresh({ name: '{sequence}' })).lookup([first.versions[0]], never);
    expect([at, found.map(({ key }) => key)]).toEqual([at, keys.filter((key) => key === first.key)]);
    // No file appears later under an earlier number, and none stays staged.
    expect((await readdir(root)).filter((name) => name.endsWith('.manifest.json')).sort()).toEqual(manifests);
    expect(await readdir(join(root, '.sourcing-bridge', 'staged'))).toEqual([]);
    return count() < at;
  });
});

test('a record that another process has added meanwhile is not merged while its files are staged', async () => {
  let waited = 0;
  await atEachPoint(async (at) => {
    const imported: Imported = new Map();
    const samples = [sampleOf('award', 0), sampleOf('award', 1)];
    const [own, other] = samples.map((sample) => operation('create', sample, sample.versions[0])) as [
      Operation,
      Operation,
    ];
    const before = await fresh();
    for (let n = 10; n < 16; n += 1) {
      const sample = sampleOf('supplier', n);
      await before.write([operation('create', sample, sample.versions[0])], never);
    }
    const { folder, untilPaused, resume } = await pausingFolder(at);
    const writing = layoutIn(folder).write([own], never);
    const isOver = await untilPaused(writing);
    const local = await openLocalFolder(root);
    // The eighth record is the first that makes a merge possible.
    const move = (from: string, to: string) =>
      to.includes('_00000008') ? Promise.reject(new Error('killed')) : local.move(from, to);
    await layoutIn({ ...local, move }).write([other], never);
    const staged = await readdir(join(root, '.sourcing-bridge', 'staged'));
    if (staged.some((name) => name.startsWith('000000000008-'))) waited += 1;
    resume();
    const [outcome] = (await writing) as [Outcome];
    await recover(await fresh(), [...('reference' in outcome ? [] : [own]), other]);
    await importAll(imported);
    for (const { document, contentHash } of [own, other])
      expect([at, imported.get(document.key)]).toEqual([at, [`awarded ${contentHash}`]]);
    return isOver;
  });
  expect(waited).toBeGreaterThan(3);
});

/** Imports each JSON Lines file, and removes it. */
async function importLines(imported: Imported): Promise<void> {
  for (const name of (await readdir(root)).sort()) {
    if (!name.endsWith('.jsonl')) continue;
    for (const line of (await readFile(join(root, name), 'utf8')).split('\n').filter(Boolean)) {
      const { key, state, content_hash } = JSON.parse(line) as { key: string; state: string; content_hash: string };
      imported.set(key, [...(imported.get(key) ?? []), `${state} ${content_hash}`]);
    }
    await rm(join(root, name));
  }
}

/** Calls `run` for each step of a write, with a new folder, until `run` returns that the write had ended before. */
async function atEachPoint(run: (at: number) => Promise<boolean>): Promise<void> {
  let isOver = false;
  let at = 0;
  while (!isOver) {
    at += 1;
    root = await scratchRootOf();
    isOver = await run(at);
  }
  // A write has at least this many steps: staging, recording, publishing.
  expect(at).toBeGreaterThan(10);
}

/** A folder in which a process is paused before its n-th step. */
async function pausingFolder(at = Number.POSITIVE_INFINITY) {
  const { promise: resumed, resolve: resume } = Promise.withResolvers<void>();
  const { promise: paused, resolve: pause } = Promise.withResolvers<void>();
  let pausesAt = at;
  const { folder, count } = await interceptFolder(root, async (n) => {
    if (n !== pausesAt) return;
    pause();
    await resumed;
  });
  return {
    folder,
    /** Pauses it before the given number of further steps. */
    pauseAfter: (steps: number) => {
      pausesAt = count() + steps;
    },
    /** Waits until it is paused; returns true when the work has ended before. */
    untilPaused: (work: Promise<unknown>) => Promise.race([paused.then(() => false), work.then(() => true)]),
    resume: () => resume(),
  };
}

/** A process that has written before, and knows the journal as it was then. */
async function pausedProcess(
  kind: 'award' | 'file',
  imported: Imported,
  expected: Imported,
  more: Record<string, unknown> = {},
  importFiles = importAll,
) {
  const { folder, pauseAfter, untilPaused, resume } = await pausingFolder();
  const paused = layoutIn(folder, more);
  const other = sampleOf(kind, 3);
  await paused.write([operation('create', other, other.versions[0])], never);
  await importFiles(imported);
  expected.set(other.key, imported.get(other.key) ?? []);
  return {
    paused,
    writeAndPause: async (at: number, operations: readonly Operation[]) => {
      pauseAfter(at);
      const writing = paused.write(operations, never);
      const isOver = await untilPaused(writing);
      return {
        isOver,
        /** Lets the write continue; returns its outcomes. */
        resume: async () => {
          resume();
          return writing;
        },
      };
    },
  };
}

/** A new folder, in memory if there is room, because there are hundreds of them. */
let scratch: string | undefined;
let created = 0;
async function scratchRootOf(): Promise<string> {
  scratch ??= await mkdtemp(join(await findScratchRoot(tmpdir()), 'outbox-'));
  created += 1;
  return join(scratch, String(created));
}
afterAll(async () => {
  if (scratch !== undefined) await rm(scratch, { recursive: true, force: true });
});
