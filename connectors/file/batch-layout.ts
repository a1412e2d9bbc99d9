/**
 * The layout `batch`: each write gives new files, which the reader takes in and may remove or move: an outbox. Each
 * document stands in exactly one of them for each time that the bridge had it written.
 *
 * A write, and what a kill after each step leaves:
 *
 * 1. Read the journal. The next number, N, is to be the batch's.
 * 2. Finish what was interrupted: files of the newest batch that have no names yet get them. (Killed: the next process
 *    goes on with it.)
 * 3. Write the files under `staged/<N>-<random>.<part>`, and flush them. (Killed: parts that no record tells of. The next
 *    process that finds N taken removes them.)
 * 4. Add record N to the journal, with the documents and the names that the files get: one link, which fails if anybody
 *    has N. From here on the batch has been written. (Killed: the next process does step 5.)
 * 5. Move each file to its name, in one step each, the manifest last. (Killed: likewise. A file is in `staged` or under
 *    its name, so none comes twice, though the reader may have taken it away by then.)
 *
 * Whoever adds a record has finished the one before: no file waits for its name but those of the newest.
 *
 * `lookup` does 1 and 2, and then takes the next number with a record of what it answers. Whoever sleeps before step 4,
 * however long, finds its number taken when it wakes, and writes nothing: what `lookup` has answered stays true. Who
 * sleeps after it finds its files moved. And who slept before step 1, and has read the journal before, sees what others
 * have written or were told of since then, and lets the bridge think again.
 */
import { createHash, randomBytes } from 'node:crypto';
import {
  ConfigError,
  type ConnectorContext,
  type Document,
  type Found,
  type Operation,
  type Outcome,
  outcomeOf,
  type PlannedOperation,
  stopped,
  TransientError,
  UnknownOutcome,
} from 'sourcing-bridge/connector';
import {
  type BatchContent,
  type BatchFile,
  batchNameByDefault,
  bytesPathIn,
  type WriteFile,
  writeBatchFiles,
} from './batch-files.ts';
import { type Content, type Folder, joined, NoSuchFile } from './folder.ts';
import { type Batch, createJournal, MergedMeanwhile, neverWritten, Overtaken, type Snapshot } from './journal.ts';
import type { FileSettings } from './settings.ts';

const triesToLookUp = 5;
const touchedMessage = 'another process has written it, or asked for it, meanwhile';
const partName = /^((\d{12})-[0-9a-f]{16})\.\d+$/;

