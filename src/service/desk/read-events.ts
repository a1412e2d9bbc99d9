import { z } from 'zod';
import { listEnvelope as listAnswer, listQuery } from '#contract/list.ts';
import { eventSummary, liveEvent } from '#contract/live-event.ts';
import { eventStatuses, eventTypes } from '#contract/sourcing-event.ts';
import { type Clock, timestampNow } from '#platform/clock.ts';
import { endpoint } from '#platform/http/endpoint.ts';
import type { Caller } from '../caller.ts';
import { historyEntriesMax } from '../domain/history.ts';
import { allowedCommands } from '../domain/lifecycle.ts';
import type { Round, SourcingEvent } from '../domain/sourcing-event.ts';
import { eventAt } from '../events/apply-event-change.ts';
import { loadBids, loadEvent } from '../events/event-store.ts';
import { loadHistory } from '../events/history-store.ts';
import { loadScenarios } from '../events/scenario-store.ts';
import { loadAttachedFiles } from '../files/find-files.ts';
import { answerList, renderList } from '../list-envelope.ts';
import { loadQuestions } from '../rfi/question-store.ts';
import { loadResponses } from '../rfi/response-store.ts';
import { renderEvent } from './render-event.ts';

const listEventsQuery = z.strictObject({
  ...listQuery,
  status: z.enum(eventStatuses).optional(),
  type: z.enum(eventTypes).optional(),
});

type EventRow = Pick<SourcingEvent, 'status' | 'emptied'> & {
  is_template: boolean;
  rounds: Pick<Round, 'status' | 'reopened'>[];
};

/** GET /desk/events: the organisation's events, newest first. */
export const listEvents = endpoint<Caller, z.ZodUndefined, typeof listEventsQuery>({
  method: 'GET',
  path: '/desk/events',
  scope: 'desk',
  limit: 'desk',
  summary: 'List events',
  answers: { 200: listAnswer.extend({ result: z.array(eventSummary) }) },
  query: listEventsQuery,
  handle: async ({ query, baseUrl, caller: { unit, organisationId } }) => {
    const { status, type } = query;
    const body = await renderList(
      unit.tx,
      {
        select: `select id, name, reference_id, type, status, is_template, created, published, closed, emptied
                 from service.sourcing_events
                 where organisation_id = $1 and ($2::text is null or status = $2) and ($3::text is null or type = $3)`,
        shown: `page.*, array(select json_build_object('status', r.status, 'reopened', r.reopened)
                             from service.rounds r where r.event_id = page.id) as rounds`,
        orderBy: 'created desc, id',
        params: [organisationId, status ?? null, type ?? null],
        query,
        url: `${baseUrl}/desk/events`,
        filters: { status, type },
      },
      ({ rounds, emptied, ...row }: EventRow) => ({
        ...row,
        allowed: allowedCommands({ status: row.status, isTemplate: row.is_template, emptied, rounds }),
      }),
    );
    return answerList(body);
  },
});

/** GET /desk/events/{id}: the event as it is now, with what is due applied. The feeds may lag behind it. */
export function readEvent({ clock }: { clock: Clock }) {
  return endpoint<Caller>({
    method: 'GET',
    path: '/desk/events/:id',
    scope: 'desk',
    limit: 'desk',
    snapshot: true,
    summary: 'Read an event as it is now',
    answers: { 200: liveEvent },
    handle: async ({ params, caller: { unit, organisationId } }) => {
      const loaded = await loadEvent(unit.tx, organisationId, params['id'], 'read');
      const { event, history } = await eventAt(unit.tx, loaded, timestampNow(clock));
      const live = {
        event,
        bids: await loadBids(unit.tx, event.id),
        scenarios: await loadScenarios(unit.tx, event.id),
        questions: await loadQuestions(unit.tx, event.id),
        responses: await loadResponses(unit.tx, event.id),
        files: await loadAttachedFiles(unit.tx, 'sourcing_events', event.id),
        history: [...(await loadHistory(unit.tx, event)), ...history].slice(-historyEntriesMax),
      };
      return { status: 200, body: renderEvent(live) };
    },
  });
}
