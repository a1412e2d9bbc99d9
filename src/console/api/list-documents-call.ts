/** The list of documents, with its filters. */
import { z } from 'zod';
import { listDocuments, listedStates } from '#bridge/operate/history/list-documents.ts';
import { decimalText, timestampInQuery } from '#contract/scalars.ts';
import { timestampNow } from '#platform/clock.ts';
import { AppError } from '#platform/errors.ts';
import { maySeePrices, type Viewer } from '../access/viewer.ts';
import {
  type ConsoleApiDeps,
  documentKind,
  documentListPlace,
  flowName,
  flowsFor,
  nextOf,
  oneOrMore,
  pagePlace,
  pageRows,
  readCall,
  searchText,
} from './console-call.ts';
import { withUrls } from './read-overview.ts';

const query = z.strictObject({
  q: searchText,
  flow: oneOrMore(flowName),
  kind: oneOrMore(documentKind),
  state: z.enum(listedStates).optional(),
  reason: z.string().max(10_000).optional(),
  event: z.string().max(200).optional(),
  supplier: z.string().max(200).optional(),
  from: timestampInQuery.optional(),
  to: timestampInQuery.optional(),
  min: decimalText.optional(),
  max: decimalText.optional(),
  after: pagePlace(documentListPlace),
  limit: z.coerce.number().int().min(1).max(pageRows).default(pageRows),
});

export type DocumentsAnswer = Awaited<ReturnType<typeof list>>;

async function list(deps: ConsoleApiDeps, viewer: Viewer, asked: z.output<typeof query>) {
  const { q, flow, kind, state, reason, event, supplier, from, to, min, max, after, limit } = asked;
  // A filter by amount, or by an ERP's words, would tell them, by trying.
  if (!maySeePrices(viewer) && (min !== undefined || max !== undefined || reason !== undefined))
    throw new AppError('forbidden', 'Your account sees no prices: it cannot filter by amount or reason.');
  const { documents, hasMore } = await listDocuments(
    deps.database,
    {
      text: q,
      flows: flowsFor(viewer, flow),
      kinds: kind,
      state,
      reason,
      event,
      supplier,
      from,
      to,
      amountMin: min,
      amountMax: max,
    },
    { now: timestampNow(deps.clock), limit, after },
  );
  const last = documents.at(-1);
  return {
    documents: await withUrls(deps, documents),
    next: nextOf(last && { changed: last.changed, flow: last.flow, kind: last.kind, key: last.key }, hasMore),
  };
}

export const documentsCall = (deps: ConsoleApiDeps) =>
  readCall('/api/documents', query, ({ viewer, query: asked }) => list(deps, viewer, asked));
