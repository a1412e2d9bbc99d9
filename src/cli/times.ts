import { InvalidArgumentError } from 'commander';
import { parseTimestamp, type Timestamp } from '#contract/timestamp.ts';

/** Reads an option's time: `2030-12-31`, `2030-12-31T23:59:59Z`, optionally with microseconds or an offset. */
export function timeOption(text: string): Timestamp {
  const timestamp = parseTimestamp(text);
  if (timestamp === undefined)
    throw new InvalidArgumentError('It must be a time like 2030-12-31T23:59:59Z, or a date, which means 00:00 UTC.');
  return timestamp;
}
