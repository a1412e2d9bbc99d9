/**
 * A bound for the bytes of all bodies that are in memory before it is known who sent them. Beyond it the largest of these
 * bodies is refused. So an honest body is never refused for the bodies of others, as long as it is smaller than the bound
 * divided by the number of connections: with 32 MB and 1,000 connections, up to 32 KB.
 */
import { AppError } from '../errors.ts';

/** For all bodies of a port together. */
export const unverifiedBytesMax = 33_554_432;

export interface UnverifiedBytes {
  /** Begins a body that holds no bytes yet. */
  begin(): UnverifiedBody;
}

/** The bounds of a port for bodies whose senders are not known yet. */
export interface UnverifiedBounds {
  /** How long a body may take, counted from its first byte. */
  readonly withinMs: number;
  readonly unverified: UnverifiedBytes;
}

export interface UnverifiedBody {
  /** Counts a chunk. `refuse` is called, now or later, when the body is given up: with an AppError `unavailable`. */
  add(bytes: number, refuse: (error: AppError) => void): void;
  /** Ends the count: the body was verified, or is not kept any more. */
  end(): void;
}

/** What a chunk needs in memory beside its bytes: a client may send them one by one. */
const chunkBytes = 256;

/** Creates the bound for the bodies of one port. */
export function createUnverifiedBytes(bytesMax: number): UnverifiedBytes {
  /** The bodies, with their bytes. */
  const bodies = new Map<UnverifiedBody, { bytes: number; refuse: (error: AppError) => void }>();
  let total = 0;

  function end(body: UnverifiedBody): void {
    total -= bodies.get(body)?.bytes ?? 0;
    bodies.delete(body);
  }

  function refuseLargest(): void {
    const [largest] = [...bodies].sort(([, one], [, other]) => other.bytes - one.bytes);
    if (!largest) return;
    const [body, { refuse }] = largest;
    end(body);
    refuse(new AppError('unavailable', 'Too many bodies are being received. Send it again later.'));
  }

  return {
    begin: () => {
      const body: UnverifiedBody = {
        add: (bytes, refuse) => {
          const held = bodies.get(body);
          if (!held) return;
          held.bytes += bytes + chunkBytes;
          held.refuse = refuse;
          total += bytes + chunkBytes;
          // One is enough: the largest holds at least as much as was added.
          if (total > bytesMax) refuseLargest();
        },
        end: () => end(body),
      };
      bodies.set(body, { bytes: 0, refuse: () => undefined });
      return body;
    },
  };
}
