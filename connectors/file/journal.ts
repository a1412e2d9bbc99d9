/**
 * What was written, for a folder whose files the reader takes away. A journal is a few sorted files that never change
 * once they have their names: `<first>-<last>.jsonl`, with the numbers of the writes that they tell of. Each write adds
 * one, of the next number, if nobody has taken that number meanwhile; many small ones are merged into a large one now and
 * then. So a kill leaves whole files only, two who write at once cannot both go on, and memory holds no more than small
 * files, however many keys there are.
 *
 * Asking takes a number, too. Whoever still sleeps in the middle of a write finds it taken, and writes nothing: what was
 * answered stays true.
 */
import { createHash } from 'node:crypto';
import { type Document, TransientError } from 'sourcing-bridge/connector';
import { addFile, type Folder, joined, readText, removeLeftovers, replace } from './folder.ts';

/** What the journal has of a key: its last write. */
export interface Known {
  readonly key: string;
  /** Undefined for what was only asked for. */
  readonly contentHash: string | undefined;
  readonly state: string;
  readonly idempotencyKey: string;
  readonly reference: string;
}

/** A write that is told of: its batch, and the names that its files get. */
export interface BatchHead {
  readonly batch: string;
  /** In the order in which they get their names. */
  readonly files: readonly { readonly name: string; readonly sha256: string }[];
}

interface Line extends Known {
  readonly hash: string;
  readonly sequence: number;
  /** When it was asked for last, if that was later. */
  readonly asked?: number;
}

interface Segment {
  readonly first: number;
  readonly last: number;
  readonly name: string;
  readonly bytes: number | undefined;
}

/** The next number is taken: by another process, or by an answer that was given meanwhile. */
export class Overtaken extends TransientError {}

export interface Journal {
  /** The last write of each of these, as of now. */
  find(documents: readonly Document[]): Promise<Map<Document, Line>>;
  /**
   * What is new since this process looked last: which of these others have written or asked for, and the number that the
   * next write has to have.
   */
  news(documents: readonly Document[]): Promise<{ touched: Set<Document>; next: number }>;
  /** Adds what is written under the next number, which must be this one. Throws Overtaken when that is taken. */
  append(sequence: number, entries: readonly { document: Document; known: Known }[], head?: BatchHead): Promise<void>;
  /** Takes the next number, so that no write which has begun before can be told of any more. */
  fence(sequence: number, documents: readonly Document[]): Promise<void>;
  /** What a write that is not merged yet was told of with. */
  unmerged(): Promise<{ sequence: number; head: BatchHead; has: (document: Document) => boolean }[]>;
  /** Takes back what was told of a batch that did not happen; nothing, if another has the number. */
  retract(sequence: number, batch: string): Promise<void>;
  /** Merges, if there is much to merge, but no write that is not settled yet: `open` says which, and is asked now. */
  merge(open: () => Promise<ReadonlySet<number>>, signal: AbortSignal): Promise<void>;
}

/** So many files of one size are merged into one. */
const mergeAt = 8;
/** Merged files keep what was only asked for, for so many writes: nobody sleeps through more of them. */
const askedKept = 64;
/** Files up to this size are read whole, and kept. */
const smallBytes = 256 * 1024;
const searchesAtOnce = 16;
const hashStart = '{"hash":"';
const hashLength = 32;
const headStart = '{"batch":';
/** No line is longer. */
const lineBytesMax = 8 * 1024;
const segmentName = /^(\d{12})-(\d{12})\.jsonl$/;
const leftovers = /^\.\d{12}-\d{12}\.jsonl\.[0-9a-f]+\.tmp$/;

