import { randomUUID } from 'node:crypto';
import type { z } from 'zod';
import type { JobType } from '#contract/job.ts';
import { createSourcingEventPayload } from '#contract/sourcing-event.ts';
import { type Clock, timestampNow } from '#platform/clock.ts';
import { AppError, type Issue } from '#platform/errors.ts';
import { endpoint } from '#platform/http/endpoint.ts';
import type { Caller } from '../caller.ts';
import { checkBidSheet } from '../domain/bid-sheet.ts';

/** POST /api/jobs/create-sourcing-events. */
export function submitCreateSourcingEvent(deps: { clock: Clock }) {
  return submitJob(deps, {
    type: 'CREATE_SOURCING_EVENT',
    path: '/api/jobs/create-sourcing-events',
    payload: createSourcingEventPayload,
    check: checkBidSheet,
  });
}

/** A job is checked as far as its body alone allows, before any identifier is given; the rest happens later. */
function submitJob<Payload extends z.ZodType>(
  { clock }: { clock: Clock },
  job: { type: JobType; path: string; payload: Payload; check: (payload: z.output<Payload>) => Issue[] },
) {
  return endpoint<Caller, Payload>({
    method: 'POST',
    path: job.path,
    scope: 'jobs',
    body: job.payload,
    handle: async ({ body, caller: { unit, organisationId, apiKeyId } }) => {
      const issues = job.check(body);
      if (issues[0])
        throw new AppError('invalid', `The body is not valid: ${issues[0].path}: ${issues[0].message}.`, { issues });
      const id = randomUUID();
      const created = timestampNow(clock);
      await unit.tx.query(
        `insert into service.jobs (id, organisation_id, type, status, payload, created_by, created)
         values ($1, $2, $3, 'PENDING', $4, $5, $6)`,
        [id, organisationId, job.type, JSON.stringify(body), apiKeyId, created],
      );
      unit.wake('jobs', organisationId);
      return { status: 202, body: { id, type: job.type, status: 'PENDING', created } };
    },
  });
}
