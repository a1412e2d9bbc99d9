/** What came of making a document, and how records are read for it. */
import type { z } from 'zod';

export type MadeDocument<Document> =
  /** Not wanted: it is to be withdrawn where it was delivered. */
  { made: 'document'; document: Document; wanted: boolean } | NotMade;

export type NotMade =
  /** Something that it is made of has not been read yet. */
  | { made: 'not-yet'; reason: string }
  /** A record, or what the flow's mapping makes of it, cannot be understood: a dead letter. */
  | { made: 'rejected'; reason: string }
  /** It stays in the ERP as it is, or is not made yet, until what it is made of changes. */
  | { made: 'held'; reason: string };

/** Ends the making of one document; `making` turns it into a result. */
export class Unmade extends Error {
  readonly made: NotMade['made'];

  constructor(made: NotMade['made'], reason: string) {
    super(reason);
    this.made = made;
  }
}

export function rejected(reason: string): Unmade {
  return new Unmade('rejected', reason);
}

/** Runs `make`; what it throws as `Unmade` is the result. */
export function making<Document>(make: () => MadeDocument<Document>): MadeDocument<Document> {
  try {
    return make();
  } catch (error) {
    if (error instanceof Unmade) return { made: error.made, reason: error.message };
    throw error;
  }
}

/**
 * Reads a record as the source sent it. A member that is null counts as left out, as the contract has it. Throws `Unmade`
 * that names what is wrong; `what` opens the message.
 */
export function readRecord<Schema extends z.ZodType>(schema: Schema, record: unknown, what: string): z.output<Schema> {
  const read = schema.safeParse(record);
  if (read.success) return read.data;
  const again = schema.safeParse(withoutNulls(record, 0));
  if (again.success) return again.data;
  const [issue] = again.error.issues;
  throw rejected(`${what}: ${issue?.path.map(String).join('.') ?? ''} ${issue?.message ?? ''}`.trim());
}

/** No record has anything deeper. */
const depthMax = 20;

function withoutNulls(value: unknown, depth: number): unknown {
  if (typeof value !== 'object' || value === null || depth > depthMax) return value;
  if (Array.isArray(value)) return value.map((item) => withoutNulls(item, depth + 1));
  return Object.fromEntries(
    Object.entries(value).flatMap(([name, item]) => (item === null ? [] : [[name, withoutNulls(item, depth + 1)]])),
  );
}
