/**
 * The journal: what the connector has written last for each document, kept beside the files because the reader takes
 * the files away. In the layout `batch` it also decides which of several processes writes the next batch; in the layout
 * `document` it only keeps the names that a template has given.
 *
 * The words: a *record* is one entry of the journal, numbered from 1 without a gap. A record has a line for each of
 * some documents. It stands for a *batch* (the files of one write, see batch-layout.ts), or for a lookup, whose answer
 * it repeats. A *log file* contains one record or several merged ones. Log files are in `<settings.journal>/log`:
 *
 * - `000000000007-000000000007.jsonl` is record 7. It is written under a temporary name, flushed, and then linked to this
 *   name. Of several processes that want number 7 one succeeds, and a file that has the name is complete. That link
 *   commits a batch.
 * - `000000000001-000000000008.jsonl` has records 1 to 8, merged: the newest line of each document, sorted. The oldest
 *   eight files of one size make one of the next size. So of two files either one contains all records of the other,
 *   which then does not count and is removed, or they have no record in common. The newest record is never merged.
 *
 * A kill during a merge leaves a temporary file, which is ignored, or files that another one contains. A process that
 * stood still during a merge may find the name of its number free again and take it. Its record then does not count,
 * because a merged file contains that number.
 */
import { TransientError, UnknownOutcome } from 'sourcing-bridge/connector';
import { addFile, type Folder, joinPath, removeLeftovers } from './folder.ts';
import { MergedMeanwhile, Overtaken } from './journal-errors.ts';
import { type Batch, hashOf, type JournalLine, type Keyed, type LastWrite, recordText } from './journal-lines.ts';
import {
  findLine,
  type LogFile,
  linesOf,
  logNameOf,
  type OpenLogFile,
  openLogFile,
  sortLogFiles,
} from './log-files.ts';
import { filesToMerge, mergedLines } from './merge-log.ts';

/** The journal at the time when it was read. Later records have higher numbers. */
export interface Snapshot {
  /** The number of the next record. */
  readonly next: number;
  /**
   * Which of these documents other processes have written, or looked up, since this process last read the journal or
   * added a record; none at its first read. Throws Overtaken.
   */
  readonly touchedByOthers: <Item extends Keyed>(documents: readonly Item[]) => Promise<ReadonlySet<Item>>;
  /** The last write of each of these documents, where there is one. Throws Overtaken. */
  readonly find: <Item extends Keyed>(documents: readonly Item[]) => Promise<Map<Item, LastWrite>>;
  /** The batch of the newest record, if it has one. Throws Overtaken. */
  readonly newestBatch: () => Promise<Batch | undefined>;
}

export interface Journal {
  /** Throws TransientError when records that this process has seen are missing. */
  read(): Promise<Snapshot>;
  /**
   * Adds a record under the number that was next. Throws Overtaken when the number is taken, and UnknownOutcome (such
   * as MergedMeanwhile) when it is not known whether the record counts. After any other error it does not count.
   */
  add(
    sequence: number,
    writes: readonly { readonly document: Keyed; readonly write: LastWrite }[],
    batch?: Batch,
  ): Promise<void>;
  /** Merges files where there are enough of one size, but never the newest record, whose batch is still needed. */
  merge(signal: AbortSignal): Promise<void>;
}

/**
 * A withdrawn document leaves the oldest file after this many records, so that a process that reads the journal seldom
 * still sees the withdrawal.
 */
const recordsRemembered = 64;
const searchesAtOnce = 16;
const listAttemptsMax = 3;
const leftovers = /^\.\d{12}-\d{12}\.jsonl\.[0-9a-f]+\.tmp$/;

