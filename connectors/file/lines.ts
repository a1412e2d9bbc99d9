/**
 * The entries of a file, one after the other, with the number of the line at which each begins. The file is read in
 * pieces, so it may be larger than the memory. A line that cannot be read is an entry of its own and takes no other line
 * with it: a quotation mark that is never closed spoils one line, not the rest of the file.
 */
export interface LineEntry {
  /** Where it begins: of a file's first line, 1. */
  readonly line: number;
  /** Where the next one begins, in bytes and lines: a read can go on from there. */
  readonly next: Position;
  /** A line that cannot be read has its reason instead. */
  readonly cells: readonly string[] | undefined;
  readonly text: string;
  readonly fault: string | undefined;
}

export interface Position {
  readonly offset: number;
  readonly line: number;
}

export interface LineSettings {
  readonly encoding: 'utf-8' | 'utf-8-bom' | 'windows-1252' | 'iso-8859-1';
  /** The delimiter of cells; undefined: each line is one entry as it stands. */
  readonly delimiter: string | undefined;
  /** Whether the last line counts without a line end, too: something else says that the file is complete. */
  readonly endsAnyhow: boolean;
}

interface Line {
  readonly number: number;
  readonly bytes: Uint8Array;
  readonly nextOffset: number;
  readonly isEnded: boolean;
  /** Whether it is the end of a line whose beginning was too long. */
  readonly isTail: boolean;
}

const pieceBytes = 256 * 1024;
/** Longer lines are faults. */
const lineBytesMax = 1024 * 1024;
/** A quoted cell with more line breaks is taken for one that was never closed. */
const entryLinesMax = 200;
const [lineFeed, carriageReturn, quote] = [0x0a, 0x0d, 0x22];

/** Reads on from a position; ends at the end of the file. Throws ConnectorErrors. */
export async function* readEntries(
  readPiece: (range: { from: number; to: number }) => Promise<Uint8Array | undefined>,
  start: Position,
  settings: LineSettings,
): AsyncGenerator<LineEntry> {
  const lines = readLines(readPiece, start);
  const waiting: Line[] = [];
  const take = async (index: number): Promise<Line | undefined> => {
    while (waiting.length <= index) {
      const next = await lines.next();
      if (next.done === true) return undefined;
      waiting.push(next.value);
    }
    return waiting[index];
  };
  const decode = decoderOf(settings.encoding);
  for (let first = await take(0); first !== undefined; first = await take(0)) {
    const taken = [first];
    let quotes = countOf(first.bytes, quote);
    if (settings.delimiter !== undefined)
      while (quotes % 2 === 1 && taken.length < entryLinesMax) {
        const more = await take(taken.length);
        if (!more) break;
        taken.push(more);
        quotes += countOf(more.bytes, quote);
      }
    let entry = entryOf(taken, decode, settings);
    // Only its first line is at fault: the others may be good.
    if (entry.fault !== undefined && taken.length > 1) entry = { ...entry, next: after(first) };
    waiting.splice(0, entry.next.line - entry.line);
    if (entry.text !== '' || entry.fault !== undefined) yield entry;
  }
}

function after(line: Line): Position {
  return { offset: line.nextOffset, line: line.number + 1 };
}

function entryOf(
  lines: readonly Line[],
  decode: (bytes: Uint8Array) => string | undefined,
  { delimiter, endsAnyhow }: LineSettings,
): LineEntry {
  const [first, last] = [lines[0] as Line, lines.at(-1) as Line];
  const made = { line: first.number, next: after(last), cells: undefined };
  const fault = (why: string): LineEntry => ({ ...made, text: '', fault: why });
  if (first.bytes.length > lineBytesMax || first.isTail) return fault(`has more than ${lineBytesMax} bytes`);
  const texts = lines.map(({ bytes }) => decode(bytes));
  if (texts.some((text) => text === undefined)) return fault('has characters that its encoding does not have');
  if (!last.isEnded && !endsAnyhow) return fault('has no line end: the file may be incomplete');
  const text = texts.join('\n').replace(/^\uFEFF/, '');
  if (text.trim() === '') return { ...made, text: '', fault: undefined };
  if (delimiter === undefined) return { ...made, text, fault: undefined };
  const cells = cellsOf(text, delimiter);
  return cells === undefined
    ? fault('has a quotation mark that is not closed, or inside a cell without quotation marks')
    : { ...made, text, cells, fault: undefined };
}

/** The cells of a row (RFC 4180); undefined where the quotation marks do not fit. */
function cellsOf(text: string, delimiter: string): string[] | undefined {
  const cells: string[] = [];
  let at = 0;
  for (;;) {
    let cell = '';
    if (text[at] === '"') {
      for (at += 1; ; ) {
        const end = text.indexOf('"', at);
        if (end < 0) return undefined;
        cell += text.slice(at, end);
        at = end + 1;
        if (text[at] !== '"') break;
        cell += '"';
        at += 1;
      }
    } else {
      const end = text.indexOf(delimiter, at);
      cell = text.slice(at, end < 0 ? undefined : end);
      if (cell.includes('"')) return undefined;
      at += cell.length;
    }
    cells.push(cell);
    if (at === text.length) return cells;
    if (text[at] !== delimiter) return undefined;
    at += 1;
  }
}

async function* readLines(
  readPiece: (range: { from: number; to: number }) => Promise<Uint8Array | undefined>,
  start: Position,
): AsyncGenerator<Line> {
  let rest = new Uint8Array(0);
  let number = start.line;
  let restOffset = start.offset;
  let isTail = false;
  for (;;) {
    const from = restOffset + rest.length;
    const piece = (await readPiece({ from, to: from + pieceBytes })) ?? new Uint8Array(0);
    const bytes = rest.length === 0 ? piece : Buffer.concat([rest, piece]);
    let begin = 0;
    for (let end = bytes.indexOf(lineFeed); end >= 0; end = bytes.indexOf(lineFeed, begin)) {
      const isCrLf = end > begin && bytes[end - 1] === carriageReturn;
      const line = bytes.slice(begin, isCrLf ? end - 1 : end);
      yield { number, bytes: line, nextOffset: restOffset + end + 1, isEnded: true, isTail };
      isTail = false;
      number += 1;
      begin = end + 1;
    }
    rest = new Uint8Array(bytes.subarray(begin));
    restOffset += begin;
    const isLast = piece.length < pieceBytes;
    if (isLast && rest.length > 0)
      yield { number, bytes: rest, nextOffset: restOffset + rest.length, isEnded: false, isTail };
    if (isLast) return;
    // No more of a line is kept in memory.
    if (rest.length > lineBytesMax) {
      yield { number, bytes: rest, nextOffset: restOffset + rest.length, isEnded: false, isTail };
      isTail = true;
      restOffset += rest.length;
      rest = new Uint8Array(0);
    }
  }
}

function countOf(bytes: Uint8Array, wanted: number): number {
  let count = 0;
  for (let at = bytes.indexOf(wanted); at >= 0; at = bytes.indexOf(wanted, at + 1)) count += 1;
  return count;
}

function decoderOf(encoding: LineSettings['encoding']): (bytes: Uint8Array) => string | undefined {
  if (encoding === 'iso-8859-1') return (bytes) => Buffer.from(bytes).toString('latin1');
  const decoder = new TextDecoder(encoding === 'windows-1252' ? encoding : 'utf-8', { fatal: true, ignoreBOM: true });
  return (bytes) => {
    try {
      return decoder.decode(bytes);
    } catch {
      return undefined;
    }
  };
}
