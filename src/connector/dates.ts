/**
 * Days and times for ERPs. Documents have times in UTC with microseconds (`2030-12-31T23:59:59.000000Z`); an ERP has
 * days in a time zone, or milliseconds. Precision that the ERP cannot keep is refused, or cut off where the connector
 * asks for that.
 */
import { msFromTimestamp, parseTimestamp, type Timestamp, timestampFromMs } from '#contract/timestamp.ts';
import { ConfigError, DataError } from './errors.ts';

/**
 * The local day (`2030-12-31`) at this time in a time zone such as `Europe/Berlin`. Throws DataError for an invalid
 * time, ConfigError for an unknown zone.
 */
export function dayIn(time: string, zone: string): string {
  return dayAt(msFromTimestamp(readTime(time)), zone);
}

/**
 * By how many milliseconds clocks in a time zone went back through this time (`2026-10-25 02:58`), which they therefore
 * showed twice; 0 for any other time, and for a text that is none. What was stamped later may have a time that is so much
 * earlier. Throws ConfigError for an unknown zone.
 */
export function repeatedMs(shown: string, zone: string): number {
  const shownMs = Date.parse(`${shown.replace(' ', 'T')}Z`);
  if (Number.isNaN(shownMs)) return 0;
  const moments = momentsOf(shownMs, zone);
  return moments.length < 2 ? 0 : Math.max(...moments) - Math.min(...moments);
}

/**
 * Milliseconds since 1970. Throws DataError for a time with microseconds: use `cutToMs` where losing them is
 * acceptable.
 */
export function timeToMs(time: string): number {
  const read = readTime(time);
  if (!read.endsWith('000Z')) throw new DataError(`${time} has microseconds, which would be lost`);
  return msFromTimestamp(read);
}

/** Milliseconds since 1970; microseconds are cut off. Throws DataError for an invalid time. */
export function cutToMs(time: string): number {
  return msFromTimestamp(readTime(time));
}

/** An ERP's time in milliseconds since 1970, as documents and records have it. Throws DataError for an invalid time. */
export function timeFromMs(ms: number): Timestamp {
  if (!Number.isInteger(ms) || ms < earliestMs || ms >= yearTenThousandMs)
    throw new DataError(`${ms} is not a time in milliseconds since 1970`);
  return timestampFromMs(ms);
}

/** No zone is further from UTC. Its clocks may change within that span. */
const zoneMostMs = 16 * 3_600_000;
/** ERPs use earlier years as a placeholder for "no date". */
const earliestMs = Date.parse('0100-01-01T00:00:00Z');
const yearTenThousandMs = Date.parse('9999-12-31T23:59:59.999Z') + 1;

function readTime(time: string): Timestamp {
  const read = parseTimestamp(time);
  if (read === undefined)
    throw new DataError(`${JSON.stringify(time.slice(0, 60))} is not a time like 2030-12-31T23:59:59Z`);
  return read;
}

function dayAt(ms: number, zone: string): string {
  return new Date(wallMs(ms, zone)).toISOString().slice(0, 10);
}

/** The moments at which clocks in the zone show this (as if it were UTC): none for one that they skip. */
function momentsOf(shownMs: number, zone: string): number[] {
  const offsets = [shownMs - zoneMostMs, shownMs, shownMs + zoneMostMs].map((at) => wallMs(at, zone) - at);
  return offsets.map((offset) => shownMs - offset).filter((at) => wallMs(at, zone) === shownMs);
}

/** What clocks in the zone show, in milliseconds as if that were UTC. */
function wallMs(ms: number, zone: string): number {
  const shown: Record<string, string> = {};
  for (const { type, value } of formatOf(zone).formatToParts(ms)) shown[type] = value;
  const part = (name: string) => Number(shown[name]);
  const wall = new Date(0);
  const year = shown['era'] === 'B' ? 1 - part('year') : part('year');
  wall.setUTCFullYear(year, part('month') - 1, part('day'));
  return wall.setUTCHours(part('hour'), part('minute'), part('second'), ((ms % 1000) + 1000) % 1000);
}

/** By zone. Creating a format costs more than a thousand uses of it. */
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
      throw new ConfigError(`${JSON.stringify(zone)} is not a time zone: it must be like Europe/Berlin`, { cause });
    }
    formats.set(zone, format);
  }
  return format;
}