/** The journal in the subfolder `path` of a folder. */
export function createJournal(folder: Folder, path: string, nowMs: () => number): Journal {
  const log = joinPath(path, 'log');
  let opened = new Map<string, OpenLogFile>();
  /** The last record that this process knows of; undefined until it has read the journal. */
  let lastSeen: number | undefined;
  let hasRemovedLeftovers = false;

  /** The files that count, oldest first, and those whose records another one contains. */
  async function list(): Promise<{ files: LogFile[]; contained: LogFile[]; last: number }> {
    if (!hasRemovedLeftovers) await removeLeftovers(folder, log, leftovers, nowMs());
    hasRemovedLeftovers = true;
    for (let attempts = 1; ; attempts += 1) {
      const { files, contained, last, isComplete } = sortLogFiles(await folder.list(log));
      if (isComplete && last >= (lastSeen ?? 0)) {
        opened = new Map([...opened].filter(([name]) => files.some((file) => file.name === name)));
        return { files, contained, last };
      }
      // A folder that is listed during a merge may show neither the old files nor the new one.
      if (attempts === listAttemptsMax)
        throw new TransientError(
          `The journal ${log} in ${folder.place} has lost records (after record ${last}): is it the right folder?`,
        );
    }
  }

  async function open(file: LogFile): Promise<OpenLogFile> {
    const known = opened.get(file.name);
    if (known) return known;
    const logFile = await openLogFile(folder, log, file);
    opened.set(file.name, logFile);
    return logFile;
  }

  async function find<Item extends Keyed>(
    files: readonly LogFile[],
    documents: readonly Item[],
  ): Promise<Map<Item, JournalLine>> {
    const found = new Map<Item, JournalLine>();
    const newestFirst = await Promise.all(files.toReversed().map(open));
    for (const file of newestFirst) {
      const wanted = documents.filter((document) => !found.has(document));
      const search = async (document: Item) => {
        const line = await findLine(file, hashOf(document));
        if (line) found.set(document, line);
      };
      for (let from = 0; from < wanted.length; from += searchesAtOnce)
        await Promise.all(wanted.slice(from, from + searchesAtOnce).map(search));
    }
    return found;
  }

  return {
    read: async () => {
      const { files, last } = await list();
      const before = lastSeen ?? last;
      const newer = files.filter((file) => file.last > before);
      lastSeen = last;
      return {
        next: last + 1,
        touchedByOthers: async (documents) => {
          const lines = await find(newer, documents);
          // A merged file may have forgotten a withdrawal that this process has not seen.
          const mayBeForgotten = newer.some(({ first, last }) => first === 1 && before < last - recordsRemembered);
          const isTouched = (line: JournalLine | undefined) => (line ? line.sequence > before : mayBeForgotten);
          return new Set(documents.filter((document) => isTouched(lines.get(document))));
        },
        find: (documents) => find(files, documents),
        newestBatch: async () => {
          const newest = files.at(-1);
          return newest && (await open(newest)).batch;
        },
      };
    },
    add: async (sequence, writes, batch) => {
      const name = logNameOf(sequence, sequence);
      const text = recordText(sequence, writes, batch);
      if (!(await addFile(folder, joinPath(log, name), Buffer.from(text))))
        throw new Overtaken(`another process writes to ${folder.place} at the same time: nothing was written`);
      const { files } = await list().catch((cause: unknown) => {
        throw new UnknownOutcome(`record ${sequence} was added, but then: ${String(cause)}`, { cause });
      });
      if (!files.some((file) => file.name === name))
        throw new MergedMeanwhile(`another process has merged record ${sequence} meanwhile`);
      lastSeen = sequence;
    },
    merge: async (signal) => {
      for (;;) {
        const { files, contained } = await list();
        for (const file of contained) await folder.remove(joinPath(log, file.name));
        const group = filesToMerge(files.slice(0, -1));
        const [oldest] = group;
        const newest = group.at(-1);
        if (!oldest || !newest) return;
        const readers = group.map((file) => linesOf(folder, log, file));
        const forgetUpTo = oldest.first === 1 ? newest.last - recordsRemembered : 0;
        // When another process has added the same file, the next turn removes the files that it contains.
        const name = logNameOf(oldest.first, newest.last);
        await addFile(folder, joinPath(log, name), mergedLines(readers, forgetUpTo, signal));
      }
    },
  };
}
