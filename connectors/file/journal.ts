/**
 * What was written, for a folder whose files the reader takes away: a log of records, numbered from 1 without a gap. A
 * record has a line for each of some documents, with what was written last of each when it was added: it tells of a batch,
 * or of an answer that was given, which it repeats.
 *
 * - `000000000007-000000000007.jsonl` is record 7. It is written under another name, flushed, and then linked to this one:
 *   of several who want the number one gets it, and what has the name is whole. That link is what commits a batch.
 * - `000000000001-000000000008.jsonl` holds records 1 to 8, merged: of each document the newest line, sorted. The oldest
 *   eight files of one size make one of the next. So of any two files either one holds all records of the other, and the
 *   other counts no more and is removed, or they have none in common. The newest record is never merged.
 *
 * A kill in a merge leaves a part under a name that is not looked at, or files that another holds. Whoever slept through a
 * merge may find the name of its number free again, and takes it in vain: a merged file holds that number. No file changes
 * while it has its name, and memory holds none but small ones, however many documents there are.
 */
import { createHash } from 'node:crypto';
import { type Document, TransientError, UnknownOutcome } from 'sourcing-bridge/connector';
import { addFile, type Folder, joined, removeLeftovers } from './folder.ts';

/** What the journal has of a document. */
export interface LastWrite {
  readonly contentHash: string;
  /** Of `withdrawn`, nothing is held. */
  readonly state: string;
  readonly idempotencyKey: string;
  readonly reference: string;
}

/** Of a document that was never written. */
export const neverWritten: LastWrite = { contentHash: '', state: 'withdrawn', idempotencyKey: '', reference: '' };

interface Line extends LastWrite {
  /** Of the record that it comes from. */
  readonly sequence: number;
}

/** What a record says of its batch, beside the documents. */
export interface Batch {
  readonly id: string;
  /** The names of its files, in the order in which they get them. */
  readonly files: readonly string[];
}

/** Another process has the number, or has merged what was to be read: nothing was done. */
export class Overtaken extends TransientError {}

/** A record was added, and is in no file of its own: it was taken in vain, or another process has merged it already. */
export class MergedMeanwhile extends UnknownOutcome {}

/** The journal as it is when it is read. What comes after stands under higher numbers. */
export interface Snapshot {
  /** The number that the next record gets. */
  readonly next: number;
  /**
   * Which of these other processes have written, or were told of, since this one has read or added a record; none at its
   * first look. Throws Overtaken.
   */
  readonly touchedByOthers: (documents: readonly Document[]) => Promise<ReadonlySet<Document>>;
  /** The last write of each of these, where there is one. Throws Overtaken. */
  readonly find: (documents: readonly Document[]) => Promise<Map<Document, LastWrite>>;
  /** The batch of the newest record, if it has one. Throws Overtaken. */
  readonly newestBatch: () => Promise<Batch | undefined>;
}

export interface Journal {
  /** Throws TransientError when the journal has lost what it had. */
  read(): Promise<Snapshot>;
  /**
   * Adds a record under the number that was next. Throws Overtaken when it is taken, UnknownOutcome (as
   * MergedMeanwhile) when it cannot be told whether the record counts; after anything else it does not.
   */
  add(
    sequence: number,
    writes: readonly { readonly document: Document; readonly write: LastWrite }[],
    batch?: Batch,
  ): Promise<void>;
  /** Merges where there is enough to merge; not the newest record, whose batch is still needed. */
  merge(signal: AbortSignal): Promise<void>;
}

/** A file of the log: its first and its last record. */
interface LogFile {
  readonly first: number;
  readonly last: number;
  readonly name: string;
}

/** A file that is read from: a small one is kept whole. */
interface Opened {
  readonly batch: Batch | undefined;
  /** Where its lines begin and end, in bytes. */
  readonly from: number;
  readonly to: number;
  read(from: number, to: number): Promise<Buffer>;
}

/** So many files of one size are merged into one. */
const mergedAtOnce = 8;
/** Files up to this size are read whole, and kept. */
const smallBytes = 256 * 1024;
/** No line is longer: it has hashes, and names of files. */
const lineBytesMax = 4 * 1024;
/** What is withdrawn leaves the oldest file after so many records, for those who look seldom. */
const rememberedFor = 64;
const searchesAtOnce = 16;
const triesToList = 3;
const lineStart = '{"hash":"';
const hashLength = 32;
const batchStart = '{"batch":';
const logFile = /^(\d{12})-(\d{12})\.jsonl$/;
const leftovers = /^\.\d{12}-\d{12}\.jsonl\.[0-9a-f]+\.tmp$/;

