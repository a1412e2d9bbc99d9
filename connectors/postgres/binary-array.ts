/**
 * Text and byte arrays in PostgreSQL's own binary form, which the driver sends as they are: one parameter holds a whole
 * column of a batch. As text, each quote in each value would be escaped here and read back there. Source: PostgreSQL's
 * `array_recv`.
 */
const oids = { text: 25, bytea: 17 } as const;
const headerBytes = 20;
const lengthBytes = 4;

export type Cell = string | Uint8Array | null;

/** A parameter for `$n::text[]`, or for `$n::bytea[]`. */
export function binaryArray(type: keyof typeof oids, cells: readonly Cell[]): Buffer {
  let size = headerBytes;
  for (const cell of cells) size += lengthBytes + sizeOf(cell);
  const target = Buffer.allocUnsafe(size);
  // An empty array has no dimension at all; any other has one, which begins at 1, and may hold nulls.
  target.writeInt32BE(cells.length === 0 ? 0 : 1, 0);
  target.writeInt32BE(1, 4);
  target.writeInt32BE(oids[type], 8);
  if (cells.length === 0) return target.subarray(0, 12);
  target.writeInt32BE(cells.length, 12);
  target.writeInt32BE(1, 16);
  let at = headerBytes;
  for (const cell of cells) {
    const bytes = write(target, cell, at + lengthBytes);
    target.writeInt32BE(cell === null ? -1 : bytes, at);
    at += lengthBytes + bytes;
  }
  return target;
}

function sizeOf(cell: Cell): number {
  return cell === null ? 0 : typeof cell === 'string' ? Buffer.byteLength(cell) : cell.byteLength;
}

function write(target: Buffer, cell: Cell, at: number): number {
  if (cell === null) return 0;
  if (typeof cell === 'string') return target.write(cell, at);
  target.set(cell, at);
  return cell.byteLength;
}
