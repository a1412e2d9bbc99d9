import type { Issue } from '#contract/issue.ts';
import type { CreateSourcingEventPayload, EventChanges } from '#contract/sourcing-event.ts';
import type { Timestamp } from '#contract/timestamp.ts';
import type { Clock } from '#platform/clock.ts';
import type { Sql } from '#platform/database/sql.ts';
import { checkEventPayload, mergePayload, payloadOf } from '../domain/event-payload.ts';
import { type Entered, rebaseBids, updateRefusals } from '../domain/event-update.ts';
import type { SourcingEvent } from '../domain/sourcing-event.ts';
import { loadEventNow } from '../events/apply-event-change.ts';
import { cellsJson, loadBids, loadEvent } from '../events/event-store.ts';
import { markParticipants, saveBids } from '../events/save-bids.ts';
import { removeAwards } from '../events/scenario-store.ts';
import { loadInvitedContacts, updateEvent } from '../events/write-event.ts';
import { loadQuestions } from '../rfi/question-store.ts';
import type { JobWork } from './job-work.ts';
import { found, refuse } from './refuse.ts';
import { resolvePayload } from './resolve-payload.ts';

const updatable: readonly string[] = ['DRAFT', 'OPEN', 'PAUSED'];

/**
 * UPDATE_SOURCING_EVENT: makes all of the changes or none. It updates no feed: the records are updated with the event's
 * next domain event.
 */
export function updateSourcingEvent({ clock }: { clock: Clock }): JobWork<'UPDATE_SOURCING_EVENT'> {
  return {
    apply: async (unit, { payload: { sourcing_event: id, ...changes }, job: { organisationId } }) => {
      const { tx } = unit;
      const { event, now } = await found('sourcing_event', loadEventNow(unit, organisationId, id, clock));
      if (!updatable.includes(event.status)) {
        const message = `cannot be updated: it is ${event.status}, and must be ${updatable.join(' or ')}`;
        refuse([{ path: 'sourcing_event', message }]);
      }
      const before = payloadOf(event, await loadQuestions(tx, event.id), await loadInvitedContacts(tx, event.id));
      const after = mergePayload(before, changes);
      refuse(newIssues(before, after, changes));
      refuse(updateRefusals(event, before, after, await loadEntered(tx, event.id)));
      const invited = new Set(event.invitations.map(({ externalId }) => externalId));
      await updateEvent(tx, event, await resolvePayload(tx, organisationId, after, invited), changes, now);
      if (event.status === 'DRAFT') await recomputeDraftBids(tx, event, now);
      return {};
    },
  };
}

/**
 * What is wrong with the changed event. What was wrong with it before is no fault of this update: the event was stored
 * when the rules were others.
 */
function newIssues(before: CreateSourcingEventPayload, after: CreateSourcingEventPayload, changes: EventChanges) {
  const issues = checkEventPayload(after, changes);
  if (issues.length === 0) return issues;
  const textOf = ({ path, message }: Issue) => `${path} ${message}`;
  const known = new Set(checkEventPayload(before, {}).map(textOf));
  return issues.filter((issue) => !known.has(textOf(issue)));
}

async function loadEntered(sql: Sql, eventId: string): Promise<Entered> {
  const lots = await sql.query<{ name: string }>(
    `select name from service.lots l where event_id = $1
       and exists (select from service.bids b where b.event_id = l.event_id and b.lot_id = l.id) order by position`,
    [eventId],
  );
  const suppliers = await sql.query<{ external_id: string }>(
    `select external_id from service.suppliers where id in (
       select supplier_id from service.bids where event_id = $1
       union select supplier_id from service.rfi_responses where event_id = $1) order by external_id`,
    [eventId],
  );
  return {
    lots: new Set(lots.map(({ name }) => name)),
    suppliers: new Set(suppliers.map((supplier) => supplier.external_id)),
  };
}

/**
 * Recomputes the bids of a draft that was published before against the changed bid sheet, so that they are right when
 * the event is published again.
 */
async function recomputeDraftBids(tx: Sql, before: SourcingEvent, now: Timestamp): Promise<void> {
  const bids = await loadBids(tx, before.id);
  if (bids.length === 0) return;
  const after = await loadEvent(tx, before.organisationId, before.id, 'read');
  const { bids: changed, completed, fallen, globalValues } = rebaseBids(before, after, bids);
  await saveBids(tx, before.id, { changed, now });
  await markParticipants(tx, before.id, completed);
  await removeAwards(tx, before.id, fallen);
  await tx.query(
    `update service.invitations i set global_values = kept.values
     from unnest($2::uuid[], $3::jsonb[]) as kept (supplier_id, values)
     where i.event_id = $1 and i.supplier_id = kept.supplier_id`,
    [before.id, [...globalValues.keys()], [...globalValues.values()].map(cellsJson)],
  );
}
