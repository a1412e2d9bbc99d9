/** Batches that a reader takes away: each document once, whatever dies or sleeps in the middle of a write. */
import { createHash } from 'node:crypto';
import { mkdtemp, readdir, readFile, rm } from 'node:fs/promises';
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
import { scratchFolder } from '../../harness/programs.ts';
import { findScratchRoot } from '../../harness/scratch-root.ts';
import { dyingFolder, steerFolder } from './dying-folder.ts';
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
async function prepare(kind: 'award' | 'file', imported: Imported) {
  const [created, amended, cancelled] = [0, 1, 2].map((n) => sampleOf(kind, n)) as [Sample, Sample, Sample];
  const layout = await fresh();
  const first = [amended, cancelled].map((sample) => operation('create', sample, sample.versions[0]));
  await layout.write(first, never);
  await importAll(imported);
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

/** A process that has written before: what it knows of the journal is from then. */
async function sleeperIn(kind: 'award' | 'file', imported: Imported, expected: Imported) {
  const { promise: awake, resolve: wake } = Promise.withResolvers<void>();
  const { promise: asleep, resolve: fallAsleep } = Promise.withResolvers<void>();
  let sleepsAt = Number.POSITIVE_INFINITY;
  const { folder, count } = await steerFolder(root, async (n) => {
    if (n !== sleepsAt) return;
    fallAsleep();
    await awake;
  });
  const sleeper = layoutIn(folder);
  const other = sampleOf(kind, 3);
  await sleeper.write([operation('create', other, other.versions[0])], never);
  await importAll(imported);
  expected.set(other.key, imported.get(other.key) ?? []);
  return {
    sleeper,
    sleep: async (at: number, operations: readonly Operation[]) => {
      sleepsAt = count() + at;
      const writing = sleeper.write(operations, never);
      const isOver = await Promise.race([asleep.then(() => false), writing.then(() => true)]);
      return {
        isOver,
        /** Gives what it answers. */
        wake: async () => {
          wake();
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
