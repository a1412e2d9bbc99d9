/** The `sourcing-event` document: an event as its feed shows it. Made of its record alone. */
import { z } from 'zod';
import type { SourcingEventDocument } from '#connector/documents.ts';
import { decimalText, timestamp, uuid } from '#contract/scalars.ts';
import { plainKey } from './document-keys.ts';
import { type EventInFlow, type EventSupplier, eventHead, exchangeRates } from './event-parts.ts';
import { type MadeDocument, making, type NotMade, readRecord } from './made-document.ts';
import { compareText } from './text-order.ts';

/** What only this document shows of an event. */
const shownForm = z.looseObject({
  created: timestamp.optional(),
  published: timestamp.optional(),
  closed: timestamp.optional(),
  rounds: z
    .array(
      z.looseObject({
        status: z.string(),
        starts: timestamp.optional(),
        ends: timestamp.optional(),
        awarded_cost: decimalText.optional(),
        awarded_lot_count: z.int().optional(),
      }),
    )
    .default([]),
  lot_count: z.int().optional(),
  event_contact: z.looseObject({ name: z.string().optional(), email: z.string().optional() }).optional(),
  columns: z.array(z.looseObject({ name: z.string() })).default([]),
  sourcing_requests: z.array(uuid).default([]),
});

const participationForm = z.looseObject({
  accepted: z.boolean().optional(),
  participated: z.boolean().optional(),
});

/** Makes the document of an event; `not-yet` while its record has not been read. */
export function makeSourcingEventDocument(input: {
  eventId: string;
  event: EventInFlow | NotMade;
}): MadeDocument<SourcingEventDocument> {
  const { eventId, event } = input;
  if ('made' in event) return event;
  if (!event.isRecord) return { made: 'not-yet', reason: 'the record of the sourcing event has not been read yet' };
  return making(() => ({ made: 'document', wanted: event.wanted, document: documentOf(eventId, event) }));
}

function documentOf(eventId: string, event: EventInFlow): SourcingEventDocument {
  const shown = readRecord(shownForm, event.event, "the sourcing event's record");
  const { created, published, closed, lot_count: lotCount, event_contact: contact } = shown;
  return {
    kind: 'sourcing-event',
    key: plainKey(eventId),
    event: eventHead(event, eventId),
    status: event.event.status,
    currency: event.event.primary_currency,
    exchange_rates: exchangeRates(event),
    ...(created === undefined ? {} : { created }),
    ...(published === undefined ? {} : { published }),
    ...(closed === undefined ? {} : { closed }),
    rounds: shown.rounds.map((round) => ({
      status: round.status,
      ...(round.starts === undefined ? {} : { starts: round.starts }),
      ...(round.ends === undefined ? {} : { ends: round.ends }),
      ...(round.awarded_cost === undefined ? {} : { awarded_cost: round.awarded_cost }),
      ...(round.awarded_lot_count === undefined ? {} : { awarded_lot_count: round.awarded_lot_count }),
    })),
    ...(lotCount === undefined ? {} : { lot_count: lotCount }),
    ...(contact === undefined ? {} : { contact: contactOf(contact) }),
    columns: shown.columns.map(({ name }) => name),
    sourcing_requests: [...new Set(shown.sourcing_requests)].sort(compareText),
    suppliers: [...event.suppliers.values()].map(supplierOf).sort((a, b) => compareText(a.id, b.id)),
  };
}

function supplierOf(entry: EventSupplier): SourcingEventDocument['suppliers'][number] {
  const { id, external_id: externalId, name } = entry;
  const { accepted, participated } = readRecord(participationForm, entry, `the sourcing event's supplier ${id}`);
  return {
    id,
    ...(externalId === undefined ? {} : { external_id: externalId }),
    name,
    ...(accepted === undefined ? {} : { accepted }),
    ...(participated === undefined ? {} : { participated }),
  };
}

function contactOf({ name, email }: { name?: string | undefined; email?: string | undefined }) {
  return { ...(name === undefined ? {} : { name }), ...(email === undefined ? {} : { email }) };
}
