/**
 * `COPY ... FROM STDIN (FORMAT binary)`: many new rows, for about half of what the same INSERT costs the server. It
 * refuses a row that exists already, as any INSERT without ON CONFLICT does. Source: PostgreSQL's "Binary Format" of COPY.
 * Written by hand: pg-copy-streams needs a stream for each COPY.
 */
import { Query } from 'pg';
import { msFromTimestamp, type Timestamp } from '#contract/timestamp.ts';
import { utf8BytesMax, writeUuid } from './binary-array.ts';

const start = Buffer.from('PGCOPY\n\u00ff\r\n\0\0\0\0\0\0\0\0\0', 'latin1');
const endMark = -1;
/** The length of NULL. */
const isNull = -1;
/** Parts have at most about as many bytes: each is a message of its own, and is made in memory as a whole. */
const partBytes = 256 * 1024;
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

/** Rows for `Sql.copy`, in parts. They may be read more than once. */
export type CopyRows = Iterable<Buffer>;

interface Cells {
  bytesMax(row: number): number;
  /** Writes the value of a row, at most `bytesMax` bytes, and returns their number; `isNull` for NULL. */
  write(target: Buffer, row: number, at: number): number;
}

/**
 * Encodes `count` rows for `Sql.copy`. The columns stand in the order of the COPY's list. A part is encoded when it is
 * read: the server stores the rows of one part while those of the next are encoded.
 */
export function copyRows(count: number, columns: readonly CopyColumn[]): CopyRows {
  const cells = columns.map(cellsOf);
  return {
    *[Symbol.iterator]() {
      let row = 0;
      do {
        const first = row;
        let bytesMax = start.length + countBytes;
        for (; row < count && bytesMax < partBytes; row += 1) {
          bytesMax += countBytes;
          for (const cell of cells) bytesMax += lengthBytes + cell.bytesMax(row);
        }
        const target = Buffer.allocUnsafe(bytesMax);
        let at = first === 0 ? start.copy(target) : 0;
        for (let each = first; each < row; each += 1) at = writeRow(target, cells, each, at);
        if (row >= count) at = target.writeInt16BE(endMark, at);
        yield target.subarray(0, at);
      } while (row < count);
    },
  };
}

/** Returns where the row ends. */
function writeRow(target: Buffer, cells: readonly Cells[], row: number, start: number): number {
  let at = target.writeInt16BE(cells.length, start);
  for (const cell of cells) {
    const written = cell.write(target, row, at + lengthBytes);
    at = target.writeInt32BE(written, at) + (written === isNull ? 0 : written);
  }
  return at;
}

function cellsOf({ type, values }: CopyColumn): Cells {
  if (type === 'text') return typeof values === 'string' ? sameCells(Buffer.from(values)) : textCells(values);
  if (type === 'uuid') return typeof values === 'string' ? sameCells(uuidBuffer(values)) : uuidCells(values);
  if (type === 'jsonb') return jsonCells(values);
  if (type === 'boolean')
    return {
      bytesMax: () => 1,
      write: (target, row, at) => {
        const value = values[row];
        if (typeof value !== 'boolean') return isNull;
        target[at] = value ? 1 : 0;
        return 1;
      },
    };
  if (type === 'bytes')
    return {
      bytesMax: (row) => values[row]?.length ?? 0,
      write: (target, row, at) => {
        const value = values[row];
        if (!value) return isNull;
        target.set(value, at);
        return value.length;
      },
    };
  if (typeof values === 'string') return sameCells(timeBuffer(values));
  return {
    bytesMax: () => timeBytes,
    write: (target, row, at) => {
      const time = values[row];
      return time === undefined ? isNull : writeTime(target, time, at);
    },
  };
}

function sameCells(value: Buffer): Cells {
  return {
    bytesMax: () => value.length,
    write: (target, _row, at) => {
      target.set(value, at);
      return value.length;
    },
  };
}

function textCells(values: readonly (string | null)[]): Cells {
  return {
    bytesMax: (row) => utf8BytesMax(values[row] ?? ''),
    write: (target, row, at) => {
      const value = values[row];
      return typeof value === 'string' ? target.write(value, at) : isNull;
    },
  };
}

function uuidCells(values: readonly string[]): Cells {
  return { bytesMax: () => uuidLength, write: (target, row, at) => writeUuid(target, values[row] ?? '', at) };
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
    bytesMax: (row) => texts.bytesMax(row) + 1,
    write: (target, row, at) => {
      target[at] = jsonbVersion;
      const written = texts.write(target, row, at + 1);
      return written === isNull ? isNull : written + 1;
    },
  };
}

function timeBuffer(time: Timestamp): Buffer {
  const buffer = Buffer.alloc(timeBytes);
  writeTime(buffer, time, 0);
  return buffer;
}

function writeTime(target: Buffer, time: Timestamp, at: number): number {
  // BigInt: microseconds in the far future are beyond what a number holds exactly.
  target.writeBigInt64BE(BigInt(msFromTimestamp(time) - epochMs) * 1000n + BigInt(time.slice(23, 26)), at);
  return timeBytes;
}

/** The driver's connection has these methods, which its types do not declare. */
interface CopyConnection {
  query(text: string): void;
  sendCopyFromChunk(chunk: Buffer): void;
  endCopyFrom(): void;
  sendCopyFail(message: string): void;
}

/**
 * A query of the driver that sends the rows right behind the statement. Waiting for the server to ask for them would cost
 * a round trip, and more while this process computes something. A server that refuses the statement ignores the rows: so
 * the protocol demands it ("COPY Operations"). `callback` gets the server's refusal, if any, or the error with which the
 * rows ended: then the server has dropped those that came before.
 */
export class CopyIn extends Query {
  readonly text: string;
  readonly copied: CopyRows;
  readonly callback: (error: Error | null) => void;
  #failure: Error | undefined;

  constructor(text: string, rows: CopyRows, callback: (error: Error | null) => void) {
    super(text);
    this.text = text;
    this.copied = rows;
    this.callback = (error) => callback(error && (this.#failure ?? error));
  }

  override submit = (connection: unknown): void => {
    const sending = connection as CopyConnection;
    sending.query(this.text);
    try {
      for (const part of this.copied) sending.sendCopyFromChunk(part);
      sending.endCopyFrom();
    } catch (error) {
      // The server waits for rows, on a connection that other statements share.
      this.#failure = error instanceof Error ? error : new Error(String(error));
      sending.sendCopyFail('the rows could not be made');
    }
  };

  /** The rows are on their way already. */
  handleCopyInResponse(): void {}
}