export function createJournal(folder: Folder, path: string, nowMs: () => number): Journal {
  const log = joined(path, 'log');
  /** Small files by name. One of a single batch may be taken back, which makes it smaller. */
  let texts = new Map<string, { text: string; bytes: number }>();
  /** Up to here others have no news for this process; undefined until it has looked. */
  let seen: number | undefined;
  let isTidy = false;

  async function segments(): Promise<Segment[]> {
    if (!isTidy) await removeLeftovers(folder, log, leftovers, nowMs());
    isTidy = true;
    const all = (await folder.list(log)).flatMap(({ name, bytes }): Segment[] => {
      const [, first, last] = segmentName.exec(name) ?? [];
      return first === undefined || last === undefined
        ? []
        : [{ first: Number(first), last: Number(last), name, bytes }];
    });
    // What a merge has taken in, and a kill has kept it from removing.
    const live = all.filter(
      (one) => !all.some((other) => other !== one && other.first <= one.first && other.last >= one.last),
    );
    const head = Math.max(0, ...live.map(({ last }) => last));
    if (head < (seen ?? 0))
      throw new TransientError(
        `The journal ${log} in ${folder.place} has lost what it had (${head} of ${seen} writes): is the right folder there?`,
      );
    texts = new Map([...texts].filter(([name]) => live.some((one) => one.name === name)));
    return live.sort((one, other) => other.last - one.last);
  }

  const headOf = (live: readonly Segment[]) => live[0]?.last ?? 0;

  /** A small file's text; undefined for a large one. Throws when it is gone: it was merged just now. */
  async function textOf({ name, first, last, bytes: size }: Segment): Promise<string | undefined> {
    const kept = texts.get(name);
    if (kept && (first !== last || kept.bytes === size)) return kept.text;
    const bytes = await folder.read(joined(log, name), { from: 0, to: smallBytes });
    if (bytes === undefined) throw new Overtaken(`${log}/${name} is gone: another process has merged the journal`);
    if (bytes.length === smallBytes) return undefined;
    const text = Buffer.from(bytes).toString('utf8');
    texts.set(name, { text, bytes: bytes.length });
    return text;
  }

  /**
   * The part of a large file in which the line must stand, if it is there. Lines are sorted, and hashes spread evenly: a
   * guess from what is known of both ends comes near at once. Later guesses halve, whatever the hashes are.
   */
  async function partWith({ name }: Segment, hash: string): Promise<string> {
    const file = joined(log, name);
    const wanted = shareOf(hash);
    let [low, lowShare] = [0, 0];
    let [high, highShare] = [(await folder.look(file))?.bytes ?? 0, 1];
    for (let guesses = 0; high - low > 4 * lineBytesMax; guesses += 1) {
      const share = guesses < 4 ? (wanted - lowShare) / (highShare - lowShare) : 0.5;
      // Rather a little before it: from there it is read on.
      const guess = low + Math.floor((high - low) * share) - (guesses % 2 === 0 ? 2 : -2) * lineBytesMax;
      const middle = Math.min(Math.max(guess, low + lineBytesMax), high - 2 * lineBytesMax);
      const piece = Buffer.from((await folder.read(file, { from: middle, to: middle + lineBytesMax })) ?? []);
      const start = piece.indexOf(0x0a) + 1;
      const there = piece.toString('latin1', start + hashStart.length, start + hashStart.length + hashLength);
      if (there > hash) [high, highShare] = [middle + start, shareOf(there)];
      else [low, lowShare] = [middle + start, shareOf(there)];
    }
    return Buffer.from((await folder.read(file, { from: low, to: high + lineBytesMax })) ?? []).toString('utf8');
  }

  async function find(documents: readonly Document[]): Promise<Map<Document, Line>> {
    const live = await segments();
    const found = new Map<Document, Line>();
    await Promise.all(live.map(textOf));
    for (const segment of live) {
      const wanted = documents.filter((document) => !found.has(document));
      if (wanted.length === 0) break;
      const text = await textOf(segment);
      const search = async (document: Document) => {
        const hash = hashOf(document);
        const line = lineOf(text ?? (await partWith(segment, hash)), hash);
        if (line?.contentHash !== undefined) found.set(document, line);
      };
      for (let from = 0; from < wanted.length; from += searchesAtOnce)
        await Promise.all(wanted.slice(from, from + searchesAtOnce).map(search));
    }
    return found;
  }

  async function add(sequence: number, lines: readonly Line[], head?: BatchHead): Promise<void> {
    const name = nameOf(sequence, sequence);
    const sorted = lines.toSorted((one, other) => (one.hash < other.hash ? -1 : 1)).map((line) => JSON.stringify(line));
    const text = [...(head ? [JSON.stringify(head)] : []), ...sorted, ''].join('\n');
    let isTaken = !(await addFile(folder, joined(log, name), Buffer.from(text)));
    // The name is free again where others had the number and were merged. That is asked only now: a process may sleep
    // between its question and its step.
    if (!isTaken && !(await segments()).some((one) => one.name === name)) {
      isTaken = true;
      await folder.remove(joined(log, name));
    }
    if (isTaken) throw new Overtaken(`another process writes to ${folder.place} at the same time: nothing was written`);
    seen = sequence;
  }

  const asked = ({ key }: { key: string }, hash: string, sequence: number): Line => ({
    hash,
    sequence,
    key,
    contentHash: undefined,
    state: 'asked',
    idempotencyKey: '',
    reference: '',
  });

  return {
    find,
    news: async (documents) => {
      const live = await segments();
      const touched = new Set<Document>();
      for (const segment of live) {
        if (seen === undefined || segment.last <= seen) break;
        const text = await textOf(segment);
        for (const document of documents) {
          const hash = hashOf(document);
          const line = lineOf(text ?? (await partWith(segment, hash)), hash);
          const isLost = segment.first <= seen && seen < segment.last - askedKept;
          if (line === undefined ? isLost : Math.max(line.sequence, line.asked ?? 0) > seen) touched.add(document);
        }
      }
      seen = headOf(live);
      return { touched, next: seen + 1 };
    },
    append: (sequence, entries, head) =>
      add(
        sequence,
        entries.map(({ document, known }) => ({ hash: hashOf(document), sequence, ...known })),
        head,
      ),
    fence: (sequence, documents) =>
      add(
        sequence,
        documents.map((document) => asked(document, hashOf(document), sequence)),
      ),
    unmerged: async () => {
      const found: Awaited<ReturnType<Journal['unmerged']>> = [];
      for (const segment of await segments()) {
        if (segment.first !== segment.last) continue;
        // One write may have told of more than what is small.
        const text =
          (await textOf(segment)) ?? Buffer.from((await folder.read(joined(log, segment.name))) ?? []).toString();
        const head = headIn(text);
        if (!head) continue;
        found.push({ sequence: segment.first, head, has: (document) => lineOf(text, hashOf(document)) !== undefined });
      }
      return found;
    },
    retract: async (sequence, batch) => {
      const file = joined(log, nameOf(sequence, sequence));
      const text = (await readText(folder, file)) ?? '';
      if (headIn(text)?.batch !== batch) return;
      // The number stays taken.
      const lines = text.split('\n').filter((line) => line.startsWith(hashStart));
      const left = lines.map((line) => JSON.stringify(asked(JSON.parse(line) as Line, hashIn(line), sequence)));
      await replace(folder, file, Buffer.from([...left, ''].join('\n')));
    },
    merge: async (open, signal) => {
      const live = (await segments()).reverse();
      if (live.length < mergeAt) return;
      // Asked after the files were listed: what was told of is open or was settled by then.
      const group = mergeable(live, await open());
      const [first] = group;
      const last = group.at(-1);
      if (!first || !last) return;
      const readers = group.map((segment) => linesIn(folder, joined(log, segment.name)));
      const name = nameOf(first.first, last.last);
      const isAdded = await addFile(
        folder,
        joined(log, name),
        merged(readers, { isOldest: first === live[0], askedFrom: last.last - askedKept }, signal),
      );
      if (isAdded) for (const segment of group) await folder.remove(joined(log, segment.name));
    },
  };
}

