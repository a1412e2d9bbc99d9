/**
 * The layout `batch`: each write makes new files, which the reader imports and may then remove or move: an outbox. Each
 * document is in exactly one batch for each time that the bridge had it written.
 *
 * The words: a *batch* is the files of one write. Its last file is the *manifest*, which names the others. A file is
 * *staged* until it has its name. The *journal* has a *record* with the number of each batch (journal.ts).
 *
 * Example. Process A writes award X (content hash c1), then its new version (c2), and is killed in the second write:
 *
 *   A, write 1: The journal is empty, so the number is 1. A stages 000000000001-9f2c….0 (the CSV) and .1 (the manifest),
 *               adds record 1 (X is c1; both names), and moves the files to award_20300131T120000Z_00000001.csv and
 *               award_20300131T120000Z_00000001.manifest.json.
 *   A, write 2: A stages 000000000002-41b7….0 and .1, adds record 2 (X is c2), moves the CSV, and is killed. The reader
 *               sees award_20300131T120005Z_00000002.csv without a manifest, and waits.
 *   B, lookup:  The bridge starts process B and calls lookup(X). B reads records 1 and 2, so the next number is 3. It
 *               finds 000000000002-41b7….1 staged. Number 2 is taken, and record 2 has this id: B moves the file to
 *               award_20300131T120005Z_00000002.manifest.json, adds record 3 with its answer (X is c2), and returns c2.
 *               The bridge settles write 2 as done. The reader imports each version once.
 *
 * If A is killed before it adds record 2, number 2 is still free, and B leaves the staged files alone: A might only be
 * slow. B takes number 2 for its answer (X is c1), and the bridge has c2 written again, as batch 3. In that write, B
 * finds number 2 taken by a record without this id, and removes the staged files. If A was only slow, it cannot add
 * record 2 any more.
 *
 * The steps of a write, and what a kill after each of them leaves:
 *
 * 1. Read the journal. The next number, N, is to be the number of the batch.
 * 2. Finish what was interrupted: publish the staged files of the newest batch. (Killed: the next process continues.)
 * 3. Stage the files as `staged/<N>-<random>.<index>`, and flush them. (Killed: staged files that no record names. The
 *    next process that finds N taken removes them.)
 * 4. Add record N to the journal, with the documents and the names of the files: a single link, which fails when
 *    another process has N. From here on the batch is written. (Killed: the next process does step 5.)
 * 5. Publish: move each file to its name, in one step each, the manifest last. (Killed: the next process moves the rest.
 *    A file is either staged or under its name, so none comes twice, even if the reader has removed it by then.)
 *
 * A process adds a record only after it has published the batch before it. So only files of the newest batch can be
 * staged and recorded.
 *
 * A lookup does steps 1 and 2, and then takes the next number with a record of its answer. A process that stood still
 * before step 4, however long, finds its number taken when it continues, and writes nothing: the answer of the lookup
 * stays true. A process that stood still after step 4 finds its files moved. A process that stood still before step 1,
 * and has read the journal earlier, sees which documents others have written or looked up since then. It returns
 * `retry` for them, so that the bridge decides again.
 */
import type { ConnectorContext, Document, Found, Operation, PlannedOperation } from 'sourcing-bridge/connector';
import { type BatchContent, bytesPathIn, defaultBatchName, writeBatchFiles } from './batch-files.ts';
import { createBatchWriter } from './batch-writer.ts';
import type { Folder } from './folder.ts';
import { MergedMeanwhile, Overtaken } from './journal-errors.ts';
import { neverWritten } from './journal-lines.ts';
import type { FileSettings } from './settings.ts';

const lookupAttemptsMax = 5;

/** The layout `batch` in a folder. */
export function createBatchLayout(folder: Folder, settings: FileSettings, context: ConnectorContext) {
  const { clock } = context;
  const { journal, staged, write, mergeJournal } = createBatchWriter<Operation>(folder, settings.journal, context, {
    compose: async (operations, numbered, writeFile, signal) => {
      const content = await writeBatchFiles(operations, numbered, settings, writeFile, signal);
      return { written: writesOf(content), refused: content.refused, files: content.files };
    },
    outcomeOf: ({ action, document }, when) => {
      const reference = referenceOf(document);
      if (when === 'before') return { status: action === 'cancel' ? 'cancelled' : 'unchanged', reference };
      return { status: done[action], reference };
    },
  });

  async function lookupOnce(documents: readonly Document[], signal: AbortSignal): Promise<Found[]> {
    const snapshot = await journal.read();
    await staged.finishInterrupted(snapshot);
    const known = await snapshot.find(documents);
    await journal.add(
      snapshot.next,
      documents.map((document) => ({ document, write: known.get(document) ?? neverWritten })),
    );
    await mergeJournal(signal);
    return documents.flatMap((document) => {
      const last = known.get(document);
      if (!last || last.state === 'withdrawn') return [];
      return [{ key: document.key, reference: referenceOf(document), contentHash: last.contentHash }];
    });
  }

  async function lookup(documents: readonly Document[], signal: AbortSignal): Promise<Found[]> {
    for (let attempts = 1; ; attempts += 1) {
      try {
        return await lookupOnce(documents, signal);
      } catch (error) {
        const willPass = error instanceof Overtaken || error instanceof MergedMeanwhile;
        if (!willPass || attempts === lookupAttemptsMax) throw error;
      }
    }
  }

  return {
    write,
    lookup,
    plan: async (operations: readonly Operation[]): Promise<PlannedOperation[]> => {
      const now = new Date(clock.nowMs());
      return operations.map((operation) => planOf(operation, settings, { place: folder.place, now }));
    },
  };
}

function planOf(
  operation: Operation,
  settings: FileSettings,
  { place, now }: { place: string; now: Date },
): PlannedOperation {
  const { action, document } = operation;
  const file = `${(settings.name ?? defaultBatchName).replace('{kind}', document.kind)}.${settings.format}`;
  const lines = 'lines' in document && document.lines.length > 0 ? `${document.lines.length} lines of ` : '';
  const word = { create: '', amend: 'the new state of ', cancel: 'the withdrawal of ' }[action];
  const bytes = operation.file && bytesPathIn(operation, settings, now, '<sequence>');
  const steps = [
    `Write ${word}${lines}${document.kind} ${document.key} into a new file ${file} in ${place}`,
    ...(bytes === undefined ? [] : [`Write its bytes to ${bytes}`]),
  ];
  return { key: document.key, action, steps };
}

/** The reference names the document: its files are new with each write, and the reader removes them. */
function referenceOf({ kind, key }: Document): string {
  return `${kind} ${key}`;
}

const done = { create: 'created', amend: 'updated', cancel: 'cancelled' } as const;

/** The entries of the journal for the documents of a batch. */
function writesOf({ entries, main }: BatchContent) {
  return entries.map(({ operation, state }) => ({
    item: operation,
    write: {
      contentHash: operation.contentHash,
      state,
      idempotencyKey: operation.idempotencyKey,
      reference: main,
    },
  }));
}
