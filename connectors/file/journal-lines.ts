/**
 * The text of the journal's files. Each line is the JSON of one document's last write. Lines are sorted by the hash of
 * the document's key, and begin with it: so a large file can be searched without reading all of it, and files can be
 * merged line by line. The file of a single record may begin with one more line, which names its batch.
 */
import { createHash } from 'node:crypto';

/** What the journal knows a document by, and the news of a requisition. */
export interface Keyed {
  readonly kind: string;
  readonly key: string;
}

/** What the journal keeps of the last write of a document. */
export interface LastWrite {
  readonly contentHash: string;
  /** After `withdrawn`, the reader holds nothing of the document. */
  readonly state: string;
  readonly idempotencyKey: string;
  readonly reference: string;
}

/** The entry of a document that was never written. */
export const neverWritten: LastWrite = { contentHash: '', state: 'withdrawn', idempotencyKey: '', reference: '' };

export interface JournalLine extends LastWrite {
  /** The number of the record that the line comes from. */
  readonly sequence: number;
}

/** The batch of a record: its id, and the names of its files in the order in which they get them. */
export interface Batch {
  readonly id: string;
  readonly files: readonly string[];
}

/** No line is longer: it has hashes and file names. */
export const lineBytesMax = 4 * 1024;
const lineStart = '{"hash":"';
const batchStart = '{"batch":';
const hashLength = 32;

/** The text of a record. Of a document that occurs twice the last entry counts. */
export function recordText(
  sequence: number,
  writes: readonly { readonly document: Keyed; readonly write: LastWrite }[],
  batch: Batch | undefined,
): string {
  const byHash = new Map(writes.map(({ document, write }) => [hashOf(document), write]));
  const lineOf = (hash: string, { contentHash, state, idempotencyKey, reference }: LastWrite) =>
    JSON.stringify({ hash, sequence, contentHash, state, idempotencyKey, reference });
  const head = batch ? [JSON.stringify({ batch: batch.id, files: batch.files })] : [];
  const sorted = [...byHash].map(([hash, write]) => lineOf(hash, write)).sort();
  return [...head, ...sorted].map((line) => `${line}\n`).join('');
}

/** The batch at the beginning of a record's file, and where its lines begin, in bytes. */
export function readBatch(bytes: Buffer): { batch: Batch | undefined; linesFrom: number } {
  if (bytes.indexOf(batchStart) !== 0) return { batch: undefined, linesFrom: 0 };
  const linesFrom = bytes.indexOf(0x0a) + 1;
  const { batch: id, files } = JSON.parse(bytes.toString('utf8', 0, linesFrom)) as { batch: string; files: string[] };
  return { batch: { id, files }, linesFrom };
}

export function isLine(text: string): boolean {
  return text.startsWith(lineStart);
}

/** The hash of a line. */
export function hashInLine(line: string): string {
  return line.slice(lineStart.length, lineStart.length + hashLength);
}

/** The hash of the first whole line in a piece of a file, and the offset of that line. */
export function firstHashIn(piece: Buffer): { start: number; hash: string } {
  const start = piece.indexOf(0x0a) + 1;
  const hashAt = start + lineStart.length;
  return { start, hash: piece.toString('latin1', hashAt, hashAt + hashLength) };
}

/** The line with this hash in a part of a file, if it is there. */
export function lineWithHash(part: Buffer, hash: string): JournalLine | undefined {
  const start = part.indexOf(`${lineStart}${hash}"`);
  return start < 0 ? undefined : (JSON.parse(part.toString('utf8', start, part.indexOf(0x0a, start))) as JournalLine);
}

/** The hash that stands for a document in the journal. */
export function hashOf({ kind, key }: Keyed): string {
  return createHash('sha256').update(`${kind}\u0000${key}`).digest('hex').slice(0, hashLength);
}

/** The position of a hash among all possible hashes, from 0 up to 1. */
export function shareOf(hash: string): number {
  return Number.parseInt(hash.slice(0, 12), 16) / 2 ** 48;
}
