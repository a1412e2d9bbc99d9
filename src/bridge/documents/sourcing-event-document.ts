/** The `sourcing-event` document: an event as its feed shows it. Made of its record alone. */
import type { SourcingEventDocument } from '#connector/documents.ts';
import { plainKey } from './document-keys.ts';
import { type EventInFlow, eventHead, exchangeRates } from './event-parts.ts';
import type { MadeDocument, NotMade } from './made-document.ts';
import { compareText } from './text-order.ts';

export function makeSourcingEventDocument(input: {
  eventId: string;
  event: EventInFlow | NotMade;
}): MadeDocument<SourcingEventDocument> {
  const { eventId, event } = input;
  if ('made' in event) return event;
  if (!event.isRecord) return { made: 'not-yet', reason: 'the record of the sourcing event has not been read yet' };
  const { created, published, closed, lot_count: lotCount, event_contact: contact } = event.event;
  return {
    made: 'document',
    wanted: event.wanted,
    document: {
      kind: 'sourcing-event',
      key: plainKey(eventId),
      event: eventHead(event, eventId),
      status: event.event.status,
      currency: event.event.primary_currency,
      exchange_rates: exchangeRates(event),
      ...(created === undefined ? {} : { created }),
      ...(published === undefined ? {} : { published }),
      ...(closed === undefined ? {} : { closed }),
      rounds: event.event.rounds.map((round) => ({
        status: round.status,
        ...(round.starts === undefined ? {} : { starts: round.starts }),
        ...(round.ends === undefined ? {} : { ends: round.ends }),
        ...(round.awarded_cost === undefined ? {} : { awarded_cost: round.awarded_cost }),
        ...(round.awarded_lot_count === undefined ? {} : { awarded_lot_count: round.awarded_lot_count }),
      })),
      ...(lotCount === undefined ? {} : { lot_count: lotCount }),
      ...(contact === undefined ? {} : { contact: contactOf(contact) }),
      columns: event.event.columns.map(({ name }) => name),
      sourcing_requests: [...new Set(event.event.sourcing_requests)].sort(compareText),
      suppliers: [...event.suppliers.values()]
        .map(({ id, name, external_id: externalId, accepted, participated }) => ({
          id,
          ...(externalId === undefined ? {} : { external_id: externalId }),
          name,
          ...(accepted === undefined ? {} : { accepted }),
          ...(participated === undefined ? {} : { participated }),
        }))
        .sort((a, b) => compareText(a.id, b.id)),
    },
  };
}

function contactOf({ name, email }: { name?: string | undefined; email?: string | undefined }) {
  return { ...(name === undefined ? {} : { name }), ...(email === undefined ? {} : { email }) };
}
