/**
 * The entries of a CSV or of JSON Lines, one after the other, with the number of the line at which each begins. The file
 * is read in pieces, so it may be larger than the memory. A line that cannot be read is an entry of its own and takes no
 * other line with it: a quotation mark that is never closed spoils one line, not the rest of the file.
 *
 * What programs write is read: lines that end in LF or CRLF, and Unicode with a byte order mark whatever the settings say.
 */
import { parse } from 'csv-parse/sync';
import type { FileSettings } from './settings.ts';

export interface FileEntry {
  /** Where it begins: of a file's first line, 1. */
  readonly line: number;
  /** Undefined for JSON Lines, and for a line that cannot be read: that one has its reason instead. */
  readonly cells: readonly string[] | undefined;
  readonly text: string;
  readonly fault: string | undefined;
}

export interface EntrySettings {
  readonly encoding: FileSettings['csv']['encoding'];
  /** The delimiter of cells; undefined: each line is one entry as it stands. */
  readonly delimiter: string | undefined;
  /** Whether the last line counts without a line end, too: something else says that the file is complete. */
  readonly endsAnyhow: boolean;
}

export type ReadPiece = (range: { from: number; to: number }) => Promise<Uint8Array | undefined>;

interface Line {
  readonly number: number;
  readonly text: string;
  readonly isEnded: boolean;
  readonly isTooLong: boolean;
}

const pieceBytes = 256 * 1024;
/** Longer lines are faults, and are not kept in memory. */
const lineLengthMax = 1024 * 1024;
/** A quoted cell with more line breaks is taken for one that was never closed. */
const entryLinesMax = 200;

/** Ends at the end of the file. Throws what `readPiece` throws. */
export async function* entriesIn(readPiece: ReadPiece, settings: EntrySettings): AsyncGenerator<FileEntry> {
  const lines = linesIn(textIn(readPiece, settings.encoding));
  const { delimiter } = settings;
  const waiting: Line[] = [];
  const take = async (index: number): Promise<Line | undefined> => {
    while (waiting.length <= index) {
      const next = await lines.next();
      if (next.done === true) return undefined;
      waiting.push(next.value);
    }
    return waiting[index];
  };
  for (let first = await take(0); first !== undefined; first = await take(0)) {
    const taken = [first];
    for (let more: Line | undefined = first; more && isOpen(taken, delimiter); ) {
      more = await take(taken.length);
      if (more) taken.push(more);
    }
    const entry = entryOf(taken, settings);
    // Only the first line of a bad entry is at fault: the others may be good.
    waiting.splice(0, entry.fault === undefined ? taken.length : 1);
    if (entry.text !== '' || entry.fault !== undefined) yield entry;
  }
}

/** Whether a quoted cell goes on in the next line. */
function isOpen(lines: readonly Line[], delimiter: string | undefined): boolean {
  if (delimiter === undefined || lines.length === entryLinesMax) return false;
  let count = 0;
  for (const { text } of lines) for (let at = text.indexOf('"'); at >= 0; at = text.indexOf('"', at + 1)) count += 1;
  return count % 2 === 1;
}

function entryOf(lines: readonly Line[], { delimiter, endsAnyhow }: EntrySettings): FileEntry {
  const [first, last] = [lines[0] as Line, lines.at(-1) as Line];
  const text = lines.map((line) => line.text).join('\n');
  const fault = (why: string): FileEntry => ({ line: first.number, text: '', cells: undefined, fault: why });
  if (lines.some(({ isTooLong }) => isTooLong)) return fault(`has more than ${lineLengthMax} characters`);
  if (text.includes('\uFFFD')) return fault('has characters that its encoding does not have');
  if (!last.isEnded && !endsAnyhow) return fault('has no line end: the file may be incomplete');
  const made = { line: first.number, text: text.trim() === '' ? '' : text, fault: undefined };
  if (delimiter === undefined || made.text === '') return { ...made, cells: undefined };
  const cells = cellsIn(text, delimiter);
  return cells
    ? { ...made, cells }
    : fault('has a quotation mark that is not closed, or inside a cell without quotation marks');
}

/** Undefined where the quotation marks do not fit. */
function cellsIn(text: string, delimiter: string): readonly string[] | undefined {
  // Most lines have none, and a parser for each line would be slow.
  if (!text.includes('"')) return text.split(delimiter);
  try {
    const rows: string[][] = parse(text, { delimiter, record_delimiter: '\n' });
    return rows.length === 1 ? rows[0] : undefined;
  } catch {
    return undefined;
  }
}

/** The text of a file, in pieces. A character that the encoding does not have becomes U+FFFD. */
async function* textIn(readPiece: ReadPiece, encoding: EntrySettings['encoding']): AsyncGenerator<string> {
  let decoder: InstanceType<typeof TextDecoder> | undefined;
  for (let from = 0; ; from += pieceBytes) {
    const piece = (await readPiece({ from, to: from + pieceBytes })) ?? new Uint8Array(0);
    decoder ??= new TextDecoder(encodingByMark(piece) ?? (encoding === 'utf-8-bom' ? 'utf-8' : encoding));
    const isLast = piece.length < pieceBytes;
    yield decoder.decode(piece, { stream: !isLast });
    if (isLast) return;
  }
}

/** The encoding that a byte order mark tells. */
function encodingByMark([first, second, third]: Uint8Array): string | undefined {
  if (first === 0xff && second === 0xfe) return 'utf-16le';
  if (first === 0xfe && second === 0xff) return 'utf-16be';
  return first === 0xef && second === 0xbb && third === 0xbf ? 'utf-8' : undefined;
}

async function* linesIn(pieces: AsyncIterable<string>): AsyncGenerator<Line> {
  let rest = '';
  let number = 1;
  let isTooLong = false;
  for await (const piece of pieces) {
    rest += piece;
    const lines = rest.split('\n');
    rest = lines.pop() ?? '';
    for (const line of lines) {
      yield { number, text: line.replace(/\r$/, ''), isEnded: true, isTooLong };
      number += 1;
      isTooLong = false;
    }
    if (rest.length > lineLengthMax) {
      rest = '';
      isTooLong = true;
    }
  }
  if (rest !== '' || isTooLong) yield { number, text: rest, isEnded: false, isTooLong };
}
