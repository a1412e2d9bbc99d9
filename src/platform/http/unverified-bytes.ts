/**
 * A bound for the bytes of all bodies that are in memory before it is known who sent them. Beyond it the largest of these
 * bodies is refused. So an honest body is never refused for the bodies of others, as long as it is smaller than the bound
 * divided by the number of connections: with 32 MB and 1,000 connections, up to 32 KB.
 */
import { AppError } from '../errors.ts';
import { ShortLived } from '../short-lived.ts';

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
  const port = new Port(bytesMax);
  return { begin: () => new Held(port) };
}

/** Classes, unlike nearly everything here: there is one object for each request, and closures would cost more. */
class Port {
  readonly bodies = new ShortLived<Held>();
  readonly bytesMax: number;
  total = 0;

  constructor(bytesMax: number) {
    this.bytesMax = bytesMax;
  }

  refuseLargest(): void {
    let largest: Held | undefined;
    for (const body of this.bodies) if (!largest || body.bytes > largest.bytes) largest = body;
    if (!largest) return;
    largest.end();
    largest.refuse(new AppError('unavailable', 'Too many bodies are being received. Send it again later.'));
  }
}

class Held implements UnverifiedBody {
  readonly #port: Port;
  /** Its place among the bodies; undefined once it has ended. */
  #place: number | undefined;
  bytes = 0;
  refuse: (error: AppError) => void = () => undefined;

  constructor(port: Port) {
    this.#port = port;
    this.#place = port.bodies.add(this);
  }

  add(bytes: number, refuse: (error: AppError) => void): void {
    const port = this.#port;
    if (this.#place === undefined) return;
    const counted = bytes + chunkBytes;
    this.bytes += counted;
    this.refuse = refuse;
    port.total += counted;
    // One is enough: the largest holds at least as much as was added.
    if (port.total > port.bytesMax) port.refuseLargest();
  }

  end(): void {
    if (this.#place === undefined) return;
    this.#port.bodies.remove(this.#place);
    this.#place = undefined;
    this.#port.total -= this.bytes;
  }
}
