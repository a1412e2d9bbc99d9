/** Reads the service's feed of sourcing events now: what the mirror holds may be older. */
import { z } from 'zod';
import { queryOfNext } from '#client/read-feed.ts';
import type { IntakeDeps, IntakeWork } from '../intake-deps.ts';
import type { IntakeEvent } from './event-store.ts';

const feedForm = z.looseObject({
  data: z.array(
    z.looseObject({
      id: z.string(),
      status: z.string(),
      reference_id: z.string().nullish(),
      created: z.string().nullish(),
    }),
  ),
  next: z.string().nullish(),
});

/** Returns the events of the feed of sourcing events by this query, of at most ten pages. */
export async function readEventsFeed({ client }: Pick<IntakeDeps, 'client'>, query: string, signal: AbortSignal) {
  const found: z.output<typeof feedForm>['data'] = [];
  let next: string | undefined = query;
  for (let page = 0; next !== undefined && page < 10; page += 1) {
    const path: string = `/api/feeds/sourcing-events?${next}`;
    const answer: z.output<typeof feedForm> = await client.call({ method: 'GET', path }, feedForm, signal);
    found.push(...answer.data);
    next = queryOfNext(answer.next);
  }
  return { found, complete: next === undefined };
}

/** Returns the status that the feed shows of the event now; undefined where it does not show the event. */
export async function readEventStatus(
  work: IntakeWork,
  { entity }: Pick<IntakeEvent, 'entity'>,
  signal: AbortSignal,
): Promise<string | undefined> {
  const { found } = await readEventsFeed(work, `id=${encodeURIComponent(entity ?? '')}`, signal);
  return found.find(({ id }) => id === entity)?.status;
}
