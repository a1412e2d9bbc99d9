/**
 * SQL arrays in PostgreSQL's own binary form, which the driver sends as they are. For statements that take a page of
 * rows at once: in the text form, every quote in every value would be escaped here and unescaped by the server, which
 * costs more than storing the row. Source: PostgreSQL's `array_recv`.
 */
const oids = { int: 23, text: 25, bytea: 17, timestamptz: 1184, uuid: 2950 } as const;

const headerBytes = 20;
const lengthBytes = 4;
const intBytes = 4;
const timeBytes = 8;
/** What the upper half of a whole number of eight bytes counts. */
const upperHalf = 2 ** 32;
const uuidLength = 16;
/** PostgreSQL counts from the year 2000. */
const postgresEpochMs = Date.UTC(2000, 0, 1);
/** UTF-8 takes at most this many bytes for one UTF-16 unit. */
const bytesPerUnitMax = 3;
/**
 * A longer text is measured exactly: reserving three times its length would cost more memory than measuring costs time.
 */
const unmeasuredUnitsMax = 4_096;

/** A parameter for `$n::text[]`. The server refuses a value with a NUL character, as in any other form. */
export function textArray(values: readonly (string | null)[]): Buffer {
  return arrayOf(oids.text, values, (target, value, at) => target.write(value, at), utf8BytesMax);
}

/** The most bytes that a text takes in UTF-8. */
export function utf8BytesMax(text: string): number {
  return text.length > unmeasuredUnitsMax ? Buffer.byteLength(text) : text.length * bytesPerUnitMax;
}

/** A parameter for `$n::bytea[]`. */
export function byteaArray(values: readonly (Uint8Array | null)[]): Buffer {
  return arrayOf(oids.bytea, values, setBytes, ({ byteLength }) => byteLength);
}

/** A parameter for `$n::text[]`, of texts that lie ready as UTF-8. The server refuses what is not valid UTF-8. */
export function utf8Array(values: readonly Uint8Array[]): Buffer {
  return arrayOf(oids.text, values, setBytes, ({ byteLength }) => byteLength);
}

/** A parameter for `$n::uuid[]`. */
export function uuidArray(values: readonly string[]): Buffer {
  return arrayOf(oids.uuid, values, writeUuid, () => uuidLength);
}

/** Writes the 16 bytes of a UUID, and returns their number. */
export function writeUuid(target: Buffer, uuid: string, at: number): number {
  return target.write(uuid.replaceAll('-', ''), at, 'hex');
}

function setBytes(target: Buffer, value: Uint8Array, at: number): number {
  target.set(value, at);
  return value.byteLength;
}

/** A parameter for `$n::int[]`. */
export function intArray(values: readonly (number | null)[]): Buffer {
  return arrayOf(
    oids.int,
    values,
    (target, value, at) => {
      target.writeInt32BE(value, at);
      return intBytes;
    },
    () => intBytes,
  );
}

/** A parameter for `$n::timestamptz[]`, of milliseconds since 1970; exact until the year 2285. */
export function timeArray(values: readonly number[]): Buffer {
  return arrayOf(
    oids.timestamptz,
    values,
    (target, ms, at) => {
      const micros = (ms - postgresEpochMs) * 1000;
      const upper = Math.floor(micros / upperHalf);
      target.writeInt32BE(upper, at);
      target.writeUInt32BE(micros - upper * upperHalf, at + 4);
      return timeBytes;
    },
    () => timeBytes,
  );
}

/** `write` returns how many bytes it wrote, at most `bytesMax(value)`. */
function arrayOf<Value>(
  oid: number,
  values: readonly (Value | null)[],
  write: (target: Buffer, value: Value, at: number) => number,
  bytesMax: (value: Value) => number,
): Buffer {
  const size = values.reduce((sum, value) => sum + lengthBytes + (value === null ? 0 : bytesMax(value)), headerBytes);
  const target = Buffer.allocUnsafe(size);
  // One dimension with its lower bound, and the flag that there may be nulls. An empty array has no dimension at all.
  target.writeInt32BE(values.length === 0 ? 0 : 1, 0);
  target.writeInt32BE(1, 4);
  target.writeInt32BE(oid, 8);
  target.writeInt32BE(values.length, 12);
  target.writeInt32BE(1, 16);
  let at = values.length === 0 ? 12 : headerBytes;
  for (const value of values) {
    const written = value === null ? 0 : write(target, value, at + lengthBytes);
    target.writeInt32BE(value === null ? -1 : written, at);
    at += lengthBytes + written;
  }
  return target.subarray(0, at);
}
