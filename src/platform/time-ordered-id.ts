/**
 * Ids that sort by the time at which they were made: UUIDs of version 7 (RFC 9562, 5.7). New rows land at the end of an
 * index on them, and a range of time is a range of ids. Written by hand: twelve lines, and Node makes only version 4.
 */
import { randomBytes } from 'node:crypto';

/** The id holds the time in 48 bits. */
const msMax = 2 ** 48 - 1;
/** Of one millisecond: the ids of a process keep their order within it, until the counter is full. */
const countMax = 2 ** 12 - 1;
let lastMs = -1;
let count = 0;

/** Returns a new id of this time. Ids of one process that are made later sort later, while the clock does not go back. */
export function timeOrderedId(nowMs: number): string {
  const ms = Math.min(Math.max(0, Math.floor(nowMs)), msMax);
  count = ms === lastMs ? Math.min(count + 1, countMax) : 0;
  lastMs = ms;
  const random = randomBytes(8);
  random[0] = ((random[0] ?? 0) & 0x3f) | 0x80;
  return asId(ms, count, random.toString('hex'));
}

/** Returns an id before every id of this time or later, and after every earlier one. */
export function firstIdAt(atMs: number): string {
  return asId(Math.min(Math.max(0, Math.floor(atMs)), msMax), 0, '8000000000000000');
}

function asId(ms: number, counter: number, rest: string): string {
  const time = ms.toString(16).padStart(12, '0');
  const low = counter.toString(16).padStart(3, '0');
  return `${time.slice(0, 8)}-${time.slice(8)}-7${low}-${rest.slice(0, 4)}-${rest.slice(4)}`;
}
