/** One event: what was awarded, and every document that was made of it. */
import type { EventsAnswer } from '#console/api/list-events-call.ts';
import { Facts, Ids, PageHead, Time, Waiting } from '../parts/basics.tsx';
import { useAnswer } from '../state/use-answer.ts';
import { DocumentList } from './documents.tsx';
import { AtService, Awards, Totals } from './events.tsx';

export function EventPage({ source, id }: { source: string; id: string }) {
  const { answer, error } = useAnswer<EventsAnswer>('/api/events', { source, id });
  const event = answer?.events[0];
  if (!event) return <Waiting title="Event" error={error ?? (answer && 'The bridge has read no such event.')} />;
  return (
    <>
      <PageHead title={event.name}>
        <Ids ids={{ event: event.id, source: event.source }} />
        <AtService event={event} />
      </PageHead>
      <Facts
        facts={{
          Number: event.reference,
          Status: event.status,
          Type: event.type,
          Currency: event.currency,
          Suppliers: event.suppliers,
          'Changed at the service': <Time at={event.modified} />,
        }}
      />
      <div class="section-head">
        <h2>Awards</h2>
        <Totals event={event} />
      </div>
      <Awards event={event} />
      <h2>Documents</h2>
      <DocumentList parameters={{ event: event.id }} />
    </>
  );
}
