/**
 * Reads what identifies a version of a record: its id, its stamp (`modified`), and the hash of its content.
 */
import { z } from 'zod';
import { plainKey, recordId, supplierOfRecord } from '#bridge/documents/document-keys.ts';
import { type FeedName, feeds } from '#contract/feed.ts';
import { timestamp } from '#contract/scalars.ts';
import type { Timestamp } from '#contract/timestamp.ts';
import { isStorable } from '#platform/database/storable-text.ts';
import { parseInput } from '#platform/input.ts';
import { sha256 } from '#platform/sha256.ts';

/** The stamp of a record that has none: older than any other. */
export const withoutTime: Timestamp = '1970-01-01T00:00:00.000000Z';

/** What every record must have to be stored at all; the other members are read when its documents are made. */
const keyed = z.looseObject({
  id: z.union([...recordId.options, z.int().transform(String)]).refine(isStorable, 'cannot be stored as text'),
  modified: timestamp.nullish().transform((given) => given ?? withoutTime),
  sourcing_event: recordId.refine(isStorable).optional().catch(undefined),
});

export interface VersionKey {
  readonly id: string;
  readonly modified: Timestamp;
  readonly sourcing_event?: string | undefined;
}

export interface Version {
  readonly recordId: string;
  readonly modified: Timestamp;
  readonly hash: Buffer;
  readonly sourcingEvent: string | null;
  /** The one supplier that the record belongs to; empty for none, or many. */
  readonly supplier: string;
  /** JSON. */
  readonly body: string;
  readonly record: Record<string, unknown>;
}

/**
 * Returns the id and the stamp of a record as it came from the feed; the stamp of a record without one is
 * `withoutTime`. Throws AppError `invalid`, which says which record has no id, or a time that cannot be read.
 */
export function readVersionKey(record: Record<string, unknown>, feed: string, index: number): VersionKey {
  const named = typeof record['id'] === 'string' ? ` (${record['id'].slice(0, 100)})` : '';
  return parseInput(keyed, record, `Record ${index}${named} on a page of the ${feed} feed`);
}

/** Returns the versions of a page's records, in the page's order. Throws as `readVersionKey` does. */
export function versionsOf(records: readonly Record<string, unknown>[], feed: FeedName): Version[] {
  return records.map((record, index) => versionOf(record, feed, readVersionKey(record, feed, index)));
}

function versionOf(
  record: Record<string, unknown>,
  feed: FeedName,
  { id, modified, sourcing_event }: VersionKey,
): Version {
  const body = JSON.stringify(record);
  return {
    recordId: id,
    modified,
    hash: sha256(body),
    sourcingEvent: feeds[feed].event === 'id' ? id : (sourcing_event ?? null),
    supplier: plainKey(supplierOfRecord(feed, record) ?? ''),
    body,
    record,
  };
}
