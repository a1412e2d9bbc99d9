/**
 * Days and times for ERPs. Documents have times in UTC with microseconds (`2030-12-31T23:59:59.000000Z`); an ERP has days
 * of a place, or milliseconds. What it cannot keep is refused, or cut off where the connector says so.
 */
import { msFromTimestamp, parseTimestamp, type Timestamp, timestampFromMs } from '#contract/timestamp.ts';
import { ConfigError, DataError } from './errors.ts';

/** The day (`2030-12-31`) that it is at a place at this time; `zone` as `Europe/Berlin`. */
export function dayIn(time: string, zone: string): string {
  return dayAt(msFromTimestamp(readTime(time)), zone);
}

/**
 * When a day begins at a place: midnight, or the first moment after it where clocks are put forward over midnight. Of a
 * day that a place has left out it is the beginning of the next one.
 */
export function startOfDay(day: string, zone: string): Timestamp {
  const start = /^\d{4}-\d{2}-\d{2}$/.test(day) ? parseTimestamp(day) : undefined;
  if (start === undefined) throw new DataError(`${JSON.stringify(day.slice(0, 60))} is no day like 2030-12-31`);
  const utcMs = msFromTimestamp(start);
  // No place is further from UTC than this; its clocks may change in between.
  let early = utcMs - 16 * hourMs;
  const offsets = [early, utcMs, utcMs + 16 * hourMs].map((at) => wallMs(at, zone) - at);
  const midnights = offsets.map((offset) => utcMs - offset).filter((at) => wallMs(at, zone) === utcMs);
  if (midnights.length > 0) return timestampFromMs(Math.min(...midnights));
  // There is no midnight: the change of the clocks itself.
  let late = utcMs + 16 * hourMs;
  while (late - early > 1) {
    const middle = Math.floor((early + late) / 2);
    if (wallMs(middle, zone) < utcMs) early = middle;
    else late = middle;
  }
  return timestampFromMs(late);
}

/** Milliseconds since 1970. Throws DataError for a time between two of them: `cutToMs` says that it may be lost. */
export function timeToMs(time: string): number {
  const read = readTime(time);
  if (!read.endsWith('000Z')) throw new DataError(`${time} has microseconds, which would be lost`);
  return msFromTimestamp(read);
}

/** Milliseconds since 1970; what is between two of them is cut off. */
export function cutToMs(time: string): number {
  return msFromTimestamp(readTime(time));
}

/** A time of an ERP as documents and records have it. Throws DataError for what is none. */
export function timeFromMs(ms: number): Timestamp {
  if (!Number.isInteger(ms) || ms < earliestMs || ms >= yearTenThousandMs)
    throw new DataError(`${ms} is no time in milliseconds since 1970`);
  return timestampFromMs(ms);
}

const hourMs = 3_600_000;
/** Earlier years stand for nothing, where an ERP has them. */
const earliestMs = Date.parse('0100-01-01T00:00:00Z');
const yearTenThousandMs = Date.parse('9999-12-31T23:59:59.999Z') + 1;

function readTime(time: string): Timestamp {
  const read = parseTimestamp(time);
  if (read === undefined)
    throw new DataError(`${JSON.stringify(time.slice(0, 60))} is no time like 2030-12-31T23:59:59Z`);
  return read;
}

function dayAt(ms: number, zone: string): string {
  return new Date(wallMs(ms, zone)).toISOString().slice(0, 10);
}

/** What clocks of the place show, as if it were UTC. */
function wallMs(ms: number, zone: string): number {
  const shown: Record<string, string> = {};
  for (const { type, value } of formatOf(zone).formatToParts(ms)) shown[type] = value;
  const part = (name: string) => Number(shown[name]);
  const wall = new Date(0);
  const year = shown['era'] === 'B' ? 1 - part('year') : part('year');
  wall.setUTCFullYear(year, part('month') - 1, part('day'));
  return wall.setUTCHours(part('hour'), part('minute'), part('second'), ((ms % 1000) + 1000) % 1000);
}

/** Making one costs more than a thousand uses of it. */
const formats = new Map<string, Intl.DateTimeFormat>();

function formatOf(zone: string): Intl.DateTimeFormat {
  let format = formats.get(zone);
  if (!format) {
    try {
      format = new Intl.DateTimeFormat('en-US', {
        timeZone: zone,
        calendar: 'gregory',
        numberingSystem: 'latn',
        hourCycle: 'h23',
        era: 'narrow',
        year: 'numeric',
        month: 'numeric',
        day: 'numeric',
        hour: 'numeric',
        minute: 'numeric',
        second: 'numeric',
      });
    } catch (cause) {
      throw new ConfigError(`${JSON.stringify(zone)} is no time zone: it must be like Europe/Berlin`, { cause });
    }
    formats.set(zone, format);
  }
  return format;
}
