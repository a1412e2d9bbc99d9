/** The lists of events and of suppliers. */
import { z } from 'zod';
import { findEventPage, findSupplierPage } from '#bridge/operate/history/list-subjects.ts';
import { timestamp } from '#contract/scalars.ts';
import type { Viewer } from '../access/viewer.ts';
import {
  type ConsoleApiDeps,
  flowsFor,
  nextOf,
  pagePlace,
  pageRows,
  readCall,
  searchText,
  sourcesFor,
} from './console-call.ts';

const id = z.string().max(200).optional();
const eventQuery = z.strictObject({
  q: searchText,
  id,
  status: z.string().max(50).optional(),
  source: z.string().max(100).optional(),
  after: pagePlace(z.object({ modified: timestamp, source: z.string(), id: z.string() })),
});
const supplierQuery = z.strictObject({
  q: searchText,
  id,
  source: z.string().max(100).optional(),
  after: pagePlace(z.object({ name: z.string(), source: z.string(), id: z.string() })),
});

export type EventsAnswer = Awaited<ReturnType<typeof events>>;
export type SuppliersAnswer = Awaited<ReturnType<typeof suppliers>>;

async function events(
  { database, settings }: ConsoleApiDeps,
  viewer: Viewer,
  { q, id, status, source, after }: z.output<typeof eventQuery>,
) {
  const sources = sourcesFor(viewer, settings).filter((name) => source === undefined || name === source);
  const { events: rows, hasMore } = await findEventPage(
    database,
    { sources, flows: flowsFor(viewer, undefined), text: q, id, status },
    { limit: pageRows, after },
  );
  const last = rows.at(-1);
  return { events: rows, next: nextOf(last && { modified: last.modified, source: last.source, id: last.id }, hasMore) };
}

async function suppliers(
  { database, settings }: ConsoleApiDeps,
  viewer: Viewer,
  { q, id, source, after }: z.output<typeof supplierQuery>,
) {
  const sources = sourcesFor(viewer, settings).filter((name) => source === undefined || name === source);
  const { suppliers: rows, hasMore } = await findSupplierPage(
    database,
    { sources, flows: flowsFor(viewer, undefined), text: q, id },
    { limit: pageRows, after },
  );
  const last = rows.at(-1);
  return { suppliers: rows, next: nextOf(last && { name: last.name, source: last.source, id: last.id }, hasMore) };
}

export const eventsCall = (deps: ConsoleApiDeps) =>
  readCall('/api/events', eventQuery, ({ viewer, query }) => events(deps, viewer, query));
export const suppliersCall = (deps: ConsoleApiDeps) =>
  readCall('/api/suppliers', supplierQuery, ({ viewer, query }) => suppliers(deps, viewer, query));
