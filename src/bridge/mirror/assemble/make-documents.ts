/**
 * Makes documents from the current state of the mirror and the resources. Each document is made only of the records
 * that name it, so a record that cannot be read affects no other documents.
 */
import { createHash } from 'node:crypto';
import { type ApplyMapping, compileMapping } from '#bridge/documents/apply-mapping.ts';
import { makeAwardDocument } from '#bridge/documents/award-document.ts';
import { readPairKey } from '#bridge/documents/document-keys.ts';
import { makeEventAwardsDocument } from '#bridge/documents/event-awards-document.ts';
import { type EventInFlow, parseEvent } from '#bridge/documents/event-parts.ts';
import { makeFileDocument } from '#bridge/documents/file-document.ts';
import { flowFilter } from '#bridge/documents/flow-filter.ts';
import { makeJobDocument } from '#bridge/documents/job-document.ts';
import { type MadeDocument, making, type NotMade } from '#bridge/documents/made-document.ts';
import { makeQuotationDocument } from '#bridge/documents/quotation-document.ts';
import { makeRfiAnswersDocument } from '#bridge/documents/rfi-answers-document.ts';
import { makeSourcingEventDocument } from '#bridge/documents/sourcing-event-document.ts';
import { makeSupplierDocument } from '#bridge/documents/supplier-document.ts';
import type { FlowSettings } from '#bridge/settings/settings.ts';
import type { Document, DocumentKind } from '#connector/documents.ts';
import type { Sql } from '#platform/database/sql.ts';
import { referencesTable } from '../due/index-references.ts';
import { type KindAndKey, loadParts, type Parts } from './document-parts.ts';
import { limitKeys } from './limit-keys.ts';
import { requisitionFinder } from './lots-of-events.ts';
import { madeOf, type RecordVersion } from './made-of.ts';

/** Upper bound of the record text that is read at once. A single event of 20,000 lots may have more. */
const bytesMax = 16 * 1024 * 1024;

/** How many records that reference a file are read at once. */
const referencesAtOnce = 100;

/** What was made for a key, and of which records. */
export type DocumentMade = MadeDocument<Document> & { readonly madeOf: readonly RecordVersion[] };
export type DocumentsMade = Map<string, DocumentMade>;

/**
 * Makes the documents of these keys and returns them by `<kind> <key>`. The number of statements does not grow with the
 * number of keys. Keys that would need too much memory at once are left out, from the end of the list; the first
 * document is always made. Writes nothing. Rejects when the database is not available.
 */
export async function makeDocuments(
  sql: Sql,
  flow: FlowSettings,
  keys: readonly { readonly kind: string; readonly key: string }[],
  options: { bytesMax?: number; referencesTable?: string } = {},
): Promise<DocumentsMade> {
  // The kinds come from rows of the database, which hold only kinds that were marked.
  const given = keys as readonly KindAndKey[];
  const limited = await limitKeys(sql, flow.source, given, options.bytesMax ?? bytesMax);
  const made: DocumentsMade = new Map();
  let open: readonly KindAndKey[] = limited;
  for (let from = 0; open.length > 0; from += referencesAtOnce) {
    const window = { from, to: from + referencesAtOnce };
    const parts = await loadParts(sql, flow.source, open, {
      referencesTable: options.referencesTable ?? referencesTable,
      window,
    });
    const make = documentMaker(flow, parts);
    for (const key of open) {
      const id = `${key.kind} ${key.key}`;
      made.set(id, preferWanted(made.get(id), { ...make(key), madeOf: madeOf(key, parts) }));
    }
    open = open.filter(
      ({ kind, key }) =>
        parts.fileReferences.get(key)?.length === referencesAtOnce &&
        kind === 'file' &&
        !isWanted(made.get(`file ${key}`)),
    );
  }
  return made;
}

function isWanted(result: MadeDocument<Document> | undefined): boolean {
  return result?.made === 'document' && result.wanted;
}

/**
 * Merges two results for a file, which were made of different parts of its references: a file that any reference wants
 * is wanted; else a result that is no document says more than a withdrawal.
 */
function preferWanted(earlier: DocumentMade | undefined, later: DocumentMade): DocumentMade {
  if (earlier === undefined || isWanted(later)) return later;
  return earlier.made === 'document' && later.made !== 'document' ? later : earlier;
}

function documentMaker(flow: FlowSettings, parts: Parts): (key: KindAndKey) => MadeDocument<Document> {
  const filter = flowFilter(flow);
  const applyMapping = compileMapping(flow.name, flow.mapping, flow.time_zone);
  const columns = { quantity: flow.quantity_column, unitPrice: flow.unit_price_column };
  const requisitionOf = requisitionFinder(parts.requisitions);
  const events = new Map<string, EventInFlow | NotMade>();
  const eventOf = (id: string) => {
    const known = events.get(id) ?? parseEvent(parts.events.get(id), filter);
    events.set(id, known);
    return known;
  };
  const pairOf = (key: string) => {
    const { event: eventId, supplier: supplierId } = readPairKey(key);
    return { eventId, supplierId, event: eventOf(eventId), supplier: parts.suppliers.get(supplierId) };
  };
  const recordsOf = (kind: DocumentKind, key: string) => parts.records.get(`${kind} ${key}`) ?? [];
  const makers: Record<DocumentKind, (key: string) => MadeDocument<Document>> = {
    supplier: (key) => makeSupplierDocument({ key, sources: parts.supplierSources.get(key) ?? { included: [] } }),
    'sourcing-event': (key) => makeSourcingEventDocument({ eventId: key, event: eventOf(key) }),
    quotation: (key) => makeQuotationDocument({ ...pairOf(key), bids: recordsOf('quotation', key), columns }),
    award: (key) =>
      makeAwardDocument({
        ...pairOf(key),
        awards: recordsOf('award', key),
        columns,
        quantityDecimals: flow.quantity_decimals,
        requisitionOf,
      }),
    'event-awards': (key) =>
      makeEventAwardsDocument({
        eventId: key,
        event: eventOf(key),
        arrival: parts.events.get(key)?.arrival,
        held: parts.awardsOfEvents.get(key) ?? { awards: [], feed: { watermark: null, lastPull: null } },
        includedSupplierOf: (id) => parts.suppliers.get(id),
        columns,
        quantityDecimals: flow.quantity_decimals,
        requisitionOf,
      }),
    'rfi-answers': (key) =>
      makeRfiAnswersDocument({
        ...pairOf(key),
        responses: recordsOf('rfi-answers', key),
        questions: parts.questions,
      }),
    file: (key) =>
      makeFileDocument({
        fileId: key,
        references: parts.fileReferences.get(key) ?? [],
        eventOf,
        questionOf: (id) => parts.questions.get(id),
        includedSupplierOf: (id) => parts.suppliers.get(id),
      }),
    job: (key) => makeJobDocument({ key, held: parts.jobs.get(key) }),
  };
  return ({ kind, key }) => withFields(applyMapping, makers[kind](key));
}

/** Adds the fields of the mapping. A withdrawal needs no fields, and must not fail because of one. */
function withFields(applyMapping: ApplyMapping, result: MadeDocument<Document>): MadeDocument<Document> {
  if (result.made !== 'document' || !result.wanted) return result;
  return making(() => ({ ...result, document: applyMapping(result.document) }));
}

/**
 * Returns the content hash of a document: SHA-256 of its JSON, in hexadecimal. Equal contents have equal hashes, as the
 * members of a document are always made in the same order.
 */
export function documentHash(document: Document): string {
  return createHash('sha256').update(JSON.stringify(document)).digest('hex');
}
