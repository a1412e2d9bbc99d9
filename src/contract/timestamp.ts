/**
 * Times as the API writes them: ISO 8601 in UTC with microseconds, `2030-12-31T23:59:59.000000Z`. In this form the
 * order of the texts is the order of the times, so timestamps are stored and compared as strings. A JavaScript Date
 * would lose the microseconds.
 */

/** `YYYY-MM-DDTHH:MM:SS.ffffffZ`, always 27 characters. */
export type Timestamp = string;

const inputForm =
  /^(\d{4})-(\d{2})-(\d{2})(?:[Tt ](\d{2}):(\d{2})(?::(\d{2})(?:[.,](\d{1,9}))?)?(Z|z|[+-]\d{2}(?::?\d{2})?)?)?$/;

/**
 * Reads a date (00:00 UTC) or a date-time in any of the contract's forms; digits beyond microseconds are cut off.
 * Returns undefined for any other text, also for dates that do not exist and for a date-time without an offset.
 */
export function parseTimestamp(text: string): Timestamp | undefined {
  const match = inputForm.exec(text);
  if (!match) return undefined;
  const [, year, month, day, hour, minute, second, fraction, offset] = match;
  if (hour !== undefined && offset === undefined) return undefined;
  const micros = (fraction ?? '').slice(0, 6).padEnd(6, '0');
  const given = `${year}-${month}-${day}T${hour ?? '00'}:${minute ?? '00'}:${second ?? '00'}`;
  const ms = Date.parse(`${given}Z`);
  // Date.parse may move 31 February into March: a date exists only if it is unchanged.
  if (Number.isNaN(ms) || new Date(ms).toISOString().slice(0, 19) !== given) return undefined;
  const offsetMs = offsetMsOf(offset ?? 'Z');
  if (offsetMs === undefined) return undefined;
  const utc = new Date(ms - offsetMs);
  if (utc.getUTCFullYear() < 1 || utc.getUTCFullYear() > 9999) return undefined;
  return `${utc.toISOString().slice(0, 19)}.${micros}Z`;
}

function offsetMsOf(offset: string): number | undefined {
  if (offset.toUpperCase() === 'Z') return 0;
  const hours = Number(offset.slice(1, 3));
  const minutes = Number(offset.slice(3).replace(':', '') || 0);
  if (hours > 23 || minutes > 59) return undefined;
  return (offset.startsWith('-') ? -1 : 1) * (hours * 60 + minutes) * 60_000;
}

/** Milliseconds since 1970 as a Timestamp. */
export function timestampFromMs(ms: number): Timestamp {
  return `${new Date(ms).toISOString().slice(0, 23)}000Z`;
}

/** A Timestamp as milliseconds since 1970, microseconds cut off. */
export function msFromTimestamp(timestamp: Timestamp): number {
  return Date.parse(`${timestamp.slice(0, 23)}Z`);
}

/** A Timestamp as microseconds since 1970; exact, as they stay below 2^53 until the year 2255. */
export function microsFromTimestamp(timestamp: Timestamp): number {
  return msFromTimestamp(timestamp) * 1000 + Number(timestamp.slice(23, 26));
}

/** Microseconds since 1970 as a Timestamp. */
export function timestampFromMicros(micros: number): Timestamp {
  return addMicros(timestampFromMs(Math.floor(micros / 1000)), micros - Math.floor(micros / 1000) * 1000);
}

const earliest: Timestamp = '0001-01-01T00:00:00.000000Z';
const latest: Timestamp = '9999-12-31T23:59:59.999999Z';
const [earliestMs, latestMs] = [msFromTimestamp(earliest), msFromTimestamp(latest)];

/**
 * The timestamp `micros` microseconds later (or earlier, when negative), at most the first or the last one that a reader
 * takes.
 */
export function addMicros(timestamp: Timestamp, micros: number): Timestamp {
  const total = Number(timestamp.slice(23, 26)) + micros;
  const carryMs = Math.floor(total / 1000);
  const rest = String(total - carryMs * 1000).padStart(3, '0');
  // Within a millisecond nothing else changes: stamps are made by the thousand.
  if (carryMs === 0) return `${timestamp.slice(0, 23)}${rest}Z`;
  const ms = msFromTimestamp(timestamp) + carryMs;
  if (ms < earliestMs) return earliest;
  if (ms > latestMs) return latest;
  return `${new Date(ms).toISOString().slice(0, 23)}${rest}Z`;
}

/** The later of two timestamps; undefined is earlier than any timestamp. */
export function laterOf(a: Timestamp | undefined, b: Timestamp | undefined): Timestamp | undefined {
  if (a === undefined) return b;
  if (b === undefined) return a;
  return a > b ? a : b;
}
