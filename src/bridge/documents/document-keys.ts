/**
 * Which documents a record belongs to. Pure; the version before counts, too, as a supplier may have lost its award.
 * Ids are compared as the contract reads them: a UUID in lower case, whatever the source writes.
 */
import { z } from 'zod';
import type { DocumentKind } from '#connector/documents.ts';
import type { FeedName } from '#contract/feed.ts';
import { uuid } from '#contract/scalars.ts';

export interface DocumentKey {
  readonly kind: DocumentKind;
  /** `<event id>/<supplier id>`. */
  readonly key: string;
  readonly sourcingEvent: string;
}

/** An id that is no UUID gets its document, too: that one says what is wrong with the record. */
export const recordId = z.union([uuid, z.string().min(1)]);

const awarded = z.looseObject({
  sourcing_event: recordId,
  awards: z.array(z.looseObject({ supplier: recordId }).nullable().catch(null)),
});

/** The documents that a changed record may change, beside those that its event has already. */
export function documentKeysOf(feed: FeedName, ...versions: readonly unknown[]): DocumentKey[] {
  if (feed !== 'awards') return [];
  return versions.flatMap((version) => {
    const read = awarded.safeParse(version);
    if (!read.success) return [];
    const { sourcing_event: sourcingEvent, awards } = read.data;
    return awards.flatMap((award) =>
      award === null ? [] : [{ kind: 'award' as const, key: awardKey(sourcingEvent, award.supplier), sourcingEvent }],
    );
  });
}

/** UUIDs stand in it as they are; in anything else a slash or a character that cannot be stored is escaped. */
export function awardKey(event: string, supplier: string): string {
  return [event, supplier].map((id) => encodeURIComponent(id.toWellFormed())).join('/');
}

/** The event and the supplier of an award's key. */
export function readAwardKey(key: string): { event: string; supplier: string } {
  const [event = '', supplier = ''] = key.split('/').map(decodeURIComponent);
  return { event, supplier };
}