/** Of what size a file is: of single writes, of 8 of them, of 64, and so on. */
function tierOf({ first, last }: Pick<Segment, 'first' | 'last'>): number {
  return Math.floor(Math.log(last - first + 1) / Math.log(mergeAt) + 1e-9);
}

/** The oldest neighbours that are of one size and many enough. */
function mergeable(live: readonly Segment[], open: ReadonlySet<number>): Segment[] {
  let group: Segment[] = [];
  for (const segment of live) {
    const [before] = group;
    if (segment.first === segment.last && open.has(segment.first)) group = [];
    else if (before && tierOf(before) !== tierOf(segment)) group = [segment];
    else group.push(segment);
    if (group.length === mergeAt) return group;
  }
  return [];
}

/** The newest line of each key, by hash. What was withdrawn does not reach the oldest file. */
async function* merged(
  readers: readonly AsyncIterator<string>[],
  { isOldest, askedFrom }: { isOldest: boolean; askedFrom: number },
  signal: AbortSignal,
): AsyncGenerator<Uint8Array> {
  const next = async (index: number): Promise<string | undefined> => {
    const { value, done } = (await readers[index]?.next()) ?? { value: undefined, done: true };
    return done === true ? undefined : value;
  };
  const lines = await Promise.all(readers.map((_reader, index) => next(index)));
  let block: string[] = [];
  let length = 0;
  for (;;) {
    signal.throwIfAborted();
    let least: string | undefined;
    for (const line of lines)
      if (line !== undefined && (least === undefined || hashIn(line) < least)) least = hashIn(line);
    if (least === undefined) break;
    let told: string | undefined;
    let asked: string | undefined;
    for (const [index, line] of lines.entries()) {
      if (line === undefined || hashIn(line) !== least) continue;
      // Readers stand from the oldest file to the newest.
      if (!line.includes('"state":"asked"')) told = line;
      else if ((JSON.parse(line) as Line).sequence > askedFrom) asked = line;
      lines[index] = await next(index);
    }
    const newest = newestOf(told, asked);
    if (newest === undefined || (isOldest && asked === undefined && newest.includes('"state":"withdrawn"'))) continue;
    block.push(newest, '\n');
    length += newest.length;
    if (length < smallBytes) continue;
    yield Buffer.from(block.join(''));
    block = [];
    length = 0;
  }
  yield Buffer.from(block.join(''));
}

