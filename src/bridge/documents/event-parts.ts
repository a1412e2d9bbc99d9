/**
 * What a document shows of its event, and whether the flow takes it. An event is read once for all of its documents.
 */
import { z } from 'zod';
import type { DocumentOf, EventHead } from '#connector/documents.ts';
import { uuid } from '#contract/scalars.ts';
import { sourcingEventEssentials } from '#contract/sourcing-event.ts';
import { externalIdText, idOf } from './document-keys.ts';
import { type FlowFilter, isTaken } from './flow-filter.ts';
import { type NotMade, readRecord, Unmade } from './made-document.ts';
import { compareEntries, compareText } from './text-order.ts';

/** What is known of an event. */
export interface EventSources {
  /** Its record of the sourcing events feed. */
  readonly record?: unknown;
  /** Two complete sweeps did not show the record any more: it counts as deleted. */
  readonly gone?: boolean;
  /** As a page of another feed included it: it stands in while the record has not been read. */
  readonly included?: unknown;
}

/**
 * What every document of an event is made of; what its own document shows beside that is read there, so that it spoils no
 * others. When it was made says nothing here: an included event has no such time, and a source may leave it out.
 */
const eventForm = sourcingEventEssentials.omit({ modified: true, columns: true }).extend({
  tags: z.array(z.looseObject({ name: z.string(), value: z.string().default('') })).default([]),
  suppliers: z
    .array(z.looseObject({ id: uuid, name: z.string().default(''), external_id: externalIdText.optional() }))
    .default([]),
});
type EventRecord = z.output<typeof eventForm>;
export type EventSupplier = EventRecord['suppliers'][number];

/** Of a deleted event a source may show no more than that: it withdraws its documents all the same. */
const deletedForm = eventForm.extend({
  name: z.string().default(''),
  type: z.string().default(''),
  primary_currency: z.string().default(''),
});

/** An event as the documents of one flow see it. */
export interface EventInFlow {
  readonly event: EventRecord;
  /** False while something stands in for the record. */
  readonly isRecord: boolean;
  readonly suppliers: ReadonlyMap<string, EventSupplier>;
  /** Whether its documents are wanted; when not, they are withdrawn. */
  readonly wanted: boolean;
  /** A draft shows neither bids nor answers, so that their absence says nothing. */
  readonly isDraft: boolean;
}

const deleted = 'DELETED';

/** Reads an event; gives why not when its documents cannot be made now. */
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
  // Included events do not say it: a test must not reach the ERP because its record comes late.
  if (!isRecord && event.is_test === undefined && !filter.testEvents)
    throw new Unmade('not-yet', 'only the record of its sourcing event, which was not read yet, says if it is a test');
  const isDeleted = gone || event.status === deleted;
  if (!isDeleted && filter.status !== undefined && !filter.status.includes(event.status))
    throw new Unmade('held', `its sourcing event is ${event.status}, and this flow takes ${filter.status.join(', ')}`);
  const suppliers = new Map<string, EventSupplier>();
  // Of one that stands twice the same counts in whatever order they stand: one that says its external id before others.
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
 * A supplier as a document of the event shows it: as the event names it, and what that leaves out as a page included it.
 * Undefined when neither knows it.
 */
export function supplierHead({ suppliers }: EventInFlow, supplierId: string, included: unknown) {
  const named = suppliers.get(supplierId);
  const other = includedSupplierForm.safeParse(included).data;
  const known = other !== undefined && idOf(other.id) === supplierId ? other : undefined;
  if (named === undefined && known === undefined) return undefined;
  const externalId = named?.external_id ?? known?.external_id;
  return {
    id: supplierId,
    ...(externalId === undefined ? {} : { external_id: externalId }),
    name: named?.name || known?.name || '',
  };
}

/**
 * The supplier whose document it is. Throws `Unmade`, `not-yet`, while neither the event nor a page names it; a document
 * that is withdrawn needs no name.
 */
export function ownSupplier(event: EventInFlow, supplierId: string, included: unknown, isWanted: boolean) {
  const known = supplierHead(event, supplierId, included);
  if (known === undefined && isWanted)
    throw new Unmade('not-yet', 'the record of its sourcing event does not name the supplier yet');
  return known ?? { id: supplierId, name: '' };
}
