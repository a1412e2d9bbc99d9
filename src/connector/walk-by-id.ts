/**
 * Reads what has changed in an ERP whose records have ids that ascend and times of their last change, such as Odoo,
 * Tryton and SAP.
 *
 * A read goes in the order of ids through all records that changed since the last read began, minus an overlap. So each
 * page is bounded, and a read that was interrupted continues after the last id. The next read starts at the time at which
 * this one began, by the server's clock. A change that was committed late, or that a slow clock dated too early, is still
 * found if the delay is at most the overlap; changes within the overlap are read twice. A deletion leaves no trace.
 */
import { z } from 'zod';
import { parseCheckpoint } from './read-from.ts';
import type { ReadPage, ReadStream } from './records.ts';

/** The bridge stores checkpoints as JSON: the member names stay as they are. Times are milliseconds since 1970. */
const checkpointSchema = z.object({
  /** All changes before this time were read; absent: none were. */
  since: z.int().optional(),
  /** An unfinished read: when it began, and the last id that was read. */
  walk: z.object({ began: z.int().optional(), after: z.union([z.int(), z.string()]) }).optional(),
});
type Checkpoint = z.output<typeof checkpointSchema>;

const beforeFirstId = -1;

/** Numbers or texts, in the order in which the ERP compares them. */
interface WithId {
  readonly id: number | string;
}

/** Asks for the rows whose id is above `after`, in ascending order of ids. Throws ConnectorErrors. */
type PageAfter<Row extends WithId> = (after: Row['id'], signal: AbortSignal) => Promise<readonly Row[]>;

/** What a walk reads. */
export interface IdWalk<Row extends WithId, Stream extends ReadStream> {
  /** How the connector calls itself, for an operator. */
  readonly connector: string;
  /** The server's time in milliseconds since 1970; undefined if it tells none. */
  readonly nowMs: (signal: AbortSignal) => Promise<number | undefined>;
  /** An id below the first one; by default -1. */
  readonly beforeFirst?: Row['id'];
  /** How far a read looks back, in milliseconds: longer than the longest transaction of the ERP. */
  readonly overlapMs: number;
  /** A page has so many rows; one with fewer is the last. */
  readonly pageSize: number;
  /** Returns the pages of the rows that have changed at `sinceMs` or later; of all rows, if it is undefined. */
  readonly changedSince: (sinceMs: number | undefined) => PageAfter<Row>;
  readonly recordsOf: (rows: readonly Row[], signal: AbortSignal) => Promise<ReadPage<Stream>['records']>;
}

/** The pages of a session's `read`. Throws ConfigError for the checkpoint of another connector, and as the walk does. */
export async function* walkById<Row extends WithId, Stream extends ReadStream>(
  walk: IdWalk<Row, Stream>,
  checkpoint: string | undefined,
  signal: AbortSignal,
): AsyncGenerator<ReadPage<Stream>> {
  const first: Row['id'] = walk.beforeFirst ?? beforeFirstId;
  const { since, walk: unfinished } = checkpointOf(walk.connector, checkpoint, typeof first);
  const began = unfinished ? unfinished.began : await walk.nowMs(signal);
  const next: Checkpoint = began === undefined ? { since } : { since: began };
  const pageAfter = walk.changedSince(since === undefined ? undefined : since - walk.overlapMs);
  const from = { after: unfinished?.after ?? first, pageSize: walk.pageSize };
  for await (const { rows, after, isLast } of pagesById(pageAfter, from, signal)) {
    const reached: Checkpoint = isLast ? next : { since, walk: { began, after } };
    yield { records: await walk.recordsOf(rows, signal), checkpoint: JSON.stringify(reached) };
  }
}

/** All rows in pages, in the order of their ids. */
export async function* pagesById<Row extends WithId>(
  pageAfter: PageAfter<Row>,
  { after: first = beforeFirstId, pageSize }: { readonly after?: Row['id']; readonly pageSize: number },
  signal: AbortSignal,
): AsyncGenerator<{ readonly rows: readonly Row[]; readonly after: Row['id']; readonly isLast: boolean }> {
  for (let after: Row['id'] = first; ; ) {
    const rows = await pageAfter(after, signal);
    const isLast = rows.length < pageSize;
    after = rows.at(-1)?.id ?? after;
    yield { rows, after, isLast };
    if (isLast) return;
  }
}

/** Throws ConfigError for one with ids of another type, too. */
function checkpointOf(connector: string, stored: string | undefined, typeOfId: string): Checkpoint {
  if (stored === undefined) return {};
  const isOfType = ({ walk }: Checkpoint) => walk === undefined || typeof walk.after === typeOfId;
  return parseCheckpoint(stored, checkpointSchema.refine(isOfType), connector);
}
