/** The result of making a document, and how records are read for it. */
import type { z } from 'zod';

export type MadeDocument<Document> =
  /** The document, also when it is not wanted: then it is withdrawn if it was delivered. */
  { made: 'document'; document: Document; wanted: boolean } | NotMade;

export type NotMade =
  /** A record that it is made of has not been read yet. */
  | { made: 'not-yet'; reason: string }
  /** A record cannot be read, or the flow's mapping cannot be applied to it: a dead letter. */
  | { made: 'rejected'; reason: string }
  /** On hold: the ERP keeps what it has until a record that the document is made of changes. */
  | { made: 'held'; reason: string };

/** Thrown to end the making of a document; `making` turns it into a result. */
export class Unmade extends Error {
  readonly made: NotMade['made'];

  constructor(made: NotMade['made'], reason: string) {
    super(reason);
    this.made = made;
  }
}

/** Returns the error to throw when a document becomes a dead letter. */
export function rejected(reason: string): Unmade {
  return new Unmade('rejected', reason);
}

/** Returns the result of `make`; an `Unmade` that it throws becomes the result. Throws any other error of `make`. */
export function making<Document>(make: () => MadeDocument<Document>): MadeDocument<Document> {
  try {
    return make();
  } catch (error) {
    if (error instanceof Unmade) return { made: error.made, reason: error.message };
    throw error;
  }
}

/**
 * Reads a record as the source sent it. A member that is null counts as left out, as the contract has it. Throws
 * `Unmade`, rejected, that names the wrong member; `what` opens the message.
 */
export function readRecord<Schema extends z.ZodType>(schema: Schema, record: unknown, what: string): z.output<Schema> {
  const read = schema.safeParse(record);
  if (read.success) return read.data;
  const again = schema.safeParse(withoutNulls(record, 0));
  if (again.success) return again.data;
  const [issue] = again.error.issues;
  throw rejected(`${what}: ${issue?.path.map(String).join('.') ?? ''} ${issue?.message ?? ''}`.trim());
}

/** Records are not nested deeper than this. */
const depthMax = 20;

function withoutNulls(value: unknown, depth: number): unknown {
  if (typeof value !== 'object' || value === null || depth > depthMax) return value;
  if (Array.isArray(value)) return value.map((item) => withoutNulls(item, depth + 1));
  return Object.fromEntries(
    Object.entries(value).flatMap(([name, item]) => (item === null ? [] : [[name, withoutNulls(item, depth + 1)]])),
  );
}
