/** Reads the service's feed of sourcing events now: what the mirror holds may be older. */
import { z } from 'zod';
import { fullPageMin } from '#client/read-feed.ts';
import type { Timestamp } from '#contract/timestamp.ts';
import { parseInput } from '#platform/input.ts';
import type { IntakeDeps, IntakeWork } from '../intake-deps.ts';
import type { IntakeEvent } from './event-store.ts';

const eventForm = z.looseObject({
  id: z.string(),
  status: z.string(),
  reference_id: z.string().nullish(),
  created: z.string().nullish(),
  modified: z.string().nullish(),
});

type ShownEvent = z.output<typeof eventForm>;

const pageSize = 200;
const pagesMax = 50;

/**
 * Returns the events that changed at this time or later. `complete` is false where there are more than could be read, and
 * where a page may have been cut off: a page that names no next page is followed by the events from its newest one on,
 * until these are few or known.
 */
export async function readEventsSince(
  { client }: Pick<IntakeDeps, 'client'>,
  since: Timestamp,
  signal: AbortSignal,
): Promise<{ found: ShownEvent[]; complete: boolean }> {
  const found = new Map<string, ShownEvent>();
  let query = queryFrom(since);
  for (let pages = 0; pages < pagesMax; pages += 1) {
    const known = found.size;
    const { events, next } = await readPage(client, query, signal);
    for (const event of events) found.set(event.id, event);
    if (next === undefined && events.length < fullPageMin) return { found: [...found.values()], complete: true };
    const newest = events.reduce(
      (last, { modified }) => (modified !== null && modified !== undefined && modified > last ? modified : last),
      '',
    );
    if (next === undefined && (newest === '' || found.size === known)) break;
    query = next ?? queryFrom(newest);
  }
  return { found: [...found.values()], complete: false };
}

/** Returns the status that the feed shows of the event now; undefined where it does not show the event. */
export async function readEventStatus(
  { client }: IntakeWork,
  { entity }: Pick<IntakeEvent, 'entity'>,
  signal: AbortSignal,
): Promise<string | undefined> {
  const { events } = await readPage(client, `id=${encodeURIComponent(entity ?? '')}`, signal);
  return events.find(({ id }) => id === entity)?.status;
}

function queryFrom(modifiedAfter: string): string {
  return new URLSearchParams({ modified_after: modifiedAfter, page_size: String(pageSize) }).toString();
}

async function readPage(client: IntakeDeps['client'], query: string, signal: AbortSignal) {
  const { records, next } = await client.readFeed('sourcing-events', { next: query }, signal);
  const events: ShownEvent[] = parseInput(z.array(eventForm), records, 'The answer of the sourcing-events feed');
  return { events, next };
}
