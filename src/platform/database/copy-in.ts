/**
 * `COPY ... FROM STDIN (FORMAT binary)`: many new rows as one buffer, for about half of what the same INSERT costs the
 * server. It refuses a row that exists already, as any INSERT without ON CONFLICT does. Source: PostgreSQL's "Binary
 * Format" of COPY. Written by hand: pg-copy-streams needs a stream for each COPY, one buffer needs ten lines.
 */
import { Query } from 'pg';
import { msFromTimestamp, type Timestamp } from '#contract/timestamp.ts';
import { writeUuid } from './binary-array.ts';

const start = Buffer.from('PGCOPY\n\u00ff\r\n\0\0\0\0\0\0\0\0\0', 'latin1');
const endMark = -1;
const lengthBytes = 4;
const countBytes = 2;
const timeBytes = 8;
const uuidLength = 16;
const jsonbVersion = 1;
/** PostgreSQL counts from the year 2000. */
const epochMs = msFromTimestamp('2000-01-01T00:00:00.000000Z');

/** One value for every row, or one value per row; null becomes NULL. The server refuses text with a NUL character. */
export type CopyColumn =
  | { readonly type: 'text'; readonly values: string | readonly (string | null)[] }
  | { readonly type: 'uuid'; readonly values: string | readonly string[] }
  | { readonly type: 'boolean'; readonly values: readonly (boolean | null)[] }
  /** JSON as text. */
  | { readonly type: 'jsonb'; readonly values: readonly (string | null)[] }
  /** The bytes of a `bytea`, or an array of `binary-array.ts` for a column of that type. */
  | { readonly type: 'bytes'; readonly values: readonly (Buffer | null)[] }
  | { readonly type: 'timestamptz'; readonly values: Timestamp | readonly Timestamp[] };

interface Cells {
  /** How many bytes the value of a row has; undefined for NULL. */
  size(row: number): number | undefined;
  write(target: Buffer, row: number, at: number): void;
}

/** Encodes `count` rows for `Sql.copy`. The columns stand in the order of the COPY's list. */
export function copyRows(count: number, columns: readonly CopyColumn[]): Buffer {
  const cells = columns.map(cellsOf);
  let bytes = start.length + countBytes;
  for (let row = 0; row < count; row += 1) {
    bytes += countBytes;
    for (const cell of cells) bytes += lengthBytes + (cell.size(row) ?? 0);
  }
  const target = Buffer.allocUnsafe(bytes);
  let at = start.copy(target);
  for (let row = 0; row < count; row += 1) {
    at = target.writeInt16BE(cells.length, at);
    for (const cell of cells) {
      const size = cell.size(row);
      at = target.writeInt32BE(size ?? endMark, at);
      if (size === undefined) continue;
      cell.write(target, row, at);
      at += size;
    }
  }
  target.writeInt16BE(endMark, at);
  return target;
}

function cellsOf({ type, values }: CopyColumn): Cells {
  if (type === 'text') return typeof values === 'string' ? sameCells(Buffer.from(values)) : textCells(values);
  if (type === 'uuid') return typeof values === 'string' ? sameCells(uuidBuffer(values)) : uuidCells(values);
  if (type === 'jsonb') return jsonCells(values);
  if (type === 'boolean')
    return {
      size: (row) => (values[row] === null ? undefined : 1),
      write: (target, row, at) => void target.writeUInt8(values[row] === true ? 1 : 0, at),
    };
  if (type === 'bytes')
    return {
      size: (row) => values[row]?.length,
      write: (target, row, at) => values[row]?.copy(target, at),
    };
  if (typeof values === 'string') return sameCells(timeBuffer(values));
  return {
    size: (row) => (values[row] === undefined ? undefined : timeBytes),
    write: (target, row, at) => {
      const time = values[row];
      if (time !== undefined) writeTime(target, time, at);
    },
  };
}

function sameCells(value: Buffer): Cells {
  return { size: () => value.length, write: (target, _row, at) => value.copy(target, at) };
}

function textCells(values: readonly (string | null)[]): Cells {
  // Computed once, because `size` is called twice for each row.
  const sizes = values.map((value) => (value === null ? undefined : Buffer.byteLength(value)));
  return {
    size: (row) => sizes[row],
    write: (target, row, at) => {
      const value = values[row];
      if (typeof value === 'string') target.write(value, at);
    },
  };
}

function uuidCells(values: readonly string[]): Cells {
  return { size: () => uuidLength, write: (target, row, at) => void writeUuid(target, values[row] ?? '', at) };
}

function uuidBuffer(uuid: string): Buffer {
  const buffer = Buffer.alloc(uuidLength);
  writeUuid(buffer, uuid, 0);
  return buffer;
}

/** A jsonb begins with the version of its form. */
function jsonCells(values: readonly (string | null)[]): Cells {
  const texts = textCells(values);
  return {
    size: (row) => {
      const bytes = texts.size(row);
      return bytes === undefined ? undefined : bytes + 1;
    },
    write: (target, row, at) => {
      target.writeUInt8(jsonbVersion, at);
      texts.write(target, row, at + 1);
    },
  };
}

function timeBuffer(time: Timestamp): Buffer {
  const buffer = Buffer.alloc(timeBytes);
  writeTime(buffer, time, 0);
  return buffer;
}

function writeTime(target: Buffer, time: Timestamp, at: number): void {
  // BigInt: microseconds in the far future are beyond what a number holds exactly.
  target.writeBigInt64BE(BigInt(msFromTimestamp(time) - epochMs) * 1000n + BigInt(time.slice(23, 26)), at);
}

/** The driver's connection has these methods, which its types do not declare. */
interface CopyConnection {
  query(text: string): void;
  sendCopyFromChunk(chunk: Buffer): void;
  endCopyFrom(): void;
}

/**
 * A query of the driver that sends the rows right behind the statement. Waiting for the server to ask for them would cost
 * a round trip, and more while this process computes something. A server that refuses the statement ignores the rows: so
 * the protocol demands it ("COPY Operations"). `callback` gets the server's refusal, if any.
 */
export class CopyIn extends Query {
  readonly text: string;
  readonly bytes: Buffer;
  readonly callback: (error: Error | null) => void;

  constructor(text: string, bytes: Buffer, callback: (error: Error | null) => void) {
    super(text);
    this.text = text;
    this.bytes = bytes;
    this.callback = callback;
  }

  override submit = (connection: unknown): void => {
    const { text, bytes } = this;
    const sending = connection as CopyConnection;
    sending.query(text);
    sending.sendCopyFromChunk(bytes);
    sending.endCopyFrom();
  };

  /** The rows are on their way already. */
  handleCopyInResponse(): void {}
}
