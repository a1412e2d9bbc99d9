import type { z } from 'zod';
import { type RetentionRequest, retentionAnswer, retentionRequest } from '#contract/admin.ts';
import { endpoint } from '#platform/http/endpoint.ts';
import type { Operator } from '../caller.ts';
import type { RetentionDefaults } from '../retention/delete-old.ts';
import { findOrganisation } from './find-organisation.ts';

/**
 * PUT /admin/organisations/{id}/retention: how long the organisation's submissions, payloads of jobs, deliveries, events
 * and files are kept. It replaces what was set before; what is left out is the setting of the service. What is too old by then is
 * deleted within the next hours, and is gone for good.
 */
export function putRetention({ retention }: { retention: RetentionDefaults }) {
  return endpoint<Operator, typeof retentionRequest>({
    method: 'PUT',
    path: '/admin/organisations/:id/retention',
    scope: 'operator',
    summary: "Set how long an organisation's things are kept",
    answers: { 200: retentionAnswer },
    body: retentionRequest,
    handle: async ({ body, params, caller: { unit } }) => {
      const organisation = await findOrganisation(unit.tx, params['id']);
      await unit.tx.query('update service.organisations set retention = $2 where id = $1', [
        organisation,
        JSON.stringify(body),
      ]);
      return { status: 200, body: inForce(body, retention) };
    },
  });
}

function inForce(own: RetentionRequest, defaults: RetentionDefaults): z.input<typeof retentionAnswer> {
  return {
    submission_days: own.submission_days ?? defaults.submissionDays,
    job_payload_days: own.job_payload_days ?? defaults.jobPayloadDays,
    delivery_log_days: own.delivery_log_days ?? defaults.deliveryLogDays,
    event_days: own.event_days ?? defaults.eventDays,
    file_days: own.file_days ?? defaults.fileDays,
  };
}
