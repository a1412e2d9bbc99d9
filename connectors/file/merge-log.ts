/** Merges files of the journal's log: which files are merged, and the lines of the file that they become. */
import { hashInLine, type JournalLine } from './journal-lines.ts';
import type { LogFile } from './log-files.ts';

/** This many files of one size are merged into one. */
const mergedAtOnce = 8;
/** A merged file is written in blocks of about this size. */
const blockBytes = 256 * 1024;

/**
 * The oldest neighbouring files of one size that can be merged into a file of the next size; empty when there are none.
 * The files before them are larger, so the merged file begins where a file of its size has to begin.
 */
export function filesToMerge(files: readonly LogFile[]): LogFile[] {
  const sizes = files.map(({ first, last }) => last - first + 1);
  const at = sizes.findIndex((size, from) => {
    const group = sizes.slice(from, from + mergedAtOnce);
    return group.length === mergedAtOnce && group.every((other) => other === size);
  });
  return at < 0 ? [] : files.slice(at, at + mergedAtOnce);
}

/**
 * The newest line of each document, sorted by hash. Leaves out documents that were withdrawn in records up to
 * `forgetUpTo`. Throws once `signal` aborts.
 */
export async function* mergedLines(
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
    let smallest: string | undefined;
    for (const line of lines)
      if (line !== undefined && (smallest === undefined || hashInLine(line) < smallest)) smallest = hashInLine(line);
    if (smallest === undefined) break;
    let newest = '';
    for (const [index, line] of lines.entries()) {
      if (line === undefined || hashInLine(line) !== smallest) continue;
      newest = line;
      lines[index] = await next(index);
    }
    const isWithdrawn = forgetUpTo > 0 && newest.includes('"state":"withdrawn"');
    if (isWithdrawn && (JSON.parse(newest) as JournalLine).sequence <= forgetUpTo) continue;
    block.push(newest, '\n');
    length += newest.length;
    if (length < blockBytes) continue;
    yield Buffer.from(block.join(''));
    block = [];
    length = 0;
  }
  yield Buffer.from(block.join(''));
}