export function createJournal(folder: Folder, path: string, nowMs: () => number): Journal {
  const log = joined(path, 'log');
  const pathOf = ({ name }: LogFile) => joined(log, name);
  let opened = new Map<string, Opened>();
  /** The last record that this process knows of; undefined until it has looked. */
  let seen: number | undefined;
  let isTidy = false;

  /** The files that count, oldest first, and those that another one holds. */
  async function list(): Promise<{ files: LogFile[]; held: LogFile[]; last: number }> {
    if (!isTidy) await removeLeftovers(folder, log, leftovers, nowMs());
    isTidy = true;
    for (let tries = 1; ; tries += 1) {
      const all = (await folder.list(log)).flatMap((name): LogFile[] => {
        const [, first, last] = logFile.exec(name) ?? [];
        return first === undefined || last === undefined ? [] : [{ first: Number(first), last: Number(last), name }];
      });
      // The largest of those that begin together comes first.
      all.sort((one, other) => one.first - other.first || other.last - one.last);
      const [files, held]: [LogFile[], LogFile[]] = [[], []];
      let last = 0;
      for (const file of all) {
        if (file.last <= last) held.push(file);
        else if (file.first === last + 1) last = files[files.push(file) - 1]?.last ?? last;
        else break;
      }
      if (files.length + held.length === all.length && last >= (seen ?? 0)) {
        opened = new Map([...opened].filter(([name]) => files.some((file) => file.name === name)));
        return { files, held, last };
      }
      // A folder that is listed while somebody merges may show neither the old files nor the new one.
      if (tries === triesToList)
        throw new TransientError(
          `The journal ${log} in ${folder.place} has lost what it had (after record ${last}): is the right folder there?`,
        );
    }
  }

  async function open(file: LogFile): Promise<Opened> {
    const kept = opened.get(file.name);
    if (kept) return kept;
    const isRecord = file.first === file.last;
    const start = await folder.read(pathOf(file), isRecord ? undefined : { from: 0, to: smallBytes });
    if (start === undefined) throw merged(file);
    const made = isRecord || start.length < smallBytes ? openedWhole(Buffer.from(start)) : await openedInPart(file);
    opened.set(file.name, made);
    return made;
  }

  async function openedInPart(file: LogFile): Promise<Opened> {
    const to = (await folder.look(pathOf(file)))?.bytes;
    if (to === undefined) throw merged(file);
    const read = async (from: number, end: number) => {
      const bytes = await folder.read(pathOf(file), { from, to: end });
      if (bytes === undefined) throw merged(file);
      return Buffer.from(bytes.buffer, bytes.byteOffset, bytes.length);
    };
    return { batch: undefined, from: 0, to, read };
  }

  const merged = ({ name }: LogFile) => new Overtaken(`${log}/${name} is gone: another process has merged the journal`);

  async function find(files: readonly LogFile[], documents: readonly Document[]): Promise<Map<Document, Line>> {
    const found = new Map<Document, Line>();
    const newestFirst = await Promise.all(files.toReversed().map(open));
    for (const file of newestFirst) {
      const wanted = documents.filter((document) => !found.has(document));
      const search = async (document: Document) => {
        const line = await lineIn(file, hashOf(document));
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
      const before = seen ?? last;
      const news = files.filter((file) => file.last > before);
      seen = last;
      return {
        next: last + 1,
        touchedByOthers: async (documents) => {
          const lines = await find(news, documents);
          const isForgotten = news.some(({ first, last }) => first === 1 && before < last - rememberedFor);
          const isTouched = (line: Line | undefined) => (line ? line.sequence > before : isForgotten);
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
      const name = nameOf(sequence, sequence);
      // Of a document that was written twice the last one counts.
      const lines = new Map(writes.map(({ document, write }) => [hashOf(document), write]));
      const lineOf = (hash: string, { contentHash, state, idempotencyKey, reference }: LastWrite) =>
        JSON.stringify({ hash, sequence, contentHash, state, idempotencyKey, reference });
      const head = batch ? [JSON.stringify({ batch: batch.id, files: batch.files })] : [];
      const sorted = [...lines].map(([hash, write]) => lineOf(hash, write)).sort();
      const text = [...head, ...sorted].map((line) => `${line}\n`).join('');
      if (!(await addFile(folder, joined(log, name), Buffer.from(text))))
        throw new Overtaken(`another process writes to ${folder.place} at the same time: nothing was written`);
      const { files } = await list().catch((cause: unknown) => {
        throw new UnknownOutcome(`record ${sequence} was added, and then: ${String(cause)}`, { cause });
      });
      if (!files.some((file) => file.name === name))
        throw new MergedMeanwhile(`another process has merged record ${sequence} meanwhile`);
      seen = sequence;
    },
    merge: async (signal) => {
      for (;;) {
        const { files, held } = await list();
        for (const file of held) await folder.remove(pathOf(file));
        const group = mergeable(files.slice(0, -1));
        const [oldest] = group;
        const newest = group.at(-1);
        if (!oldest || !newest) return;
        const readers = group.map((file) => linesIn(folder, pathOf(file)));
        const forgetUpTo = oldest.first === 1 ? newest.last - rememberedFor : 0;
        const lines = mergedLines(readers, forgetUpTo, signal);
        // Another process may have added the same: then those that it holds go now.
        await addFile(folder, joined(log, nameOf(oldest.first, newest.last)), lines);
      }
    },
  };
}

function openedWhole(bytes: Buffer): Opened {
  const from = bytes.indexOf(batchStart) === 0 ? bytes.indexOf(0x0a) + 1 : 0;
  const head =
    from === 0 ? undefined : (JSON.parse(bytes.toString('utf8', 0, from)) as { batch: string; files: string[] });
  const batch = head && { id: head.batch, files: head.files };
  return { batch, from, to: bytes.length, read: async (start, end) => bytes.subarray(start, end) };
}

/**
 * The line of a document, if it is there. Lines are sorted, and hashes spread evenly: a guess from what is known of both
 * ends comes near at once. Later guesses halve, whatever the hashes are.
 */
async function lineIn(file: Opened, hash: string): Promise<Line | undefined> {
  const wanted = shareOf(hash);
  let [low, lowShare] = [file.from, 0];
  let [high, highShare] = [file.to, 1];
  for (let guesses = 0; high - low > 4 * lineBytesMax; guesses += 1) {
    const share = guesses < 4 ? (wanted - lowShare) / (highShare - lowShare) : 0.5;
    // A little before it, or behind: the line is to lie between two guesses.
    const guess = low + Math.floor((high - low) * share) - (guesses % 2 === 0 ? 2 : -2) * lineBytesMax;
    const middle = Math.min(Math.max(guess, low + lineBytesMax), high - 2 * lineBytesMax);
    const piece = await file.read(middle, middle + lineBytesMax);
    const start = piece.indexOf(0x0a) + 1;
    const there = piece.toString('latin1', start + lineStart.length, start + lineStart.length + hashLength);
    if (there > hash) [high, highShare] = [middle + start, shareOf(there)];
    else [low, lowShare] = [middle + start, shareOf(there)];
  }
  const part = await file.read(low, high);
  const start = part.indexOf(`${lineStart}${hash}"`);
  return start < 0 ? undefined : (JSON.parse(part.toString('utf8', start, part.indexOf(0x0a, start))) as Line);
}

/**
 * The oldest neighbours of one size that make a file of the next; none, if there are none. What is before them is of
 * larger sizes, so they begin where such a file has to begin.
 */
function mergeable(files: readonly LogFile[]): LogFile[] {
  const sizes = files.map(({ first, last }) => last - first + 1);
  const at = sizes.findIndex((size, from) => {
    const group = sizes.slice(from, from + mergedAtOnce);
    return group.length === mergedAtOnce && group.every((one) => one === size);
  });
  return at < 0 ? [] : files.slice(at, at + mergedAtOnce);
}

/** The newest line of each document, by hash; without what was withdrawn in records up to `forgetUpTo`. */
async function* mergedLines(
  oldestFirst: readonly AsyncIterator<string>[],
  forgetUpTo: number,
  signal: AbortSignal,
): AsyncGenerator<Uint8Array> {
  const next = async (index: number): Promise<string | undefined> => {
    const result = await oldestFirst[index]?.next();
    return result?.done === false ? result.value : undefined;
  };
  const lines = await Promise.all(oldestFirst.map((_reader, index) => next(index)));
  let block: string[] = [];
  let length = 0;
  for (;;) {
    signal.throwIfAborted();
    let least: string | undefined;
    for (const line of lines)
      if (line !== undefined && (least === undefined || hashIn(line) < least)) least = hashIn(line);
    if (least === undefined) break;
    let newest = '';
    for (const [index, line] of lines.entries()) {
      if (line === undefined || hashIn(line) !== least) continue;
      newest = line;
      lines[index] = await next(index);
    }
    const isWithdrawn = forgetUpTo > 0 && newest.includes('"state":"withdrawn"');
    if (isWithdrawn && (JSON.parse(newest) as Line).sequence <= forgetUpTo) continue;
    block.push(newest, '\n');
    length += newest.length;
    if (length < smallBytes) continue;
    yield Buffer.from(block.join(''));
    block = [];
    length = 0;
  }
  yield Buffer.from(block.join(''));
}

/** The lines of a file, without what it says of a batch. */
async function* linesIn(folder: Folder, path: string): AsyncGenerator<string> {
  let rest = Buffer.alloc(0);
  for (let from = 0; ; from += smallBytes) {
    const bytes = await folder.read(path, { from, to: from + smallBytes });
    if (bytes === undefined) throw new Overtaken(`${path} is gone: another process has merged the journal`);
    const text = Buffer.concat([rest, bytes]);
    const end = text.lastIndexOf(0x0a) + 1;
    for (const line of text.subarray(0, end).toString('utf8').split('\n')) if (line.startsWith(lineStart)) yield line;
    rest = text.subarray(end);
    if (bytes.length < smallBytes) return;
  }
}

/** How much of all hashes is less. */
function shareOf(hash: string): number {
  return Number.parseInt(hash.slice(0, 12), 16) / 2 ** 48;
}

function hashIn(line: string): string {
  return line.slice(lineStart.length, lineStart.length + hashLength);
}

function hashOf({ kind, key }: Document): string {
  return createHash('sha256').update(`${kind}\u0000${key}`).digest('hex').slice(0, hashLength);
}

function nameOf(first: number, last: number): string {
  const digits = (number: number) => String(number).padStart(12, '0');
  return `${digits(first)}-${digits(last)}.jsonl`;
}
