/** The list of events, with what was awarded in each; and the export of the awards. */
import { z } from 'zod';
import { type AwardedEvent, listAwards } from '#bridge/operate/history/list-awards.ts';
import { findEventPage, type ListedEvent } from '#bridge/operate/history/list-events.ts';
import { eventLink } from '#bridge/settings/event-link.ts';
import { timestamp, timestampInQuery } from '#contract/scalars.ts';
import { timestampNow } from '#platform/clock.ts';
import { AppError } from '#platform/errors.ts';
import type { Viewer } from '../access/viewer.ts';
import {
  type ConsoleApiDeps,
  type ConsoleCaller,
  flowsFor,
  nextOf,
  pagePlace,
  pageRows,
  readCall,
  searchText,
  sourcesFor,
} from './console-call.ts';
import { withUrls } from './read-overview.ts';

const eventFilter = z.strictObject({
  q: searchText,
  id: z.string().max(200).optional(),
  status: z.string().max(50).optional(),
  source: z.string().max(100).optional(),
  from: timestampInQuery.optional(),
  to: timestampInQuery.optional(),
});
const eventQuery = eventFilter.extend({
  after: pagePlace(z.object({ modified: timestamp, source: z.string(), id: z.string() })),
});
/** A spreadsheet opens so many at once; more would hold the reader's connection for minutes. */
const exportRowsMax = 10_000;

export type EventsAnswer = Awaited<ReturnType<typeof readEvents>>;
export type ExportAnswer = Awaited<ReturnType<typeof exportAwards>>;

async function readEvents(
  deps: ConsoleApiDeps,
  viewer: Viewer,
  { q, source, after, ...filter }: z.output<typeof eventQuery>,
) {
  const { database, settings } = deps;
  const sources = sourcesFor(viewer, settings).filter((name) => source === undefined || name === source);
  const flows = flowsFor(viewer, undefined);
  const { events, hasMore } = await findEventPage(
    database,
    { sources, text: q, ...filter },
    { limit: pageRows, after },
  );
  const last = events.at(-1);
  return {
    events: await withAwards(deps, events, flows),
    next: nextOf(last && { modified: last.modified, source: last.source, id: last.id }, hasMore),
  };
}

async function withAwards(deps: ConsoleApiDeps, events: readonly ListedEvent[], flows: readonly string[] | undefined) {
  const now = timestampNow(deps.clock);
  const awarded = new Map<string, AwardedEvent>();
  for (const source of new Set(events.map((event) => event.source))) {
    const ids = events.filter((event) => event.source === source).map((event) => event.id);
    for (const [event, found] of await listAwards(deps.database, { source, events: ids, flows }, now))
      awarded.set(`${source} ${event}`, found);
  }
  return Promise.all(
    events.map(async (event) => {
      const { awards = [], totals = [], withoutAmount = 0 } = awarded.get(`${event.source} ${event.id}`) ?? {};
      const source = deps.settings.sources.find(({ name }) => name === event.source);
      return {
        ...event,
        url: eventLink(source, event.id) ?? null,
        awards: await Promise.all(
          awards.map(async (award) => ({ ...award, deliveries: await withUrls(deps, award.deliveries) })),
        ),
        totals,
        withoutAmount,
      };
    }),
  );
}

/** Every award of the events that match, one row for each flow that delivers it: the browser makes the file of them. */
async function exportAwards(deps: ConsoleApiDeps, viewer: ConsoleCaller, filter: z.output<typeof eventFilter>) {
  await deps.note(viewer, { what: 'awards.export', object: null, details: filter });
  const rows: ReturnType<typeof exportedRows> = [];
  for (let after: string | null | undefined; after !== null; ) {
    const page: EventsAnswer = await readEvents(deps, viewer, eventQuery.parse({ ...filter, after }));
    rows.push(...page.events.flatMap(exportedRows));
    if (rows.length > exportRowsMax)
      throw new AppError('invalid', `These are more than ${exportRowsMax} awards: choose a shorter time.`);
    after = page.next;
  }
  return { rows };
}

function exportedRows(event: EventsAnswer['events'][number]) {
  const { reference: eventReference, name: eventName, status } = event;
  return event.awards.flatMap(({ deliveries, supplierExternalId, supplierName, amount, currency }) =>
    deliveries.map(({ flow, state, reference, delivered }) => ({
      eventReference,
      eventName,
      status,
      supplierExternalId,
      supplierName,
      amount,
      currency,
      flow,
      state,
      reference,
      delivered,
    })),
  );
}

export const eventsCall = (deps: ConsoleApiDeps) =>
  readCall('/api/events', eventQuery, ({ viewer, query }) => readEvents(deps, viewer, query));
export const exportAwardsCall = (deps: ConsoleApiDeps) =>
  readCall('/api/events/export', eventFilter, ({ viewer, query }) => exportAwards(deps, viewer, query));
