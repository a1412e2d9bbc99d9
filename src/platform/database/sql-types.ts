/**
 * How PostgreSQL's types arrive in JavaScript. The driver's own choices lose digits (a Date has no microseconds, a
 * numeric array becomes floats) or depend on the machine's time zone (a date becomes a local midnight); these do not:
 *
 * - timestamptz: the contract's Timestamp; the session must run in UTC with ISO dates, else reading throws
 * - date, time, timestamp, numeric: the text as the server wrote it
 * - int8: a number; reading one beyond 2^53 - 1 throws
 * - bytea: a Buffer; json and jsonb: parsed; the arrays of all these: arrays of the same
 */
import { type CustomTypesConfig, types } from 'pg';
import type { Timestamp } from '#contract/timestamp.ts';

const { builtins } = types;

/** The OIDs of array types, which the driver does not name; from PostgreSQL's pg_type.dat. */
const arrayOids = { int8: 1016, numeric: 1231, date: 1182, time: 1183, timestamp: 1115, timestamptz: 1185 };
const textArrayOid = 1009;

const serverForm = /^(\d{4}-\d\d-\d\d) (\d\d:\d\d:\d\d)(?:\.(\d{1,6}))?\+00$/;

function readTimestamp(text: string): Timestamp {
  const match = serverForm.exec(text);
  if (!match) throw new RangeError(`not a time in UTC between the years 1 and 9999: ${text}`);
  return `${match[1]}T${match[2]}.${(match[3] ?? '').padEnd(6, '0')}Z`;
}

function readInteger(text: string): number {
  const value = Number(text);
  if (!Number.isSafeInteger(value)) throw new RangeError(`the integer ${text} is too large to be read exactly`);
  return value;
}

const asText = (text: string): string => text;

type Read = (text: string) => unknown;

function arrayOf(read: Read): Read {
  const readTexts = types.getTypeParser(textArrayOid as never, 'text') as Read;
  const each = (item: unknown): unknown =>
    Array.isArray(item) ? item.map(each) : typeof item === 'string' ? read(item) : item;
  return (text) => each(readTexts(text));
}

const readers = new Map<number, Read>([
  [builtins.TIMESTAMPTZ, readTimestamp],
  [builtins.INT8, readInteger],
  [builtins.NUMERIC, asText],
  [builtins.DATE, asText],
  [builtins.TIME, asText],
  [builtins.TIMESTAMP, asText],
  [arrayOids.timestamptz, arrayOf(readTimestamp)],
  [arrayOids.int8, arrayOf(readInteger)],
  [arrayOids.numeric, arrayOf(asText)],
  [arrayOids.date, arrayOf(asText)],
  [arrayOids.time, arrayOf(asText)],
  [arrayOids.timestamp, arrayOf(asText)],
]);

/** The driver's `types` setting. It is set per pool, so that it affects no other user of the driver in the process. */
export const sqlTypes: CustomTypesConfig = {
  getTypeParser: (oid, format) =>
    (format === 'binary' ? undefined : readers.get(oid)) ?? types.getTypeParser(oid, format),
};
