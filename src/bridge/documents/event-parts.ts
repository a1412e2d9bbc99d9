/**
 * What a document shows of its sourcing event, and whether the flow takes the event. An event is parsed once for all of
 * its documents.
 */
import { z } from 'zod';
import type { DocumentOf, EventHead } from '#connector/documents.ts';
import { uuid } from '#contract/scalars.ts';
import { sourcingEventEssentials } from '#contract/sourcing-event.ts';
import { externalIdText, idOf } from './document-keys.ts';
import { type FlowFilter, isTaken } from './flow-filter.ts';
import { type NotMade, readRecord, Unmade } from './made-document.ts';
import { compareEntries, compareText } from './text-order.ts';

/** Everything that the mirror holds of an event. */
export interface EventSources {
  /** Its record in the feed of sourcing events. */
  readonly record?: unknown;
  /** Two full audits did not find the record any more: the event counts as deleted. */
  readonly gone?: boolean;
  /** The event as a page of another feed included it: used while the record has not been read. */
  readonly included?: unknown;
}

/**
 * What every document of an event needs. What only the `sourcing-event` document shows is read there, so that a fault
 * in it affects no other document. `modified` is not needed: an included event has none, and a source may leave it out.
 */
const eventForm = sourcingEventEssentials.omit({ modified: true, columns: true }).extend({
  tags: z.array(z.looseObject({ name: z.string(), value: z.string().default('') })).default([]),
  suppliers: z
    .array(z.looseObject({ id: uuid, name: z.string().default(''), external_id: externalIdText.optional() }))
    .default([]),
});
type EventRecord = z.output<typeof eventForm>;
export type EventSupplier = EventRecord['suppliers'][number];

/** A source may show little more of a deleted event than its status: its documents are withdrawn nevertheless. */
const deletedForm = eventForm.extend({
  name: z.string().default(''),
  type: z.string().default(''),
  primary_currency: z.string().default(''),
});

/** An event for the documents of one flow. */
export interface EventInFlow {
  readonly event: EventRecord;
  /** False while an included event is used in place of the record. */
  readonly isRecord: boolean;
  readonly suppliers: ReadonlyMap<string, EventSupplier>;
  /** Whether the flow wants the event's documents; if not, they are withdrawn. */
  readonly wanted: boolean;
  /** A draft hides its bids and answers, so their absence says nothing. */
  readonly isDraft: boolean;
}

const deleted = 'DELETED';

/** Parses an event; returns why when its documents cannot be made now. */
export function parseEvent(sources: EventSources | undefined, filter: FlowFilter): EventInFlow | NotMade {
  try {
    return readSources(sources ?? {}, filter);
  } catch (error) {
    if (error instanceof Unmade) return { made: error.made, reason: error.message };
    throw error;
  }
}

function readSources({ record, gone = false, included }: EventSources, filter: FlowFilter): EventInFlow {
  const isRecord = record !== undefined;
  if (!isRecord && included === undefined)
    throw new Unmade('not-yet', 'the record of its sourcing event has not been read yet');
  const event = isRecord
    ? readRecord(saysDeleted(record) ? deletedForm : eventForm, record, "the sourcing event's record")
    : readRecord(eventForm, included, 'the sourcing event that a page included');
  // Included events do not say whether they are tests: a test must not reach the ERP because its record comes late.
  if (!isRecord && event.is_test === undefined && !filter.testEvents)
    throw new Unmade('not-yet', 'the record of its sourcing event, which says if it is a test, has not been read yet');
  const isDeleted = gone || event.status === deleted;
  if (!isDeleted && filter.status !== undefined && !filter.status.includes(event.status))
    throw new Unmade('held', `its sourcing event is ${event.status}, and this flow takes ${filter.status.join(', ')}`);
  const suppliers = new Map<string, EventSupplier>();
  // A supplier may be listed twice. Which entry counts does not depend on their order: an entry with an external id
  // first.
  for (const entry of event.suppliers) {
    const known = suppliers.get(entry.id);
    if (known === undefined || compareEntries(entry, known) < 0) suppliers.set(entry.id, entry);
  }
  return {
    event,
    isRecord,
    suppliers,
    wanted: !isDeleted && isTaken(event, filter),
    isDraft: event.status === 'DRAFT',
  };
}

function saysDeleted(record: unknown): boolean {
  return typeof record === 'object' && record !== null && 'status' in record && record.status === deleted;
}

/** Returns what every document shows of its event. */
export function eventHead({ event }: EventInFlow, eventId: string): EventHead {
  return {
    id: eventId,
    name: event.name,
    ...(event.reference_id === undefined ? {} : { reference_id: event.reference_id }),
    type: event.type,
    ...(event.category === undefined ? {} : { category: event.category }),
    is_test: event.is_test ?? false,
    tags: event.tags
      .map(({ name, value }) => ({ name, value }))
      .sort((a, b) => compareText(a.name, b.name) || compareText(a.value, b.value)),
  };
}

/** Returns the event's exchange rates in a fixed order, so that the same rates make the same document. */
export function exchangeRates({ event }: EventInFlow): DocumentOf<'award'>['exchange_rates'] {
  return event.secondary_currencies
    .map(({ code, exchange_rate: rate }) => ({ code, exchange_rate: rate }))
    .sort((a, b) => compareText(a.code, b.code) || compareText(a.exchange_rate, b.exchange_rate));
}

const includedSupplierForm = z.looseObject({
  id: z.string(),
  name: z.string().optional().catch(undefined),
  external_id: externalIdText.optional().catch(undefined),
});

/**
 * Returns a supplier as the documents of the event show it: as the event names it, completed by what a page included.
 * Undefined when neither names the supplier.
 */
export function supplierHead({ suppliers }: EventInFlow, supplierId: string, included: unknown) {
  const named = suppliers.get(supplierId);
  const read = includedSupplierForm.safeParse(included).data;
  const fromPage = read !== undefined && idOf(read.id) === supplierId ? read : undefined;
  if (named === undefined && fromPage === undefined) return undefined;
  const externalId = named?.external_id ?? fromPage?.external_id;
  return {
    id: supplierId,
    ...(externalId === undefined ? {} : { external_id: externalId }),
    name: named?.name || fromPage?.name || '',
  };
}

/**
 * Returns the supplier of a document about an event and a supplier. Throws `Unmade`, `not-yet`, while neither the event
 * nor a page names the supplier of a document that is wanted. A document that is withdrawn needs no name.
 */
export function ownSupplier(event: EventInFlow, supplierId: string, included: unknown, isWanted: boolean) {
  const head = supplierHead(event, supplierId, included);
  if (head === undefined && isWanted)
    throw new Unmade('not-yet', 'the record of its sourcing event does not name the supplier yet');
  return head ?? { id: supplierId, name: '' };
}
