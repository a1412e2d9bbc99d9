import type { z } from 'zod';
import type { Session } from './connector.ts';
import { ConfigError } from './errors.ts';
import type { ReadPage, ReadStream } from './records.ts';

/** A function for each stream that the capabilities name in `reads`. */
export type StreamReaders = {
  readonly [Stream in ReadStream]?: (
    checkpoint: string | undefined,
    signal: AbortSignal,
  ) => AsyncIterable<ReadPage<Stream>>;
};

/** Builds a session's `read` from one function per stream. It throws for a stream without a function. */
export function readFrom(readers: StreamReaders): NonNullable<Session['read']> {
  return (stream, checkpoint, signal) => {
    const reader = readers[stream];
    if (!reader) throw new Error(`This connector reads no ${stream} records.`);
    // The reader under the stream's own name returns records of that stream.
    return (reader as (...given: [string | undefined, AbortSignal]) => never)(checkpoint, signal);
  };
}

/**
 * Reads a checkpoint that the connector has stored as JSON. Throws ConfigError for any other text: it was written by
 * another connector, or by hand.
 */
export function parseCheckpoint<Checkpoint>(
  stored: string,
  form: z.ZodType<Checkpoint>,
  connector: string,
): Checkpoint {
  let given: unknown;
  try {
    given = JSON.parse(stored);
  } catch {
    given = undefined;
  }
  const read = form.safeParse(given);
  if (!read.success)
    throw new ConfigError(
      `The checkpoint was not written by the ${connector} connector: start this read from the beginning.`,
    );
  return read.data;
}
