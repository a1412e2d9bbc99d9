/**
 * The files of the journal's log: their names, which of them count, and the search for a document in one of them. A
 * file never changes while it has its name. Only small files are kept in memory, however many documents there are.
 */
import { type Folder, joinPath } from './folder.ts';
import { Overtaken } from './journal-errors.ts';
import {
  type Batch,
  firstHashIn,
  isLine,
  type JournalLine,
  lineBytesMax,
  lineWithHash,
  readBatch,
  shareOf,
} from './journal-lines.ts';

/** A file of the log, with the numbers of its first and its last record. */
export interface LogFile {
  readonly first: number;
  readonly last: number;
  readonly name: string;
}

/** A log file that can be searched. */
export interface OpenLogFile {
  /** The batch of a file with a single record. */
  readonly batch: Batch | undefined;
  /** Where its lines begin and end, in bytes. */
  readonly from: number;
  readonly to: number;
  read(from: number, to: number): Promise<Buffer>;
}

/** Files up to this size are read as a whole, and kept. */
const smallBytes = 256 * 1024;
const logFileName = /^(\d{12})-(\d{12})\.jsonl$/;

/** The name of the file with the records `first` to `last`. */
export function logNameOf(first: number, last: number): string {
  const digits = (number: number) => String(number).padStart(12, '0');
  return `${digits(first)}-${digits(last)}.jsonl`;
}

/**
 * The files that count, oldest first and without a gap; the files whose records another one contains; and the last
 * record. `isComplete` is false when there is a gap.
 */
export function sortLogFiles(names: readonly string[]): {
  files: LogFile[];
  contained: LogFile[];
  last: number;
  isComplete: boolean;
} {
  const all = names.flatMap((name): LogFile[] => {
    const [, first, last] = logFileName.exec(name) ?? [];
    return first === undefined || last === undefined ? [] : [{ first: Number(first), last: Number(last), name }];
  });
  // Of files that begin with the same record, the largest comes first.
  all.sort((a, b) => a.first - b.first || b.last - a.last);
  const [files, contained]: [LogFile[], LogFile[]] = [[], []];
  let last = 0;
  for (const file of all) {
    if (file.last <= last) contained.push(file);
    else if (file.first === last + 1) {
      files.push(file);
      last = file.last;
    } else break;
  }
  return { files, contained, last, isComplete: files.length + contained.length === all.length };
}

/** Opens a file of the log in `log`. Throws Overtaken when another process has merged and removed it. */
export async function openLogFile(folder: Folder, log: string, file: LogFile): Promise<OpenLogFile> {
  const path = joinPath(log, file.name);
  const isRecord = file.first === file.last;
  const start = await folder.read(path, isRecord ? undefined : { from: 0, to: smallBytes });
  if (start === undefined) throw mergedAway(path);
  if (isRecord || start.length < smallBytes) {
    const bytes = Buffer.from(start);
    const { batch, linesFrom } = readBatch(bytes);
    return { batch, from: linesFrom, to: bytes.length, read: async (from, to) => bytes.subarray(from, to) };
  }
  const to = (await folder.stat(path))?.bytes;
  if (to === undefined) throw mergedAway(path);
  const read = async (from: number, end: number) => {
    const bytes = await folder.read(path, { from, to: end });
    if (bytes === undefined) throw mergedAway(path);
    return Buffer.from(bytes.buffer, bytes.byteOffset, bytes.length);
  };
  return { batch: undefined, from: 0, to, read };
}

/**
 * The line of a document in a file, if it is there. Lines are sorted and their hashes are evenly distributed, so the
 * first guesses interpolate between the known ends. Later guesses halve the range, whatever the distribution.
 */
export async function findLine(file: OpenLogFile, hash: string): Promise<JournalLine | undefined> {
  const wanted = shareOf(hash);
  let [low, lowShare] = [file.from, 0];
  let [high, highShare] = [file.to, 1];
  for (let guesses = 0; high - low > 4 * lineBytesMax; guesses += 1) {
    const share = guesses < 4 ? (wanted - lowShare) / (highShare - lowShare) : 0.5;
    // Alternately a little before and behind the expected place, so that the line ends up between two guesses.
    const guess = low + Math.floor((high - low) * share) - (guesses % 2 === 0 ? 2 : -2) * lineBytesMax;
    const middle = Math.min(Math.max(guess, low + lineBytesMax), high - 2 * lineBytesMax);
    const { start, hash: found } = firstHashIn(await file.read(middle, middle + lineBytesMax));
    if (found > hash) [high, highShare] = [middle + start, shareOf(found)];
    else [low, lowShare] = [middle + start, shareOf(found)];
  }
  return lineWithHash(await file.read(low, high), hash);
}

/** The lines of a file in their order. Throws Overtaken when another process has merged and removed it. */
export async function* linesOf(folder: Folder, log: string, { name }: LogFile): AsyncGenerator<string> {
  const path = joinPath(log, name);
  let rest = Buffer.alloc(0);
  for (let from = 0; ; from += smallBytes) {
    const bytes = await folder.read(path, { from, to: from + smallBytes });
    if (bytes === undefined) throw mergedAway(path);
    const text = Buffer.concat([rest, bytes]);
    const end = text.lastIndexOf(0x0a) + 1;
    for (const line of text.subarray(0, end).toString('utf8').split('\n')) if (isLine(line)) yield line;
    rest = text.subarray(end);
    if (bytes.length < smallBytes) return;
  }
}

function mergedAway(path: string): Overtaken {
  return new Overtaken(`${path} is gone: another process has merged the journal`);
}
