/**
 * Makes documents from the mirror and the resources as they stand. A document is made of the records that name it: one
 * that cannot be understood spoils no others.
 */
import { createHash } from 'node:crypto';
import type { Document, DocumentKind } from '#connector/documents.ts';
import type { Sql } from '#platform/database/database.ts';
import { type ApplyMapping, compileMapping } from '../documents/apply-mapping.ts';
import { makeAwardDocument } from '../documents/award-document.ts';
import { readPairKey } from '../documents/document-keys.ts';
import { type EventInFlow, parseEvent } from '../documents/event-parts.ts';
import { makeFileDocument } from '../documents/file-document.ts';
import { flowFilter } from '../documents/flow-filter.ts';
import { type MadeDocument, making, type NotMade } from '../documents/made-document.ts';
import { makeQuotationDocument } from '../documents/quotation-document.ts';
import { makeRfiAnswersDocument } from '../documents/rfi-answers-document.ts';
import { makeSourcingEventDocument } from '../documents/sourcing-event-document.ts';
import { makeSupplierDocument } from '../documents/supplier-document.ts';
import { referencesTable } from '../due/index-references.ts';
import type { FlowSettings } from '../settings.ts';
import { type KindAndKey, loadParts, type Parts } from './document-parts.ts';
import { limitKeys } from './limit-keys.ts';

/** Text of records that is read at once; an event of 20,000 lots may have more by itself. */
const bytesMax = 16 * 1024 * 1024;

/** Records of so many that name a file are read at once. */
const referencesAtOnce = 100;

export type DocumentsMade = Map<string, MadeDocument<Document>>;

/**
 * Makes the documents of these keys, by `<kind> <key>`, with a number of statements that does not grow with theirs. What
 * would need too much memory at once is left out, from the end of the list: the first is always made. Changes nothing.
 */
export async function makeDocuments(
  sql: Sql,
  flow: FlowSettings,
  keys: readonly { readonly kind: string; readonly key: string }[],
  options: { bytesMax?: number; references?: string } = {},
): Promise<DocumentsMade> {
  // A kind in the database is one that was marked.
  const fitting = await limitKeys(sql, flow.source, keys as readonly KindAndKey[], options.bytesMax ?? bytesMax);
  const made: DocumentsMade = new Map();
  let open: readonly KindAndKey[] = fitting;
  for (let from = 0; open.length > 0; from += referencesAtOnce) {
    const window = { from, to: from + referencesAtOnce };
    const references = options.references ?? referencesTable;
    const parts = await loadParts(sql, flow.source, open, { references, window });
    const make = documentMaker(flow, parts);
    for (const one of open) {
      const place = `${one.kind} ${one.key}`;
      made.set(place, moreTelling(made.get(place), make(one)));
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

/** Of two results over different parts of what names a file: a file that anything wants is wanted. */
function moreTelling(one: MadeDocument<Document> | undefined, other: MadeDocument<Document>): MadeDocument<Document> {
  if (one === undefined || isWanted(other)) return other;
  return one.made === 'document' && other.made !== 'document' ? other : one;
}

function documentMaker(flow: FlowSettings, parts: Parts): (one: KindAndKey) => MadeDocument<Document> {
  const filter = flowFilter(flow);
  const applyMapping = compileMapping(flow.name, flow.mapping);
  const columns = { quantity: flow.quantity_column, unitPrice: flow.unit_price_column };
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
    award: (key) => makeAwardDocument({ ...pairOf(key), awards: recordsOf('award', key), columns }),
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
  };
  return ({ kind, key }) => withFields(applyMapping, makers[kind](key));
}

/** A withdrawal needs no fields, and must not fail for one. */
function withFields(applyMapping: ApplyMapping, result: MadeDocument<Document>): MadeDocument<Document> {
  if (result.made !== 'document' || !result.wanted) return result;
  return making(() => ({ ...result, document: applyMapping(result.document) }));
}

/** What tells two states of a document apart. Its members are always made in the same order. */
export function documentHash(document: Document): string {
  return createHash('sha256').update(JSON.stringify(document)).digest('hex');
}
