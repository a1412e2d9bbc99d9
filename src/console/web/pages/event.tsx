/** One event, and what was made of it. */
import type { EventsAnswer } from '#console/api/list-subjects-call.ts';
import { Failure, Ids, Loading, PageHead, Time } from '../parts/basics.tsx';
import { useAnswer } from '../state/use-answer.ts';
import { DocumentList } from './documents.tsx';

export function EventPage({ source, id }: { source: string; id: string }) {
  const { answer, error } = useAnswer<EventsAnswer>('/api/events', { source, id });
  const event = answer?.events[0];
  if (!event)
    return (
      <>
        <PageHead title="Event" />
        {error === undefined && answer === undefined ? (
          <Loading />
        ) : (
          <Failure error={error ?? 'The bridge has read no such event.'} />
        )}
      </>
    );
  return (
    <>
      <PageHead title={event.name}>
        <Ids ids={{ event: event.id, source: event.source }} />
      </PageHead>
      <dl class="facts">
        {[
          ['Number', event.reference],
          ['Status', event.status],
          ['Type', event.type],
          ['Currency', event.currency],
          ['Suppliers', String(event.suppliers)],
        ]
          .filter(([, value]) => value)
          .map(([name, value]) => (
            <div key={name}>
              <dt>{name}</dt>
              <dd>{value}</dd>
            </div>
          ))}
        <div>
          <dt>Changed at the service</dt>
          <dd>
            <Time at={event.modified} />
          </dd>
        </div>
      </dl>
      <h2>Documents</h2>
      <DocumentList parameters={{ event: event.id }} />
    </>
  );
}