/** What was told of a key, with when it was asked for last. */
function newestOf(told: string | undefined, asked: string | undefined): string | undefined {
  if (told === undefined || asked === undefined) return told ?? asked;
  const line = JSON.parse(told) as Line;
  const { sequence } = JSON.parse(asked) as Line;
  return sequence > line.sequence ? JSON.stringify({ ...line, asked: sequence }) : told;
}

/** The lines of a file, without what its head says. */
async function* linesIn(folder: Folder, path: string): AsyncGenerator<string> {
  let rest = Buffer.alloc(0);
  for (let from = 0; ; from += smallBytes) {
    const bytes = await folder.read(path, { from, to: from + smallBytes });
    if (bytes === undefined) throw new TransientError(`${path} is gone: another process has merged the journal`);
    const text = Buffer.concat([rest, bytes]);
    const end = text.lastIndexOf(0x0a) + 1;
    for (const line of text.subarray(0, end).toString('utf8').split('\n')) if (line.startsWith(hashStart)) yield line;
    rest = text.subarray(end);
    if (bytes.length < smallBytes) return;
  }
}

function headIn(text: string): BatchHead | undefined {
  return text.startsWith(headStart) ? (JSON.parse(text.slice(0, text.indexOf('\n'))) as BatchHead) : undefined;
}

function lineOf(text: string, hash: string): Line | undefined {
  const start = text.indexOf(`${hashStart}${hash}"`);
  if (start < 0) return undefined;
  return JSON.parse(text.slice(start, text.indexOf('\n', start))) as Line;
}

/** How much of all hashes is less. */
function shareOf(hash: string): number {
  return Number.parseInt(hash.slice(0, 12), 16) / 2 ** 48;
}

function hashIn(line: string): string {
  return line.slice(hashStart.length, hashStart.length + hashLength);
}

function hashOf({ kind, key }: Document): string {
  return createHash('sha256').update(`${kind}\u0000${key}`).digest('hex').slice(0, hashLength);
}

function nameOf(first: number, last: number): string {
  const digits = (number: number) => String(number).padStart(12, '0');
  return `${digits(first)}-${digits(last)}.jsonl`;
}