export function createBatchLayout(folder: Folder, settings: FileSettings, { clock, log }: ConnectorContext) {
  const journal = createJournal(folder, settings.journal, () => clock.nowMs());
  const staged = joined(settings.journal, 'staged');
  const partPath = (id: string, part: number) => joined(staged, `${id}.${part}`);

  async function write(operations: readonly Operation[], signal: AbortSignal): Promise<Outcome[]> {
    if (signal.aborted) return operations.map(() => stopped);
    const outcomes = new Map<Operation, Outcome>();
    try {
      const journaled = await journal.read();
      await finishInterrupted(journaled);
      const documents = operations.map(({ document }) => document);
      const known = await journaled.find(documents);
      const touched = await journaled.touchedByOthers(documents);
      for (const operation of operations) {
        const { action, document, idempotencyKey } = operation;
        // It was written, and the answer was lost.
        if (known.get(document)?.idempotencyKey === idempotencyKey)
          outcomes.set(operation, {
            status: action === 'cancel' ? 'cancelled' : 'unchanged',
            reference: referenceOf(document),
          });
        else if (touched.has(document)) outcomes.set(operation, outcomeOf(new Overtaken(touchedMessage)));
      }
      const wanted = operations.filter((operation) => !outcomes.has(operation));
      if (wanted.length > 0) await writeBatch(wanted, journaled.next, outcomes, signal);
      await tidy(signal);
    } catch (error) {
      const outcome = signal.aborted && !(error instanceof UnknownOutcome) ? stopped : outcomeOf(error);
      for (const operation of operations) if (!outcomes.has(operation)) outcomes.set(operation, outcome);
    }
    return operations.map((operation) => outcomes.get(operation) ?? stopped);
  }

  /** Steps 3 to 5. */
  async function writeBatch(
    operations: readonly Operation[],
    sequence: number,
    outcomes: Map<Operation, Outcome>,
    signal: AbortSignal,
  ): Promise<void> {
    const id = `${String(sequence).padStart(12, '0')}-${randomBytes(8).toString('hex')}`;
    let parts = 0;
    const stage: WriteFile = async (name, content, rows) => {
      const seen = { bytes: 0, hash: createHash('sha256') };
      parts += 1;
      await folder.write(partPath(id, parts - 1), counted(content, seen), signal);
      return { name, bytes: seen.bytes, sha256: seen.hash.digest('hex'), rows: rows?.() };
    };
    let content: BatchContent;
    let batch: Batch;
    try {
      const now = new Date(clock.nowMs());
      content = await writeBatchFiles(operations, { sequence, now }, settings, stage, signal);
      for (const [operation, outcome] of content.refused) outcomes.set(operation, outcome);
      if (content.entries.length === 0) return;
      await refuseTaken(content.files);
      // What the journal tells of must be there after a power cut, too.
      await folder.flush(staged);
      if (signal.aborted) throw new TransientError('stopped before it was written');
      batch = { id, files: content.files.map(({ name }) => name) };
      await journal.add(sequence, writesOf(content), batch);
    } catch (error) {
      if (!(error instanceof UnknownOutcome)) await discard(id, parts);
      throw error;
    }
    await publish(batch).catch((cause: unknown) => {
      const message = cause instanceof Error ? cause.message : String(cause);
      throw new UnknownOutcome(`the files of a batch did not get their names: ${message}`, { cause });
    });
    for (const { operation } of content.entries)
      outcomes.set(operation, { status: done[operation.action], reference: referenceOf(operation.document) });
  }

  async function refuseTaken(files: readonly BatchFile[]): Promise<void> {
    const taken = await Promise.all(files.map(async ({ name }) => ((await folder.look(name)) ? [name] : [])));
    const [name] = taken.flat();
    if (name !== undefined)
      throw new ConfigError(
        `${name} is in ${folder.place} already, and not of this flow: give each flow its own settings.name, or its own directory.`,
      );
  }

  /** Step 5, for those of the files that nobody has moved yet. */
  async function publish({ id, files }: Batch): Promise<void> {
    for (const [part, name] of files.entries())
      await folder.move(partPath(id, part), name).catch((error: unknown) => {
        if (!(error instanceof NoSuchFile)) throw error;
      });
  }

  /** What stays is removed by `finishInterrupted` later. */
  async function discard(id: string, parts: number): Promise<void> {
    for (let part = 0; part < parts; part += 1) await folder.remove(partPath(id, part)).catch(() => undefined);
  }

  /** Step 2. Parts of a number that is free yet are somebody's who is at step 3; others than the newest batch's are waste. */
  async function finishInterrupted({ next, newestBatch }: Snapshot): Promise<void> {
    const parts = (await folder.list(staged)).flatMap((name) => {
      const [, id, sequence] = partName.exec(name) ?? [];
      return id !== undefined && Number(sequence) < next ? [{ name, id }] : [];
    });
    if (parts.length === 0) return;
    const batch = await newestBatch();
    if (batch && parts.some(({ id }) => id === batch.id)) await publish(batch);
    for (const { name, id } of parts) if (id !== batch?.id) await folder.remove(joined(staged, name));
  }

  /** Never fails a write that has happened. */
  async function tidy(signal: AbortSignal): Promise<void> {
    try {
      if (!signal.aborted) await journal.merge(signal);
    } catch (error) {
      if (!signal.aborted) log.warn('the journal could not be merged; it is tried again', { reason: String(error) });
    }
  }

  async function lookupOnce(documents: readonly Document[], signal: AbortSignal): Promise<Found[]> {
    const journaled = await journal.read();
    await finishInterrupted(journaled);
    const known = await journaled.find(documents);
    await journal.add(
      journaled.next,
      documents.map((document) => ({ document, write: known.get(document) ?? neverWritten })),
    );
    await tidy(signal);
    return documents.flatMap((document) => {
      const last = known.get(document);
      if (!last || last.state === 'withdrawn') return [];
      return [{ key: document.key, reference: referenceOf(document), contentHash: last.contentHash }];
    });
  }

  return {
    write,
    lookup: async (documents: readonly Document[], signal: AbortSignal): Promise<Found[]> => {
      for (let tries = 1; ; tries += 1) {
        try {
          return await lookupOnce(documents, signal);
        } catch (error) {
          const isPassed = error instanceof Overtaken || error instanceof MergedMeanwhile;
          if (!isPassed || tries === triesToLookUp) throw error;
        }
      }
    },
    plan: async (operations: readonly Operation[]): Promise<PlannedOperation[]> => {
      const kind = operations[0]?.document.kind ?? '';
      const file = `${(settings.name ?? batchNameByDefault).replace('{kind}', kind)}.${settings.format}`;
      const now = new Date(clock.nowMs());
      return operations.map((operation) => {
        const { action, document } = operation;
        const lines = 'lines' in document && document.lines.length > 0 ? `${document.lines.length} lines of ` : '';
        const word = { create: '', amend: 'the new state of ', cancel: 'the withdrawal of ' }[action];
        const bytes = operation.file && bytesPathIn(operation, settings, now, '<sequence>');
        const steps = [
          `Write ${word}${lines}${document.kind} ${document.key} into a new file ${file} in ${folder.place}`,
          ...(bytes === undefined ? [] : [`Write its bytes to ${bytes}`]),
        ];
        return { key: document.key, action, steps };
      });
    },
  };
}

/** Its files go, and each write gives another: what stays the same is the document. */
function referenceOf({ kind, key }: Document): string {
  return `${kind} ${key}`;
}

const done = { create: 'created', amend: 'updated', cancel: 'cancelled' } as const;

/** What the journal keeps of them. */
function writesOf({ entries, main }: BatchContent) {
  return entries.map(({ operation: { document, contentHash, idempotencyKey }, state }) => ({
    document,
    write: { contentHash, state, idempotencyKey, reference: main },
  }));
}

async function* counted(
  content: Content,
  seen: { bytes: number; hash: ReturnType<typeof createHash> },
): AsyncGenerator<Uint8Array> {
  for await (const piece of content instanceof Uint8Array ? [content] : content) {
    seen.bytes += piece.length;
    seen.hash.update(piece);
    yield piece;
  }
}
