/**
 * Writes batches: each item is in exactly one batch for each time that the bridge had it written. batch-layout.ts says how,
 * step by step.
 */
import {
  ConfigError,
  type ConnectorContext,
  type Outcome,
  outcomeOf,
  stopped,
  TransientError,
  UnknownOutcome,
} from 'sourcing-bridge/connector';
import type { BatchFile, WriteFile } from './batch-files.ts';
import type { Folder } from './folder.ts';
import { createJournal, type Journal } from './journal.ts';
import { Overtaken } from './journal-errors.ts';
import type { Batch, Keyed, LastWrite } from './journal-lines.ts';
import { createStagedFiles, newBatchId, type StagedFiles } from './staged-files.ts';

const touchedMessage = 'another process has written it, or looked it up, meanwhile';

/** What is in a batch: an operation, or the news of a requisition. */
export interface BatchItem {
  readonly document: Keyed;
  readonly idempotencyKey: string;
}

/** The files of a batch, before they have their names. */
export interface ComposedBatch<Item> {
  /** Empty when none could be written, and then the batch is given up. */
  readonly written: readonly { readonly item: Item; readonly write: LastWrite }[];
  readonly refused: ReadonlyMap<Item, Outcome>;
  /** In the order in which the reader may see them. */
  readonly files: readonly BatchFile[];
}

export interface BatchForm<Item> {
  /** Writes the files. Throws what `write` throws, and TransientError once `signal` aborts. */
  readonly compose: (
    items: readonly Item[],
    numbered: { readonly sequence: number; readonly now: Date },
    write: WriteFile,
    signal: AbortSignal,
  ) => Promise<ComposedBatch<Item>>;
  /** The outcome of an item that is written now, or that an earlier attempt has written, whose answer was lost. */
  readonly outcomeOf: (item: Item, when: 'now' | 'before') => Outcome;
}

export interface BatchWriter<Item> {
  readonly journal: Journal;
  readonly staged: StagedFiles;
  readonly write: (items: readonly Item[], signal: AbortSignal) => Promise<Outcome[]>;
  /** Never fails. */
  readonly mergeJournal: (signal: AbortSignal) => Promise<void>;
}

/** The writer of batches whose journal is in the subfolder `journalPath`. */
export function createBatchWriter<Item extends BatchItem>(
  folder: Folder,
  journalPath: string,
  { clock, log }: Pick<ConnectorContext, 'clock' | 'log'>,
  form: BatchForm<Item>,
): BatchWriter<Item> {
  const journal = createJournal(folder, journalPath, () => clock.nowMs());
  const staged = createStagedFiles(folder, journalPath);

  async function write(items: readonly Item[], signal: AbortSignal): Promise<Outcome[]> {
    if (signal.aborted) return items.map(() => stopped);
    const outcomes = new Map<Item, Outcome>();
    try {
      const snapshot = await journal.read();
      await staged.finishInterrupted(snapshot);
      const documents = items.map(({ document }) => document);
      const known = await snapshot.find(documents);
      const touched = await snapshot.touchedByOthers(documents);
      for (const item of items) {
        const { document, idempotencyKey } = item;
        // An earlier attempt has written it, and its answer was lost.
        if (known.get(document)?.idempotencyKey === idempotencyKey) outcomes.set(item, form.outcomeOf(item, 'before'));
        else if (touched.has(document)) outcomes.set(item, outcomeOf(new Overtaken(touchedMessage)));
      }
      const wanted = items.filter((item) => !outcomes.has(item));
      if (wanted.length > 0) await writeBatch(wanted, snapshot.next, outcomes, signal);
      await mergeJournal(signal);
    } catch (error) {
      const outcome = signal.aborted && !(error instanceof UnknownOutcome) ? stopped : outcomeOf(error);
      for (const item of items) if (!outcomes.has(item)) outcomes.set(item, outcome);
    }
    return items.map((item) => outcomes.get(item) ?? stopped);
  }

  /** Steps 3 to 5; adds the outcomes to `outcomes`. */
  async function writeBatch(
    items: readonly Item[],
    sequence: number,
    outcomes: Map<Item, Outcome>,
    signal: AbortSignal,
  ): Promise<void> {
    const id = newBatchId(sequence);
    let count = 0;
    const stage: WriteFile = async (name, content, rows) => {
      count += 1;
      const { bytes, sha256 } = await staged.write(id, count - 1, content, signal);
      return { name, bytes, sha256, rows: rows?.() };
    };
    let composed: ComposedBatch<Item>;
    let batch: Batch;
    try {
      composed = await form.compose(items, { sequence, now: new Date(clock.nowMs()) }, stage, signal);
      for (const [item, outcome] of composed.refused) outcomes.set(item, outcome);
      if (composed.written.length === 0) return;
      await refuseTakenNames(composed.files);
      await staged.flush();
      if (signal.aborted) throw new TransientError('stopped before it was written');
      batch = { id, files: composed.files.map(({ name }) => name) };
      await journal.add(
        sequence,
        composed.written.map(({ item: { document }, write: last }) => ({ document, write: last })),
        batch,
      );
    } catch (error) {
      if (!(error instanceof UnknownOutcome)) await staged.discard(id, count);
      throw error;
    }
    await staged.publish(batch).catch((cause: unknown) => {
      const message = cause instanceof Error ? cause.message : String(cause);
      throw new UnknownOutcome(`the files of a batch did not get their names: ${message}`, { cause });
    });
    for (const { item } of composed.written) outcomes.set(item, form.outcomeOf(item, 'now'));
  }

  async function refuseTakenNames(files: readonly BatchFile[]): Promise<void> {
    const taken = await Promise.all(files.map(async ({ name }) => ((await folder.stat(name)) ? [name] : [])));
    const [name] = taken.flat();
    if (name !== undefined)
      throw new ConfigError(
        `${name} exists in ${folder.place} already, and this flow did not write it: ` +
          'give each flow its own settings.name, or its own directory.',
      );
  }

  /** Never fails, because the write has happened already. */
  async function mergeJournal(signal: AbortSignal): Promise<void> {
    try {
      if (!signal.aborted) await journal.merge(signal);
    } catch (error) {
      if (!signal.aborted)
        log.warn('the journal could not be merged; the next write retries', { reason: String(error) });
    }
  }

  return { journal, staged, write, mergeJournal };
}
