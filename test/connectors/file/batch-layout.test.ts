/** Batches that a reader takes away: each document once, whatever dies or sleeps in the middle of a write. */
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
import { dyingFolder, losingFolder, steerFolder } from './dying-folder.ts';
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

/** What the reader has imported: for each document what came, in its order. */
type Imported = Map<string, string[]>;

/** Imports what has a manifest, and removes it. */
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

/** Goes on as the bridge does after a kill: asks, and writes what is not in place. */
async function recover(layout: Awaited<ReturnType<typeof fresh>>, operations: readonly Operation[]) {
  let open = [...operations];
  for (let round = 0; open.length > 0 && round < 5; round += 1) {
    const found = new Map(
      (
        await layout.lookup(
          open.map(({ document }) => document),
          never,
        )
      ).map((one) => [one.key, one]),
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

/** What there is before, and what is then written: a creation, an amendment, a cancellation. */
async function prepare(
  kind: 'award' | 'file',
  imported: Imported,
  more: Record<string, unknown> = {},
  take = importAll,
) {
  const [created, amended, cancelled] = [0, 1, 2].map((n) => sampleOf(kind, n)) as [Sample, Sample, Sample];
  const layout = await fresh(more);
  const first = [amended, cancelled].map((sample) => operation('create', sample, sample.versions[0]));
  await layout.write(first, never);
  await take(imported);
  const operations = [
    operation('create', created, created.versions[0]),
    // To a batch it is as a creation; the bytes of each file are steps of their own, and each step is tried.
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
  // Before each thing that a write does to the folder, and after the last.
  test.each([true, false])(
    'that is killed anywhere is done once by the next process (the reader comes before it: %s)',
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

  test('in whose middle a process falls asleep is not done again when it wakes, after another has done it', async () => {
    await atEachPoint(async (at) => {
      const imported: Imported = new Map();
      const { operations, expected } = await prepare(kind, imported);
      const { sleeper, sleep } = await sleeperIn(kind, imported, expected);
      const { wake, isOver } = await sleep(at, operations);
      await recover(await fresh(), operations);
      await wake();
      // Now that it is awake, the bridge asks again what there is.
      await recover(await fresh(), operations);
      await importAll(imported);
      expect([at, imported]).toEqual([at, expected]);
      expect(await sleeper.lookup([], never)).toEqual([]);
      return isOver;
    });
  });
});

test('a write in whose middle a process falls asleep changes nothing any more once another was told what there is', async () => {
  await atEachPoint(async (at) => {
    const imported: Imported = new Map();
    const { operations } = await prepare('award', imported);
    const { sleep } = await sleeperIn('award', imported, new Map());
    const { wake, isOver } = await sleep(at, operations);
    const documents = operations.map(({ document }) => document);
    const found = await (await fresh()).lookup(documents, never);
    await wake();
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

test('what another process has told of, and has not done yet, is not taken for done', async () => {
  await atEachPoint(async (at) => {
    const imported: Imported = new Map();
    const { operations, expected } = await prepare('award', imported);
    const { sleep } = await sleeperIn('award', imported, expected);
    const { wake, isOver } = await sleep(at, operations);
    // It dies before the first of its files gets its name.
    const local = await openLocalFolder(root);
    await layoutIn({ ...local, move: () => Promise.reject(new Error('killed')) }).write(operations, never);
    const outcomes = await wake();
    await recover(
      await fresh(),
      operations.filter((_, index) => !('reference' in (outcomes[index] as Outcome))),
    );
    await importAll(imported);
    expect([at, imported]).toEqual([at, expected]);
    return isOver;
  });
});

test('a write in which an answer of the folder is lost anywhere, and which goes on, is done once', async () => {
  let unknown = 0;
  await atEachPoint(async (at) => {
    const imported: Imported = new Map();
    const { operations, expected } = await prepare('award', imported);
    const { folder, count } = await losingFolder(root, at);
    const layout = layoutIn(folder);
    const outcomes = await layout.write(operations, never);
    if (outcomes.some(({ status }) => status === 'unknown')) unknown += 1;
    const isOver = count() < at;
    // What is to be tried again is tried again without a question, as by the bridge; what is unknown is asked for.
    const again = operations.filter((_, index) => outcomes[index]?.status === 'retry');
    const second = again.length > 0 ? await layout.write(again, never) : [];
    await recover(
      layout,
      operations.filter(
        (one, index) => outcomes[index]?.status === 'unknown' || second[again.indexOf(one)]?.status === 'unknown',
      ),
    );
    await importAll(imported);
    expect([at, imported]).toEqual([at, expected]);
    return isOver;
  });
  expect(unknown).toBeGreaterThan(2);
});

test('two who write different documents in turn into one journal do not hold each other up for long', async () => {
  const [one, other] = [await fresh(), await fresh()];
  let refused = 0;
  for (let n = 0; n < 20; n += 1)
    for (const [layout, kind] of [
      [one, 'award'],
      [other, 'supplier'],
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

test('a write that is told to stop at any step is done or not done, as it says', async () => {
  const seen = new Set<string>();
  await atEachPoint(async (at) => {
    const imported: Imported = new Map();
    const { operations, expected } = await prepare('award', imported);
    const before: Imported = new Map(imported);
    const stop = new AbortController();
    const { folder, count } = await steerFolder(root, async (n) => {
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

test('a name that somebody else has is left alone, and pauses the flow', async () => {
  const sample = sampleOf('award');
  const layout = await fresh({ name: 'awards_{sequence}' });
  await writeFile(join(root, 'awards_00000001.manifest.json'), 'theirs');
  const operations = [operation('create', sample, sample.versions[0])];
  expect(await layout.write(operations, never)).toMatchObject([{ status: 'retry', error: { type: 'config' } }]);
  expect(await readdir(root)).toEqual(['.sourcing-bridge', 'awards_00000001.manifest.json']);
  expect(await readdir(join(root, '.sourcing-bridge', 'staged'))).toEqual([]);
  expect(await readFile(join(root, 'awards_00000001.manifest.json'), 'utf8')).toBe('theirs');
});

test('a write that is repeated under its idempotency key changes nothing, by whichever process', async () => {
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

test('a writer that is killed anywhere, and the next process too while it puts that right, lose and double nothing', async () => {
  let killedTwice = 0;
  await atEachPoint(async (at) => {
    let isOver = false;
    for (let then = 1; !isOver; then += 1) {
      root = await scratchRootOf();
      const imported: Imported = new Map();
      const { operations, expected } = await prepare('award', imported);
      const first = await dyingFolder(root, at);
      await layoutIn(first.folder).write(operations, never);
      const second = await dyingFolder(root, then);
      await recover(layoutIn(second.folder), operations).catch(() => undefined);
      if (then % 2 === 0) await importAll(imported);
      await recover(await fresh(), operations);
      await importAll(imported);
      expect([at, then, imported]).toEqual([at, then, expected]);
      isOver = second.count() < then;
      killedTwice += 1;
      if (isOver && first.count() < at) return true;
    }
    return false;
  });
  expect(killedTwice).toBeGreaterThan(200);
});

// Without a manifest there may be but one file, whose name is all that tells.
describe.each(['json', 'none'] as const)('with manifest: %s', (manifest) => {
  const more = { manifest, format: 'jsonl' };
  const take = manifest === 'json' ? importAll : importLines;

  test('a write in whose middle a process falls asleep is not done again, though all that was done was merged', async () => {
    let sleptThroughMerges = 0;
    await atEachPoint(async (at) => {
      const imported: Imported = new Map();
      const { operations, expected } = await prepare('award', imported, more, take);
      const { sleep } = await sleeperIn('award', imported, expected, more, take);
      const { wake, isOver } = await sleep(at, operations);
      const other = await fresh(more);
      await recover(other, operations);
      for (let n = 10; n < 20; n += 1) {
        const sample = sampleOf('supplier', n);
        const [outcome] = await other.write([operation('create', sample, sample.versions[0])], never);
        expect(outcome).toMatchObject({ status: 'created' });
        if (n % 2 === 0) await take(imported);
      }
      sleptThroughMerges += isOver ? 0 : 1;
      const outcomes = await wake();
      await recover(
        await fresh(more),
        operations.filter((_, index) => !('reference' in (outcomes[index] as Outcome))),
      );
      await take(imported);
      for (const key of expected.keys()) expect([at, key, imported.get(key)]).toEqual([at, key, expected.get(key)]);
      expect(imported.size).toBe(expected.size + 10);
      expect(await readdir(join(root, '.sourcing-bridge', 'staged'))).toEqual([]);
      return isOver;
    });
    expect(sleptThroughMerges).toBeGreaterThan(10);
  });

  test('a lookup in whose middle a process falls asleep answers what is so when it wakes, and loses nothing', async () => {
    await atEachPoint(async (at) => {
      const imported: Imported = new Map();
      const { operations, expected } = await prepare('award', imported, more, take);
      // There is something to put right: it dies before the first of its files gets its name.
      const local = await openLocalFolder(root);
      await layoutIn({ ...local, move: () => Promise.reject(new Error('killed')) }, more).write(operations, never);
      const { folder, asleep, awake } = await sleepingFolder(at);
      const documents = operations.map(({ document }) => document);
      const asking = layoutIn(folder, more).lookup(documents, never);
      const isOver = await asleep(asking);
      const other = await fresh(more);
      await recover(other, operations);
      const sample = sampleOf('award', 5);
      const versions = [sample.versions[0], sample.versions[1], sample.versions[0], sample.versions[1]];
      for (const version of [...versions, ...versions]) await other.write([operation('amend', sample, version)], never);
      await take(imported);
      awake();
      const found = await asking;
      for (const { action, document, contentHash } of operations)
        expect(found.find(({ key }) => key === document.key)?.contentHash).toBe(
          action === 'cancel' ? undefined : contentHash,
        );
      expect(await (await fresh(more)).lookup(documents, never)).toEqual(found);
      await take(imported);
      for (const key of expected.keys()) expect([at, key, imported.get(key)]).toEqual([at, key, expected.get(key)]);
      expect(imported.get(sample.key)).toHaveLength(8);
      return isOver;
    });
  });
});

test('what was interrupted comes before what is written next, also of other documents', async () => {
  await atEachPoint(async (at) => {
    const [first, second] = [sampleOf('award', 0), sampleOf('award', 1)];
    const { folder, count } = await dyingFolder(root, at);
    await layoutIn(folder, { name: '{sequence}' }).write([operation('create', first, first.versions[0])], never);
    await (await fresh({ name: '{sequence}' })).write([operation('create', second, second.versions[0])], never);
    const manifests = (await readdir(root)).filter((name) => name.endsWith('.manifest.json')).sort();
    const keys = await Promise.all(
      manifests.map(async (name) => JSON.parse(await readFile(join(root, name), 'utf8')).documents[0].key as string),
    );
    // It was committed, or it was not: there is nothing between.
    expect([[second.key], [first.key, second.key]]).toContainEqual(keys);
    const found = await (await fresh({ name: '{sequence}' })).lookup([first.versions[0]], never);
    expect([at, found.map(({ key }) => key)]).toEqual([at, keys.filter((key) => key === first.key)]);
    // Nothing comes later under an earlier number, and nothing waits.
    expect((await readdir(root)).filter((name) => name.endsWith('.manifest.json')).sort()).toEqual(manifests);
    expect(await readdir(join(root, '.sourcing-bridge', 'staged'))).toEqual([]);
    return count() < at;
  });
});

test('what another process has committed meanwhile is not merged while its files wait for their names', async () => {
  let waited = 0;
  await atEachPoint(async (at) => {
    const imported: Imported = new Map();
    const [mine, theirs] = [sampleOf('award', 0), sampleOf('award', 1)];
    const [my, their] = [mine, theirs].map((sample) => operation('create', sample, sample.versions[0])) as [
      Operation,
      Operation,
    ];
    const before = await fresh();
    for (let n = 10; n < 16; n += 1) {
      const sample = sampleOf('supplier', n);
      await before.write([operation('create', sample, sample.versions[0])], never);
    }
    const { folder, asleep, awake } = await sleepingFolder(at);
    const writing = layoutIn(folder).write([my], never);
    const isOver = await asleep(writing);
    const local = await openLocalFolder(root);
    // The eighth record: with it there is enough to merge.
    const move = (from: string, to: string) =>
      to.includes('_00000008') ? Promise.reject(new Error('killed')) : local.move(from, to);
    await layoutIn({ ...local, move }).write([their], never);
    const staged = await readdir(join(root, '.sourcing-bridge', 'staged'));
    if (staged.some((name) => name.startsWith('000000000008-'))) waited += 1;
    awake();
    const [outcome] = (await writing) as [Outcome];
    await recover(await fresh(), [...('reference' in outcome ? [] : [my]), their]);
    await importAll(imported);
    for (const { document, contentHash } of [my, their])
      expect([at, imported.get(document.key)]).toEqual([at, [`awarded ${contentHash}`]]);
    return isOver;
  });
  expect(waited).toBeGreaterThan(3);
});

/** Imports each file of lines, and removes it. */
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

/** Before each thing that a write does, until `run` says that it was over before. */
async function atEachPoint(run: (at: number) => Promise<boolean>): Promise<void> {
  let isOver = false;
  let at = 0;
  while (!isOver) {
    at += 1;
    root = await scratchRootOf();
    isOver = await run(at);
  }
  // As many as a write needs at least: staging, telling, naming.
  expect(at).toBeGreaterThan(10);
}

/** A folder in which a process falls asleep before the n-th thing that it does. */
async function sleepingFolder(at = Number.POSITIVE_INFINITY) {
  const { promise: awake, resolve: wake } = Promise.withResolvers<void>();
  const { promise: isAsleep, resolve: fallAsleep } = Promise.withResolvers<void>();
  let sleepsAt = at;
  const { folder, count } = await steerFolder(root, async (n) => {
    if (n !== sleepsAt) return;
    fallAsleep();
    await awake;
  });
  return {
    folder,
    /** Sleeps so many things from now on. */
    sleepIn: (steps: number) => {
      sleepsAt = count() + steps;
    },
    /** Waits until it sleeps; true when the work was over before. */
    asleep: (work: Promise<unknown>) => Promise.race([isAsleep.then(() => false), work.then(() => true)]),
    awake: () => wake(),
  };
}

/** A process that has written before: what it knows of the journal is from then. */
async function sleeperIn(
  kind: 'award' | 'file',
  imported: Imported,
  expected: Imported,
  more: Record<string, unknown> = {},
  take = importAll,
) {
  const { folder, sleepIn, asleep, awake } = await sleepingFolder();
  const sleeper = layoutIn(folder, more);
  const other = sampleOf(kind, 3);
  await sleeper.write([operation('create', other, other.versions[0])], never);
  await take(imported);
  expected.set(other.key, imported.get(other.key) ?? []);
  return {
    sleeper,
    sleep: async (at: number, operations: readonly Operation[]) => {
      sleepIn(at);
      const writing = sleeper.write(operations, never);
      const isOver = await asleep(writing);
      return {
        isOver,
        /** Gives what it answers. */
        wake: async () => {
          awake();
          return writing;
        },
      };
    },
  };
}

/** In memory, if there is room: of these there are hundreds. */
let scratch: string | undefined;
let made = 0;
async function scratchRootOf(): Promise<string> {
  scratch ??= await mkdtemp(join(await findScratchRoot(tmpdir()), 'outbox-'));
  made += 1;
  return join(scratch, String(made));
}
afterAll(async () => {
  if (scratch !== undefined) await rm(scratch, { recursive: true, force: true });
});
