import type { Session } from './connector.ts';
import type { ReadPage, ReadStream } from './records.ts';

/** How each stream is read that the capabilities name. */
export type StreamReaders = {
  readonly [Stream in ReadStream]?: (
    checkpoint: string | undefined,
    signal: AbortSignal,
  ) => AsyncIterable<ReadPage<Stream>>;
};

/** A session's `read` out of one function for each stream. Throws for a stream that has none. */
export function readFrom(readers: StreamReaders): NonNullable<Session['read']> {
  return (stream, checkpoint, signal) => {
    const reader = readers[stream];
    if (!reader) throw new Error(`This connector reads no ${stream} records.`);
    // The type of the record is that of the stream.
    return (reader as (...given: [string | undefined, AbortSignal]) => never)(checkpoint, signal);
  };
}
