/** The search from everywhere: documents, events and suppliers that fit the words. */
import { z } from 'zod';
import { findDocuments } from '#bridge/operate/history/find-documents.ts';
import { timestampNow } from '#platform/clock.ts';
import { type ConsoleApiDeps, flowsFor, readCall } from './console-call.ts';
import { withUrls } from './read-overview.ts';

const query = z.strictObject({
  q: z.string().trim().min(1).max(500),
  limit: z.coerce.number().int().min(1).max(100).default(20),
});

export type SearchAnswer = Awaited<ReturnType<typeof search>>;

async function search(deps: ConsoleApiDeps, text: string, limit: number, flows: readonly string[] | undefined) {
  const found = await findDocuments(deps.database, text, { now: timestampNow(deps.clock), limit, flows });
  return { ...found, documents: await withUrls(deps, found.documents) };
}

export const searchCall = (deps: ConsoleApiDeps) =>
  readCall('/api/search', query, ({ viewer, query: { q, limit } }) =>
    search(deps, q, limit, flowsFor(viewer, undefined)),
  );
