import type { Session } from './connector.ts';
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
