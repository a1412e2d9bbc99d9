/** Which records a document was made of, so that a person can follow it back to the change at the service. Pure. */
import { idOf, readPairKey } from '#bridge/documents/document-keys.ts';
import { feeds } from '#contract/feed.ts';
import type { KindAndKey, Parts } from './document-parts.ts';
import { pairFeeds } from './document-parts.ts';

/** A version of a record, or a related object, which has no stamp. */
export interface RecordVersion {
  /** The name of its feed; `supplier-master` for an entry of the supplier list, `job` for a job. */
  readonly feed: string;
  readonly id: string;
  /** As the source wrote it. */
  readonly modified?: string;
}

/** A document of a thousand lots is made of a thousand records: what is kept of it stays short. */
export const recordVersionsMax = 200;

/** Returns the versions of the records that the document of this key is made of, its event first; at most 200. */
export function madeOf({ kind, key }: KindAndKey, parts: Parts): RecordVersion[] {
  return [...versionsBehind({ kind, key }, parts)].slice(0, recordVersionsMax);
}

function* versionsBehind({ kind, key }: KindAndKey, parts: Parts): Generator<RecordVersion> {
  const feed = pairFeeds.get(kind);
  if (feed !== undefined) {
    const { event } = readPairKey(key);
    yield* versionOf('sourcing-events', parts.events.get(event)?.record);
    for (const { record } of (parts.records.get(`${kind} ${key}`) ?? []).slice(0, recordVersionsMax))
      yield* versionOf(feed, record);
  } else if (kind === 'event-awards') {
    yield* versionOf('sourcing-events', parts.events.get(key)?.record);
    for (const { record } of (parts.awardsOfEvents.get(key)?.awards ?? []).slice(0, recordVersionsMax))
      yield* versionOf('awards', record);
  } else if (kind === 'sourcing-event') yield* versionOf('sourcing-events', parts.events.get(key)?.record);
  else if (kind === 'supplier') {
    const sources = parts.supplierSources.get(key);
    if (sources?.master !== undefined) yield { feed: 'supplier-master', id: key };
    yield* versionOf('sourcing-events', sources?.event);
  } else if (kind === 'job') {
    if (parts.jobs.has(key)) yield { feed: 'job', id: key };
  } else
    for (const { part, event, record } of (parts.fileReferences.get(key) ?? []).slice(0, recordVersionsMax)) {
      yield* versionOf('sourcing-events', parts.events.get(event)?.record);
      if (part in feeds) yield* versionOf(part, record);
    }
}

function* versionOf(feed: string, record: unknown): Generator<RecordVersion> {
  if (typeof record !== 'object' || record === null) return;
  const { id, modified } = record as { id?: unknown; modified?: unknown };
  const read = typeof id === 'number' ? String(id) : idOf(id);
  if (read !== undefined) yield { feed, id: read, ...(typeof modified === 'string' && { modified }) };
}
