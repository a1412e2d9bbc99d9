import { randomUUID } from 'node:crypto';
import type { Issue } from '#contract/issue.ts';
import type { CreateSourcingEventPayload, EventChanges } from '#contract/sourcing-event.ts';
import type { Timestamp } from '#contract/timestamp.ts';
import type { Sql } from '#platform/database/sql.ts';
import { AppError } from '#platform/errors.ts';
import { checkEventPayload, payloadFromTemplate, payloadOf } from '../domain/event-payload.ts';
import { announce } from '../events/announce.ts';
import { loadEvent } from '../events/event-store.ts';
import { insertEvent, loadInvitedContacts } from '../events/write-event.ts';
import { loadQuestions } from '../rfi/question-store.ts';
import type { UnitOfWork } from '../unit-of-work.ts';
import type { JobContext, JobResult, JobWork } from './job-work.ts';
import { found, refuse } from './refuse.ts';
import { resolvePayload } from './resolve-payload.ts';

/** CREATE_SOURCING_EVENT: creates an event with status DRAFT. */
export const createSourcingEvent: JobWork<'CREATE_SOURCING_EVENT'> = {
  apply: (unit, { payload, job, now }) => createEvent(unit, payload, job, now),
};

/**
 * CREATE_SOURCING_EVENT_FROM_TEMPLATE: creates a copy of a template, or of any event that is named as one, except for the
 * members that the payload gives.
 */
export const createSourcingEventFromTemplate: JobWork<'CREATE_SOURCING_EVENT_FROM_TEMPLATE'> = {
  apply: async (unit, { payload, job, now }) => {
    const { template, template_sourcing_event_id: anyEvent, ...overrides } = payload;
    const origin = await loadOrigin(unit.tx, job.organisationId, { template, anyEvent });
    const made = payloadFromTemplate(origin, overrides, randomUUID);
    try {
      return await createEvent(unit, made, job, now);
    } catch (error) {
      throw error instanceof AppError ? withOrigin(error, overrides) : error;
    }
  },
};

/** Inserts and announces the event. Throws `invalid` with an issue for everything that is wrong with the payload. */
async function createEvent(
  unit: UnitOfWork,
  payload: CreateSourcingEventPayload,
  { organisationId, createdBy }: JobContext,
  now: Timestamp,
): Promise<JobResult> {
  refuse(checkEventPayload(payload));
  const resolved = await resolvePayload(unit.tx, organisationId, payload);
  const id = randomUUID();
  await insertEvent(unit.tx, { id, organisationId, createdBy }, resolved, now);
  const event = { id, organisationId, name: payload.name, sourcingRequests: resolved.sourcingRequests };
  await announce(unit, { domainEvent: 'event-created', event, now });
  return { createdEntity: id };
}

/**
 * Locks the event that is copied, so that no update changes it between the statements that read its parts. Under the name
 * `template` it must be a template; under `template_sourcing_event_id` any event will do.
 */
async function loadOrigin(
  tx: Sql,
  organisationId: string,
  { template, anyEvent }: { template: string | undefined; anyEvent: string | undefined },
): Promise<CreateSourcingEventPayload> {
  const path = template === undefined ? 'template_sourcing_event_id' : 'template';
  const event = await found(path, loadEvent(tx, organisationId, template ?? anyEvent, 'lock'));
  if (event.status === 'DELETED') refuse([{ path, message: 'this template was deleted' }]);
  if (template !== undefined && !event.isTemplate)
    refuse([{ path, message: 'this event is no template: its settings.is_template is false' }]);
  return payloadOf(event, await loadQuestions(tx, event.id), await loadInvitedContacts(tx, event.id));
}

/** Marks the issues that come from the template: the client that sent the overrides does not see its members. */
function withOrigin(error: AppError, overrides: EventChanges): AppError {
  const isGiven = ({ path }: Issue) => Object.hasOwn(overrides, path.split(/[.[]/)[0] ?? '');
  const issues = error.issues.map((issue) =>
    isGiven(issue) || issue.path.startsWith('template')
      ? issue
      : { ...issue, message: `${issue.message} (as the template has it)` },
  );
  return new AppError(error.code, error.publicMessage, { issues, cause: error });
}
