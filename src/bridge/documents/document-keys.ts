/** Which documents a record belongs to. Pure; also the version before counts, as a supplier may have lost its award. */

import type { DocumentKind } from '#connector/documents.ts';
import type { FeedName } from '#contract/feed.ts';

export interface DocumentKey {
  readonly kind: DocumentKind;
  readonly key: string;
  readonly sourcingEvent: string;
}

type LooseRecord = Readonly<Record<string, unknown>>;

/** The documents that a changed record may change, beside those that its event has already. */
export function documentKeysOf(feed: FeedName, record: LooseRecord, before: LooseRecord | undefined): DocumentKey[] {
  if (feed !== 'awards') return [];
  return [record, ...(before ? [before] : [])].flatMap((version) => {
    const event = version['sourcing_event'];
    const awards = version['awards'];
    if (typeof event !== 'string' || !Array.isArray(awards)) return [];
    return awards.flatMap((award: unknown) => {
      const supplier = typeof award === 'object' && award !== null && 'supplier' in award ? award.supplier : undefined;
      return typeof supplier === 'string'
        ? [{ kind: 'award' as const, key: awardKey(event, supplier), sourcingEvent: event }]
        : [];
    });
  });
}

export function awardKey(event: string, supplier: string): string {
  return `${event}/${supplier}`;
}

/** The event and the supplier of an award's key. */
export function readAwardKey(key: string): { event: string; supplier: string } {
  const [event = '', supplier = ''] = key.split('/');
  return { event, supplier };
}
