import { resentDelivery } from '#contract/admin.ts';
import { type Clock, timestampNow } from '#platform/clock.ts';
import { endpoint } from '#platform/http/endpoint.ts';
import type { Caller } from '../caller.ts';
import { resend } from './resend.ts';
import { findWebhook } from './webhook-row.ts';

/** POST /api/webhooks/{uuid}/deliveries/{id}/resend: sends a notification of this webhook again, as `resend` says. */
export function resendWebhookDelivery({ clock }: { clock: Clock }) {
  return endpoint<Caller>({
    method: 'POST',
    path: '/api/webhooks/:uuid/deliveries/:id/resend',
    scope: 'webhooks',
    limit: 'webhooks',
    summary: 'Send a notification again',
    answers: { 202: resentDelivery },
    handle: async ({ params, baseUrl, caller: { unit, organisationId } }) => {
      const { id: webhookId } = await findWebhook(unit.tx, organisationId, params['uuid']);
      const body = await resend(unit, timestampNow(clock), params['id'], { organisationId, webhookId });
      return { status: 202, headers: { Location: `${baseUrl}/api/webhooks/${webhookId}/deliveries` }, body };
    },
  });
}
